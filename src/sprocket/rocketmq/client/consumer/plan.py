"""What the user of a consumer wants: the arguments of `PushConsumer` and `LitePullConsumer`."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Literal, TypeAlias

from msgspec import Struct

from sprocket.base.errors import InvalidMessage
from sprocket.rocketmq.client.consumer.rebalance import Strategy, averagely
from sprocket.rocketmq.client.network import ClientOptions
from sprocket.rocketmq.client.received import ReceivedMessage
from sprocket.rocketmq.client.settings import ConsumerSettings
from sprocket.rocketmq.model.group import (
    BROADCASTING,
    CLUSTERING,
    CONSUME_ACTIVELY,
    CONSUME_PASSIVELY,
)
from sprocket.rocketmq.model.route import MessageQueue

Start: TypeAlias = Literal["first", "last"] | datetime | int
"""Where a group begins that has committed nothing: at the oldest message, after the newest, or at
the first message stored at or after a time (a datetime, or milliseconds since 1970)."""

Listener = Callable[[list[ReceivedMessage]], Awaitable[None] | None]
"""What a user gives: plain or `async`. Returning means done; raising anything at all, also
`SystemExit` or a cancellation that nobody asked for, means deliver again."""

OnRebalance = Callable[[Sequence[MessageQueue]], None]
"""Called with the queues that a consumer reads from now on, whenever they have changed."""

_RETRIES_MAX = 16
"""How often a concurrent consumer's message is delivered again unless the settings say another."""


class ConsumerOptions(ClientOptions, total=False):
    """Arguments that every consumer of a group takes; `PushConsumer` says what they mean."""

    start: Start
    strategy: Strategy
    on_rebalance: OnRebalance | None
    settings: ConsumerSettings | None


class PushOptions(ConsumerOptions, total=False):
    """And those of a consumer to which messages are handed."""

    orderly: bool
    broadcast: bool


class ConsumerPlan(Struct, frozen=True, kw_only=True):
    """What is wanted of one consumer, and what follows from it for its parts."""

    group: str
    start: Start = "last"
    strategy: Strategy = averagely
    on_rebalance: OnRebalance | None = None
    settings: ConsumerSettings = ConsumerSettings()
    listener: Listener | None = None
    """Without one, messages wait to be polled."""
    is_loop: bool = False
    """Whether the listener only hands messages to a loop of the user's."""
    is_orderly: bool = False
    is_broadcast: bool = False
    is_auto_commit: bool = True
    """Whether what was polled is committed by itself."""

    def check(self) -> None:
        """Check what the user gave. Raises InvalidMessage if `start` may not be that."""
        if isinstance(self.start, str) and self.start not in ("first", "last"):
            raise InvalidMessage(
                f"start {self.start!r}: expected 'first', 'last', a datetime or milliseconds"
            )

    @property
    def is_polled(self) -> bool:
        """Whether messages wait to be polled, and the user says how far the group is."""
        return self.listener is None

    @property
    def needs_locks(self) -> bool:
        """Whether it keeps others of its group from its queues."""
        return self.is_orderly and not self.is_broadcast

    @property
    def message_model(self) -> str:
        """What brokers call it."""
        return BROADCASTING if self.is_broadcast else CLUSTERING

    @property
    def consume_type(self) -> str:
        """What brokers call it."""
        return CONSUME_ACTIVELY if self.is_polled else CONSUME_PASSIVELY

    @property
    def call_messages_max(self) -> int:
        """Most messages in one call of the listener; a loop takes them one by one."""
        return 1 if self.is_loop else self.settings.batch_messages_max

    @property
    def retries_max(self) -> int:
        """How often the broker is to deliver a message again."""
        found = self.settings.retries_max
        return _RETRIES_MAX if found is None else found
