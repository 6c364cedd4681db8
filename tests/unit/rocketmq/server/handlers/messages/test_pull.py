"""Pulls give stored bytes unchanged, say where to go on, wait when they may, and are checked."""

import asyncio
import pathlib
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from tests.file_systems import needs_a_disk
from tests.unit.rocketmq.server.conftest import NOTHING_NEAR, ColdDisk, until
from tests.waits import LONG_SECONDS

from sprocket.base.disk import Fetched, RealDisk, WouldBlock, read_file
from sprocket.base.units import KIB, MIB
from sprocket.rocketmq.broker.delivery import Pulled, PullService
from sprocket.rocketmq.broker.filters import filter_turns
from sprocket.rocketmq.broker.groups import ConsumerOffsets
from sprocket.rocketmq.broker.stats import Stats
from sprocket.rocketmq.codec import bodies
from sprocket.rocketmq.codec.bodies import ConsumerData, HeartbeatData
from sprocket.rocketmq.codec.record import record
from sprocket.rocketmq.geometry import QueueGeometry
from sprocket.rocketmq.model.group import Subscription
from sprocket.rocketmq.settings import PullSettings, StoreSettings
from sprocket.rocketmq.store.queue import UnitRead
from sprocket.rocketmq.store.read.property_scan import PropertyScan, Scanned
from sprocket.runtime.offload import DiskThread
from sprocket.testing.disk import SimulatedDisk


def send_ext(topic: str = "T", tag: str = "", queue: int = 0) -> dict[str, Any]:
    """Return the ext fields of a send."""
    properties = f"TAGS\x01{tag}\x02" if tag else ""
    base = {"a": "p", "b": topic, "c": "TBW102", "d": 4, "e": queue, "f": 0, "g": 7, "h": 0}
    return base | {"i": properties}


def pull_ext(offset: int, **changes: Any) -> dict[str, Any]:
    """Return the ext fields of a pull that carries its subscription."""
    base: dict[str, Any] = {
        "consumerGroup": "g",
        "topic": "T",
        "queueId": 0,
        "queueOffset": offset,
        "maxMsgNums": 32,
        "sysFlag": 4,
        "commitOffset": 0,
        "suspendTimeoutMillis": 0,
        "subVersion": 0,
        "subscription": "*",
    }
    return base | changes


def heartbeat(
    topic: str, expression: str = "*", version: int = 5, model: str = "CLUSTERING"
) -> bytes:
    """Return a heartbeat of group g with one subscription."""
    return (
        '{"clientID":"c1","consumerDataSet":[{"consumeFromWhere":"CONSUME_FROM_FIRST_OFFSET",'
        f'"consumeType":"CONSUME_PASSIVELY","groupName":"g","messageModel":"{model}",'
        f'"subscriptionDataSet":[{{"subString":"{expression}","subVersion":{version},'
        f'"topic":"{topic}"}}]}}],"producerDataSet":[]}}'
    ).encode()


async def fill(lab: Any, count: int, tag: str = "") -> None:
    """Send some messages to queue 0 of T."""
    for number in range(count):
        await lab.broker.call(310, send_ext(tag=tag), b"m%d" % number)


def test_messages_come_out_unchanged_and_in_order(on_node: Callable[..., None]) -> None:
    """At most as many as asked for, with the numbers that every client reads."""

    async def scenario(lab: Any) -> None:
        await fill(lab, 5)
        answer = await lab.broker.call(11, pull_ext(1, maxMsgNums=3))
        fields = answer.ext_map()
        assert (answer.code, answer.remark) == (0, "FOUND")
        assert [one.body for one in record.decode_all(answer.body)] == [b"m1", b"m2", b"m3"]
        assert fields == {
            "suggestWhichBrokerId": "0",
            "nextBeginOffset": "4",
            "minOffset": "0",
            "maxOffset": "5",
            "topicSysFlag": "0",
            "groupSysFlag": "0",
        }
        seen = await lab.broker.call(33, {"offset": 0})
        whole = await lab.broker.call(11, pull_ext(0, maxMsgNums=1))
        assert whole.body == seen.body

    on_node(scenario)


