"""Messages that ask for a time: how it is found in them, and where they wait for it.

One is stored in queue 0 of the wheel topic; `REAL_TOPIC` and `REAL_QID` say where it is to go, and
`TIMER_OUT_MS` when, to the millisecond. RocketMQ rounds that down to its precision.

Source: RocketMQ `HookUtils.transformTimerMessage`, `TimerMessageStore.isReject`.
"""

import random
from collections.abc import Callable, Mapping

from sprocket.base.clock import NEAR_MS, Clock, LogClock
from sprocket.base.errors import StoreError
from sprocket.rocketmq.codec.record import properties
from sprocket.rocketmq.errors import Refusal, Refused
from sprocket.rocketmq.model.internal import TIMER_TOPIC
from sprocket.rocketmq.settings import TimerSettings
from sprocket.rocketmq.store.log import check_queue

TIMER_NAMES = (
    properties.TIMER_DELAY_SEC,
    properties.TIMER_DELAY_MS,
    properties.TIMER_DELIVER_MS,
)
"""What asks for a time; the first that is there counts."""

_UNBOUNDED = 2**31 - 1
"""RocketMQ's default for the most messages of a slot, which nobody reaches."""


class TimerRequests:
    """Has messages wait that ask for a time.

    Args:
        clock: Wall time, in which producers say when.
        log_clock: The store's, in which that is noted.
        settings: How far ahead one may ask, and how much there may be.
        expect: Told that a message comes into the wheel topic.
        waiting_count: Says how many messages wait in the slot of a time.
    """

    def __init__(
        self,
        clock: Clock,
        log_clock: LogClock,
        settings: TimerSettings,
        expect: Callable[[], None],
        waiting_count: Callable[[int], int],
    ) -> None:
        self._clock = clock
        self._log_clock = log_clock
        self._settings = settings
        self._expect = expect
        self._waiting_count = waiting_count

    def wait_ms(self, found: Mapping[str, str]) -> int | None:
        """Return how long a message is to wait, 0 or less if it is due, None without a time.

        Raises:
            Refused: The time cannot be read; or timed messages are not taken.
        """
        name = next((one for one in TIMER_NAMES if one in found), None)
        if name is None or properties.TIMER_OUT_MS in found:
            return None
        if not self._settings.enabled:
            raise Refused(
                Refusal.OTHER,
                "accurate timer message is not enabled, timerWheelEnable is false (timers.enabled)",
            )
        try:
            number = int(found[name])
        except ValueError as error:
            text = f"property {name} is not a number: {found[name][:64]!r}"
            raise Refused(Refusal.ILLEGAL_MESSAGE, text) from error
        if name == properties.TIMER_DELIVER_MS:
            wall_ms, now_ms = self._clock.now_ms(), self._log_clock.now_ms()
            return number - (now_ms if abs(wall_ms - now_ms) <= NEAR_MS else wall_ms)
        return number * 1000 if name == properties.TIMER_DELAY_SEC else number

    def divert(self, topic: str, queue_id: int, found: dict[str, str]) -> tuple[str, int]:
        """Return topic and queue of a message: where it waits, if it asks for that.

        Args:
            topic: Where the message wants to go.
            queue_id: Its queue there.
            found: The message's properties, which are changed.

        Raises:
            Refused: It cannot wait so long, or no message can ever be where it wants to go.
        """
        wait_ms = None if topic == TIMER_TOPIC else self.wait_ms(found)
        if wait_ms is None:
            return topic, queue_id
        taken_back = found.get(properties.TIMER_DEL_UNIQKEY, f"{topic}+")
        if taken_back.partition("+")[0] != topic:
            # Whoever may send to one topic need not be one who may send to the other.
            raise Refused(
                Refusal.ILLEGAL_MESSAGE,
                f"a message of topic {topic} takes back none of another: {taken_back[:200]!r}",
            )
        longest_ms = self._settings.max_delay_seconds * 1000
        is_past_delete = wait_ms <= 0 and properties.TIMER_DEL_UNIQKEY in found
        if wait_ms > longest_ms or is_past_delete:
            raise Refused(
                Refusal.ILLEGAL_MESSAGE,
                "timer message illegal, the delay time should not be bigger than the max delay "
                f"{longest_ms}ms; or if set del msg, the delay time should be bigger than the "
                "current time",
            )
        if wait_ms <= 0:
            return topic, queue_id
        due_at_ms = self._log_clock.now_ms() + wait_ms
        if properties.TIMER_DEL_UNIQKEY not in found:
            self._refuse_congested(due_at_ms)
        return self.divert_until(due_at_ms, topic, queue_id, found)

    def divert_until(
        self, due_at_ms: int, topic: str, queue_id: int, found: dict[str, str]
    ) -> tuple[str, int]:
        """Return topic and queue where a message waits for a time of the log's clock.

        Arguments and errors as for `divert`.
        """
        try:
            check_queue(topic, queue_id)
        except StoreError as error:
            raise Refused(Refusal.ILLEGAL_MESSAGE, str(error)) from error
        found[properties.TIMER_OUT_MS] = str(due_at_ms)
        found[properties.REAL_TOPIC] = topic
        found[properties.REAL_QID] = str(queue_id)
        self._expect()
        return TIMER_TOPIC, 0

    def _refuse_congested(self, due_at_ms: int) -> None:
        """Refuse what comes into a slot that has too many: more of it, the more there are.

        RocketMQ refuses the less the more there are; and also what would take one of them back.
        """
        limit = self._settings.slot_messages_max
        if limit >= _UNBOUNDED:
            return
        over = self._waiting_count(due_at_ms) - limit
        if over > 0 and random.random() * limit < over:  # noqa: S311 - not a secret
            raise Refused(
                Refusal.OTHER,
                f"timer message is under flow control, max num limit is {limit} or the current "
                f"value is greater than {limit} and less than {2 * limit}, trigger random flow "
                "control",
            )
