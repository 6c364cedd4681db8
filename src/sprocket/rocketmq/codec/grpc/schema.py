"""What the messages of RocketMQ's gRPC service have: names, numbers and types of their fields.

Source: apache.rocketmq.v2, `definition.proto` and `service.proto` of release 2.1.2, and
`client_properties` of what comes after it.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct, structs

PACKAGE: Final = "apache.rocketmq.v2"
SERVICE: Final = f"{PACKAGE}.MessagingService"


class Field(Struct, frozen=True):
    """A field of a message.

    Attributes:
        kind: `string`, `bytes`, `bool`, `int32`, `int64`, `float`, or the name of a message or
            enum; `map` for one of strings.
        is_repeated: Whether there may be any number.
        is_optional: Whether it is told apart if it was not sent, though it is a plain value.
        choice: Of the fields of a message with the same choice one at most is there.
    """

    name: str
    number: int
    kind: str
    is_repeated: bool = False
    is_optional: bool = False
    choice: str = ""


class Rpc(Struct, frozen=True):
    """A method of the service.

    Attributes:
        takes_stream: Whether it takes any number of messages.
        gives_stream: Whether it gives any number.
    """

    name: str
    request: str
    response: str
    takes_stream: bool = False
    gives_stream: bool = False

    @property
    def path(self) -> str:
        """Return the path of a request."""
        return f"/{SERVICE}/{self.name}"


def _many(name: str, number: int, kind: str) -> Field:
    return Field(name, number, kind, is_repeated=True)


def _maybe(name: str, number: int, kind: str) -> Field:
    return Field(name, number, kind, is_optional=True)


def _either(choice: str, *fields: Field) -> Sequence[Field]:
    return [structs.replace(field, choice=choice) for field in fields]


ENUMS: Final[Mapping[str, Sequence[str]]] = {
    "TransactionResolution": ("TRANSACTION_RESOLUTION_UNSPECIFIED", "COMMIT", "ROLLBACK"),
    "TransactionSource": ("SOURCE_UNSPECIFIED", "SOURCE_CLIENT", "SOURCE_SERVER_CHECK"),
    "Permission": ("PERMISSION_UNSPECIFIED", "NONE", "READ", "WRITE", "READ_WRITE"),
    "FilterType": ("FILTER_TYPE_UNSPECIFIED", "TAG", "SQL"),
    "AddressScheme": ("ADDRESS_SCHEME_UNSPECIFIED", "IPv4", "IPv6", "DOMAIN_NAME"),
    "MessageType": (
        *("MESSAGE_TYPE_UNSPECIFIED", "NORMAL", "FIFO", "DELAY", "TRANSACTION", "LITE"),
        "PRIORITY",
    ),
    "DigestType": ("DIGEST_TYPE_UNSPECIFIED", "CRC32", "MD5", "SHA1"),
    "ClientType": (
        *("CLIENT_TYPE_UNSPECIFIED", "PRODUCER", "PUSH_CONSUMER", "SIMPLE_CONSUMER"),
        *("PULL_CONSUMER", "LITE_PUSH_CONSUMER", "LITE_SIMPLE_CONSUMER"),
    ),
    "Encoding": ("ENCODING_UNSPECIFIED", "IDENTITY", "GZIP"),
    "Language": (
        *("LANGUAGE_UNSPECIFIED", "JAVA", "CPP", "DOT_NET", "GOLANG", "RUST", "PYTHON", "PHP"),
        *("NODE_JS", "RUBY", "OBJECTIVE_C", "DART", "KOTLIN"),
    ),
    "QueryOffsetPolicy": ("BEGINNING", "END", "TIMESTAMP"),
    "LiteSubscriptionAction": ("PARTIAL_ADD", "PARTIAL_REMOVE", "COMPLETE_ADD", "COMPLETE_REMOVE"),
}
"""By name, values from 0 on. The status codes are declared in `status`."""

_STATUS = Field("status", 1, "Status")
_GROUP, _TOPIC = Field("group", 1, "Resource"), Field("topic", 2, "Resource")
_QUEUE = Field("message_queue", 2, "MessageQueue")

MESSAGES: Final[Mapping[str, Sequence[Field]]] = {
    "Status": (Field("code", 1, "Code"), Field("message", 2, "string")),
    "Resource": (Field("resource_namespace", 1, "string"), Field("name", 2, "string")),
    "Address": (Field("host", 1, "string"), Field("port", 2, "int32")),
    "Endpoints": (Field("scheme", 1, "AddressScheme"), _many("addresses", 2, "Address")),
    "Broker": (
        Field("name", 1, "string"),
        Field("id", 2, "int32"),
        Field("endpoints", 3, "Endpoints"),
    ),
    "MessageQueue": (
        Field("topic", 1, "Resource"),
        Field("id", 2, "int32"),
        Field("permission", 3, "Permission"),
        Field("broker", 4, "Broker"),
        _many("accept_message_types", 5, "MessageType"),
    ),
    "FilterExpression": (Field("type", 1, "FilterType"), Field("expression", 2, "string")),
    "SubscriptionEntry": (
        Field("topic", 1, "Resource"),
        Field("expression", 2, "FilterExpression"),
    ),
    "ExponentialBackoff": (
        Field("initial", 1, "Duration"),
        Field("max", 2, "Duration"),
        Field("multiplier", 3, "float"),
    ),
    "CustomizedBackoff": (_many("next", 1, "Duration"),),
    "RetryPolicy": (
        Field("max_attempts", 1, "int32"),
        *_either(
            "strategy",
            Field("exponential_backoff", 2, "ExponentialBackoff"),
            Field("customized_backoff", 3, "CustomizedBackoff"),
        ),
    ),
    "Digest": (Field("type", 1, "DigestType"), Field("checksum", 2, "string")),
    "DeadLetterQueue": (Field("topic", 1, "string"), Field("message_id", 2, "string")),
    "SystemProperties": (
        _maybe("tag", 1, "string"),
        _many("keys", 2, "string"),
        Field("message_id", 3, "string"),
        Field("body_digest", 4, "Digest"),
        Field("body_encoding", 5, "Encoding"),
        Field("message_type", 6, "MessageType"),
        Field("born_timestamp", 7, "Timestamp"),
        Field("born_host", 8, "string"),
        _maybe("store_timestamp", 9, "Timestamp"),
        Field("store_host", 10, "string"),
        _maybe("delivery_timestamp", 11, "Timestamp"),
        _maybe("receipt_handle", 12, "string"),
        Field("queue_id", 13, "int32"),
        _maybe("queue_offset", 14, "int64"),
        _maybe("invisible_duration", 15, "Duration"),
        _maybe("delivery_attempt", 16, "int32"),
        _maybe("message_group", 17, "string"),
        _maybe("trace_context", 18, "string"),
        _maybe("orphaned_transaction_recovery_duration", 19, "Duration"),
        _maybe("dead_letter_queue", 20, "DeadLetterQueue"),
        _maybe("lite_topic", 21, "string"),
        _maybe("priority", 22, "int32"),
    ),
    "Message": (
        Field("topic", 1, "Resource"),
        Field("user_properties", 2, "map"),
        Field("system_properties", 3, "SystemProperties"),
        Field("body", 4, "bytes"),
    ),
    "Assignment": (Field("message_queue", 1, "MessageQueue"),),
    "UA": (
        Field("language", 1, "Language"),
        Field("version", 2, "string"),
        Field("platform", 3, "string"),
        Field("hostname", 4, "string"),
    ),
    "Metric": (Field("on", 1, "bool"), _maybe("endpoints", 2, "Endpoints")),
    "Publishing": (
        _many("topics", 1, "Resource"),
        Field("max_body_size", 2, "int32"),
        Field("validate_message_type", 3, "bool"),
    ),
    "Subscription": (
        _maybe("group", 1, "Resource"),
        _many("subscriptions", 2, "SubscriptionEntry"),
        _maybe("fifo", 3, "bool"),
        _maybe("receive_batch_size", 4, "int32"),
        _maybe("long_polling_timeout", 5, "Duration"),
        _maybe("lite_subscription_quota", 6, "int32"),
        _maybe("max_lite_topic_size", 7, "int32"),
    ),
    "Settings": (
        _maybe("client_type", 1, "ClientType"),
        _maybe("access_point", 2, "Endpoints"),
        _maybe("backoff_policy", 3, "RetryPolicy"),
        _maybe("request_timeout", 4, "Duration"),
        *_either(
            "pub_sub",
            Field("publishing", 5, "Publishing"),
            Field("subscription", 6, "Subscription"),
        ),
        Field("user_agent", 7, "UA"),
        Field("metric", 8, "Metric"),
        Field("client_properties", 9, "map"),
    ),
    "OffsetOption": _either(
        "offset_type",
        Field("policy", 1, "int32"),
        Field("offset", 2, "int64"),
        Field("tail_n", 3, "int64"),
        Field("timestamp", 4, "int64"),
    ),
    "QueryRouteRequest": (Field("topic", 1, "Resource"), Field("endpoints", 2, "Endpoints")),
    "QueryRouteResponse": (_STATUS, _many("message_queues", 2, "MessageQueue")),
    "HeartbeatRequest": (_maybe("group", 1, "Resource"), Field("client_type", 2, "ClientType")),
    "HeartbeatResponse": (_STATUS,),
    "SendMessageRequest": (_many("messages", 1, "Message"),),
    "SendResultEntry": (
        _STATUS,
        Field("message_id", 2, "string"),
        Field("transaction_id", 3, "string"),
        Field("offset", 4, "int64"),
        Field("recall_handle", 5, "string"),
    ),
    "SendMessageResponse": (_STATUS, _many("entries", 2, "SendResultEntry")),
    "QueryAssignmentRequest": (
        Field("topic", 1, "Resource"),
        Field("group", 2, "Resource"),
        Field("endpoints", 3, "Endpoints"),
    ),
    "QueryAssignmentResponse": (_STATUS, _many("assignments", 2, "Assignment")),
    "ReceiveMessageRequest": (
        _GROUP,
        _QUEUE,
        Field("filter_expression", 3, "FilterExpression"),
        Field("batch_size", 4, "int32"),
        _maybe("invisible_duration", 5, "Duration"),
        Field("auto_renew", 6, "bool"),
        _maybe("long_polling_timeout", 7, "Duration"),
        _maybe("attempt_id", 8, "string"),
    ),
    "ReceiveMessageResponse": _either(
        "content",
        _STATUS,
        Field("message", 2, "Message"),
        Field("delivery_timestamp", 3, "Timestamp"),
    ),
    "AckMessageEntry": (
        Field("message_id", 1, "string"),
        Field("receipt_handle", 2, "string"),
        _maybe("lite_topic", 3, "string"),
    ),
    "AckMessageRequest": (_GROUP, _TOPIC, _many("entries", 3, "AckMessageEntry")),
    "AckMessageResultEntry": (
        Field("message_id", 1, "string"),
        Field("receipt_handle", 2, "string"),
        Field("status", 3, "Status"),
    ),
    "AckMessageResponse": (_STATUS, _many("entries", 2, "AckMessageResultEntry")),
    "ForwardMessageToDeadLetterQueueRequest": (
        _GROUP,
        _TOPIC,
        Field("receipt_handle", 3, "string"),
        Field("message_id", 4, "string"),
        Field("delivery_attempt", 5, "int32"),
        Field("max_delivery_attempts", 6, "int32"),
        _maybe("lite_topic", 7, "string"),
    ),
    "ForwardMessageToDeadLetterQueueResponse": (_STATUS,),
    "PullMessageRequest": (
        _GROUP,
        _QUEUE,
        Field("offset", 3, "int64"),
        Field("batch_size", 4, "int32"),
        Field("filter_expression", 5, "FilterExpression"),
        Field("long_polling_timeout", 6, "Duration"),
    ),
    "PullMessageResponse": _either(
        "content", _STATUS, Field("message", 2, "Message"), Field("next_offset", 3, "int64")
    ),
    "UpdateOffsetRequest": (_GROUP, _QUEUE, Field("offset", 3, "int64")),
    "UpdateOffsetResponse": (_STATUS,),
    "GetOffsetRequest": (_GROUP, _QUEUE),
    "GetOffsetResponse": (_STATUS, Field("offset", 2, "int64")),
    "QueryOffsetRequest": (
        Field("message_queue", 1, "MessageQueue"),
        Field("query_offset_policy", 2, "QueryOffsetPolicy"),
        _maybe("timestamp", 3, "Timestamp"),
    ),
    "QueryOffsetResponse": (_STATUS, Field("offset", 2, "int64")),
    "EndTransactionRequest": (
        Field("topic", 1, "Resource"),
        Field("message_id", 2, "string"),
        Field("transaction_id", 3, "string"),
        Field("resolution", 4, "TransactionResolution"),
        Field("source", 5, "TransactionSource"),
        Field("trace_context", 6, "string"),
    ),
    "EndTransactionResponse": (_STATUS,),
    "PrintThreadStackTraceCommand": (Field("nonce", 1, "string"),),
    "ReconnectEndpointsCommand": (Field("nonce", 1, "string"),),
    "ThreadStackTrace": (
        Field("nonce", 1, "string"),
        _maybe("thread_stack_trace", 2, "string"),
    ),
    "VerifyMessageCommand": (Field("nonce", 1, "string"), Field("message", 2, "Message")),
    "VerifyMessageResult": (Field("nonce", 1, "string"),),
    "RecoverOrphanedTransactionCommand": (
        Field("message", 1, "Message"),
        Field("transaction_id", 2, "string"),
    ),
    "NotifyUnsubscribeLiteCommand": (Field("lite_topic", 1, "string"),),
    "TelemetryCommand": (
        _maybe("status", 1, "Status"),
        *_either(
            "command",
            Field("settings", 2, "Settings"),
            Field("thread_stack_trace", 3, "ThreadStackTrace"),
            Field("verify_message_result", 4, "VerifyMessageResult"),
            Field("recover_orphaned_transaction_command", 5, "RecoverOrphanedTransactionCommand"),
            Field("print_thread_stack_trace_command", 6, "PrintThreadStackTraceCommand"),
            Field("verify_message_command", 7, "VerifyMessageCommand"),
            Field("reconnect_endpoints_command", 8, "ReconnectEndpointsCommand"),
            Field("notify_unsubscribe_lite_command", 9, "NotifyUnsubscribeLiteCommand"),
        ),
    ),
    "NotifyClientTerminationRequest": (_maybe("group", 1, "Resource"),),
    "NotifyClientTerminationResponse": (_STATUS,),
    "ChangeInvisibleDurationRequest": (
        _GROUP,
        _TOPIC,
        Field("receipt_handle", 3, "string"),
        Field("invisible_duration", 4, "Duration"),
        Field("message_id", 5, "string"),
        _maybe("lite_topic", 6, "string"),
        _maybe("suspend", 7, "bool"),
    ),
    "ChangeInvisibleDurationResponse": (_STATUS, Field("receipt_handle", 2, "string")),
    "RecallMessageRequest": (Field("topic", 1, "Resource"), Field("recall_handle", 2, "string")),
    "RecallMessageResponse": (_STATUS, Field("message_id", 2, "string")),
    "SyncLiteSubscriptionRequest": (
        Field("action", 1, "LiteSubscriptionAction"),
        Field("topic", 2, "Resource"),
        Field("group", 3, "Resource"),
        _many("lite_topic_set", 4, "string"),
        _maybe("version", 5, "int64"),
        _maybe("offset_option", 6, "OffsetOption"),
    ),
    "SyncLiteSubscriptionResponse": (_STATUS,),
}
"""By name."""


def _rpc(name: str, *, gives_stream: bool = False) -> Rpc:
    return Rpc(name, f"{name}Request", f"{name}Response", gives_stream=gives_stream)


RPCS: Final[Sequence[Rpc]] = (
    _rpc("QueryRoute"),
    _rpc("Heartbeat"),
    _rpc("SendMessage"),
    _rpc("QueryAssignment"),
    _rpc("ReceiveMessage", gives_stream=True),
    _rpc("AckMessage"),
    _rpc("ForwardMessageToDeadLetterQueue"),
    _rpc("PullMessage", gives_stream=True),
    _rpc("UpdateOffset"),
    _rpc("GetOffset"),
    _rpc("QueryOffset"),
    _rpc("EndTransaction"),
    Rpc("Telemetry", "TelemetryCommand", "TelemetryCommand", takes_stream=True, gives_stream=True),
    _rpc("NotifyClientTermination"),
    _rpc("ChangeInvisibleDuration"),
    _rpc("RecallMessage"),
    _rpc("SyncLiteSubscription"),
)
"""The methods of the service."""