def test_an_answer_is_as_long_as_its_reader_asks(on_node: Callable[..., None]) -> None:
    """So many messages; who asks for more than a MiB gets what fits into one."""

    async def scenario(lab: Any) -> None:
        for _ in range(40):
            await lab.broker.call(310, send_ext(), bytes(30 * KIB))
        await fill(lab, 150)
        for asked, offset, count in ((32, 0, 32), (32, 40, 32), (128, 40, 128), (1024, 0, 33)):
            answer = await lab.broker.call(11, pull_ext(offset, maxMsgNums=asked))
            found = record.decode_all(answer.body)
            assert (asked, len(found), len(answer.body) <= MIB) == (asked, count, True)

    on_node(scenario, queue=QueueGeometry(units_per_file=300))


def test_found_messages_come_in_the_form_of_the_request(on_node: Callable[..., None]) -> None:
    """With a JSON header or a binary one, and not at all if nobody waits for them."""

    async def scenario(lab: Any) -> None:
        await fill(lab, 2)
        plain = await lab.broker.call(11, pull_ext(0))
        binary = await lab.broker.call(11, pull_ext(0), serialize=1)
        assert (plain.serialize, binary.serialize) == (0, 1)
        assert (binary.code, binary.remark) == (plain.code, plain.remark) == (0, "FOUND")
        assert binary.ext_map() == plain.ext_map()
        assert binary.body == plain.body
        unasked = lab.broker.send(11, pull_ext(0), oneway=True)
        await lab.broker.call(11, pull_ext(0))
        assert not unasked.done()

    on_node(scenario)


def test_what_is_not_in_memory_is_read_by_the_disk_thread(on_node: Callable[..., None]) -> None:
    """Then the answer is the same, in every form; what is in memory is answered at once."""
    disk = ColdDisk()

    async def scenario(lab: Any) -> None:
        await fill(lab, 3)
        warm = await lab.broker.call(11, pull_ext(0))
        for ways in ({}, {"serialize": 1}):
            disk.forget()
            found = await lab.broker.call(11, pull_ext(0), **ways)
            assert (found.code, found.remark, found.body) == (0, "FOUND", warm.body)
            assert found.ext_map() == warm.ext_map()
            assert set(disk.threads) == {"sprocket-read"}
            disk.threads.clear()
            await lab.broker.call(11, pull_ext(0))
            assert disk.threads == []
        disk.forget()
        unasked = lab.broker.send(11, pull_ext(0), oneway=True)
        await lab.broker.call(11, pull_ext(0))
        assert not unasked.done()
        assert set(disk.threads) == {"sprocket-read"}

    on_node(scenario, disk=disk, store=NOTHING_NEAR)


