"""What the messages of RocketMQ's gRPC service have: names, numbers and types of their fields.

Source: apache.rocketmq.v2, `definition.proto` and `service.proto` of release 2.1.2, and
`client_properties` of what comes after it.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct, structs

PACKAGE: Final = "apache.rocketmq.v2"
SERVICE: Final = f"{PACKAGE}.MessagingService"


class ProtoField(Struct, frozen=True):
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
        service: Which service has it.
    """

    name: str
    request: str
    response: str
    takes_stream: bool = False
    gives_stream: bool = False
    service: str = SERVICE

    @property
    def path(self) -> str:
        """Return the path of a request."""
        return f"/{self.service}/{self.name}"


def _many(name: str, number: int, kind: str) -> ProtoField:
    return ProtoField(name, number, kind, is_repeated=True)


def _maybe(name: str, number: int, kind: str) -> ProtoField:
    return ProtoField(name, number, kind, is_optional=True)


def _either(choice: str, *fields: ProtoField) -> Sequence[ProtoField]:
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

_STATUS = ProtoField("status", 1, "Status")
_GROUP, _TOPIC = ProtoField("group", 1, "Resource"), ProtoField("topic", 2, "Resource")
_QUEUE = ProtoField("message_queue", 2, "MessageQueue")

MESSAGES: Final[Mapping[str, Sequence[ProtoField]]] = {
    "Status": (ProtoField("code", 1, "Code"), ProtoField("message", 2, "string")),
    "Resource": (ProtoField("resource_namespace", 1, "string"), ProtoField("name", 2, "string")),
    "Address": (ProtoField("host", 1, "string"), ProtoField("port", 2, "int32")),
    "Endpoints": (ProtoField("scheme", 1, "AddressScheme"), _many("addresses", 2, "Address")),
    "Broker": (
        ProtoField("name", 1, "string"),
        ProtoField("id", 2, "int32"),
        ProtoField("endpoints", 3, "Endpoints"),
    ),
    "MessageQueue": (
        ProtoField("topic", 1, "Resource"),
        ProtoField("id", 2, "int32"),
        ProtoField("permission", 3, "Permission"),
        ProtoField("broker", 4, "Broker"),
        _many("accept_message_types", 5, "MessageType"),
    ),
    "FilterExpression": (
        ProtoField("type", 1, "FilterType"),
        ProtoField("expression", 2, "string"),
    ),
    "SubscriptionEntry": (
        ProtoField("topic", 1, "Resource"),
        ProtoField("expression", 2, "FilterExpression"),
    ),
    "ExponentialBackoff": (
        ProtoField("initial", 1, "Duration"),
        ProtoField("max", 2, "Duration"),
        ProtoField("multiplier", 3, "float"),
    ),
    "CustomizedBackoff": (_many("next", 1, "Duration"),),
    "RetryPolicy": (
        ProtoField("max_attempts", 1, "int32"),
        *_either(
            "strategy",
            ProtoField("exponential_backoff", 2, "ExponentialBackoff"),
            ProtoField("customized_backoff", 3, "CustomizedBackoff"),
        ),
    ),
    "Digest": (ProtoField("type", 1, "DigestType"), ProtoField("checksum", 2, "string")),
    "DeadLetterQueue": (ProtoField("topic", 1, "string"), ProtoField("message_id", 2, "string")),
    "SystemProperties": (
        _maybe("tag", 1, "string"),
        _many("keys", 2, "string"),
        ProtoField("message_id", 3, "string"),
        ProtoField("body_digest", 4, "Digest"),
        ProtoField("body_encoding", 5, "Encoding"),
        ProtoField("message_type", 6, "MessageType"),
        ProtoField("born_timestamp", 7, "Timestamp"),
        ProtoField("born_host", 8, "string"),
        _maybe("store_timestamp", 9, "Timestamp"),
        ProtoField("store_host", 10, "string"),
        _maybe("delivery_timestamp", 11, "Timestamp"),
        _maybe("receipt_handle", 12, "string"),
        ProtoField("queue_id", 13, "int32"),
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
        ProtoField("topic", 1, "Resource"),
        ProtoField("user_properties", 2, "map"),
        ProtoField("system_properties", 3, "SystemProperties"),
        ProtoField("body", 4, "bytes"),
    ),
    "Assignment": (ProtoField("message_queue", 1, "MessageQueue"),),
    "UA": (
        ProtoField("language", 1, "Language"),
        ProtoField("version", 2, "string"),
        ProtoField("platform", 3, "string"),
        ProtoField("hostname", 4, "string"),
    ),
    "Metric": (ProtoField("on", 1, "bool"), _maybe("endpoints", 2, "Endpoints")),
    "Publishing": (
        _many("topics", 1, "Resource"),
        ProtoField("max_body_size", 2, "int32"),
        ProtoField("validate_message_type", 3, "bool"),
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
            ProtoField("publishing", 5, "Publishing"),
            ProtoField("subscription", 6, "Subscription"),
        ),
        ProtoField("user_agent", 7, "UA"),
        ProtoField("metric", 8, "Metric"),
        ProtoField("client_properties", 9, "map"),
    ),
    "OffsetOption": _either(
        "offset_type",
        ProtoField("policy", 1, "int32"),
        ProtoField("offset", 2, "int64"),
        ProtoField("tail_n", 3, "int64"),
        ProtoField("timestamp", 4, "int64"),
    ),
    "QueryRouteRequest": (
        ProtoField("topic", 1, "Resource"),
        ProtoField("endpoints", 2, "Endpoints"),
    ),
    "QueryRouteResponse": (_STATUS, _many("message_queues", 2, "MessageQueue")),
    "HeartbeatRequest": (
        _maybe("group", 1, "Resource"),
        ProtoField("client_type", 2, "ClientType"),
    ),
    "HeartbeatResponse": (_STATUS,),
    "SendMessageRequest": (_many("messages", 1, "Message"),),
    "SendResultEntry": (
        _STATUS,
        ProtoField("message_id", 2, "string"),
        ProtoField("transaction_id", 3, "string"),
        ProtoField("offset", 4, "int64"),
        ProtoField("recall_handle", 5, "string"),
    ),
    "SendMessageResponse": (_STATUS, _many("entries", 2, "SendResultEntry")),
    "QueryAssignmentRequest": (
        ProtoField("topic", 1, "Resource"),
        ProtoField("group", 2, "Resource"),
        ProtoField("endpoints", 3, "Endpoints"),
    ),
    "QueryAssignmentResponse": (_STATUS, _many("assignments", 2, "Assignment")),
    "ReceiveMessageRequest": (
        _GROUP,
        _QUEUE,
        ProtoField("filter_expression", 3, "FilterExpression"),
        ProtoField("batch_size", 4, "int32"),
        _maybe("invisible_duration", 5, "Duration"),
        ProtoField("auto_renew", 6, "bool"),
        _maybe("long_polling_timeout", 7, "Duration"),
        _maybe("attempt_id", 8, "string"),
    ),
    "ReceiveMessageResponse": _either(
        "content",
        _STATUS,
        ProtoField("message", 2, "Message"),
        ProtoField("delivery_timestamp", 3, "Timestamp"),
    ),
    "AckMessageEntry": (
        ProtoField("message_id", 1, "string"),
        ProtoField("receipt_handle", 2, "string"),
        _maybe("lite_topic", 3, "string"),
    ),
    "AckMessageRequest": (_GROUP, _TOPIC, _many("entries", 3, "AckMessageEntry")),
    "AckMessageResultEntry": (
        ProtoField("message_id", 1, "string"),
        ProtoField("receipt_handle", 2, "string"),
        ProtoField("status", 3, "Status"),
    ),
    "AckMessageResponse": (_STATUS, _many("entries", 2, "AckMessageResultEntry")),
    "ForwardMessageToDeadLetterQueueRequest": (
        _GROUP,
        _TOPIC,
        ProtoField("receipt_handle", 3, "string"),
        ProtoField("message_id", 4, "string"),
        ProtoField("delivery_attempt", 5, "int32"),
        ProtoField("max_delivery_attempts", 6, "int32"),
        _maybe("lite_topic", 7, "string"),
    ),
    "ForwardMessageToDeadLetterQueueResponse": (_STATUS,),
    "PullMessageRequest": (
        _GROUP,
        _QUEUE,
        ProtoField("offset", 3, "int64"),
        ProtoField("batch_size", 4, "int32"),
        ProtoField("filter_expression", 5, "FilterExpression"),
        ProtoField("long_polling_timeout", 6, "Duration"),
    ),
    "PullMessageResponse": _either(
        "content",
        _STATUS,
        ProtoField("message", 2, "Message"),
        ProtoField("next_offset", 3, "int64"),
    ),
    "UpdateOffsetRequest": (_GROUP, _QUEUE, ProtoField("offset", 3, "int64")),
    "UpdateOffsetResponse": (_STATUS,),
    "GetOffsetRequest": (_GROUP, _QUEUE),
    "GetOffsetResponse": (_STATUS, ProtoField("offset", 2, "int64")),
    "QueryOffsetRequest": (
        ProtoField("message_queue", 1, "MessageQueue"),
        ProtoField("query_offset_policy", 2, "QueryOffsetPolicy"),
        _maybe("timestamp", 3, "Timestamp"),
    ),
    "QueryOffsetResponse": (_STATUS, ProtoField("offset", 2, "int64")),
    "EndTransactionRequest": (
        ProtoField("topic", 1, "Resource"),
        ProtoField("message_id", 2, "string"),
        ProtoField("transaction_id", 3, "string"),
        ProtoField("resolution", 4, "TransactionResolution"),
        ProtoField("source", 5, "TransactionSource"),
        ProtoField("trace_context", 6, "string"),
    ),
    "EndTransactionResponse": (_STATUS,),
    "PrintThreadStackTraceCommand": (ProtoField("nonce", 1, "string"),),
    "ReconnectEndpointsCommand": (ProtoField("nonce", 1, "string"),),
    "ThreadStackTrace": (
        ProtoField("nonce", 1, "string"),
        _maybe("thread_stack_trace", 2, "string"),
    ),
    "VerifyMessageCommand": (ProtoField("nonce", 1, "string"), ProtoField("message", 2, "Message")),
    "VerifyMessageResult": (ProtoField("nonce", 1, "string"),),
    "RecoverOrphanedTransactionCommand": (
        ProtoField("message", 1, "Message"),
        ProtoField("transaction_id", 2, "string"),
    ),
    "NotifyUnsubscribeLiteCommand": (ProtoField("lite_topic", 1, "string"),),
    "TelemetryCommand": (
        _maybe("status", 1, "Status"),
        *_either(
            "command",
            ProtoField("settings", 2, "Settings"),
            ProtoField("thread_stack_trace", 3, "ThreadStackTrace"),
            ProtoField("verify_message_result", 4, "VerifyMessageResult"),
            ProtoField(
                "recover_orphaned_transaction_command", 5, "RecoverOrphanedTransactionCommand"
            ),
            ProtoField("print_thread_stack_trace_command", 6, "PrintThreadStackTraceCommand"),
            ProtoField("verify_message_command", 7, "VerifyMessageCommand"),
            ProtoField("reconnect_endpoints_command", 8, "ReconnectEndpointsCommand"),
            ProtoField("notify_unsubscribe_lite_command", 9, "NotifyUnsubscribeLiteCommand"),
        ),
    ),
    "NotifyClientTerminationRequest": (_maybe("group", 1, "Resource"),),
    "NotifyClientTerminationResponse": (_STATUS,),
    "ChangeInvisibleDurationRequest": (
        _GROUP,
        _TOPIC,
        ProtoField("receipt_handle", 3, "string"),
        ProtoField("invisible_duration", 4, "Duration"),
        ProtoField("message_id", 5, "string"),
        _maybe("lite_topic", 6, "string"),
        _maybe("suspend", 7, "bool"),
    ),
    "ChangeInvisibleDurationResponse": (_STATUS, ProtoField("receipt_handle", 2, "string")),
    "RecallMessageRequest": (
        ProtoField("topic", 1, "Resource"),
        ProtoField("recall_handle", 2, "string"),
    ),
    "RecallMessageResponse": (_STATUS, ProtoField("message_id", 2, "string")),
    "SyncLiteSubscriptionRequest": (
        ProtoField("action", 1, "LiteSubscriptionAction"),
        ProtoField("topic", 2, "Resource"),
        ProtoField("group", 3, "Resource"),
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
