"""Sends are stored and answered with where they lie, or refused with RocketMQ's code."""

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sprocket.base.errors import DiskFull, StoreError, SyncLate
from sprocket.base.units import MIB
from sprocket.rocketmq.broker.transactions import RecentHalves
from sprocket.rocketmq.codec.command import ONEWAY_FLAG, Command
from sprocket.rocketmq.codec.frame import BINARY, JSON
from sprocket.rocketmq.codec.headers import Region, SendMessageAnswer
from sprocket.rocketmq.codec.record import batch, record
from sprocket.rocketmq.server.dispatch import Answer, encoded
from sprocket.rocketmq.server.handlers.messages import SendHandlers
from sprocket.rocketmq.store.log import AppendedBatch


def ext(topic: str = "T", **changes: Any) -> dict[str, Any]:
    """Return the ext fields of a send with short names."""
    base: dict[str, Any] = {"a": "p", "b": topic, "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 7}
    return base | {"h": 0, "i": "UNIQ_KEY\x01U1\x02"} | changes


def test_a_message_is_stored_with_what_the_broker_adds(on_node: Callable[..., None]) -> None:
    """The answer says where; the record has the sender's fields and the broker's properties."""

    async def scenario(lab: Any) -> None:
        answer = await lab.broker.call(
            310,
            ext(h=9, i="UNIQ_KEY\x01U1\x02TAGS\x01a\x02KEYS\x01k1 k2\x02POP_CK\x01x\x02"),
            b"hi",
        )
        fields = answer.ext_map()
        assert (answer.code, answer.version) == (0, 479)
        assert fields["queueId"] == "0"
        assert fields["queueOffset"] == "0"
        assert fields["transactionId"] == "U1"
        assert fields["MSG_REGION"] == "DefaultRegion"
        assert fields["TRACE_ON"] == "true"
        port = int(lab.node.addresses.broker.rpartition(":")[2])
        assert fields["msgId"] == f"7F000001{port:08X}{0:016X}"
        seen = await lab.broker.call(33, {"offset": 0})
        stored = record.decode(seen.body)
        assert (stored.topic, stored.body, stored.flag, stored.born_at_ms) == ("T", b"hi", 9, 7)
        assert stored.offset_message_id == fields["msgId"]
        assert {k: v for k, v in stored.properties.items() if k != "__CRC32#"} == {
            "UNIQ_KEY": "U1",
            "TAGS": "a",
            "KEYS": "k1 k2",
            "MSG_REGION": "DefaultRegion",
            "TRACE_ON": "true",
            "CLUSTER": "DefaultCluster",
        }

    on_node(scenario)


def test_long_names_and_binary_headers_do_the_same(on_node: Callable[..., None]) -> None:
    """Code 10 reads the long names; a request in binary form is answered in binary form."""

    async def scenario(lab: Any) -> None:
        long = {
            "producerGroup": "p",
            "topic": "T",
            "defaultTopic": "TBW102",
            "defaultTopicQueueNums": 4,
            "queueId": 3,
            "sysFlag": 0,
            "bornTimestamp": 7,
            "flag": 0,
            "properties": "A\x01b\x02",
        }
        first = await lab.broker.call(10, long, b"x")
        assert (first.code, first.ext_map()["queueId"]) == (0, "3")
        second = await lab.broker.call(310, ext(e=3), b"y", serialize=1)
        assert (second.code, second.serialize) == (0, 1)
        assert second.ext_map()["queueOffset"] == "1"

    on_node(scenario)


def test_a_batch_is_stored_as_single_messages(on_node: Callable[..., None]) -> None:
    """Consecutive offsets, ids joined by commas, each part with its own key and the broker's."""

    async def scenario(lab: Any) -> None:
        parts = [(n, b"b%d" % n, f"UNIQ_KEY\x01U{n}\x02".encode()) for n in range(3)]
        await lab.broker.call(310, ext(), b"first")
        answer = await lab.broker.call(
            320, ext(m="true", i="UNIQ_KEY\x01BATCH\x02WAIT\x01true\x02"), batch.join(parts)
        )
        assert answer.code == 0
        assert answer.ext_map()["queueOffset"] == "1"
        ids = answer.ext_map()["msgId"].split(",")
        assert len(ids) == 3
        pulled = await lab.broker.call(11, pull(1))
        stored = record.decode_all(pulled.body)
        assert [one.offset_message_id for one in stored] == ids
        assert [one.unique_key for one in stored] == ["U0", "U1", "U2"]
        assert [one.flag for one in stored] == [0, 1, 2]
        assert {one.properties["WAIT"] for one in stored} == {"true"}

    on_node(scenario)


def test_a_batch_stays_behind_what_was_sent_before_it(on_node: Callable[..., None]) -> None:
    """Though single messages wait to be taken up together."""

    async def scenario(lab: Any) -> None:
        await lab.broker.call(310, ext(), b"makes the topic")
        part = (0, b"batch", b"UNIQ_KEY\x01B\x02")
        lab.broker.send(310, ext(), b"single", oneway=True)
        behind = await lab.broker.call(320, ext(m="true"), batch.join([part]))
        assert behind.ext_map()["queueOffset"] == "2"
        pulled = await lab.broker.call(11, pull(1))
        assert [one.body for one in record.decode_all(pulled.body)] == [b"single", b"batch"]

    on_node(scenario)


def pull(offset: int) -> dict[str, Any]:
    """Return the ext fields of a pull of queue 0 of T."""
    return {
        "consumerGroup": "g",
        "topic": "T",
        "queueId": 0,
        "queueOffset": offset,
        "maxMsgNums": 32,
        "sysFlag": 4,
        "subscription": "*",
    }


def test_one_way_sends_are_stored_and_never_answered(on_node: Callable[..., None]) -> None:
    """Neither a success nor an error comes back."""

    async def scenario(lab: Any) -> None:
        lab.broker.send(310, ext(), b"x", oneway=True)
        lab.broker.send(310, ext("bad name"), b"x", oneway=True)
        lab.broker.send(310, ext(), b"", oneway=True)
        answer = await lab.broker.call(310, ext(), b"y")
        assert answer.ext_map()["queueOffset"] == "1"
        assert lab.broker.pushed.empty()

    on_node(scenario)


HOST = bytes((127, 0, 0, 1, 0, 0, 0x2A, 0x9F))
PLACES = AppendedBatch([7, 1 << 40, 9], [0, 0xABCDEF, 1 << 41], 5)
OUTCOMES = [
    (PLACES, None, 0),
    (PLACES, SyncLate("stored, but not synced"), 10),
    (None, DiskFull("full"), 14),
]


class FakePeer:
    """Keeps what it is sent."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []

    def send_now(self, buffers: Sequence[bytes]) -> None:
        """Keep it."""
        self.sent += buffers


def _answers(
    make: str, asked: list[Any], stored: AppendedBatch | None, error: StoreError | None
) -> bytes:
    parts = SimpleNamespace(knows=None, pressure=None)
    handlers = SendHandlers(cast("Any", parts), cast("Any", parts), RecentHalves(), HOST, "b")
    peer = FakePeer()
    release = getattr(handlers, make)([(peer, *one) for one in asked], stored, error)
    assert peer.sent == []
    if release is not None:
        release()
    return b"".join(peer.sent)


def _declared(
    request: Command, queue_id: int, key: str, stored: AppendedBatch | None, error: Any, code: int
) -> bytes:
    header = (
        Region()
        if stored is None
        else SendMessageAnswer(
            msg_id=",".join(f"{HOST.hex().upper()}{at:016X}" for at in stored.physical_offsets),
            queue_id=queue_id,
            queue_offset=stored.queue_offsets[0],
            transaction_id=key,
        )
    )
    remark = None if error is None else str(error)
    return b"".join(encoded(request, Answer(code, header, remark)))


@pytest.mark.parametrize("serialize", [JSON, BINARY])
@pytest.mark.parametrize(("stored", "error", "code"), OUTCOMES)
def test_answers_are_what_their_header_declares(
    serialize: int, stored: AppendedBatch | None, error: StoreError | None, code: int
) -> None:
    """To the byte: to each of several sends, to a batch, and to one-way ones none."""
    flags = (0, ONEWAY_FLAG, 0)
    requests = [
        Command(310, opaque, flag, serialize=serialize) for opaque, flag in enumerate(flags, 5)
    ]
    asked = [(one, number, f"K{number}") for number, one in enumerate(requests)]
    expected = b"".join(
        _declared(one, number, key, stored and stored.part(number), error, code)
        for one, number, key in asked
    )
    singles = [(*one, "", None) for one in asked]
    assert _answers("_stored", singles, stored, error) == expected
    for alone in (stored, stored and stored.part(1)):
        for one in asked[:2]:
            found = _answers("_stored_batch", [(*one, False)], alone, error)
            assert found == _declared(*one, alone, error, code)


def test_a_negative_queue_is_chosen_by_the_broker(on_node: Callable[..., None]) -> None:
    """The answer names one of the topic's queues."""

    async def scenario(lab: Any) -> None:
        answer = await lab.broker.call(310, ext(e=-1), b"x")
        assert answer.code == 0
        assert 0 <= int(answer.ext_map()["queueId"]) < 4

    on_node(scenario)


CHECKS: list[tuple[dict[str, Any], bytes, int]] = [
    ({"b": "bad name"}, b"x", 29),
    ({"b": ""}, b"x", 29),
    ({"b": "a" * 128}, b"x", 29),
    ({"b": "SCHEDULE_TOPIC_XXXX"}, b"x", 16),
    ({"b": "SELF_TEST_TOPIC"}, b"x", 16),
    ({"b": "N", "c": "nope"}, b"x", 17),
    ({"b": "N", "c": "BenchmarkTest"}, b"x", 17),
    ({"e": 4}, b"x", 29),
    ({}, b"", 1),
    ({"e": "abc"}, b"x", 1),
    ({"j": "abc"}, b"x", 1),
    ({"i": "DELAY\x01three\x02"}, b"x", 1),
    ({"i": "DELAY\x010\x02"}, b"x", 0),
    ({"i": "TIMER_DELAY_SEC\x01259201\x02"}, b"x", 13),
    ({"i": "TIMER_DELAY_MS\x01ten\x02"}, b"x", 13),
    ({"i": "TIMER_DELIVER_MS\x011\x02"}, b"x", 0),
    ({"i": "TIMER_DELAY_SEC\x01-5\x02"}, b"x", 0),
    ({"i": "INNER_NUM\x013\x02"}, b"x", 13),
    ({"f": 0x80}, b"x", 13),
    ({"f": 0x4}, b"x", 13),
    ({"i": "A\x01" + "b" * 32_767 + "\x02"}, b"x", 13),
    ({"i": "A\x01" + "b" * 32_500 + "\x02"}, b"x", 0),
    ({"m": "true"}, b"no batch", 1),
    ({"m": "true"}, b"", 1),
    ({"m": "true", "b": "%RETRY%g"}, batch.join([(0, b"x", b"")]), 13),
    ({"m": "true", "f": 4}, batch.join([(0, b"x", b"")]), 13),
    ({"m": "true", "i": "DELAY\x011\x02"}, batch.join([(0, b"x", b"")]), 13),
    ({"m": "true"}, batch.join([(0, b"x", b"DELAY\x011\x02")]), 13),
    ({"m": "true"}, batch.join([(0, b"x", b"TRAN_MSG\x01true\x02")]), 13),
    ({"m": "true", "i": "A\x01" + "b" * 40_000}, batch.join([(0, b"x", b"")]), 1),
    (
        {"m": "true", "i": "A\x01" + "b" * 20_000},
        batch.join([(0, b"x", b"C\x01" + b"d" * 20_000)]),
        13,
    ),
]


def test_each_check_has_its_code(on_node: Callable[..., None]) -> None:
    """What is refused says why, and stores nothing; what is accepted is stored."""

    async def scenario(lab: Any) -> None:
        for changes, body, code in CHECKS:
            topic = changes.get("b", "T")
            await lab.broker.call(310, ext("T"), b"make the topic")
            before = await lab.broker.call(30, {"topic": topic, "queueId": 0})
            answer = await lab.broker.call(310, ext(**changes), body)
            assert (changes, answer.code) == (changes, code), answer.remark
            assert bool(answer.remark) == bool(code)
            after = await lab.broker.call(30, {"topic": topic, "queueId": 0})
            stored = int(after.ext_map()["offset"]) - int(before.ext_map()["offset"])
            assert (changes, stored) == (changes, 0 if code else 1)

    on_node(scenario)


def test_a_missing_field_is_refused_by_its_name(on_node: Callable[..., None]) -> None:
    """The remark names the field."""

    async def scenario(lab: Any) -> None:
        fields = ext()
        del fields["b"]
        answer = await lab.broker.call(310, fields, b"x")
        assert answer.code == 1
        assert "b is missing" in answer.remark

    on_node(scenario)


def test_a_body_beyond_the_limit_is_refused(on_node: Callable[..., None]) -> None:
    """4 MiB pass, one byte more does not."""

    async def scenario(lab: Any) -> None:
        large = b"x" * (4 * 1024 * 1024)
        assert (await lab.broker.call(310, ext(), large)).code == 0
        assert (await lab.broker.call(310, ext(), large + b"x")).code == 13

    on_node(scenario, log_bytes=8 * MIB)


def test_retries_beyond_the_limit_become_dead_letters(on_node: Callable[..., None]) -> None:
    """The group's limit counts, or the request's own from 3.4.9 on."""

    async def scenario(lab: Any) -> None:
        retry = "%RETRY%g"
        assert (await lab.broker.call(310, ext(retry, j=16), b"kept")).code == 0
        assert (await lab.broker.call(310, ext(retry, j=17), b"dead")).code == 0
        assert (await lab.broker.call(310, ext(retry, j=3, l=2), b"dead too")).code == 0
        kept = await lab.broker.call(30, {"topic": retry, "queueId": 0})
        dead = await lab.broker.call(30, {"topic": "%DLQ%g", "queueId": 0})
        assert (kept.ext_map()["offset"], dead.ext_map()["offset"]) == ("1", "2")
        pulled = await lab.broker.call(11, pull(0) | {"topic": "%DLQ%g"})
        assert [one.properties["DELAY"] for one in record.decode_all(pulled.body)] == ["-1", "-1"]

    on_node(scenario)


def test_retries_of_an_orderly_group_are_dead_at_once(on_node: Callable[..., None]) -> None:
    """A group that holds a queue lock consumes in order and does not retry."""

    async def scenario(lab: Any) -> None:
        queue = b'{"brokerName":"b","queueId":0,"topic":"T"}'
        lock = b'{"clientId":"c","consumerGroup":"g","mqSet":[%b]}' % queue
        await lab.broker.call(41, None, lock)
        await lab.broker.call(310, ext("%RETRY%g"), b"dead")
        dead = await lab.broker.call(30, {"topic": "%DLQ%g", "queueId": 0})
        assert dead.ext_map()["offset"] == "1"

    on_node(scenario)


def test_a_disk_that_is_behind_refuses_sends(on_node: Callable[..., None]) -> None:
    """With the code on which clients try another broker; other requests go on."""

    async def scenario(lab: Any) -> None:
        pressure = lab.node.pressure
        pressure.weigh(pressure.bytes_max)
        answer = await lab.message()
        assert (answer.code, answer.remark[:21]) == (2, "[OVERLOAD]system busy")
        assert (await lab.broker.call(30, {"topic": "TBW102", "queueId": 0})).code == 0
        pressure.weigh(0)
        assert (await lab.message()).code == 0

    on_node(scenario)
