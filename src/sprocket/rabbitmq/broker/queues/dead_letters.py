"""What becomes of a message that expires, is rejected, or is too much for its queue.

It is published again, to the dead letter exchange of its queue, and says in the header `x-death`
where it died, the newest death first. Lists are RabbitMQ's to the octet, as far as it knows the
types: fields of a table are in the order in which it writes them.

Source: `rabbit_dead_letter`; docs/formats/amqp.md.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from typing import Final, Protocol, TypeAlias

import msgspec

from sprocket.base import log
from sprocket.base.errors import StoreError, WireError
from sprocket.base.units import MIB
from sprocket.rabbitmq.broker.commits import Commits, Waiter
from sprocket.rabbitmq.broker.queues import headers as queue_headers
from sprocket.rabbitmq.broker.queues.levels import QueueEntry
from sprocket.rabbitmq.codec.amqp import properties
from sprocket.rabbitmq.model.fields import NO_FIELDS, Field, FieldKind, FieldTable, long_string
from sprocket.rabbitmq.model.message import BasicMessage
from sprocket.rabbitmq.model.names import name_bytes
from sprocket.rabbitmq.model.properties import BasicProperties
from sprocket.runtime.timers import Timers
from sprocket.runtime.turns import Turns

DEATHS: Final = "x-death"
_COPIES = "CC"
_FIRST_REASON, _FIRST_QUEUE = "x-first-death-reason", "x-first-death-queue"
_FIRST_EXCHANGE = "x-first-death-exchange"
LETTERS_MAX: Final = 1000
"""Dead letters that are passed on in one go, before others have their turn."""
HELD_BYTES_MAX: Final = 16 * MIB
"""Of bodies that may wait for room on the disk, before queues give nothing more."""
RETRY_SECONDS: Final = 1.0

_Who: TypeAlias = tuple[Field | None, Field | None]
"""Reason and queue of a death."""

_log = log.get_logger(__name__)
_limited_log = log.get_limited_logger(__name__)


class DeathReason(Enum):
    """Why a message is a dead letter; the values are RabbitMQ's words."""

    REJECTED = "rejected"
    EXPIRED = "expired"
    MAX_LENGTH = "maxlen"
    DELIVERY_LIMIT = "delivery_limit"


class DyingQueue(Protocol):
    """The queue that a dead letter comes from."""

    @property
    def label(self) -> str:
        """Its name."""

    @property
    def dead_letter_exchange(self) -> str | None:
        """Where it goes; None for nowhere."""

    @property
    def dead_letter_routing_key(self) -> str | None:
        """What it is published with instead of its own keys."""

    def is_unwritten(self, entries: Sequence[QueueEntry]) -> bool:
        """Say whether one of them waits for a write that may still refuse it."""

    def living(self, entries: Sequence[QueueEntry]) -> Sequence[QueueEntry]:
        """Return those that were not refused meanwhile."""

    def forget(self, entries: Sequence[QueueEntry]) -> None:
        """Settle what was passed on."""


class LetterBox(Protocol):
    """A queue that a dead letter may get into."""

    @property
    def label(self) -> str:
        """Its name."""

    def publish(
        self, message: BasicMessage, *, priority: int = 0, expiration_ms: int | None = None
    ) -> bool:
        """Take a message; say whether it was taken. Raises StoreError."""


Router = Callable[[str, BasicMessage], Iterable[LetterBox]]
"""Finds the queues that a message gets into which is published to an exchange; none if there is no
such exchange."""


def died(
    message: BasicMessage, origin: DyingQueue, reason: DeathReason, now_s: int, message_id: bytes
) -> BasicMessage:
    """Return what is published for a message that died.

    Properties that cannot be read are kept as they are.
    """
    exchange, key = origin.dead_letter_exchange, origin.dead_letter_routing_key
    assert exchange is not None, "it goes nowhere"
    keys = message.routing_keys if key is None else (key,)
    held = message.properties
    try:
        known = properties.decode(held) if isinstance(held, bytes) else held
    except WireError:
        _limited_log.warning("a dead letter has properties that cannot be read", queue=origin.label)
        return msgspec.structs.replace(message, id=message_id, exchange=exchange, routing_keys=keys)
    headers = NO_FIELDS if known.headers is None else known.headers
    death = [
        ("reason", long_string(reason.value)),
        ("queue", long_string(origin.label)),
        ("time", Field(FieldKind.TIMESTAMP, now_s)),
        ("exchange", long_string(message.exchange)),
        ("routing-keys", _routing_keys(message, headers)),
    ]
    if known.expiration is not None:
        death.append(("original-expiration", long_string(known.expiration)))
    headers = _with_death(headers, death)
    if key is not None:
        headers = queue_headers.without(headers, _COPIES)
    changed = msgspec.structs.replace(known, headers=headers, expiration=None)
    return msgspec.structs.replace(
        message, id=message_id, exchange=exchange, routing_keys=keys, properties=changed
    )


