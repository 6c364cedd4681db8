"""The arguments of queues, exchanges and consumers: which there are, and what they may be.

Source: `rabbit_amqqueue:check_declare_arguments`, `check_consume_arguments`, the capabilities of
`rabbit_classic_queue` and `rabbit_quorum_queue`.
"""

from collections.abc import Callable, Mapping
from typing import Final

from sprocket.rabbitmq.broker.refusals import precondition_failed
from sprocket.rabbitmq.model.declared_queue import (
    CLASSIC,
    QUEUE_TYPE,
    QUORUM,
    DeclaredQueue,
)
from sprocket.rabbitmq.model.exchange import text_of
from sprocket.rabbitmq.model.fields import INTEGERS, Field, FieldKind, FieldTable
from sprocket.rabbitmq.model.resource import Resource

EXPIRY_MS_MAX: Final = 315_360_000_000
"""Ten years: the longest that queues and messages may be told to live."""
PRIORITY_MAX: Final = 255

DEAD_LETTER_EXCHANGE: Final = "x-dead-letter-exchange"
DEAD_LETTER_ROUTING_KEY: Final = "x-dead-letter-routing-key"

Check = Callable[[Field, FieldTable], str | None]
"""Says what is wrong with an argument, as Erlang prints it; None if nothing is. It is given all of
them, too."""


def check_declaration(queue: Resource, arguments: FieldTable) -> None:
    """Refuse arguments with which no queue can be declared.

    Raises:
        RequestRefused: PRECONDITION_FAILED, about the first that is wrong in RabbitMQ's order.
    """
    _check_values(queue, arguments, {QUEUE_TYPE: _queue_type})
    kind = text_of(arguments.get(QUEUE_TYPE)) or CLASSIC
    known = ARGUMENTS[kind]
    _check_values(queue, arguments, {n: check for n, check in _CHECKS.items() if n in known})
    _check_names(queue, kind, arguments, _ALL_ARGUMENTS - known.keys())


def check_quorum(queue: DeclaredQueue) -> None:
    """Refuse what a quorum queue cannot be, so that frameworks see what they are used to.

    Raises:
        RequestRefused: PRECONDITION_FAILED.
    """
    if queue.type != QUORUM:
        return
    for is_so, word in (
        (queue.is_auto_delete, "auto-delete"),
        (queue.owner is not None, "exclusive-owner"),
        (not queue.is_durable, "non-durable"),
    ):
        if is_so:
            raise precondition_failed(f"invalid property '{word}' for {queue.resource.text}")


def check_consumption(queue: DeclaredQueue, arguments: FieldTable) -> None:
    """Refuse arguments with which a queue cannot be consumed from.

    Raises:
        RequestRefused: PRECONDITION_FAILED.
    """
    known = _CONSUMER_ARGUMENTS[queue.type]
    _check_values(
        queue.resource, arguments, {n: check for n, check in _CONSUMER_CHECKS.items() if n in known}
    )
    _check_names(queue.resource, queue.type, arguments, _ALL_CONSUMER_ARGUMENTS - known)


def exchange_named(resource: Resource, arguments: FieldTable, name: str) -> str | None:
    """Return the exchange that an argument of a queue or an exchange names; None without it.

    Raises:
        RequestRefused: PRECONDITION_FAILED; it is not a string.
    """
    found = arguments.get(name)
    if found is not None and found.kind is not FieldKind.LONG_STRING:
        raise precondition_failed(
            f"invalid type '{found.kind.word}' for arg '{name}' in {resource.text}"
        )
    return text_of(found)


def _check_values(resource: Resource, arguments: FieldTable, checks: Mapping[str, Check]) -> None:
    for name, check in checks.items():
        found = arguments.get(name)
        wrong = None if found is None else check(found, arguments)
        if wrong is not None:
            raise precondition_failed(f"invalid arg '{name}' for {resource.text}: {wrong}")


def _check_names(
    resource: Resource, kind: str, arguments: FieldTable, foreign: frozenset[str]
) -> None:
    for name, _ in arguments:
        if name in foreign:
            raise precondition_failed(
                f"invalid arg '{name}' for {resource.text} of queue type rabbit_{kind}_queue"
            )


def _number(field: Field, least: int = 0, most: int | None = None) -> str | None:
    """Check an integer; without a largest value there is no limit."""
    if field.kind not in INTEGERS or not isinstance(field.value, int):
        return f'"expected integer, got {field.kind.word}"'
    value = field.value
    if least == 1 and value == 0:
        return "{value_zero,0}"
    if value < 0:
        return f"{{value_negative,{value}}}"
    if most is not None and value > most:
        return f"{{value_too_large,{value}}}"
    return None


def _expires(field: Field, _: FieldTable) -> str | None:
    return _number(field, 1, EXPIRY_MS_MAX)


def _message_ttl(field: Field, _: FieldTable) -> str | None:
    return _number(field, 0, EXPIRY_MS_MAX)


def _count(field: Field, _: FieldTable) -> str | None:
    return _number(field)


def _size_from_one(field: Field, _: FieldTable) -> str | None:
    return _number(field, 1)