def test_a_pull_that_waits_for_the_disk_counts_once(
    on_cold_node: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its messages, and the offset that it commits."""
    committed: list[int] = []
    counted: list[int] = []
    commit, count = ConsumerOffsets.commit_aside, Stats.pulled

    def commit_aside(self: ConsumerOffsets, *where: Any) -> None:
        committed.append(where[-1])
        commit(self, *where)

    def pulled(self: Stats, *what: Any) -> None:
        counted.append(what[-2])
        count(self, *what)

    monkeypatch.setattr(ConsumerOffsets, "commit_aside", commit_aside)
    monkeypatch.setattr(Stats, "pulled", pulled)

    async def scenario(lab: Any, disk: ColdDisk) -> None:
        await lab.broker.call(11, pull_ext(1, sysFlag=5, commitOffset=1))
        assert disk.threads
        assert (committed, counted) == ([1], [2])

    on_cold_node(scenario, 3)


def test_how_long_a_pull_waited_for_the_disk_is_told(on_cold_node: Callable[..., None]) -> None:
    """The longest one."""

    async def scenario(lab: Any, disk: ColdDisk) -> None:
        disk.waits = True
        waiting = lab.broker.send(11, pull_ext(0))
        await until(disk.is_reading.is_set)
        lab.clock.advance(70)
        disk.let_go()
        await asyncio.wait_for(waiting, LONG_SECONDS)
        assert b'"getMessageEntireTimeMax":"70"' in (await lab.broker.call(28)).body

    on_cold_node(scenario)


def test_the_loop_goes_on_while_the_disk_reads(on_cold_node: Callable[..., None]) -> None:
    """Others are answered meanwhile, and if the connection closes nobody minds."""

    async def scenario(lab: Any, disk: ColdDisk) -> None:
        disk.waits = True
        other, third = await lab.connect(), await lab.connect()
        waiting = [link.send(11, pull_ext(0)) for link in (other, third)]
        await until(disk.is_reading.is_set)
        assert (await lab.broker.call(30, {"topic": "T", "queueId": 0})).code == 0
        assert not any(one.done() for one in waiting)
        other.peer.close()
        assert (await lab.broker.call(30, {"topic": "T", "queueId": 0})).code == 0
        disk.let_go()
        assert (await asyncio.wait_for(waiting[1], LONG_SECONDS)).code == 0
        assert not waiting[0].done()

    on_cold_node(scenario)


def test_a_stop_waits_for_what_the_disk_reads(
    on_cold_node: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pull is run again before the store closes, though its connection is closed."""
    statuses: list[str] = []
    stop, pull = DiskThread.stop, PullService.pull

    def watched(self: PullService, *what: Any, **how: Any) -> Pulled:
        pulled = pull(self, *what, **how)
        statuses.append(pulled.result.status.name)
        return pulled

    monkeypatch.setattr(PullService, "pull", watched)

    async def scenario(lab: Any, disk: ColdDisk) -> None:
        async def let_go_and_stop(self: DiskThread) -> None:
            disk.let_go()
            await stop(self)

        monkeypatch.setattr(DiskThread, "stop", let_go_and_stop)
        disk.waits = True
        lab.broker.send(11, pull_ext(0))
        await until(disk.is_reading.is_set)
        await asyncio.wait_for(lab.node.stop(), LONG_SECONDS)
        assert statuses == ["FOUND"]

    on_cold_node(scenario)


def test_a_pull_may_wait_for_a_message_and_then_for_the_disk(
    on_cold_node: Callable[..., None],
) -> None:
    """It is run a third time then."""

    async def scenario(lab: Any, disk: ColdDisk) -> None:
        waiting = lab.broker.send(11, pull_ext(1, sysFlag=6, suspendTimeoutMillis=20_000))
        other = await lab.connect()
        await other.call(310, send_ext(), b"here")
        answer = await asyncio.wait_for(waiting, LONG_SECONDS)
        assert [one.body for one in record.decode_all(answer.body)] == [b"here"]
        assert disk.threads == ["sprocket-read"]

    on_cold_node(scenario)


def test_a_pull_of_what_the_disk_does_not_give_is_answered_with_an_error(
    on_cold_node: Callable[..., None],
) -> None:
    """One that names the file and the place; what lies before it and behind it is given."""

    async def scenario(lab: Any, disk: ColdDisk) -> None:
        ((path, data),) = [item for item in disk.contents().items() if "/commitlog/" in item[0]]
        body = data.index(b"m1")
        disk.spoil(path, body, 1)
        before = await asyncio.wait_for(lab.broker.call(11, pull_ext(0)), LONG_SECONDS)
        assert [one.body for one in record.decode_all(before.body)] == [b"m0"]
        assert before.ext_map()["nextBeginOffset"] == "1"
        for _ in range(2):
            failed = await asyncio.wait_for(lab.broker.call(11, pull_ext(1)), LONG_SECONDS)
            assert (failed.code, failed.body) == (1, b"")
            assert path in failed.remark
            assert "Input/output error" in failed.remark
        behind = await asyncio.wait_for(lab.broker.call(11, pull_ext(2)), LONG_SECONDS)
        assert [one.body for one in record.decode_all(behind.body)] == [b"m2"]

    on_cold_node(scenario, 3)


def test_the_loop_looks_at_nothing_that_a_real_disk_has_to_bring(
    on_node: Callable[..., None], monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    """What the system has forgotten is read by another thread, once; the answer is the same."""
    needs_a_disk(tmp_path)
    seen: list[int] = []
    fetch = WouldBlock.fetch

    def watched(self: WouldBlock) -> Fetched:
        assert threading.current_thread().name == "sprocket-read"
        found = fetch(self)
        seen.extend(len(data) for data in found.values() if isinstance(data, bytes))
        return found

    monkeypatch.setattr(WouldBlock, "fetch", watched)
    bodies = [b"%d" % number * 300 * KIB for number in range(12)]

    async def scenario(lab: Any) -> None:
        for body in bodies:
            await lab.broker.call(310, send_ext(), body)
        disk = RealDisk()
        log = disk.open(f"{tmp_path}/store/commitlog/{'0' * 20}")
        for _ in range(20):  # a busy system may keep for a moment what it is told to forget
            log.sync()
            log.give_back(0, 4 * MIB)
            found = await lab.broker.call(11, pull_ext(1, maxMsgNums=5))
            if sum(seen) > 1000 * KIB:
                break
        log.close()
        assert [one.body for one in record.decode_all(found.body)] == bodies[1:6]
        count = len(seen)
        warm = await lab.broker.call(11, pull_ext(1, maxMsgNums=5))
        assert warm.body == found.body
        last = await lab.broker.call(11, pull_ext(11))
        assert [one.body for one in record.decode_all(last.body)] == bodies[11:]
        assert len(seen) == count

    on_node(
        scenario,
        disk=RealDisk(),
        folder=f"{tmp_path}/store",
        log_bytes=4 * MIB,
        store=StoreSettings(fill_ahead_bytes=0, cached_bytes=MIB),
        pull=PullSettings(bytes_max=4 * MIB),
    )


def test_statuses_have_their_codes(on_node: Callable[..., None]) -> None:
    """Empty queue, before the end, at it, behind it, nothing that matches."""

    async def scenario(lab: Any) -> None:
        await fill(lab, 3, "a")
        for changes, expected in (
            ({"queueOffset": 3}, (19, "3")),
            ({"queueOffset": 9}, (21, "3")),
            ({"queueOffset": -1}, (21, "0")),
            ({"queueOffset": 0, "queueId": 1}, (19, "0")),
            ({"queueOffset": 4, "queueId": 1}, (21, "0")),
            ({"queueOffset": 0, "subscription": "b"}, (20, "3")),
            ({"queueOffset": 0, "subscription": "b || a"}, (0, "3")),
            ({"queueOffset": 0, "maxMsgNums": 0}, (0, "1")),
        ):
            answer = await lab.broker.call(11, pull_ext(0) | changes)
            got = (answer.code, answer.ext_map()["nextBeginOffset"])
            assert (changes, got) == (changes, expected)

    on_node(scenario)


def test_each_check_has_its_code(on_node: Callable[..., None]) -> None:
    """Refusals say why, in RocketMQ's order, and the connection goes on."""

    async def scenario(lab: Any) -> None:
        await fill(lab, 1)
        await lab.broker.call(17, topic_ext("W", perm=2))
        for changes, code, kind in (
            ({"consumerGroup": "bad group"}, 26, None),
            ({"consumerGroup": ""}, 0, None),
            ({"topic": "none"}, 17, None),
            ({"topic": "W"}, 16, "3"),
            ({"queueId": 4}, 29, None),
            ({"queueId": -1}, 29, None),
            ({"subscription": ""}, 0, None),
            ({"subscription": " "}, 20, None),
            ({"subscription": "||"}, 23, None),
            ({"subscription": "a > 3", "expressionType": "SQL92"}, 20, None),
            ({"subscription": "a >", "expressionType": "SQL92"}, 23, None),
            ({"subscription": "a", "expressionType": "KLINGON"}, 1, None),
            ({"subscription": "", "expressionType": "SQL92"}, 23, None),
            ({"consumerGroup": "g2", "sysFlag": 0}, 24, None),
            ({"queueOffset": "x"}, 1, None),
        ):
            answer = await lab.broker.call(11, pull_ext(0) | changes)
            got = (answer.code, answer.ext_map().get("forbiddenType"))
            assert (changes, got) == (changes, (code, kind)), answer.remark

    on_node(scenario)


def test_a_pull_chooses_by_properties(on_node: Callable[..., None]) -> None:
    """With the expression that it carries, or the one of its group's heartbeat."""

    async def scenario(lab: Any) -> None:
        for number in range(40):
            ext = send_ext() | {"i": f"count\x01{number}\x02"}
            assert (await lab.broker.call(310, ext, b"x")).code == 0

        async def pulled(**changes: Any) -> list[int]:
            offset, found = 0, []
            while offset < 40:  # a file of the queue at a time
                answer = await lab.broker.call(11, pull_ext(offset, **changes))
                offset = int(answer.ext_map()["nextBeginOffset"])
                assert answer.code == (0 if answer.body else 20)
                found += [one.queue_offset for one in record.decode_all(answer.body)]
            return found

        assert await pulled(subscription="count > 36", expressionType="SQL92") == [37, 38, 39]
        beat = heartbeat("T", "count = 7", version=6)
        beat = beat.replace(b'"topic"', b'"expressionType":"SQL92","topic"')
        assert (await lab.broker.call(34, {}, beat)).code == 0
        assert await pulled(sysFlag=0, subscription="") == [7]
        asked = pull_ext(0, topic="U", sysFlag=0)
        await lab.broker.call(17, topic_ext("U"))
        bad = beat.replace(b"count = 7", b"count =").replace(b'"topic":"T"', b'"topic":"U"')
        assert (await lab.broker.call(34, {}, bad)).code == 0
        assert (await lab.broker.call(11, asked)).code == 27

    disk = SimulatedDisk()
    on_node(scenario, disk=disk)
    assert b'"expression":"count = 7"' in read_file(disk, "/store/config/consumerFilter.json")


def test_bits_beside_units_save_reads(
    on_node: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the heartbeat on that brings the condition, for it alone; also after a restart.

    After a kill older maps count no more, as nobody knows which conditions they were made with.
    """
    disk, read, killed = SimulatedDisk(), list[int](), list[SimulatedDisk]()
    store = StoreSettings(fill_ahead_bytes=0, extended_units=True, filter_bits=True)
    scan = PropertyScan.scan

    def noting(self: PropertyScan, units: Sequence[UnitRead], *limits: Any) -> Scanned:
        read.extend(offset for offset, *_ in units)
        return scan(self, units, *limits)

    monkeypatch.setattr(PropertyScan, "scan", noting)

    async def send(lab: Any) -> None:
        lab.clock.advance(1)
        for number in range(3):
            await lab.broker.call(310, send_ext() | {"i": f"count\x01{number}\x02"}, b"m")

    async def beat(lab: Any, group: str, text: str) -> None:
        wanted = Subscription.parse("T", text, type="SQL92", version=1)
        data = ConsumerData(group=group, subscriptions=[wanted])
        body = bodies.encode(HeartbeatData(client_id="c", consumers=[data]))
        assert (await lab.broker.call(34, {}, body)).code == 0

    async def pulled(lab: Any, group: str, count: int) -> list[int]:
        found, offset = [], 0
        read.clear()
        while offset < count:
            answer = await lab.broker.call(11, pull_ext(offset, sysFlag=0, consumerGroup=group))
            offset = int(answer.ext_map()["nextBeginOffset"])
            found += [one.queue_offset for one in record.decode_all(answer.body)]
        return found

    async def scenario(lab: Any) -> None:
        await send(lab)
        await beat(lab, "g", "count > 1")
        await send(lab)
        await beat(lab, "h", "count = 0")
        await send(lab)
        assert await pulled(lab, "g", 9) == [2, 5, 8]
        assert read == [0, 1, 2, 5, 8]
        assert await pulled(lab, "h", 9) == [0, 3, 6]
        assert read == [0, 1, 2, 3, 4, 5, 6]
        killed.append(disk.kill())

    async def after_a_kill(lab: Any) -> None:
        await beat(lab, "g", "count > 1")
        lab.clock.advance(60_000)  # the store's clock was ahead of it
        await send(lab)
        assert await pulled(lab, "g", 12) == [2, 5, 8, 11]
        assert read == [*range(9), 11]

    async def again(lab: Any) -> None:
        await send(lab)
        await beat(lab, "g", "count > 1")
        await send(lab)
        assert await pulled(lab, "g", 15) == [2, 5, 8, 11, 14]
        assert read == [0, 1, 2, 5, 8, 11, 14]

    on_node(scenario, disk=disk, store=store)
    on_node(again, disk=disk, store=store)
    on_node(after_a_kill, disk=killed[0], store=store)


def test_reads_by_properties_take_turns(
    on_node: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What does not fit into a turn of the loop is answered in one of the next."""
    monkeypatch.setattr(filter_turns, "COST_PER_TURN", 1)

    async def scenario(lab: Any) -> None:
        await fill(lab, 3)
        sql = {"subscription": "TAGS IS NULL", "expressionType": "SQL92"}
        pulls = [lab.broker.call(11, pull_ext(0) | sql) for _ in range(5)]
        assert [one.code for one in await asyncio.gather(*pulls)] == [0] * 5

    on_node(scenario)


def topic_ext(name: str, **changes: Any) -> dict[str, Any]:
    """Return the ext fields that make a topic."""
    return {
        "topic": name,
        "defaultTopic": "TBW102",
        "readQueueNums": 2,
        "writeQueueNums": 2,
        "perm": 6,
        "topicFilterType": "SINGLE_TAG",
        "order": "false",
    } | changes


def test_without_its_own_subscription_the_heartbeats_counts(on_node: Callable[..., None]) -> None:
    """It must be there, for this topic, and be as new as the client says."""

    async def scenario(lab: Any) -> None:
        await fill(lab, 2, "a")
        await lab.broker.call(310, send_ext("O"), b"x")
        await lab.broker.call(34, None, heartbeat("T", "b", 5))
        assert (await lab.broker.call(11, pull_ext(0, sysFlag=0, subVersion=5))).code == 20
        assert (await lab.broker.call(11, pull_ext(0, sysFlag=0, subVersion=6))).code == 25
        assert (await lab.broker.call(11, pull_ext(0, sysFlag=0, topic="O"))).code == 24
        await lab.broker.call(34, None, heartbeat("T", "a", 7))
        assert (await lab.broker.call(11, pull_ext(0, sysFlag=0, subVersion=7))).code == 0

    on_node(scenario)


def test_a_held_pull_is_woken_by_its_message(on_node: Callable[..., None]) -> None:
    """Nothing comes back before, and the answer has the message and the request's opaque."""

    async def scenario(lab: Any) -> None:
        await fill(lab, 1)
        waiting = lab.broker.send(11, pull_ext(1, sysFlag=6, suspendTimeoutMillis=20_000))
        other = await lab.connect()
        await other.call(310, send_ext(queue=1), b"elsewhere")
        assert not waiting.done()
        await other.call(310, send_ext(), b"here")
        answer = await asyncio.wait_for(waiting, LONG_SECONDS)
        assert answer.code == 0
        assert [one.body for one in record.decode_all(answer.body)] == [b"here"]

    on_node(scenario)


def test_a_read_by_somebody_else_does_not_swallow_a_wake_up(on_node: Callable[..., None]) -> None:
    """Reads dispatch too; who waits hears of what they dispatched."""

    async def scenario(lab: Any) -> None:
        await fill(lab, 1)
        other = await lab.connect()
        waiting = lab.broker.send(11, pull_ext(1, sysFlag=6, suspendTimeoutMillis=20_000))
        await other.call(30, {"topic": "T", "queueId": 0})
        sent = other.send(310, send_ext(), b"here")
        asked = [other.send(30, {"topic": "T", "queueId": 0}) for _ in range(20)]
        await asyncio.wait([sent, *asked])
        assert (await asyncio.wait_for(waiting, LONG_SECONDS)).code == 0

    on_node(scenario)


def test_a_held_pull_is_woken_by_its_properties_only(on_node: Callable[..., None]) -> None:
    """It goes on over what does not pass, and waits again from there."""

    async def scenario(lab: Any) -> None:
        await fill(lab, 1)
        sql = {"subscription": "a = 1", "expressionType": "SQL92"}
        waiting = lab.broker.send(11, pull_ext(1, sysFlag=6, suspendTimeoutMillis=20_000) | sql)
        other = await lab.connect()
        for value in (2, 3):
            await other.call(310, send_ext() | {"i": f"a\x01{value}\x02"}, b"no")
            await other.call(29, {"topic": "T", "queueId": 0, "timestamp": 0})
        assert not waiting.done()
        await other.call(310, send_ext() | {"i": "a\x011\x02"}, b"yes")
        answer = await asyncio.wait_for(waiting, LONG_SECONDS)
        assert [one.body for one in record.decode_all(answer.body)] == [b"yes"]
        assert answer.ext_map()["nextBeginOffset"] == "4"

    on_node(scenario)


def test_a_pull_by_properties_that_waited_in_vain_says_where_to_go_on(
    on_node: Callable[..., None],
) -> None:
    """Behind what did not pass, so that nobody evaluates it again; also far behind."""

    async def scenario(lab: Any) -> None:
        await fill(lab, 1)
        sql = {"subscription": "a = 1", "expressionType": "SQL92"}
        waiting = lab.broker.send(11, pull_ext(1, sysFlag=6, suspendTimeoutMillis=20_000) | sql)
        other = await lab.connect()
        sends = [other.send(310, send_ext(), b"no") for _ in range(30)]  # several files
        await asyncio.wait(sends)
        await other.call(29, {"topic": "T", "queueId": 0, "timestamp": 0})
        for _ in range(20):
            await other.call(30, {"topic": "T", "queueId": 0})
        assert not waiting.done()
        stopped = asyncio.ensure_future(lab.node.stop())
        answer = await asyncio.wait_for(waiting, LONG_SECONDS)
        assert (answer.code, answer.ext_map()["nextBeginOffset"]) == (19, "31")
        await stopped

    on_node(scenario)


def test_a_held_pull_is_woken_by_its_tag_only(on_node: Callable[..., None]) -> None:
    """A message with another tag leaves it waiting; then it skips what it does not want."""

    async def scenario(lab: Any) -> None:
        await fill(lab, 1, "a")
        waiting = lab.broker.send(
            11, pull_ext(1, sysFlag=6, suspendTimeoutMillis=20_000, subscription="b")
        )
        other = await lab.connect()
        await other.call(310, send_ext(tag="a"), b"a")
        await other.call(29, {"topic": "T", "queueId": 0, "timestamp": 0})
        assert not waiting.done()
        await other.call(310, send_ext(tag="b"), b"b")
        answer = await asyncio.wait_for(waiting, LONG_SECONDS)
        assert [one.body for one in record.decode_all(answer.body)] == [b"b"]
        assert answer.ext_map()["nextBeginOffset"] == "3"

    on_node(scenario)


def test_a_held_pull_ends_in_time(on_node: Callable[..., None]) -> None:
    """Nothing came: 19, with the numbers."""

    async def scenario(lab: Any) -> None:
        await fill(lab, 1)
        answer = await lab.broker.call(11, pull_ext(1, sysFlag=6, suspendTimeoutMillis=20))
        assert (answer.code, answer.ext_map()["nextBeginOffset"]) == (19, "1")

    on_node(scenario)


def test_a_held_pull_does_not_block_its_connection(on_node: Callable[..., None]) -> None:
    """Requests behind it are answered; a closed connection's holds vanish."""

    async def scenario(lab: Any) -> None:
        await fill(lab, 1)
        other = await lab.connect()
        other.send(11, pull_ext(1, sysFlag=6, suspendTimeoutMillis=20_000))
        assert (await other.call(30, {"topic": "T", "queueId": 0})).code == 0
        status = await lab.broker.call(28)
        assert b'"sprocketHeldPulls":"1"' in status.body
        other.peer.close()
        while b'"sprocketHeldPulls":"0"' not in (await lab.broker.call(28)).body:
            await asyncio.sleep(0)

    on_node(scenario)


def test_beyond_the_limit_pulls_do_not_wait(on_node: Callable[..., None]) -> None:
    """With no room they are answered at once."""

    async def scenario(lab: Any) -> None:
        await fill(lab, 1)
        answer = await lab.broker.call(11, pull_ext(1, sysFlag=6, suspendTimeoutMillis=20_000))
        assert answer.code == 19

    on_node(scenario, pull=PullSettings(hold_count_max=0))


def test_the_limits_of_waiting_change_while_it_runs(on_node: Callable[..., None]) -> None:
    """How many may wait, and how long."""

    async def scenario(lab: Any) -> None:
        await fill(lab, 1)
        for change in (b"pull.hold_count_max=0", b"pull.hold_count_max=1\npull.hold_ms_max=10"):
            assert (await lab.broker.call(25, {}, change)).code == 0
            answer = await lab.broker.call(11, pull_ext(1, sysFlag=6, suspendTimeoutMillis=20_000))
            assert answer.code == 19

    on_node(scenario)


def test_a_stop_answers_held_pulls(on_node: Callable[..., None]) -> None:
    """A broker that stops lets nobody wait for nothing."""
    held: list[asyncio.Future[Any]] = []

    async def scenario(lab: Any) -> None:
        await fill(lab, 1)
        held.append(lab.broker.send(11, pull_ext(1, sysFlag=6, suspendTimeoutMillis=20_000)))
        await lab.broker.call(30, {"topic": "T", "queueId": 0})
        await lab.node.stop()
        assert (await asyncio.wait_for(held[0], LONG_SECONDS)).code == 19

    on_node(scenario)


def test_the_first_pass_commits_and_only_with_its_bit(on_node: Callable[..., None]) -> None:
    """Bit 1 stores the offset for the group."""

    async def scenario(lab: Any) -> None:
        await fill(lab, 3)
        where = {"consumerGroup": "g", "topic": "T", "queueId": 0, "setZeroIfNotFound": "false"}
        await lab.broker.call(11, pull_ext(0, commitOffset=2))
        assert (await lab.broker.call(14, where)).code == 22
        await lab.broker.call(11, pull_ext(0, sysFlag=5, commitOffset=2))
        assert (await lab.broker.call(14, where)).ext_map()["offset"] == "2"

    on_node(scenario)


def test_broadcast_may_be_forbidden(on_node: Callable[..., None]) -> None:
    """Broadcasting groups pull like others while their group allows it."""

    async def scenario(lab: Any) -> None:
        await fill(lab, 1)
        await lab.broker.call(34, None, heartbeat("T", model="BROADCASTING"))
        assert (await lab.broker.call(11, pull_ext(0, sysFlag=0))).code == 0

    on_node(scenario)


def test_consumers_that_pull_themselves_are_answered_alike(on_node: Callable[..., None]) -> None:
    """By code 361, with a bit of their own; waiting included."""

    async def scenario(lab: Any) -> None:
        await fill(lab, 2)
        answer = await lab.broker.call(361, pull_ext(0, sysFlag=20))
        assert (answer.code, len(record.decode_all(answer.body))) == (0, 2)
        waiting = lab.broker.send(361, pull_ext(2, sysFlag=22, suspendTimeoutMillis=15_000))
        other = await lab.connect()
        await other.call(310, send_ext(), b"wakes")
        assert (await asyncio.wait_for(waiting, LONG_SECONDS)).code == 0

    on_node(scenario)
