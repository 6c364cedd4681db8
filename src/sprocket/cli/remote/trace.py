"""The timeline of a message: what producer, broker and consumers noted about it."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from sprocket.rocketmq.model.trace import (
    ConsumeBegan,
    ConsumeEnded,
    Produced,
    Recalled,
    TraceRecord,
    TransactionEnded,
)

if TYPE_CHECKING:
    from sprocket.rocketmq.client import ReceivedMessage

Row = Mapping[str, Any]


def timeline(
    records: Iterable[TraceRecord], message_id: str, stored: "ReceivedMessage | None"
) -> list[Row]:
    """Return what happened to a message, in the order of time.

    Args:
        records: Trace records, of other messages as well.
        message_id: Its unique key.
        stored: The message, if it is still there.

    Returns:
        For each event when it was (by the clock of whoever noted it), what, whose group, at which
        broker or client, how long it took in milliseconds, and what came of it.
    """
    own = [one for one in records if one.message_id == message_id]
    begun = {one.request_id: one for one in own if isinstance(one, ConsumeBegan)}
    rows = [_row(one, begun) for one in own]
    if stored is not None:
        queue = stored.queue
        where = f"{queue.broker_name}/{queue.topic}/{queue.queue_id}/{stored.queue_offset}"
        rows.append(_event(stored.stored_at_ms, "stored", where=where))
    return sorted(rows, key=lambda row: row["noted_at_ms"] or 0)


def _row(one: TraceRecord, begun: Mapping[str, ConsumeBegan]) -> Row:
    match one:
        case Produced():
            where, result = one.store_host, _result(is_success=one.is_success)
            return _event(one.at_ms, f"sent ({one.kind.name.lower()})", one.group, where,
                          one.cost_ms, result)  # fmt: skip
        case ConsumeBegan():
            return _event(one.at_ms, f"delivery {one.retries + 1} began", one.group)
        case ConsumeEnded():
            first = begun.get(one.request_id)
            group = one.group or ("" if first is None else first.group)
            at_ms = one.at_ms
            if not at_ms and first is not None:
                at_ms = first.at_ms + one.cost_ms
            told = _result(is_success=one.is_success)
            if one.outcome is not None and not one.is_success:
                told = one.outcome.name.lower().replace("_", " ")
            what = "delivery ended" if first is None else f"delivery {first.retries + 1} ended"
            return _event(at_ms, what, group, "", one.cost_ms, told)
        case TransactionEnded():
            what = "transaction asked about" if one.was_asked else "transaction ended"
            return _event(one.at_ms, what, one.group, one.store_host, None, one.state)
        case Recalled():
            return _event(one.at_ms, "recalled", one.group, "", None,
                          _result(is_success=one.is_success))  # fmt: skip


def _event(
    at_ms: int | None,
    what: str,
    group: str = "",
    where: str = "",
    spent_ms: int | None = None,
    result: str = "",
) -> Row:
    return {
        "noted_at_ms": at_ms,
        "event": what,
        "group": group,
        "where": where,
        "spent_ms": spent_ms,
        "result": result,
    }


def _result(*, is_success: bool) -> str:
    return "success" if is_success else "failure"
