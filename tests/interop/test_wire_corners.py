"""What clients notice at the corners of the protocol is the same with Sprocket and RocketMQ 5.3.3.

Raw frames drive both brokers; every test runs against each, and says what the real one was seen to
do.
"""

import json
import ssl
from collections.abc import Iterator, Mapping

import pytest
from tests.interop import both, link, peers, samples
from tests.interop.java_client import JavaClient
from tests.interop.talk import Client

from sprocket.rocketmq.codec.record import record

pytestmark = [
    pytest.mark.interop,
    pytest.mark.slow,
    pytest.mark.xdist_group("interop-client"),
]

UPDATE_GROUP = 200
CONSUMER_CONNECTIONS = 203
GET_TOPIC_CONFIG = 351


@pytest.fixture
def client(peer: both.Peer) -> Iterator[Client]:
    """Return a connection."""
    with Client(peer.address) as connection:
        yield connection


def test_tag_expressions_without_a_tag(client: Client, topic: str) -> None:
    """Empty and absent want all, blank ones nothing; only bars alone cannot be read."""
    link.create_topic(client, topic, 1)
    for tag in ("a", "b", ""):
        properties = f"TAGS\x01{tag}" if tag else ""
        client.call(link.SEND_MESSAGE_V2, link.send_ext(topic, 0, properties), b"body")

    def code(changes: Mapping[str, object]) -> int:
        ext = link.pull_ext(topic, 0, 0, group=f"g_{topic}") | dict(changes)
        return client.ask(
            link.PULL_MESSAGE, {name: value for name, value in ext.items() if value is not None}
        ).code

    expected = {
        "": 0,
        None: 0,
        "*": 0,
        " a ": 0,
        "a||": 0,
        " ": 20,
        "\t": 20,
        " || ": 20,
        "|| ||": 20,
        "|||": 20,
        " *": 20,
        "||": 23,
        "||||": 23,
    }
    assert {text: code({"subscription": text}) for text in expected} == expected
    for text in ("", None):
        assert code({"subscription": text, "expressionType": "SQL92"}) == 23


def test_a_short_heartbeat_says_how_a_new_group_consumes(client: Client, topic: str) -> None:
    """Heartbeat V2 without subscriptions, to a broker that was started again: still broadcasting.

    Only the subscriptions are left as they are. The real broker does not ask for the full form.
    """
    link.create_topic(client, topic, 1)
    group = f"g_{topic}"
    short = {"heartbeatFingerprint": 77, "withoutSub": True}

    def told() -> tuple[str, set[str]]:
        answer = client.call(CONSUMER_CONNECTIONS, {"consumerGroup": group})
        found = json.loads(answer.body)
        return found["messageModel"], set(found["subscriptionTable"])

    client.beat("c", group, model="BROADCASTING", **short)
    assert told() == ("BROADCASTING", set())
    client.beat("c", group, topic, model="BROADCASTING", heartbeatFingerprint=77)
    assert told() == ("BROADCASTING", {topic})
    client.beat("c", group, model="CLUSTERING", **short)
    assert told() == ("CLUSTERING", {topic})


@pytest.mark.parametrize("attributes", [{"+a": "b"}, {"a": "b"}, {"-a": ""}])
def test_groups_have_no_attributes(client: Client, attributes: Mapping[str, str]) -> None:
    """5.3.3 knows none, so each change is refused with code 1; none at all is none."""
    group = {"groupName": "attributed", "attributes": attributes}
    assert client.ask(UPDATE_GROUP, {}, json.dumps(group).encode()).code == 1
    assert client.ask(UPDATE_GROUP, {}, json.dumps(group | {"attributes": {}}).encode()).code == 0


PROXY_HEADERS = (
    b"PROXY TCP4 203.0.113.7 10.0.0.1 4711 10911\r\n",
    bytes.fromhex("0d0a0d0a000d0a515549540a 21 11 000c cb007107 0a000001 1267 2a9f"),
    bytes.fromhex("0d0a0d0a000d0a515549540a 21 11 0011 cb007107 0a000001 1267 2a9f 0100026869"),
)
CLIENT = "203.0.113.7:4711"


