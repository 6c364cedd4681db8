"""The body of a trace message: one record after the other, fields ended by 0x01, records by 0x02.

A record's first field says what it is; the others have their places. Older and newer clients leave
some out at the end, or add some. What cannot be read is left out: a trace must not keep anybody
from reading the others.

Source: RocketMQ `TraceDataEncoder`. See `docs/formats/trace.md`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from sprocket.rocketmq.model.trace import (
    ConsumeBegan,
    ConsumeEnded,
    ConsumeOutcome,
    MessageKind,
    Produced,
    Recalled,
    TraceRecord,
    TransactionEnded,
)

_FIELD_END = "\x01"
_RECORD_END = "\x02"
_NOTHING = "null"
"""What Java writes of a text that is not there."""


def encode(records: Iterable[TraceRecord]) -> bytes:
    """Return the body of a trace message, as the Java client 5.3.3 writes it."""
    return "".join([f"{_encoded(one)}{_RECORD_END}" for one in records]).encode()


def decode(body: bytes) -> list[TraceRecord]:
    """Return the records of a trace message's body, those that can be read."""
    found: list[TraceRecord] = []
    for text in body.decode("utf-8", "replace").split(_RECORD_END):
        name, *fields = text.split(_FIELD_END)
        read = _READERS.get(name)
        if read is not None:
            try:
                found.append(read(["" if one == _NOTHING else one for one in fields]))
            except (ValueError, IndexError):
                continue
    return found


def _encoded(one: TraceRecord) -> str:
    match one:
        case Produced():
            fields: list[object] = [
                *("Pub", one.at_ms, one.region, one.group, one.topic, one.message_id, one.tags),
                *(one.keys, one.store_host, one.body_bytes, one.cost_ms, one.kind.value),
                *(one.offset_message_id, one.is_success),
            ]
        case ConsumeBegan():
            fields = [
                *("SubBefore", one.at_ms, one.region, one.group, one.request_id, one.message_id),
                *(one.retries, one.keys),
            ]
        case ConsumeEnded():
            outcome = ConsumeOutcome.SUCCESS if one.outcome is None else one.outcome
            fields = [
                *("SubAfter", one.request_id, one.message_id, one.cost_ms, one.is_success),
                *(one.keys, outcome.value, one.at_ms or 0, one.group),
            ]
        case TransactionEnded():
            fields = [
                *("EndTransaction", one.at_ms, one.region, one.group, one.topic, one.message_id),
                *(one.tags, one.keys, one.store_host, one.kind.value, one.transaction_id),
                *(one.state, one.was_asked),
            ]
        case Recalled():
            fields = [
                *("Recall", one.at_ms, one.region, one.group, one.topic, one.message_id),
                one.is_success,
            ]
    return _FIELD_END.join(map(_text, fields))


def _text(value: object) -> str:
    """Return a field; what would end it, or its record, is left out of it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value).replace(_FIELD_END, "").replace(_RECORD_END, "")


def _produced(said: Sequence[str]) -> Produced:
    # Without the offset id before 4.5; with the client's host behind since 5.0.
    has_offset_id = len(said) > 12
    return Produced(
        at_ms=int(said[0]),
        region=said[1],
        group=said[2],
        topic=said[3],
        message_id=said[4],
        tags=said[5],
        keys=said[6],
        store_host=said[7],
        body_bytes=int(said[8]),
        cost_ms=int(said[9]),
        kind=MessageKind(int(said[10])),
        offset_message_id=said[11] if has_offset_id else "",
        is_success=_boolean(said[12 if has_offset_id else 11]),
        client_host=said[13] if len(said) > 13 else "",
    )


def _began(said: Sequence[str]) -> ConsumeBegan:
    return ConsumeBegan(
        at_ms=int(said[0]),
        region=said[1],
        group=said[2],
        request_id=said[3],
        message_id=said[4],
        retries=int(said[5]),
        keys=said[6],
    )


def _ended(said: Sequence[str]) -> ConsumeEnded:
    return ConsumeEnded(
        request_id=said[0],
        message_id=said[1],
        cost_ms=int(said[2]),
        is_success=_boolean(said[3]),
        keys=said[4],
        outcome=ConsumeOutcome(int(said[5])) if len(said) > 5 else None,
        at_ms=int(said[6]) if len(said) > 7 else None,
        group=said[7] if len(said) > 7 else "",
    )


def _transaction(said: Sequence[str]) -> TransactionEnded:
    return TransactionEnded(
        at_ms=int(said[0]),
        region=said[1],
        group=said[2],
        topic=said[3],
        message_id=said[4],
        tags=said[5],
        keys=said[6],
        store_host=said[7],
        kind=MessageKind(int(said[8])),
        transaction_id=said[9],
        state=said[10],
        was_asked=_boolean(said[11]),
    )


def _recalled(said: Sequence[str]) -> Recalled:
    return Recalled(
        at_ms=int(said[0]),
        region=said[1],
        group=said[2],
        topic=said[3],
        message_id=said[4],
        is_success=_boolean(said[5]),
    )


def _boolean(text: str) -> bool:
    return text.lower() == "true"


_READERS: Mapping[str, Callable[[Sequence[str]], TraceRecord]] = {
    "Pub": _produced,
    "SubBefore": _began,
    "SubAfter": _ended,
    "EndTransaction": _transaction,
    "Recall": _recalled,
}
