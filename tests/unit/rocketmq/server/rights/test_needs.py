"""What requests need: each request that there is, by what its header and body name."""

import json
from pathlib import Path
from typing import Any

import pytest

from sprocket.base.errors import WireError
from sprocket.rocketmq.codec.codes import RequestCode as Code
from sprocket.rocketmq.codec.command import Command
from sprocket.rocketmq.codec.ext import Header
from sprocket.rocketmq.codec.headers import (
    CloneOffsets,
    ConsumeMessageDirectly,
    CorrectionOffsets,
    CreateTopic,
    DeleteGroup,
    EndTransaction,
    GetConsumeStats,
    NoFields,
    PullMessage,
    QueryConsumerOffset,
    ResetOffset,
    SendMessage,
    SendMessageBack,
    SendMessageV2,
    TopicOnly,
    UnregisterClient,
    UpdateConsumerOffset,
    ViewMessage,
)
from sprocket.rocketmq.server.rights.needs import NEEDS, NOTHING_KNOWN, OPEN_IN_ROCKETMQ, Needs

SEND = {"e": "0", "f": "0", "g": "7", "h": "0"}
PULL = {"queueId": "0", "queueOffset": "0", "maxMsgNums": "1", "sysFlag": "0"}
TRANSACTION = {
    "producerGroup": "p",
    "tranStateTableOffset": "0",
    "commitLogOffset": "0",
    "commitOrRollback": "8",
}
CREATE = {"readQueueNums": "1", "writeQueueNums": "1", "perm": "6", "topicFilterType": "SINGLE_TAG"}
HEARTBEAT = {
    "clientID": "c",
    "producerDataSet": [{"groupName": "p"}],
    "consumerDataSet": [
        {
            "groupName": "g",
            "consumeType": "CONSUME_PASSIVELY",
            "messageModel": "CLUSTERING",
            "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
            "subscriptionDataSet": [
                {"topic": "t", "subString": "*", "subVersion": 1},
                {"topic": "%RETRY%g", "subString": "*", "subVersion": 1},
            ],
        }
    ],
}
QUEUES = [
    {"topic": "t", "brokerName": "b", "queueId": 0},
    {"topic": "t", "brokerName": "b", "queueId": 1},
]
SUBSCRIPTION = {"topic": "t", "subString": "*", "subVersion": 1}


def needed(code: Code, kind: type[Header], ext: dict[str, str], body: Any = None) -> list[str]:
    """Return what a request needs, as `Topic:t Sub,Get`."""
    data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
    header = Command(code, ext=dict(ext)).header(kind)
    found = NEEDS.get(code, NOTHING_KNOWN).of(header, data, "c")
    return sorted(
        f"{one.resource} {','.join(action.value for action in one.actions)}" for one in found
    )