@pytest.mark.parametrize("is_split", [False, True])
@pytest.mark.parametrize("header", PROXY_HEADERS)
def test_a_load_balancer_says_whom_it_serves(
    peer: both.Peer, topic: str, header: bytes, is_split: bool
) -> None:
    """Before the first frame; the address in the header is then the client's."""
    with Client(peer.address) as balanced:
        for part in [header[at : at + 1] for at in range(len(header))] if is_split else [header]:
            balanced.socket.sendall(part)
        assert shown_address(balanced, topic) == CLIENT


@pytest.mark.parametrize("header", [b"PROXY UNKNOWN\r\n", PROXY_HEADERS[1][:12] + b"\x20\0\0\0"])
def test_a_load_balancer_may_speak_for_itself(peer: both.Peer, topic: str, header: bytes) -> None:
    """Then it keeps its own address."""
    with Client(peer.address) as balanced:
        balanced.socket.sendall(header)
        assert shown_address(balanced, topic).startswith("127.0.0.1:")


@pytest.mark.parametrize(
    "header",
    [
        PROXY_HEADERS[0].replace(b"203", b"303"),
        PROXY_HEADERS[0].replace(b"4711", b"99999"),
        PROXY_HEADERS[0] * 2,
        PROXY_HEADERS[1].replace(b"\x21\x11", b"\x31\x11"),
        PROXY_HEADERS[1].replace(b"\0\x0c", b"\0\x08"),
    ],
)
def test_a_broken_proxy_header_ends_the_connection(
    peer: both.Peer, topic: str, header: bytes
) -> None:
    """As does a second one."""
    with Client(peer.address) as balanced:
        balanced.socket.sendall(header)
        with pytest.raises(ConnectionError):
            shown_address(balanced, topic)


def shown_address(client: Client, topic: str) -> str:
    """Come in as a consumer, and return the address that the broker shows of it."""
    group = f"g_{topic}"
    client.beat("c", group, topic)
    answer = client.call(CONSUMER_CONNECTIONS, {"consumerGroup": group})
    (found,) = json.loads(answer.body)["connectionSet"]
    address: str = found["clientAddr"]
    return address


def test_encrypted_clients_are_served_beside_plain_ones(peer: both.Peer, topic: str) -> None:
    """Without any setting, with a certificate of the server's own making; behind a header too."""
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trusting.check_hostname = False
    trusting.verify_mode = ssl.CERT_NONE
    for header in (b"", PROXY_HEADERS[0]):
        with Client(peer.address) as plain, Client(peer.address) as encrypted:
            encrypted.socket.sendall(header)
            encrypted.socket = trusting.wrap_socket(encrypted.socket)
            link.create_topic(encrypted, topic, 1)
            for client in (plain, encrypted):
                client.call(link.SEND_MESSAGE_V2, link.send_ext(topic, 0, ""), b"body")
            assert link.pull(encrypted, topic, 0, 0).code == 0


BATCH_QUEUES = {"attributes": "+queue.type=BatchCQ"}


def create(client: Client, topic: str, **more: object) -> int:
    """Create a topic with one queue; return the answer's code."""
    ext: dict[str, object] = {
        "topic": topic,
        "defaultTopic": "TBW102",
        "readQueueNums": 1,
        "writeQueueNums": 1,
        "perm": 6,
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": 0,
        "order": False,
    }
    return client.ask(link.CREATE_TOPIC, ext | more).code


