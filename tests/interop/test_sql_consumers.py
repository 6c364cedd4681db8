"""Consumers by SQL92: RocketMQ's own at our broker, and what brokers say of wrong conditions."""

import json
from collections.abc import Callable, Iterator

import pytest
from tests.interop import link, peers
from tests.interop.java_client import JavaClient
from tests.interop.samples import Sample
from tests.interop.talk import HEARTBEAT, Client

pytestmark = [
    pytest.mark.interop,
    pytest.mark.slow,
    pytest.mark.xdist_group("interop-sql"),  # one worker, or each would start its own brokers
]

CHECK_CLIENT_CONFIG = 46
QUERY_CONSUME_QUEUE = 321
PARSE_FAILED, NO_FILTER = 23, 27
MAGIC = bytes.fromhex("daa320a7")
"""Begins each record behind its size."""
CONDITION = "amount BETWEEN 10.0 AND 19.0 AND (TAGS = 'a' OR region IN ('eu', 'uk'))"


@pytest.fixture(scope="module", params=list(peers.CLIENTS))
def java(request: pytest.FixtureRequest, java_of: Callable[[str], JavaClient]) -> JavaClient:
    """Return each version of the Java client."""
    return java_of(request.param)


def sample(topic: str, number: int) -> Sample:
    """Return a message that passes if its number is one of 10 to 18, even or a multiple of 3."""
    return Sample(
        how="sync",
        batch=None,
        topic=topic,
        tag="a" if number % 3 == 0 else "b",
        keys=f"key-{number}",
        flag=0,
        properties={"amount": f"{number}.5", "region": "eu" if number % 2 == 0 else "us"},
        body=b"%d" % number,
    )


def test_java_gets_what_passes(broker: peers.Broker, java: JavaClient) -> None:
    """Each once, and nothing else; its bad conditions are refused when it starts."""
    topic = "SqlJava" + java.version.replace(".", "")
    with link.Link(broker.address) as connection:
        link.create_topic(connection, topic, 2)
    wanted = [number for number in range(10, 19) if number % 2 == 0 or number % 3 == 0]
    consumer = java.start_consumer(
        broker.nameserver, topic, f"sql:{CONDITION}", group=topic, count=len(wanted)
    )
    java.send(broker.nameserver, [sample(topic, number) for number in range(30)])
    assert sorted(int(one.body) for one in consumer.finish()) == wanted
    bad = java.start_consumer(broker.nameserver, topic, "sql:amount >", group="bad", count=0)
    said, _ = bad.child.communicate()
    assert bad.child.returncode == 1
    assert f"CODE: {PARSE_FAILED}" in said


@pytest.fixture(scope="module", params=["sprocket", "rocketmq"])
def judged(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[peers.Broker]:
    """Run ours and the real broker, with filters on."""
    folder = tmp_path_factory.mktemp(request.param)
    if request.param == "sprocket":
        with peers.Sprocket(folder, folder / "store") as ours:
            yield ours
        return
    jars = request.getfixturevalue("jars")
    settings = {"enablePropertyFilter": "true"}
    with peers.RocketMQ(
        jars=jars, folder=folder, store=folder / "store", settings=settings
    ) as real:
        yield real


def subscribed(topic: str, text: str, version: int = 1) -> dict[str, object]:
    """Return a subscription by a condition."""
    return {"topic": topic, "subString": text, "expressionType": "SQL92", "subVersion": version}


def beat(client: Client, group: str, topic: str, text: str) -> None:
    """Send a heartbeat as a consumer with a condition."""
    body = {
        "clientID": "c",
        "consumerDataSet": [
            {
                "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET",
                "consumeType": "CONSUME_PASSIVELY",
                "groupName": group,
                "messageModel": "CLUSTERING",
                "subscriptionDataSet": [subscribed(topic, text)],
            }
        ],
        "producerDataSet": [],
    }
    assert client.ask(HEARTBEAT, {}, json.dumps(body).encode()).code == link.SUCCESS


def filled(client: Client, topic: str) -> None:
    """Store two messages, of which one passes."""
    link.create_topic(client, topic, 1)
    for value in ("1", "2"):
        client.call(link.SEND_MESSAGE_V2, link.send_ext(topic, 0, f"a\x01{value}\x02"), b"m")


def test_a_bad_condition_is_refused_where_it_is_checked(judged: peers.Broker) -> None:
    """By code 23; one that can be read is not."""
    with Client(judged.address) as client:
        filled(client, "Checked")
        codes = []
        for text in ("a = 1", "a ="):
            body = {"clientId": "c", "group": "g", "subscriptionData": subscribed("Checked", text)}
            codes.append(client.ask(CHECK_CLIENT_CONFIG, {}, json.dumps(body).encode()).code)
        assert codes == [link.SUCCESS, PARSE_FAILED]


def test_a_group_with_a_bad_condition_gets_nothing(judged: peers.Broker) -> None:
    """A heartbeat is never refused; the pull then says that there is no condition."""
    with Client(judged.address) as client:
        filled(client, "Beaten")
        for group, text, expected in (("good", "a = 1", 0), ("bad", "a =", NO_FILTER)):
            beat(client, group, "Beaten", text)
            ext = link.pull_ext("Beaten", 0, 0, group=group)
            ext |= {"sysFlag": 0, "subscription": "", "subVersion": 1}
            assert client.ask(link.PULL_MESSAGE, ext).code == expected


def test_a_pull_that_brings_a_bad_condition(judged: peers.Broker) -> None:
    """RocketMQ takes it for none and gives every message; ours refuses it."""
    with Client(judged.address) as client:
        filled(client, "Brought")
        ext = link.pull_ext("Brought", 0, 0, group="g")
        ext |= {"sysFlag": 4, "expressionType": "SQL92", "subVersion": 1}
        good = client.ask(link.PULL_MESSAGE, ext | {"subscription": "a = 1"})
        assert (good.code, good.body.count(MAGIC)) == (link.SUCCESS, 1)
        bad = client.ask(link.PULL_MESSAGE, ext | {"subscription": "a ="})
        if isinstance(judged, peers.Sprocket):
            assert bad.code == PARSE_FAILED
        else:
            assert (bad.code, bad.body.count(MAGIC)) == (link.SUCCESS, 2)


def test_what_passes_is_told_of_a_queue(judged: peers.Broker) -> None:
    """Ours looks at the messages; RocketMQ says yes of none without extended units."""
    with Client(judged.address) as client:
        filled(client, "Told")
        beat(client, "g", "Told", "a = 1")
        asked = {"topic": "Told", "queueId": 0, "index": 0, "count": 9, "consumerGroup": "g"}
        found = json.loads(client.call(QUERY_CONSUME_QUEUE, asked).body)
        passes = [one["eval"] for one in found["queueData"]]
        assert passes == [isinstance(judged, peers.Sprocket), False]
        rule = json.loads(found["filterData"])
        assert (rule["expression"], rule["bloomFilterData"]["bitNum"]) == ("a = 1", 112)