@pytest.mark.parametrize(
    ("code", "kind", "ext", "expected"),
    [
        (Code.SEND_MESSAGE_V2, SendMessageV2, SEND | {"b": "t"}, ["Topic:t Pub"]),
        (Code.SEND_BATCH_MESSAGE, SendMessageV2, SEND | {"b": "t"}, ["Topic:t Pub"]),
        (Code.SEND_MESSAGE_V2, SendMessageV2, SEND | {"b": "%RETRY%g", "a": "h"}, ["Group:g Sub"]),
        (Code.SEND_MESSAGE_V2, SendMessageV2, SEND | {"b": "%DLQ%g"}, ["Topic:%DLQ%g Pub"]),
        (Code.SEND_MESSAGE_V2, SendMessageV2, SEND | {"b": ""}, ["Cluster:c Update"]),
        (Code.END_TRANSACTION, EndTransaction, TRANSACTION | {"topic": "t"}, ["Topic:t Pub"]),
        (Code.END_TRANSACTION, EndTransaction, TRANSACTION, []),
        (
            Code.PULL_MESSAGE,
            PullMessage,
            PULL | {"topic": "t", "consumerGroup": "g"},
            ["Group:g Sub", "Topic:t Sub"],
        ),
        (
            Code.PULL_MESSAGE,
            PullMessage,
            PULL | {"topic": "%RETRY%other", "consumerGroup": "g"},
            ["Group:g Sub", "Group:other Sub"],
        ),
        (
            Code.LITE_PULL_MESSAGE,
            PullMessage,
            PULL | {"topic": "t", "consumerGroup": "g"},
            ["Group:g Sub", "Topic:t Sub"],
        ),
        (
            Code.CONSUMER_SEND_MSG_BACK,
            SendMessageBack,
            {"offset": "0", "group": "g", "delayLevel": "0"},
            ["Group:g Sub"],
        ),
        (Code.UNREGISTER_CLIENT, UnregisterClient, {"consumerGroup": "g"}, ["Group:g Sub"]),
        (Code.UNREGISTER_CLIENT, UnregisterClient, {"producerGroup": "p"}, []),
        (
            Code.QUERY_CONSUMER_OFFSET,
            QueryConsumerOffset,
            {"topic": "t", "consumerGroup": "g", "queueId": "0"},
            ["Group:g Sub,Get", "Topic:t Sub,Get"],
        ),
        (
            Code.UPDATE_CONSUMER_OFFSET,
            UpdateConsumerOffset,
            {"topic": "t", "consumerGroup": "g"},
            ["Group:g Sub,Update", "Topic:t Sub,Update"],
        ),
        (Code.VIEW_MESSAGE_BY_ID, ViewMessage, {"topic": "t", "offset": "0"}, ["Topic:t Get"]),
        (Code.VIEW_MESSAGE_BY_ID, ViewMessage, {"offset": "0"}, ["Cluster:c Get"]),
        (
            Code.UPDATE_AND_CREATE_TOPIC,
            CreateTopic,
            CREATE | {"topic": "t"},
            ["Topic:t Create"],
        ),
        (Code.DELETE_SUBSCRIPTIONGROUP, DeleteGroup, {"groupName": "g"}, ["Group:g Delete"]),
        (Code.GET_TOPIC_CONFIG, TopicOnly, {"topic": "t"}, ["Topic:t Get"]),
        (Code.GET_TOPIC_CONFIG, TopicOnly, {"topic": "%RETRY%g"}, ["Group:g Get"]),
        (
            Code.GET_CONSUME_STATS,
            GetConsumeStats,
            {"consumerGroup": "g", "topic": "t", "topicList": "u;v"},
            ["Group:g Get", "Topic:t Get", "Topic:u Get", "Topic:v Get"],
        ),
        (Code.GET_CONSUME_STATS, GetConsumeStats, {"consumerGroup": "g"}, ["Group:g Get"]),
        (
            Code.INVOKE_BROKER_TO_RESET_OFFSET,
            ResetOffset,
            {"topic": "t", "group": "g"},
            ["Group:g Update", "Topic:t Update"],
        ),
        (
            Code.INVOKE_BROKER_TO_RESET_OFFSET,
            ResetOffset,
            {"topic": "t"},
            ["Cluster:c Update", "Topic:t Update"],
        ),
        (
            Code.QUERY_CORRECTION_OFFSET,
            CorrectionOffsets,
            {"topic": "t", "compareGroup": "g", "filterGroups": "h,i"},
            ["Group:g Get", "Group:h Update", "Group:i Update", "Topic:t Get"],
        ),
        (
            Code.CLONE_GROUP_OFFSET,
            CloneOffsets,
            {"srcGroup": "g", "destGroup": "h", "topic": "t"},
            ["Group:g Get", "Group:h Update", "Topic:t Update"],
        ),
        (
            Code.CONSUME_MESSAGE_DIRECTLY,
            ConsumeMessageDirectly,
            {"consumerGroup": "g"},
            ["Cluster:c Update", "Group:g Sub"],
        ),
        (Code.UPDATE_BROKER_CONFIG, NoFields, {}, ["Cluster:c Update"]),
        (Code.GET_BROKER_CONFIG, NoFields, {}, ["Cluster:c Get"]),
        (Code.POP_ROLLBACK, NoFields, {}, ["Cluster:c Update"]),
    ],
)
def test_a_header_says_what_is_needed(
    code: Code, kind: type[Header], ext: dict[str, str], expected: list[str]
) -> None:
    """Topics and groups that it names; the cluster where it names none of what it must name."""
    assert expected == needed(code, kind, ext)


@pytest.mark.parametrize("code", [Code.SEND_MESSAGE, Code.SEND_REPLY_MESSAGE])
def test_a_send_with_long_names_needs_the_same(code: Code) -> None:
    """Also a reply, which 5.3.3 takes from anybody."""
    ext = {
        "producerGroup": "p",
        "topic": "t",
        "queueId": "0",
        "sysFlag": "0",
        "bornTimestamp": "1",
        "flag": "0",
    }
    assert needed(code, SendMessage, ext) == ["Topic:t Pub"]


