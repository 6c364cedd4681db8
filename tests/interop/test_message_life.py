"""A message's life beyond a plain send and pull is the same with Sprocket and with RocketMQ 5.3.3.

Raw frames drive both: delayed messages, retries, dead letters, replies, questions to consumers,
resets. Every test runs against both, and says what the real broker was seen to do; the last ones
have one broker go on in the folder of the other.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.interop import link, peers
from tests.interop.talk import Client
from tests.waits import LONG_SECONDS

from sprocket.rocketmq.codec.record import record
from sprocket.rocketmq.model.message import StoredMessage

pytestmark = [
    pytest.mark.interop,
    pytest.mark.slow,
    pytest.mark.xdist_group("interop-life"),
]

LEVELS = "1s 2s 3s" + 15 * " 1h"
SECONDS_MAX = LONG_SECONDS
REPLY_TOPIC = "DefaultCluster_REPLY_TOPIC"
QUEUE = {"brokerName": "broker-a", "queueId": 0, "topic": ""}


def ours(folder: Path, store: Path) -> peers.Sprocket:
    """Return `sprocket up` with short delay levels."""
    return peers.Sprocket(folder, store, ["--set", f"store.delay_levels={LEVELS}"])


def theirs(jars: Path, folder: Path, store: Path) -> peers.RocketMQ:
    """Return RocketMQ with the same levels."""
    settings = {"messageDelayLevel": LEVELS, "mappedFileSizeCommitLog": 1 << 30}
    return peers.RocketMQ(jars=jars, folder=folder, store=store, settings=settings)


@pytest.fixture(scope="module", params=["sprocket", "rocketmq"])
def peer(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[peers.Broker]:
    """Run one of the two brokers."""
    folder = tmp_path_factory.mktemp(request.param)
    if request.param == "sprocket":
        with ours(folder, folder / "store") as running:
            yield running
    else:
        with theirs(request.getfixturevalue("jars"), folder, folder / "store") as real:
            yield real


@pytest.fixture
def client(peer: peers.Broker) -> Iterator[Client]:
    """Return a connection."""
    with Client(peer.address) as connection:
        yield connection


@pytest.fixture
def topic(request: pytest.FixtureRequest, client: Client) -> str:
    """Return a topic of the test's own, with four queues."""
    name = "".join(sign if sign.isalnum() else "_" for sign in request.node.name)[:80]
    link.create_topic(client, name, 4)
    return name


def send(client: Client, topic: str, queue_id: int = 0, **found: object) -> link.Answer:
    """Send a message with the given properties."""
    pairs = "".join(f"{name}\x01{value}\x02" for name, value in found.items())
    return client.call(link.SEND_MESSAGE_V2, link.send_ext(topic, queue_id, pairs, h=7), b"hello")


def lying(client: Client, topic: str, queue_id: int = 0, offset: int = 0) -> list[StoredMessage]:
    """Return what lies in a queue."""
    answer = link.pull(client, topic, queue_id, offset)
    return record.decode_all(answer.body) if answer.code == link.SUCCESS else []


def come(
    client: Client, topic: str, queue_id: int = 0, offset: int = 0, *, count: int = 1
) -> list[StoredMessage]:
    """Wait until so many messages lie in a queue; RocketMQ shows some a moment after its answer."""
    peers.wait_until(
        lambda: len(lying(client, topic, queue_id, offset)) >= count,
        f"{count} messages in {topic}/{queue_id}",
        seconds=SECONDS_MAX,
    )
    return lying(client, topic, queue_id, offset)


def found_in(message: StoredMessage) -> dict[str, str]:
    """Return a message's properties without what differs by broker: the checksum of ours."""
    return {name: value for name, value in message.properties.items() if name != "__CRC32#"}