def is_cycle(message: BasicMessage, queue: str) -> bool:
    """Say whether a dead letter was in a queue before, and came back without anybody's doing."""
    if not isinstance(message.properties, BasicProperties) or message.properties.headers is None:
        return False
    name, rejected = name_bytes(queue), DeathReason.REJECTED.value.encode()
    for death in _deaths(message.properties.headers):
        if _bytes(death, "reason") == rejected:
            return False
        if _bytes(death, "queue") == name:
            return True
    return False


class _Letters(msgspec.Struct):
    origin: DyingQueue
    reason: DeathReason
    entries: Sequence[QueueEntry]


class DeadLetters:
    """Passes dead letters on, in the order in which they died.

    Not where they die: the queues that they get into may be full, and so on in a long chain.

    While nothing can be written they stay where they are; so do those that wait for a write, which
    may refuse them.

    Args:
        route: Finds the queues for them.
        now_ms: The wall clock.
        make_id: Gives a message an id that no other has, of 16 bytes.
        turns: Has it pass on what died, and says how much of it in one turn.
        commits: Says when something can be written again.
        timers: The event loop's.

    Threads: event loop only.
    """

    def __init__(
        self,
        route: Router,
        now_ms: Callable[[], int],
        make_id: Callable[[], bytes],
        turns: Turns,
        commits: Commits,
        timers: Timers,
    ) -> None:
        self._route = route
        self._now_ms = now_ms
        self._make_id = make_id
        self._turns = turns
        self._commits = commits
        self._timers = timers
        self._waiting: deque[_Letters] = deque()
        self._waiting_bytes = 0
        self._is_held = False
        """Whether all of it waits for a write."""
        self._is_due = self._is_stopped = False
        self._known_cycles: set[tuple[str, str]] = set()

    def add(self, origin: DyingQueue, reason: DeathReason, entries: Sequence[QueueEntry]) -> None:
        """Pass on messages that were taken from a queue, then have it forget them."""
        if not self._is_stopped:
            self._waiting.append(_Letters(origin, reason, entries))
            self._waiting_bytes += _bytes_of(entries)
            self._mark()

    @property
    def is_full(self) -> bool:
        """Whether so much waits for room on the disk that nothing more should die."""
        return self._is_held and self._waiting_bytes > HELD_BYTES_MAX

    def stop(self) -> None:
        """Pass nothing on any more: what waits stays in its queue, and dies again if that lives."""
        self._is_stopped = True
        self._waiting.clear()
        self._waiting_bytes = 0

    def turn(self) -> None:
        """Pass on what waits, some of it if that is much."""
        self._is_due = False
        left, turns = LETTERS_MAX, self._turns
        while self._waiting and left > 0 and not turns.is_over and not self._is_held:
            letters = self._waiting[0]
            if self._commits.failed_write or letters.origin.is_unwritten(letters.entries):
                self._hold()
                break
            self._waiting.popleft()
            died = letters.entries
            letters.entries = letters.origin.living(died)
            if len(letters.entries) < len(died):
                self._waiting_bytes -= _bytes_of(died) - _bytes_of(letters.entries)
            count = 0
            for entry in letters.entries[:left]:
                self._pass_on(entry.message, letters.origin, letters.reason)
                count += 1
                if turns.is_over:
                    break
            left -= count
            now, entries = letters.entries[:count], letters.entries[count:]
            self._waiting_bytes -= _bytes_of(now)
            if entries:
                self._waiting.appendleft(_Letters(letters.origin, letters.reason, entries))
            letters.origin.forget(now)
        if self._waiting:
            self._mark()

    def _hold(self) -> None:
        """Pass on nothing before something was written."""
        self._is_held = True
        if not self._is_stopped:
            self._commits.wait(Waiter(self._written))

    def _written(self, error: StoreError | None) -> None:
        if error is None:
            self._is_held = False
            self._mark()
        else:
            self._timers.call_later(RETRY_SECONDS, self._hold)

    def _mark(self) -> None:
        if not self._is_due and not self._is_held:
            self._is_due = True
            self._turns.mark(self)

    def _pass_on(self, message: BasicMessage, origin: DyingQueue, reason: DeathReason) -> None:
        if origin.dead_letter_exchange is None:
            return  # a policy has changed meanwhile
        letter = died(message, origin, reason, self._now_ms() // 1000, self._make_id())
        priority = 0
        if isinstance(letter.properties, BasicProperties):
            priority = letter.properties.priority or 0
        for queue in self._route(letter.exchange, letter):
            if reason is not DeathReason.REJECTED and is_cycle(letter, queue.label):
                self._warn(origin.label, queue.label)
                continue
            try:
                queue.publish(letter, priority=priority)
            except StoreError as error:
                _limited_log.error("a dead letter is lost", queue=queue.label, why=str(error))

    def _warn(self, source: str, target: str) -> None:
        """Say once that letters are dropped which go in a circle."""
        if (source, target) not in self._known_cycles and len(self._known_cycles) < LETTERS_MAX:
            self._known_cycles.add((source, target))
            _log.warning(
                "dead letters go in a circle and are dropped", queue=source, back_to=target
            )


def _bytes_of(entries: Sequence[QueueEntry]) -> int:
    return sum([one.body_bytes for one in entries])


def _routing_keys(message: BasicMessage, headers: FieldTable) -> Field:
    """Return the key that it was published with and those of its header `CC`."""
    keys = [long_string(key) for key in message.routing_keys[:1]]
    copies = headers.get(_COPIES)
    if copies is not None and copies.kind is FieldKind.ARRAY and isinstance(copies.value, tuple):
        keys += [one for one in copies.value if isinstance(one, Field)]
    return Field(FieldKind.ARRAY, tuple(keys))


def _with_death(headers: FieldTable, death: list[tuple[str, Field]]) -> FieldTable:
    known = headers.get(DEATHS)
    first = ("count", Field(FieldKind.LONG, 1))
    if known is None:
        values = dict(death)
        for name, of in (
            (_FIRST_REASON, "reason"),
            (_FIRST_QUEUE, "queue"),
            (_FIRST_EXCHANGE, "exchange"),
        ):
            headers = queue_headers.put(headers, name, values[of])
        return queue_headers.put(headers, DEATHS, _array([FieldTable((first, *death))]))
    if known.kind is not FieldKind.ARRAY:
        kind = known.kind.word
        _limited_log.warning("a header x-death is not an array and is replaced", kind=kind)
        return queue_headers.put(headers, DEATHS, _array([FieldTable((first, *death))]))
    values = dict(death)
    before = _grouped(_deaths(headers))
    who = values["reason"], values["queue"]
    same = before.pop(who, None)
    newest = FieldTable((first, *death)) if same is None else _counted(same, _count(same, 0) + 1)
    return queue_headers.put(
        headers, DEATHS, _array([queue_headers.in_order(newest), *before.values()])
    )


def _grouped(deaths: Sequence[FieldTable]) -> dict[_Who, FieldTable]:
    """Return the first for each reason and queue: RabbitMQ before 3.6 added one each time.

    RabbitMQ puts them together in front of one another: each time two and more are in the other
    order afterwards.
    """
    grouped: dict[_Who, list[FieldTable]] = {}
    for one in deaths:
        grouped.setdefault((one.get("reason"), one.get("queue")), []).append(one)
    found: dict[_Who, FieldTable] = {}
    for who, same in reversed(grouped.items()):
        first = same[0]
        if len(deaths) > 1 and first.get("count") is None:
            count = Field(FieldKind.LONG, len(same))
            first = FieldTable((("count", count), *first.entries))
        found[who] = first
    return found


def _counted(death: FieldTable, count: int) -> FieldTable:
    return queue_headers.put(death, "count", Field(FieldKind.LONG, count))


def _count(death: FieldTable, default: int) -> int:
    found = death.get("count")
    return found.value if found is not None and isinstance(found.value, int) else default


def _deaths(headers: FieldTable) -> list[FieldTable]:
    known = headers.get(DEATHS)
    if known is None or not isinstance(known.value, tuple):
        return []
    return [
        one.value
        for one in known.value
        if isinstance(one, Field) and isinstance(one.value, FieldTable)
    ]


def _bytes(death: FieldTable, name: str) -> bytes:
    found = death.get(name)
    return found.value if found is not None and isinstance(found.value, bytes) else b""


def _array(tables: list[FieldTable]) -> Field:
    return Field(FieldKind.ARRAY, tuple(Field(FieldKind.TABLE, one) for one in tables))