def _priority(field: Field, _: FieldTable) -> str | None:
    wrong = _number(field)
    if wrong is None and isinstance(field.value, int) and field.value > PRIORITY_MAX:
        return f"{{max_value_exceeded,{field.value}}}"
    return wrong


def _version(field: Field, _: FieldTable) -> str | None:
    wrong = _number(field)
    if wrong is None and isinstance(field.value, int) and field.value not in (1, 2):
        return f"\"unsupported queue version '{field.value}'\""
    return wrong


def _any_integer(field: Field, _: FieldTable) -> str | None:
    return None if field.kind in INTEGERS else f'"expected integer, got {field.kind.word}"'


def _of_kind(kind: FieldKind) -> Check:
    def check(field: Field, _: FieldTable) -> str | None:
        return None if field.kind is kind else f"{{unacceptable_type,{field.kind.word}}}"

    return check


def _dead_letter_key(field: Field, arguments: FieldTable) -> str | None:
    wrong = _string(field, arguments)
    if wrong is None and arguments.get(DEAD_LETTER_EXCHANGE) is None:
        return "routing_key_but_no_dlx_defined"
    return wrong


def _one_of(values: tuple[str, ...], wrong: Callable[[str], str]) -> Check:
    def check(field: Field, arguments: FieldTable) -> str | None:
        not_string = _string(field, arguments)
        if not_string is not None:
            return not_string
        text = text_of(field) or ""
        return None if text in values else wrong(text)

    return check


_string = _of_kind(FieldKind.LONG_STRING)
_bool = _of_kind(FieldKind.BOOL)

_queue_type = _one_of(
    (CLASSIC, QUORUM),  # not `stream`: it is refused as one that nobody knows
    lambda text: f"\"unsupported queue type '{text}'\"",
)

_CHECKS: dict[str, Check] = {
    "x-expires": _expires,
    "x-message-ttl": _message_ttl,
    DEAD_LETTER_EXCHANGE: _string,
    DEAD_LETTER_ROUTING_KEY: _dead_letter_key,
    "x-dead-letter-strategy": _one_of(
        ("at-most-once", "at-least-once"), lambda _: "invalid_dlx_strategy"
    ),
    "x-max-length": _count,
    "x-max-length-bytes": _count,
    "x-max-in-memory-length": _count,
    "x-max-in-memory-bytes": _count,
    "x-max-priority": _priority,
    "x-overflow": _one_of(
        ("drop-head", "reject-publish", "reject-publish-dlx"), lambda _: "invalid_overflow"
    ),
    "x-queue-mode": _one_of(
        ("default", "lazy"), lambda text: f"\"unsupported queue mode '{text}'\""
    ),
    "x-queue-version": _version,
    "x-single-active-consumer": _bool,
    QUEUE_TYPE: _queue_type,
    "x-quorum-initial-group-size": _size_from_one,
    "x-queue-leader-locator": _one_of(
        ("client-local", "balanced", "random", "least-leaders"),
        lambda _: "invalid_queue_locator_arg",
    ),
}
"""By name, in the order in which they are looked at."""

ARGUMENTS: Final[Mapping[str, Mapping[str, None]]] = {
    CLASSIC: dict.fromkeys(
        (
            "x-expires",
            "x-message-ttl",
            DEAD_LETTER_EXCHANGE,
            DEAD_LETTER_ROUTING_KEY,
            "x-max-length",
            "x-max-length-bytes",
            "x-max-priority",
            "x-overflow",
            "x-queue-mode",
            "x-queue-version",
            "x-single-active-consumer",
            QUEUE_TYPE,
            "x-queue-master-locator",
        )
    ),
    QUORUM: dict.fromkeys(
        (
            DEAD_LETTER_EXCHANGE,
            DEAD_LETTER_ROUTING_KEY,
            "x-dead-letter-strategy",
            "x-expires",
            "x-max-length",
            "x-max-length-bytes",
            "x-max-in-memory-length",
            "x-max-in-memory-bytes",
            "x-overflow",
            "x-single-active-consumer",
            QUEUE_TYPE,
            "x-quorum-initial-group-size",
            "x-delivery-limit",
            "x-message-ttl",
            "x-queue-leader-locator",
        )
    ),
}
"""What each type of queue has a use for, in the order in which a second declaration is compared."""

_ALL_ARGUMENTS = frozenset().union(*ARGUMENTS.values()) | {
    # of streams
    "x-max-age",
    "x-stream-max-segment-size-bytes",
    "x-initial-cluster-size",
}

_CONSUMER_CHECKS: dict[str, Check] = {
    "x-priority": _any_integer,
    "x-cancel-on-ha-failover": _bool,
}
_CONSUMER_ARGUMENTS = {
    CLASSIC: frozenset({"x-cancel-on-ha-failover", "x-priority", "x-credit"}),
    QUORUM: frozenset({"x-priority", "x-credit"}),
}
_ALL_CONSUMER_ARGUMENTS = frozenset().union(*_CONSUMER_ARGUMENTS.values()) | {"x-stream-offset"}
