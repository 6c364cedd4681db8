"""Bodies of what a broker collects from its clients or works out for them.

Those of 223, 308, 353 and 400 to 402.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sprocket.rocketmq.codec.bodies import body_parts
from sprocket.rocketmq.codec.config import fastjson, values
from sprocket.rocketmq.model.group import CLUSTERING
from sprocket.rocketmq.model.route import MessageQueue

PULL = "PULL"
POP = "POP"


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignmentQuery:
    """The body of QUERY_ASSIGNMENT 400."""

    topic: str
    group: str
    client_id: str
    strategy: str
    message_model: str = CLUSTERING


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestMode:
    """How a group gets the messages of a topic: the body of SET_MESSAGE_REQUEST_MODE 401."""

    topic: str
    group: str
    mode: str = PULL
    pop_share_queues: int = 0


def encode_statuses(statuses: Mapping[str, Mapping[MessageQueue, int]]) -> bytes:
    """Write the answer of INVOKE_BROKER_TO_GET_CONSUMER_STATUS 223: offsets by client id."""
    table = {
        client_id: body_parts.queue_table_json(offsets) for client_id, offsets in statuses.items()
    }
    return body_parts.encode({"consumerTable": table, "messageQueueTable": {}})


def encode_corrections(offsets: Mapping[int, int]) -> bytes:
    """Write the answer of QUERY_CORRECTION_OFFSET 308: offsets by queue id."""
    return fastjson.write({"correctionOffsets": dict(offsets)}, int_keys_unquoted=True)


def encode_permission(group: str, topic: str, *, is_readable: bool) -> bytes:
    """Write the answer of UPDATE_AND_GET_GROUP_FORBIDDEN 353."""
    return body_parts.encode({"group": group, "readable": is_readable, "topic": topic})


def encode_assignment_query(query: AssignmentQuery) -> bytes:
    """Write the body of QUERY_ASSIGNMENT 400."""
    return body_parts.encode(
        {
            "clientId": query.client_id,
            "consumerGroup": query.group,
            "messageModel": query.message_model,
            "strategyName": query.strategy,
            "topic": query.topic,
        }
    )


def decode_assignment_query(data: bytes) -> AssignmentQuery:
    """Read the body of QUERY_ASSIGNMENT 400; it need not name client and strategy.

    Raises:
        WireError: A part of it cannot be read, or is absent.
    """
    what = "a query for an assignment"
    body = body_parts.read_object(data, what)
    return AssignmentQuery(
        topic=values.text(body_parts.required(body, "topic", what)),
        group=values.text(body_parts.required(body, "consumerGroup", what)),
        client_id=values.text(body.get("clientId")),
        strategy=values.text(body.get("strategyName")),
        message_model=values.text(body_parts.required(body, "messageModel", what)),
    )


def encode_assignment(queues: Iterable[MessageQueue] | None) -> bytes:
    """Write the answer of QUERY_ASSIGNMENT 400; None leaves the client with what it has."""
    if queues is None:
        return b"{}"
    return body_parts.encode(
        {
            "messageQueueAssignments": [
                {"messageQueue": body_parts.message_queue_json(queue), "mode": PULL}
                for queue in queues
            ]
        }
    )


def decode_assignment(data: bytes) -> list[MessageQueue] | None:
    """Read the queues of an answer of QUERY_ASSIGNMENT 400, whatever their mode.

    Raises:
        WireError: A part of it cannot be read.
    """
    found = body_parts.read_answer(data, "an assignment").get("messageQueueAssignments")
    if found is None:
        return None
    return [
        body_parts.message_queue(values.mapping(one, "an assignment").get("messageQueue"))
        for one in values.sequence(found, "messageQueueAssignments")
    ]


def request_mode_json(mode: RequestMode) -> dict[str, Any]:
    """Return a mode as JSON has it, on the wire and in `messageRequestMode.json`."""
    return {
        "consumerGroup": mode.group,
        "mode": mode.mode,
        "popShareQueueNum": mode.pop_share_queues,
        "topic": mode.topic,
    }


def request_mode(value: Any) -> RequestMode:
    """Read a mode. Raises WireError."""
    members = values.mapping(value, "a request mode")
    return RequestMode(
        topic=values.text(members.get("topic")),
        group=values.text(members.get("consumerGroup")),
        mode=values.text(members.get("mode")) or PULL,
        pop_share_queues=values.member(members, "popShareQueueNum", 0),
    )


def encode_request_mode(mode: RequestMode) -> bytes:
    """Write the body of SET_MESSAGE_REQUEST_MODE 401."""
    return body_parts.encode(request_mode_json(mode))


def decode_request_mode(data: bytes) -> RequestMode:
    """Read the body of SET_MESSAGE_REQUEST_MODE 401. Raises WireError."""
    what = "a request mode"
    body = body_parts.read_object(data, what)
    for name in ("topic", "consumerGroup"):
        body_parts.required(body, name, what)
    return request_mode(body)


def request_modes_json(modes: Mapping[str, Mapping[str, RequestMode]]) -> dict[str, Any]:
    """Return all modes, by topic and group, as the file and the answer of 402 have them."""
    return {
        "messageRequestModeMap": {
            topic: {group: request_mode_json(mode) for group, mode in groups.items()}
            for topic, groups in modes.items()
        }
    }


def encode_request_modes(modes: Mapping[str, Mapping[str, RequestMode]]) -> bytes:
    """Write the answer of GET_ALL_MESSAGE_REQUEST_MODE 402."""
    return body_parts.encode(request_modes_json(modes))
