"""What clients notice at the corners of the protocol is the same with Sprocket and RocketMQ 5.3.3.

Raw frames drive both brokers; every test runs against each, and says what the real one was seen to
do.
"""

import json
from collections.abc import Iterator, Mapping

import pytest
from tests.interop import both, link
from tests.interop.talk import Client

pytestmark = [
    pytest.mark.interop,
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.xdist_group("interop-client"),
]

UPDATE_GROUP = 200
CONSUMER_CONNECTIONS = 203


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
