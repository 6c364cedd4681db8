"""The real `mqadmin` 5.3.3 prints the same of our broker as of the real one, command by command.

`tests/data/rocketmq-5.3.3/mqadmin.json` has what it printed of the real one, made comparable. With
SPROCKET_INTEROP_BROKER=rocketmq these texts are compared with the real broker again; with
SPROCKET_INTEROP_RECORD=1 beside it they are written anew.
"""

import contextlib
import json
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from tests.interop import link, mqadmin, peers

from sprocket.rocketmq.client import ReceivedMessage, blocking
from sprocket.rocketmq.codec import bodies
from sprocket.rocketmq.codec.bodies import ConsumerData, HeartbeatData
from sprocket.rocketmq.model.group import Subscription, SubscriptionGroup

pytestmark = [
    pytest.mark.interop,
    pytest.mark.slow,
    pytest.mark.xdist_group("mqadmin"),  # one worker, or each would run all commands
]

GUIDE = Path(__file__).parents[2] / "docs/guides/mqadmin.md"
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
    "many": (
        "updateTopicList -b BROKER -f FOLDER/topics.json",
        "updateSubGroupList -c DefaultCluster -f FOLDER/groups.json",
        "sendMsgStatus -b broker-a -c 3 -s 16",
        "consumeMessage -t orders -c 4",
        "updateKvConfig -s shop -k colour -v blue",
        "updateOrderConf -t orders -m put -v broker-a:2",
        "updateNamesrvConfig -k orderMessageEnable -v true",
        "setConsumeMode -c DefaultCluster -t orders -g billing -m PULL",
        "consumerStatus -g nobody",
        "consumerStatus -g lively",
        "consumerStatus -g lively -i CLIENT",
        "resetOffsetByTime -g third -t orders -s MIDDLE",
        "skipAccumulatedMessage -g billing -t orders",
    ),
    "back": ("resetOffsetByTime -g lively -t live -s NOON",),
    "forbid": ("wipeWritePerm -b broker-a",),
    "after many": (
        "getNamesrvConfig",
        "updateOrderConf -t orders -m get",
        "topicRoute -t orders",
        "topicRoute -t first-of-list",
        "topicRoute -t second-of-list",
        "getConsumerConfig -g first-of-list",
        "consumerProgress -g third -t orders",
        "consumerProgress -g billing -t orders",
        "exportMetadata -c DefaultCluster -f FOLDER/all",
        "exportMetadata -b BROKER -t -f FOLDER/topics",
        "exportMetadata -b BROKER -g -f FOLDER/groups",
        "exportConfigs -c DefaultCluster -f FOLDER/configs",
        "exportMetrics -c DefaultCluster -f FOLDER/metrics",
    ),
    "undo": (
        "addWritePerm -b broker-a",
        "deleteKvConfig -s shop -k colour",
        "updateOrderConf -t orders -m delete",
        "updateNamesrvConfig -k orderMessageEnable -v false",
        "resetOffsetByTime -g third -t orders -s EARLY",
    ),
    "undone": (
        "topicRoute -t orders",
        "updateOrderConf -t orders -m get",
        "getNamesrvConfig",
        "consumerProgress -g third -t orders",
        "checkMsgSendRT -t orders -a 4 -s 16",
    ),
}
"""Commands that change the same things are in different stages, and so are those that pull: their
group takes one client at a time."""

LIVELY_FROM = "many"
"""The stage from which on a member of the group `lively` is there."""