def test_a_topic_of_batch_queues_keeps_batches_whole(client: Client, topic: str) -> None:
    """One record, one id, a place for each message; those without a key are taken apart."""
    assert create(client, topic, **BATCH_QUEUES) == 0
    assert create(client, topic, **BATCH_QUEUES) == 1  # fixed, even to what it is
    assert create(client, topic) == 0
    parts = [link.batch_part(b"b%d" % n, f"UNIQ_KEY\x01M{n}\x02") for n in range(3)]

    def send(properties: str) -> Mapping[str, str]:
        ext = link.send_ext(topic, 0, properties, m=True)
        return client.call(link.SEND_BATCH_MESSAGE, ext, b"".join(parts)).ext

    whole = send("UNIQ_KEY\x01B0\x02TAGS\x01t\x02INNER_NUM\x017\x02")
    assert (whole["batchUniqId"], whole["transactionId"]) == ("B0", "B0")
    apart = send("")
    assert "batchUniqId" not in apart
    single = client.call(link.SEND_MESSAGE_V2, link.send_ext(topic, 0, "UNIQ_KEY\x01S\x02"), b"s")
    answers = (whole, apart, single.ext)
    assert [one["queueOffset"] for one in answers] == ["0", "3", "6"]
    assert [one["msgId"].count(",") for one in answers] == [0, 2, 0]
    peers.wait_until(lambda: link.queue_end(client, topic, 0) == 7, "all to be in the queue")
    records = record.decode_all(link.pull(client, topic, 0, 1).body)
    assert [(one.queue_offset, one.sys_flag) for one in records] == [
        (0, 0xC0),
        *((offset, 0) for offset in (3, 4, 5, 6)),
    ]
    assert records[0].stored_body == b"".join(parts)
    expected = {"UNIQ_KEY": "B0", "TAGS": "t", "INNER_NUM": "3", "INNER_BASE": "0"}
    assert expected.items() <= records[0].properties.items()
    for offset, count, found, following in ((0, 2, [0], 3), (2, 4, [0, 3], 4), (4, 2, [4, 5], 6)):
        ext = link.pull_ext(topic, 0, offset, group="link") | {"maxMsgNums": count}
        answer = client.ask(link.PULL_MESSAGE, ext)
        assert [one.queue_offset for one in record.decode_all(answer.body)] == found
        assert answer.ext["nextBeginOffset"] == str(following)
    delayed = link.send_ext(topic, 0, "UNIQ_KEY\x01B1\x02DELAY\x011\x02", m=True)
    assert client.ask(link.SEND_BATCH_MESSAGE, delayed, parts[0]).code == 13
    lying = link.send_ext(topic, 0, "INNER_NUM\x012\x02")
    assert client.ask(link.SEND_MESSAGE_V2, lying, b"s").code == 13
    assert link.queue_end(client, topic, 0) == 7


def test_java_sends_batches_to_batch_queues_and_gets_their_messages(
    java: JavaClient, client: Client, peer: both.Peer, topic: str
) -> None:
    """Its client takes an inner batch apart again."""
    assert create(client, topic, **BATCH_QUEUES) == 0
    messages = samples.three_thousand(topic)[2_000:2_200]
    assert {one.how for one in messages} == {"batch"}
    consumer = java.start_consumer(
        peer.nameserver, topic, "*", group=f"g_{topic}", count=len(messages)
    )
    sent = java.send(peer.nameserver, messages)
    assert {one.status for one in sent} == {"SEND_OK"}
    received = consumer.finish()
    assert sorted(one.body for one in received) == sorted(one.body for one in messages)
    assert sorted(one.queue_offset for one in received) == list(range(len(messages)))


def test_the_hours_that_a_topic_is_kept(client: Client, topic: str) -> None:
    """An integer from −1; it may be changed, and taken away again."""
    hours = {
        "-1": 0,
        "0": 0,
        "72": 0,
        "+5": 0,
        "9223372036854775807": 0,
        "-2": 1,
        "x": 1,
        "": 1,
        "1.5": 1,
        " 5": 1,
        "9223372036854775808": 1,
    }
    found = {text: create(client, topic, attributes=f"+reserve.time={text}") for text in hours}
    assert found == hours
    config = json.loads(client.call(GET_TOPIC_CONFIG, {"topic": topic}).body)
    assert config["attributes"] == {"reserve.time": "9223372036854775807"}
    assert create(client, topic, attributes="-reserve.time") == 0
    config = json.loads(client.call(GET_TOPIC_CONFIG, {"topic": topic}).body)
    assert config["attributes"] == {}