ALWAYS = {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true", "CLUSTER": "DefaultCluster"}


def test_a_delayed_message_waits_and_comes(client: Client, topic: str) -> None:
    """Its answer names the queue that was asked for; both records have all that they should."""
    waiting_before = link.queue_end(client, "SCHEDULE_TOPIC_XXXX", 0)
    answer = send(
        client, topic, 1, UNIQ_KEY="U", DELAY=1, TAGS="t", KEYS="a b", WAIT="true", own="x"
    )
    assert (answer.ext["queueId"], answer.ext["transactionId"]) == ("1", "U")
    assert int(answer.ext["queueOffset"]) == waiting_before
    (waits,) = come(client, "SCHEDULE_TOPIC_XXXX", 0, waiting_before)
    assert answer.ext["msgId"] == waits.offset_message_id
    (comes,) = come(client, topic, 1)
    wanted = {"UNIQ_KEY": "U", "DELAY": "1", "TAGS": "t", "KEYS": "a b", "WAIT": "true", "own": "x"}
    wanted |= {"REAL_TOPIC": topic, "REAL_QID": "1"}
    for one in (waits, comes):
        assert found_in(one) == wanted | ALWAYS
        assert (one.flag, one.body, one.reconsume_times) == (7, b"hello", 0)
        assert (one.born_host, one.store_host) == (waits.born_host, waits.store_host)
        assert one.born_at_ms == 1_700_000_000_000
    assert 1000 <= comes.stored_at_ms - waits.stored_at_ms < 5000
    assert len(lying(client, topic, 1)) == 1


def test_levels_at_their_edges(client: Client, topic: str) -> None:
    """None and less come at once, too high is the highest, a time beside a level does not count."""
    end = link.queue_end(client, "SCHEDULE_TOPIC_XXXX", 17)
    for level in (0, -3):
        send(client, topic, DELAY=level)
    send(client, topic, DELAY=99)
    send(client, topic, 1, DELAY=1, TIMER_DELAY_SEC="soon", TIMER_DELIVER_MS=1)
    assert [one.properties["DELAY"] for one in come(client, topic, count=2)] == ["0", "-3"]
    (highest,) = come(client, "SCHEDULE_TOPIC_XXXX", 17, end)
    assert highest.properties["DELAY"] == "18"
    (one,) = come(client, topic, 1)
    assert not [name for name in one.properties if name.startswith("TIMER")]
    bad = client.ask(link.SEND_MESSAGE_V2, link.send_ext(topic, 0, "DELAY\x01abc\x02"), b"x")
    assert bad.code == 1


def test_a_message_sent_back_comes_again_and_ends_as_a_dead_letter(
    client: Client, topic: str
) -> None:
    """The same properties at every step, from the first failure to the last."""
    group = f"g_{topic}"
    client.beat("c1", group, topic)
    send(client, topic, UNIQ_KEY="U", KEYS="k", own="x")
    (first,) = come(client, topic)

    def back(message: StoredMessage, level: int, **more: object) -> None:
        ext = {"offset": message.physical_offset, "group": group, "delayLevel": level}
        client.call(36, ext | {"originTopic": topic, "unitMode": False} | more)

    end = link.queue_end(client, "SCHEDULE_TOPIC_XXXX", 3)
    base = {
        "UNIQ_KEY": "U",
        "KEYS": "k",
        "own": "x",
        "RETRY_TOPIC": topic,
        "WAIT": "false",
    } | ALWAYS
    base["ORIGIN_MESSAGE_ID"] = first.offset_message_id
    back(first, 1)
    (again,) = come(client, f"%RETRY%{group}")
    real = {"REAL_TOPIC": f"%RETRY%{group}", "REAL_QID": "0"}
    assert found_in(again) == base | real | {"DELAY": "1"}
    assert (again.reconsume_times, again.flag, again.born_at_ms) == (1, 7, first.born_at_ms)
    back(again, 0)
    (ladder,) = come(client, "SCHEDULE_TOPIC_XXXX", 3, end)
    assert (found_in(ladder)["DELAY"], ladder.reconsume_times) == ("4", 2)
    back(again, 0, maxReconsumeTimes=1)
    back(first, -1)
    dead, given_up = come(client, f"%DLQ%{group}", count=2)
    assert found_in(dead) == base | real | {"DELAY": "0"}
    assert (dead.reconsume_times, dead.queue_id) == (2, 0)
    assert found_in(given_up) == base | {"DELAY": "0"}
    missing = {"offset": first.physical_offset + 1, "group": group, "delayLevel": 0}
    assert client.ask(36, missing).code == 1


def test_retries_that_are_plain_sends(client: Client, topic: str) -> None:
    """They wait if they have a level; one too many, or of a group in order, is a dead letter."""
    group = f"g_{topic}"
    client.beat("c1", group, topic)
    retry = f"%RETRY%{group}"
    locks = {
        "clientId": "c1",
        "consumerGroup": group,
        "mqSet": [QUEUE | {"topic": topic}],
    }

    def plain(key: str, times: int) -> link.Answer:
        pairs = f"UNIQ_KEY\x01{key}\x02DELAY\x011\x02RETRY_TOPIC\x01{topic}\x02"
        return client.call(
            link.SEND_MESSAGE_V2, link.send_ext(retry, 0, pairs, j=times, l=16), b"hello"
        )

    plain("waits", 1)
    assert plain("too many", 17).ext["queueId"] == "0"
    client.call(41, {}, json.dumps(locks).encode())
    plain("in order", 1)
    client.call(42, {}, json.dumps(locks).encode())
    (one,) = come(client, retry)
    assert found_in(one) == ALWAYS | {
        "UNIQ_KEY": "waits",
        "DELAY": "1",
        "RETRY_TOPIC": topic,
        "REAL_TOPIC": retry,
        "REAL_QID": "0",
    }
    dead = come(client, f"%DLQ%{group}", count=2)
    assert [(found_in(one), one.reconsume_times) for one in dead] == [
        (ALWAYS | {"UNIQ_KEY": key, "DELAY": "-1", "RETRY_TOPIC": topic}, times)
        for key, times in (("too many", 17), ("in order", 1))
    ]


def test_a_reply_goes_to_who_waits_for_it(peer: peers.Broker, client: Client, topic: str) -> None:
    """It is pushed and stored; who is not there is said."""
    pairs = "UNIQ_KEY\x01R\x02CORRELATION_ID\x01c\x02MSG_TYPE\x01reply\x02"
    end = link.queue_end(client, REPLY_TOPIC, 0)
    with Client(peer.address) as waiting:
        waiting.beat("waiting", f"g_{topic}", topic)
        ext = link.send_ext(REPLY_TOPIC, 0, pairs + "REPLY_TO_CLIENT\x01waiting\x02", h=3, j=2)
        number = client.begin(325, ext, b"answer")
        push = waiting.next_pushed(326)
        found = dict(pair.split("\x01") for pair in push.ext["properties"].split("\x02")[:-1])
        assert abs(int(found.pop("PUSH_REPLY_TIME")) - int(push.ext["storeTimestamp"])) < 1000
        assert found == {
            "UNIQ_KEY": "R",
            "CORRELATION_ID": "c",
            "MSG_TYPE": "reply",
            "REPLY_TO_CLIENT": "waiting",
            "MSG_REGION": "DefaultRegion",
            "TRACE_ON": "true",
        }
        known = {name: push.ext[name] for name in ("flag", "reconsumeTimes", "topic", "queueId")}
        assert known == {"flag": "3", "reconsumeTimes": "2", "topic": REPLY_TOPIC, "queueId": "0"}
        assert (push.body, push.ext["storeHost"]) == (b"answer", peer.address)
        waiting.respond(push)
        answer = client.end(number)
        assert (answer.code, int(answer.ext["queueOffset"])) == (0, end)
        number = client.begin(325, ext, b"answer")
        waiting.respond(waiting.next_pushed(326), 1)
        assert client.end(number).code == 1
    absent = link.send_ext(REPLY_TOPIC, 0, pairs + "REPLY_TO_CLIENT\x01nobody\x02")
    assert client.ask(325, absent, b"answer").code == 1
    assert client.ask(325, link.send_ext(REPLY_TOPIC, 0, pairs), b"answer").code == 1
    stored = come(client, REPLY_TOPIC, 0, end, count=4)
    assert len(stored) == 4
    assert found_in(stored[0]) == found


def test_questions_to_consumers_are_passed_on(client: Client, topic: str) -> None:
    """There and back; who is not there is said."""
    group = f"g_{topic}"
    client.beat("c1", group, topic)
    sent = send(client, topic, UNIQ_KEY="U")
    asked = {"consumerGroup": group, "clientId": "c1"}

    def relayed(code: int, pushed: int, ext: Mapping[str, object], body: bytes) -> tuple[Any, Any]:
        number = client.begin(code, ext)
        question = client.next_pushed(pushed)
        client.respond(question, 0, body)
        return question, client.end(number)

    question, answer = relayed(307, 307, asked | {"jstackEnable": False}, b'{"info":1}')
    assert question.ext == asked | {"jstackEnable": "false"}
    assert (answer.code, answer.body) == (0, b'{"info":1}')
    ext = asked | {"msgId": sent.ext["msgId"], "brokerName": "broker-a"}
    question, answer = relayed(309, 309, ext, b'{"consumeResult":"CR_SUCCESS"}')
    assert question.ext == ext | {"groupSysFlag": "0"}
    assert record.decode(question.body).unique_key == "U"
    assert answer.body == b'{"consumeResult":"CR_SUCCESS"}'
    status = b'{{"brokerName":"broker-a","queueId":0,"topic":"T"}:5}'
    told = b'{"consumerTable":{},"messageQueueTable":' + status + b"}"
    question, answer = relayed(223, 221, {"topic": topic, "group": group}, told)
    assert question.ext == {"topic": topic, "group": group}
    assert answer.body == b'{"consumerTable":{"c1":' + status + b'},"messageQueueTable":{}}'
    absent = asked | {"clientId": "zz"}
    for code in (307, 309):
        answer = client.ask(code, absent | {"msgId": sent.ext["msgId"]})
        assert (answer.code, answer.remark) == (1, f"The Consumer <{group}> <zz> not online")


def test_a_reset_is_learnt_from_the_next_pull(client: Client, topic: str) -> None:
    """Commits before it are ignored; clones, corrections and forgetting follow the table."""
    group = f"g_{topic}"
    client.beat("c1", group, topic)
    for number in range(3):
        send(client, topic, 1, UNIQ_KEY=f"U{number}")
    come(client, topic, 1, count=3)

    def committed(name: str = group) -> int | None:
        ext = {"consumerGroup": name, "topic": topic, "queueId": 1, "setZeroIfNotFound": False}
        answer = client.ask(link.QUERY_CONSUMER_OFFSET, ext)
        return int(answer.ext["offset"]) if answer.code == 0 else None

    def commit(offset: int) -> str | None:
        ext = {"consumerGroup": group, "topic": topic, "queueId": 1, "commitOffset": offset}
        return client.call(link.UPDATE_CONSUMER_OFFSET, ext).remark

    def reset(**more: object) -> link.Answer:
        ext = {"topic": topic, "group": group, "timestamp": 0, "isForce": True}
        return client.ask(222, ext | more)

    commit(3)
    answer = reset(queueId=1)
    entry = f'{{"brokerName":"broker-a","queueId":1,"topic":"{topic}"}}:0'
    assert answer.body.decode() == '{"offsetTable":{' + entry + "}}"
    assert commit(2) == "Offset has been previously reset"
    assert committed() == 0
    pulled = link.pull(client, topic, 1, 3, group=group)
    assert (pulled.code, pulled.remark, pulled.ext["nextBeginOffset"]) == (21, "OFFSET_RESET", "0")
    assert commit(2) is None
    assert committed() == 2
    assert [reset(queueId=1, offset=at).code for at in (5, 4, 3)] == [1, 0, 0]
    link.pull(client, topic, 1, 3, group=group)
    commit(2)
    assert reset(topic="nothing").code == 17
    assert reset(group="nobody").code == 26
    clone = {"srcGroup": group, "destGroup": f"{group}_2", "topic": topic, "offline": True}
    client.call(314, clone)
    assert committed(f"{group}_2") == 2
    answer = client.call(308, {"compareGroup": group, "topic": topic})
    assert b"1:2" in answer.body
    client.call(308, {"compareGroup": group, "topic": topic, "filterGroups": f"{group}_2"})
    assert committed(f"{group}_2") is None


def test_a_topic_is_closed_to_a_group(client: Client, topic: str) -> None:
    """For pulls that rely on heartbeats; the answer says who forbids it."""
    group = f"g_{topic}"
    client.beat("c1", group, topic)
    send(client, topic)
    come(client, topic)
    ext = {"group": group, "topic": topic}
    pull = {
        "consumerGroup": group,
        "topic": topic,
        "queueId": 0,
        "queueOffset": 0,
        "maxMsgNums": 32,
        "sysFlag": 0,
        "commitOffset": 0,
        "suspendTimeoutMillis": 0,
        "subVersion": 0,
    }
    for code in (link.PULL_MESSAGE, 361):
        assert client.ask(code, pull).code == 0
        assert json.loads(client.call(353, ext | {"readable": False}).body)["readable"] is False
        refused = client.ask(code, pull)
        assert (refused.code, refused.ext["forbiddenType"]) == (16, "5")
        assert link.pull(client, topic, 0, 0, group=group).code == 0
        assert json.loads(client.call(353, ext | {"readable": True}).body)["readable"] is True


def test_brokers_share_queues_out(client: Client, topic: str) -> None:
    """By the two strategies that need nothing else; other names leave what is."""
    group = f"g_{topic}"
    client.beat("c1", group, topic)

    def assigned(**changes: str) -> set[int] | None:
        query = {
            "topic": topic,
            "consumerGroup": group,
            "clientId": "c1",
            "strategyName": "AVG",
            "messageModel": "CLUSTERING",
        }
        body = client.call(400, {}, json.dumps(query | changes).encode()).body
        found = json.loads(body).get("messageQueueAssignments")
        return None if found is None else {one["messageQueue"]["queueId"] for one in found}

    peers.wait_until(lambda: assigned() == {0, 1, 2, 3}, "the route", seconds=90)
    assert assigned(strategyName="AVG_BY_CIRCLE") == {0, 1, 2, 3}
    assert assigned(strategyName="CONSISTENT_HASH") is None
    assert assigned(clientId="zz") == set()
    assert assigned(consumerGroup="nobody") is None
    assert assigned(messageModel="BROADCASTING") == {0, 1, 2, 3}
    mode = {"topic": topic, "consumerGroup": group, "mode": "PULL", "popShareQueueNum": 0}
    client.call(401, {}, json.dumps(mode).encode())
    modes = json.loads(client.call(402, {}).body)["messageRequestModeMap"]
    assert modes[topic] == {group: mode}
    for name, code in ((f"%RETRY%{group}", 16), ("nothing", 17)):
        assert client.ask(401, {}, json.dumps(mode | {"topic": name}).encode()).code == code


def test_fingerprints_of_heartbeats(client: Client, topic: str) -> None:
    """The broker says when a client's short heartbeat will not do."""
    group = f"g_{topic}"

    def changed(fingerprint: int, without: bool = False) -> str:
        answer = client.beat(
            "c1", group, topic, heartbeatFingerprint=fingerprint, withoutSub=without
        )
        assert answer.ext["IS_SUPPORT_HEART_BEAT_V2"] == "true"
        return answer.ext["IS_SUB_CHANGE"]

    client.beat("c1", group, topic)
    steps = [changed(5), changed(5, True), changed(6), changed(6, True), changed(7, True)]
    assert steps == ["true", "false", "true", "false", "true"]
    assert send(client, topic).code == 0


@pytest.mark.parametrize("first_is_ours", [True, False])
def test_one_broker_goes_on_where_the_other_stopped(
    first_is_ours: bool, jars: Path, tmp_path: Path
) -> None:
    """What was delivered is not delivered again, what waits comes: in both directions."""
    store = tmp_path / "store"

    def us() -> Any:
        return ours(tmp_path / "ours", store)

    def them() -> Any:
        return theirs(jars, tmp_path / "theirs", store)

    brokers: list[Callable[[], Any]] = [us, them] if first_is_ours else [them, us]
    with brokers[0]() as first, Client(first.address) as client:
        link.create_topic(client, "Handed", 1)
        for level in (1, 3, 2):
            send(client, "Handed", UNIQ_KEY=f"U{level}", DELAY=level)
        assert come(client, "Handed")[0].unique_key == "U1"
    with brokers[1]() as second, Client(second.address) as client:
        keys = [one.unique_key for one in come(client, "Handed", count=3)]
        assert sorted(str(key) for key in keys) == ["U1", "U2", "U3"]
        send(client, "Handed", UNIQ_KEY="U9", DELAY=1)
        last = come(client, "Handed", count=4)
        assert [one.unique_key for one in last[3:]] == ["U9"]