LISTS = {
    "topics.json": [
        {"topicName": "first-of-list", "readQueueNums": 2, "writeQueueNums": 2, "perm": 6},
        {"topicName": "second-of-list", "readQueueNums": 3, "writeQueueNums": 1, "perm": 4},
    ],
    "groups.json": [
        {"groupName": "first-of-list", "retryMaxTimes": 5},
        {"groupName": "second-of-list", "consumeBroadcastEnable": False},
    ],
}
"""What the commands that change many things at once read."""

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
    """Run all stages; what a command exported is part of what it printed."""
    names = list(STAGES)
    first = names.index(LIVELY_FROM)
    words = {"BROKER": broker.address, "FOLDER": str(folder), "EARLY": _now_ms()}
    for name, rows in LISTS.items():
        (folder / name).write_text(json.dumps(rows))
    with link.Link(broker.address) as connection:
        words["OFFSET_ID"] = _fill(connection)
        words["MIDDLE"] = _now_ms()
        texts = _run_stages(jars, folder, broker, names[:first], words)
        link.create_topic(connection, "live", 1)
        with _lively(broker) as got:
            send = link.send_ext("live", 0, "")
            for number in range(6):
                if number == 3:
                    words["NOON"] = _now_ms()
                connection.call(link.SEND_MESSAGE_V2, send, b"%d" % number)
            peers.wait_until(lambda: len(got) == 6, "the live messages")
            members = connection.call(38, {"consumerGroup": "lively"}).body
            (words["CLIENT"],) = json.loads(members)["consumerIdList"]
            texts += _run_stages(jars, folder, broker, names[first:], words)
            peers.wait_until(lambda: len(got) >= 9, "half of the live messages again")
    (folder / "said").write_text("\n".join(texts))
    found = {
        label: mqadmin.comparable(label.partition(": ")[2], text)
        for label, text in zip(COMMANDS, texts, strict=True)
    }
    found["got by lively"] = [body.decode() for body in got]
    return found


def _run_stages(
    jars: Path, folder: Path, broker: peers.Broker, names: list[str], words: Mapping[str, str]
) -> list[str]:
    """Run some stages, with what stands for each word; add what they exported to what they said."""
    stages = [[_filled(command, words).split(" ") for command in STAGES[name]] for name in names]
    texts = mqadmin.run(jars, folder, broker.nameserver, stages)
    commands = [command for stage in stages for command in stage]
    return [
        text.replace(words["FOLDER"], "FOLDER") + mqadmin.exported(command)
        if command[0].startswith("export")
        else text
        for command, text in zip(commands, texts, strict=True)
    ]


def _filled(command: str, words: Mapping[str, str]) -> str:
    for word, text in words.items():
        command = command.replace(word, text)
    return command


@contextlib.contextmanager
def _lively(broker: peers.Broker) -> Iterator[list[bytes]]:
    """Run a member of the group `lively`; give the bodies that it was given so far."""
    got: list[bytes] = []

    def listener(messages: list[ReceivedMessage]) -> None:
        got.extend(one.body for one in messages)

    with blocking.PushConsumer(
        broker.nameserver, group="lively", listener=listener, start="first"
    ) as member:
        member.subscribe("live")
        yield got


def _now_ms() -> str:
    """Return a time that no message before has, and none after."""
    peers.pause(0.02)
    now = str(time.time_ns() // 1_000_000)
    peers.pause(0.02)
    return now


def _fill(connection: link.Link) -> str:
    """Make a topic with six messages and a group that has consumed one of them, with a client.

    Returns:
        The offset message id of the third message.
    """
    link.create_topic(connection, "orders", 2)
    group = bodies.encode(SubscriptionGroup(name="billing", retry_times_max=3))
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
    connection.call(34, {}, bodies.encode(heartbeat))
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


def test_the_guide_names_what_is_run() -> None:
    """The table of what works: each command of it, and no other."""
    table = GUIDE.read_text().partition("## What works")[2].partition("\n\n`clusterRT`")[0]
    cells = [line.split("|")[2] for line in table.splitlines() if line.startswith("| ")]
    named = {cell.split()[0] for row in cells[1:] for cell in row.split(",")}
    run = {command.split(" ")[0] for commands in STAGES.values() for command in commands}
    assert run == named


def test_a_reset_to_a_past_time_moves_a_group(said: Mapping[str, list[str]]) -> None:
    """Without a member: to the first message of that time in each queue; with one: it goes back."""
    third = "consumerProgress -g third -t orders"

    def offsets(stage: str) -> list[str]:
        rows = [line.split(" ") for line in said[f"{stage}: {third}"]]
        return [row[4] for row in rows if row[0] == "orders"]

    assert offsets("after many") == ["3", "3"]  # before what was sent after the first six
    assert offsets("undone") == ["0", "0"]  # before all
    assert list("012345345") == said["got by lively"]


@pytest.mark.parametrize("command", COMMANDS)
def test_the_same_is_printed(said: Mapping[str, list[str]], command: str) -> None:
    """Line for line, but for what differs between any two brokers."""
    assert said[command] == json.loads(RECORDED.read_text())[command]