@pytest.mark.parametrize(
    ("code", "body", "expected"),
    [
        (Code.HEART_BEAT, HEARTBEAT, ["Group:g Sub", "Group:g Sub", "Topic:t Sub"]),
        (Code.HEART_BEAT, {"clientID": "c", "producerDataSet": [{"groupName": "p"}]}, []),
        (
            Code.LOCK_BATCH_MQ,
            {"consumerGroup": "g", "clientId": "c", "mqSet": QUEUES},
            ["Group:g Sub", "Topic:t Sub"],
        ),
        (
            Code.UNLOCK_BATCH_MQ,
            {"consumerGroup": "g", "clientId": "c", "mqSet": QUEUES},
            ["Group:g Sub", "Topic:t Sub"],
        ),
        (
            Code.CHECK_CLIENT_CONFIG,
            {"clientId": "c", "group": "g", "subscriptionData": SUBSCRIPTION},
            ["Group:g Sub", "Topic:t Sub"],
        ),
        (Code.CHECK_CLIENT_CONFIG, None, []),
        (
            Code.QUERY_ASSIGNMENT,
            {"topic": "t", "consumerGroup": "g", "messageModel": "CLUSTERING"},
            ["Group:g Sub", "Topic:t Sub"],
        ),
        (
            Code.SET_MESSAGE_REQUEST_MODE,
            {"topic": "t", "consumerGroup": "g", "mode": "PULL"},
            ["Group:g Update", "Topic:t Update"],
        ),
        (
            Code.UPDATE_AND_CREATE_TOPIC_LIST,
            {"topicConfigList": [{"topicName": "t"}, {"topicName": "u"}]},
            ["Topic:t Create", "Topic:u Create"],
        ),
        (Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {"groupName": "g"}, ["Group:g Create"]),
        (
            Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST,
            {"groupConfigList": [{"groupName": "g"}, {"groupName": "h"}]},
            ["Group:g Create", "Group:h Create"],
        ),
    ],
)
def test_a_body_says_what_is_needed(code: Code, body: Any, expected: list[str]) -> None:
    """Of everything in it."""
    assert expected == needed(code, NoFields, {}, body)


@pytest.mark.parametrize("code", [code for code, one in NEEDS.items() if one.in_body is not None])
def test_a_body_that_cannot_be_read_is_an_error(code: Code) -> None:
    """Never nothing that is needed."""
    with pytest.raises(WireError):
        needed(code, NoFields, {}, b"\xff[")


def test_what_rocketmq_leaves_open_is_closed() -> None:
    """Each of these requests needs something, and those of the broker as a whole the cluster."""
    assert NEEDS.keys() >= OPEN_IN_ROCKETMQ
    whole = {
        Code.UPDATE_BROKER_CONFIG,
        Code.GET_BROKER_CONFIG,
        Code.GET_BROKER_RUNTIME_INFO,
        Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
        Code.GET_ALL_TOPIC_CONFIG,
        Code.GET_ALL_CONSUMER_OFFSET,
        Code.DELETE_EXPIRED_COMMITLOG,
    }
    assert whole <= OPEN_IN_ROCKETMQ
    for code in whole:
        (one,) = needed(code, NoFields, {})
        assert one.startswith("Cluster:c ")


GUIDE = Path(__file__).parents[5] / "docs" / "guides" / "rights.md"


def row(code: Code, needs: Needs) -> str:
    """Return the row of a request in the guide."""
    found = []
    for one in needs.named:
        actions = " or ".join(f"`{action.value}`" for action in one.actions)
        kind = one.kind.value.lower() + ("s" if one.splitter else "")
        found.append(
            f"{actions} on the {kind} `{one.field}`{', if named' if one.is_optional else ''}"
        )
    if needs.in_body is not None:
        found.append(needs.in_body.text)
    if not found:
        found.append(f"`{needs.whole[0].value}` on the cluster")
    less = "open to all users" if code in OPEN_IN_ROCKETMQ else ""
    return f"| {int(code)} | {code.name} | {'; '.join(found)} | {less} |"


def test_the_guide_has_the_table() -> None:
    """Every row, and no other."""
    lines = GUIDE.read_text().splitlines()
    found = [line for line in lines if line.startswith("| ") and line[2].isdigit()]
    assert found == [row(code, needs) for code, needs in sorted(NEEDS.items())]
