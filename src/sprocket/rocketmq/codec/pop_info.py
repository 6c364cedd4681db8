"""The texts in which requests and answers name popped messages.

A handle is eight fields with a blank between them, or seven for a whole pop:

    start popped_at_ms invisible_ms revive_queue topic broker queue [offset]

An answer to a pop has two texts, or three if the messages are consumed in order, of items with a
semicolon between them:

    where pops start          topic queue start
    which messages they have  topic queue offset,offset,…
    how often these came      topic qo<queue>%<offset> count, of those that came before
                              topic queue count, the least of all messages of the queue

Source: RocketMQ `ExtraInfoUtil`.
"""

from collections.abc import Iterable, Mapping, Sequence

from sprocket.base.errors import WireError
from sprocket.rocketmq.model.pop import PopHandle, PopTopic

_FIELDS = 7
_DIGITS_MAX = 19
_TOPICS = {kind.value: kind for kind in PopTopic}


def handle_text(handle: PopHandle) -> str:
    """Return a handle as clients hold it."""
    fields: list[object] = [
        *(handle.start, handle.popped_at_ms, handle.invisible_ms, handle.revive_queue),
        *(handle.topic.value, handle.broker, handle.queue_id),
    ]
    if handle.queue_offset is not None:
        fields.append(handle.queue_offset)
    return " ".join(map(str, fields))


def read_handle(text: str) -> PopHandle:
    """Return the handle that a text is.

    Raises:
        WireError: It is none.
    """
    fields = text.split(" ")
    if len(fields) not in (_FIELDS, _FIELDS + 1):
        raise WireError(f"a handle has {len(fields)} fields, expected 7 or 8: {text[:200]!r}")
    broker = fields.pop(5)
    digits, sizes = "".join(fields), [len(field) for field in fields]
    is_right = min(sizes) > 0 and max(sizes) <= _DIGITS_MAX
    if not (is_right and digits.isascii() and digits.isdecimal()):
        raise WireError(f"a handle has a field that is not a number: {text[:200]!r}")
    start, popped_at_ms, invisible_ms, revive_queue, topic, queue_id, *offset = map(int, fields)
    kind = _TOPICS.get(topic)
    if kind is None:
        raise WireError(f"a handle is of topic {topic}, expected 0, 1 or 2: {text[:200]!r}")
    return PopHandle(
        start,
        popped_at_ms,
        invisible_ms,
        revive_queue,
        kind,
        broker,
        queue_id,
        offset[0] if offset else None,
    )


def starts_text(pops: Iterable[tuple[PopTopic, int, int]]) -> str:
    """Return where pops start: of each its topic, queue and start."""
    return ";".join([f"{topic.value} {queue} {start}" for topic, queue, start in pops])


def offsets_text(pops: Iterable[tuple[PopTopic, int, Sequence[int]]]) -> str:
    """Return which messages pops have: of each its topic, queue and offsets."""
    return ";".join(
        [f"{topic.value} {queue} {','.join(map(str, got))}" for topic, queue, got in pops]
    )


def counts_text(pops: Iterable[tuple[PopTopic, int, Sequence[int], Mapping[int, int]]]) -> str:
    """Return how often messages came before.

    Args:
        pops: Of each its topic, queue and offsets, and by offset how often those came that did.
    """
    items: list[str] = []
    for topic, queue, offsets, counts in pops:
        items += [
            f"{topic.value} qo{queue}%{offset} {counts[offset]}"
            for offset in offsets
            if offset in counts
        ]
        least = min((counts.get(offset, 0) for offset in offsets), default=0)
        items.append(f"{topic.value} {queue} {least}")
    return ";".join(items)
