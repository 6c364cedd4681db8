"""The arguments of a queue and the policies that are in force for it, put together.

Source: `rabbit_amqqueue_process:process_args_policy`, `rabbit_queue_type_util:args_policy_lookup`.
"""

from collections.abc import Mapping

from sprocket.rabbitmq.model.declared_queue import QUORUM, DeclaredQueue
from sprocket.rabbitmq.model.queue_options import Overflow, QueueOptions

_NO_OPTIONS = QueueOptions()
"""Of most queues, which share it."""


def queue_options(queue: DeclaredQueue, definition: Mapping[str, object]) -> QueueOptions:
    """Return what is in force for a queue whose arguments were checked.

    Args:
        queue: Which.
        definition: Of its policies, see `InForce`.
    """
    if not (queue.arguments or definition):
        return _NO_OPTIONS
    dead_letter_exchange = _given(queue, definition, "dead-letter-exchange")
    return QueueOptions(
        message_ttl_ms=_smaller(queue, definition, "message-ttl"),
        expires_ms=_smaller(queue, definition, "expires"),
        max_length=_smaller(queue, definition, "max-length"),
        max_length_bytes=_smaller(queue, definition, "max-length-bytes"),
        overflow=Overflow(_given(queue, definition, "overflow") or Overflow.DROP_HEAD),
        dead_letter_exchange=dead_letter_exchange,
        dead_letter_routing_key=None
        if dead_letter_exchange is None
        else _given(queue, definition, "dead-letter-routing-key"),
        max_priority=_integer(_argument(queue, "max-priority")),
        is_single_active=_argument(queue, "single-active-consumer") is True,
        counts_deliveries=queue.type == QUORUM,
        keeps_transient=queue.type == QUORUM,
        delivery_limit=_smaller(queue, definition, "delivery-limit")
        if queue.type == QUORUM
        else None,
    )


def _argument(queue: DeclaredQueue, name: str) -> object:
    found = queue.arguments.get(f"x-{name}")
    if found is None:
        return None
    if isinstance(found.value, bytes):
        return found.value.decode("utf-8", "surrogateescape")
    return found.value


def _smaller(queue: DeclaredQueue, definition: Mapping[str, object], name: str) -> int | None:
    """Return the smaller one of argument and policy."""
    values = (_integer(_argument(queue, name)), _integer(definition.get(name)))
    return min((value for value in values if value is not None), default=None)


def _given(queue: DeclaredQueue, definition: Mapping[str, object], name: str) -> str | None:
    """Return the argument; that of the policy if there is none."""
    argument = _argument(queue, name)
    found = definition.get(name) if argument is None else argument
    return found if isinstance(found, str) else None


def _integer(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
