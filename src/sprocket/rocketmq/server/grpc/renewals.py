"""Receipts of consumers that leave it to the broker that nobody else gets their messages.

Such a message is invisible for a minute; before that is over it is made so for longer, as long as
its consumer is there. Its consumer goes on naming it by the handle that it came with.

    received ── due within 10 s ── made invisible for longer ── … ── acknowledged
                                    ↘ its consumer has gone, or it took three hours ── comes again

Source: RocketMQ `DefaultReceiptHandleManager`, `RenewStrategyPolicy`.
"""

from collections.abc import Callable
from typing import Final

from sprocket.base import log
from sprocket.base.errors import SprocketError
from sprocket.rocketmq.broker.groups import Groups
from sprocket.rocketmq.codec.grpc import client_settings
from sprocket.rocketmq.codec.grpc.receipt_handle import Receipt
from sprocket.rocketmq.server.grpc.popped import PoppedMessages
from sprocket.rocketmq.server.grpc.sessions import Going

FIRST_MS: Final = 60_000
"""For how long such a message is invisible at first."""
STEPS_MS: Final = (60_000, 180_000, 300_000, 600_000, 1_800_000, 3_600_000)
"""For how long after each renewal; the last again and again."""
AHEAD_MS: Final = 10_000
"""So long before its time is over it is renewed."""
SWEEP_SECONDS: Final = 5.0
AGE_MS_MAX: Final = 3 * 3_600_000
FAILURES_MAX: Final = 3
LEFT_MS: Final = 1_000
"""How soon the messages of a consumer come again that has gone."""
CLIENT_RECEIPTS_MAX: Final = 10_000
"""Of one consumer; SDKs keep some thousand messages at most. Further ones are not renewed."""

_log = log.get_limited_logger(__name__)


class _Renewed:
    """A message that is kept invisible."""

    __slots__ = ("failures", "group", "receipt", "since_ms", "times", "topic")

    def __init__(self, receipt: Receipt, topic: str, group: str) -> None:
        self.receipt = receipt
        self.topic = topic
        self.group = group
        self.since_ms = receipt.handle.popped_at_ms
        self.times = self.failures = 0


class Renewals:
    """Messages that are kept invisible, by their consumer and the handle that it knows.

    Args:
        popped: Has them come later.
        groups: Have settings, by which a message comes again.
        now_ms: The log's time.

    Threads: event loop only.
    """

    def __init__(
        self,
        popped: PoppedMessages,
        groups: Groups,
        now_ms: Callable[[], int],
    ) -> None:
        self._popped = popped
        self._groups = groups
        self._now_ms = now_ms
        self._by_client: dict[str, dict[str, _Renewed]] = {}

    @property
    def count(self) -> int:
        """How many there are."""
        return sum(map(len, self._by_client.values()))

    def add(self, client_id: str, text: str, receipt: Receipt, topic: str, group: str) -> None:
        """Keep a message invisible that a consumer has just got, which names it by `text`."""
        kept = self._by_client.setdefault(client_id, {})
        if len(kept) < CLIENT_RECEIPTS_MAX:
            kept[text] = _Renewed(receipt, topic, group)

    def take(self, client_id: str, text: str) -> Receipt | None:
        """Return the receipt that a handle stands for now, None if unknown; renew it no more."""
        kept = self._by_client.get(client_id)
        found = None if kept is None else kept.pop(text, None)
        if kept is not None and not kept:
            del self._by_client[client_id]
        return None if found is None else found.receipt

    def left(self, going: Going) -> None:
        """Have the messages of a consumer come again soon that has gone."""
        for one in self._by_client.pop(going.client_id, {}).values():
            try:
                self._popped.change(one.receipt, one.topic, one.group, LEFT_MS)
            except SprocketError as error:
                _log.info("a message comes when it was to", topic=one.topic, why=str(error))

    def sweep(self) -> None:
        """Renew what is due; every five seconds."""
        now_ms = self._now_ms()
        for client_id, kept in [*self._by_client.items()]:
            for text, one in [*kept.items()]:
                if one.receipt.handle.due_at_ms - now_ms < AHEAD_MS and not self._renew(
                    one, now_ms
                ):
                    del kept[text]
            if not kept:
                del self._by_client[client_id]

    def _renew(self, one: _Renewed, now_ms: int) -> bool:
        """Make a message invisible for longer; tell whether that is to be done again."""
        is_last = now_ms - one.since_ms > AGE_MS_MAX
        wait_ms = STEPS_MS[min(one.times, len(STEPS_MS) - 1)]
        if is_last:
            wait_ms = client_settings.retry_ms(self._groups.settings_of(one.group), 1)
        try:
            self._popped.check_fresh(one.receipt)
            one.receipt = self._popped.change(one.receipt, one.topic, one.group, wait_ms)
        except SprocketError as error:
            one.failures += 1
            _log.warning("a message cannot be renewed", topic=one.topic, why=str(error))
            return one.failures < FAILURES_MAX and not is_last
        one.times += 1
        one.failures = 0
        return not is_last
