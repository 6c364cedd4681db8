"""The real `mqadmin` 5.3.3 prints the same of our broker as of the real one, command by command.

`tests/data/rocketmq-5.3.3/mqadmin.json` has what it printed of the real one, made comparable. With
SPROCKET_INTEROP_BROKER=rocketmq these texts are compared with the real broker again; with
SPROCKET_INTEROP_RECORD=1 beside it they are written anew.
"""

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from tests.interop import link, mqadmin, peers

from sprocket.rocketmq.codec import client_bodies, group_bodies
from sprocket.rocketmq.codec.client_bodies import ConsumerData, HeartbeatData
from sprocket.rocketmq.model.group import Subscription, SubscriptionGroup

pytestmark = [pytest.mark.interop, pytest.mark.slow]

RECORDED = Path(__file__).parents[1] / "data/rocketmq-5.3.3/mqadmin.json"
KEYS = [f"7F00000100002A9F18B4AAC2000{number}000{number}" for number in range(6)]

STAGES = {
    "look": (
        "clusterList",
        "clusterList -m",
        "topicList",
        "topicList -c",
        "topicRoute -t orders",
        "topicRoute -t none",
        "topicStatus -t orders",
        "topicClusterList -t orders",
        "consumerProgress",
        "consumerProgress -g billing",
        "consumerProgress -g nobody",
        "consumerConnection -g billing",
        "consumerConnection -g nobody",
        "producerConnection -g shop -t orders",
        "producerConnection -g nobody -t orders",
        "producer -b BROKER",
        "brokerStatus -b BROKER",
        "getBrokerConfig -b BROKER",
        "brokerConsumeStats -b BROKER",
        "queryMsgById -t orders -i OFFSET_ID",
        "queryMsgByKey -t orders -k k3",
        "queryMsgByKey -t orders -k none",
        f"queryMsgByUniqueKey -t orders -i {KEYS[1]}",
        "queryMsgByOffset -t orders -b broker-a -i 1 -o 1",
        "queryCq -t orders -q 0 -i 0 -c 2",
        "haStatus -b BROKER",
        "statsAll -t orders",
        "allocateMQ -t orders -i a,b",
    ),
    "change": (
        "updateTopic -b BROKER -t other -r 3 -w 3 -p 4",
        "updateTopic -c DefaultCluster -t TBW102",
        "updateTopic -c DefaultCluster -t fifo -a +message.type=FIFO",
        "updateSubGroup -c DefaultCluster -g second -s false -r 3",
        "updateSubGroup -c DefaultCluster -g third",
        "updateBrokerConfig -b BROKER -k fileReservedTime -v 48",
        "updateBrokerConfig -b BROKER -k rocketmqHome -v x",
        "sendMessage -t orders -p sent -b broker-a -i 1",
        "queryMsgByOffset -t orders -b broker-a -i 1 -o 9",
        "cleanExpiredCQ -b BROKER",
        "cleanUnusedTopic -b BROKER",
        "deleteExpiredCommitLog -b BROKER",
    ),
    "look again": (
        "topicRoute -t other",
        "topicStatus -t orders",
        "getConsumerConfig -g second",
        "getBrokerConfig -c DefaultCluster",
        "cloneGroupOffset -s billing -d third -t orders",
        "printMsg -t orders",
        "updateTopicPerm -b BROKER -t other -p 6",
    ),
    "delete": (
        "deleteTopic -c DefaultCluster -t other",
        "deleteTopic -c DefaultCluster -t TBW102",
        "deleteSubGroup -c DefaultCluster -g second",
        "consumerProgress -g third -t orders",
        "printMsgByQueue -t orders -a broker-a -i 0 -p true",
    ),
    "reset": ("resetOffsetByTime -g third -t orders -s now",),
    "look at last": (
        "topicStatus -t other",
        "getConsumerConfig -g second",
        "consumerProgress -g third -t orders",
    ),
}
"""Commands that change the same things are in different stages, and so are those that pull: their
group takes one client at a time."""

COMMANDS = [f"{stage}: {command}" for stage, commands in STAGES.items() for command in commands]


@pytest.fixture(scope="module")
def said(jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, list[str]]]:
    """Run all commands against a broker with a little in it; return what they printed."""
    folder = tmp_path_factory.mktemp("mqadmin")
    if os.environ.get("SPROCKET_INTEROP_BROKER", "sprocket") == "rocketmq":
        with peers.RocketMQ(jars=jars, folder=folder, store=folder / "store") as real:
            found = _run(jars, folder, real)
        if os.environ.get("SPROCKET_INTEROP_RECORD"):
            RECORDED.write_text(json.dumps(found, indent=1) + "\n")
        yield found
        return
    # Checksums in the records' properties would show in every message.
    plain = ("--set", "store.crc_tail=false")
    with peers.Sprocket(folder, folder / "store", plain) as ours:
        yield _run(jars, folder, ours)


def _run(jars: Path, folder: Path, broker: peers.Broker) -> dict[str, list[str]]:
    with link.Link(broker.address) as connection:
        offset_id = _fill(connection)
        stages = [
            [
                command.replace("BROKER", broker.address).replace("OFFSET_ID", offset_id).split(" ")
                for command in commands
            ]
            for commands in STAGES.values()
        ]
        texts = mqadmin.run(jars, folder, broker.nameserver, stages)
    (folder / "said").write_text("\n".join(texts))
    names = [command.split(" ")[0] for commands in STAGES.values() for command in commands]
    return {
        label: mqadmin.comparable(name, text)
        for label, name, text in zip(COMMANDS, names, texts, strict=True)
    }


def _fill(connection: link.Link) -> str:
    """Make a topic with six messages and a group that has consumed one of them, with a client.

    Returns:
        The offset message id of the third message.
    """
    link.create_topic(connection, "orders", 2)
    group = group_bodies.encode_group(SubscriptionGroup(name="billing", retry_times_max=3))
    connection.call(200, {}, group)
    ids = []
    for number, unique in enumerate(KEYS):
        tag = "ab"[number % 2]
        properties = f"KEYS\x01k{number}\x02TAGS\x01{tag}\x02UNIQ_KEY\x01{unique}\x02"
        ext = link.send_ext("orders", number % 2, properties)
        ids.append(connection.call(link.SEND_MESSAGE_V2, ext, b"hello %d" % number).ext["msgId"])
    wanted = [
        Subscription.parse("orders", "a", version=1_700_000_000_000),
        Subscription.parse("%RETRY%billing", "*", version=1_700_000_000_000),
    ]
    heartbeat = HeartbeatData(
        client_id="client",
        producers=["shop"],
        consumers=[ConsumerData(group="billing", subscriptions=wanted)],
    )
    connection.call(34, {}, client_bodies.encode_heartbeat(heartbeat))
    commit = {"consumerGroup": "billing", "topic": "orders", "queueId": 0, "commitOffset": 1}
    connection.call(link.UPDATE_CONSUMER_OFFSET, commit)
    peers.wait_until(
        lambda: connection.ask(link.QUERY_MESSAGE, _query(KEYS[5])).code == 0, "the key index"
    )
    return ids[2]


def _query(key: str) -> dict[str, object]:
    return {
        "topic": "orders",
        "key": key,
        "maxNum": 1,
        "beginTimestamp": 0,
        "endTimestamp": 1 << 62,
        "_UNIQUE_KEY_QUERY": "true",
    }


@pytest.mark.parametrize("command", COMMANDS)
def test_the_same_is_printed(said: Mapping[str, list[str]], command: str) -> None:
    """Line for line, but for what differs between any two brokers."""
    assert said[command] == json.loads(RECORDED.read_text())[command]
