"""Messages that take others back, which wait for their time.

One waits in the slot of the wheel that the other is in, and names it (`TIMER_DEL_UNIQKEY`: its
topic and unique key with a `+` between). Whether the other one is there shows when its time comes.

Source: RocketMQ `RecallMessageProcessor`.
"""

from collections.abc import Callable

from sprocket.base.clock import LogClock
from sprocket.base.errors import WireError
from sprocket.rocketmq.broker.messages.timer_requests import TimerRequests
from sprocket.rocketmq.broker.topics import Topics
from sprocket.rocketmq.codec.record import parse_host, properties, recall_handle
from sprocket.rocketmq.errors import Refusal, Refused
from sprocket.rocketmq.model.message import NewRecord
from sprocket.rocketmq.model.recall import RecallRequest
from sprocket.rocketmq.settings import TimerSettings

_TAG = "_RECALL_TAG_"
_BODY = b"0"


class Recalls:
    """Makes messages that take others back.

    Args:
        topics: Where topics are looked up.
        timers: Has messages wait.
        settings: Whether messages may be taken back, and how far ahead they may be due.
        broker_name: This broker's; the handles of others are refused.
        store_host: The broker's address, as records hold it.
        now_ms: The wall clock.
        log_clock: The store's, by which messages are due.
    """

    def __init__(
        self,
        topics: Topics,
        timers: TimerRequests,
        settings: TimerSettings,
        broker_name: str,
        store_host: bytes,
        now_ms: Callable[[], int],
        log_clock: LogClock,
    ) -> None:
        self._topics = topics
        self._timers = timers
        self._settings = settings
        self._broker_name = broker_name
        self._store_host = store_host
        self._now_ms = now_ms
        self._log_clock = log_clock

    def record(self, request: RecallRequest, address: str) -> NewRecord:
        """Return the record that takes a message back; its unique key is that one's.

        Args:
            request: Which one.
            address: Of who asks.

        Raises:
            Refused: A check failed. Nobody checks whether the message still waits.
        """
        settings = self._settings
        if not settings.recall:
            raise Refused(
                Refusal.NO_PERMISSION,
                "recall failed, operation is forbidden: recallMessageEnable is false "
                "(timers.recall)",
            )
        if self._topics.get(request.topic) is None:
            raise Refused(Refusal.NO_TOPIC, f"recall failed, the topic[{request.topic}] not exist")
        try:
            handle = recall_handle.decode(request.recall_handle)
        except WireError as error:
            raise Refused(Refusal.WRONG_HANDLE, str(error)) from error
        if handle.topic != request.topic:
            raise Refused(Refusal.WRONG_HANDLE, "recall failed, topic not match")
        if handle.broker_name != self._broker_name:
            raise Refused(
                Refusal.WRONG_HANDLE,
                "recall failed, broker service not available: the message is at broker "
                f"{handle.broker_name}, this is {self._broker_name}",
            )
        wait_ms = handle.due_at_ms - self._log_clock.now_ms()
        if not 0 < wait_ms <= settings.max_delay_seconds * 1000:
            raise Refused(Refusal.TOO_LATE, "recall failed, timestamp invalid")
        now_ms = self._now_ms()
        found = {
            properties.TAGS: _TAG,
            properties.TIMER_DEL_UNIQKEY: f"{handle.topic}+{handle.unique_key}",
            properties.UNIQ_KEY: handle.unique_key,
            properties.TIMER_DELIVER_MS: str(handle.due_at_ms + 1),
            properties.BORN_TIMESTAMP: str(now_ms),
        }
        if request.producer_group:
            found[properties.PRODUCER_GROUP] = request.producer_group
        topic, queue_id = self._timers.divert_until(handle.due_at_ms, handle.topic, 0, found)
        return NewRecord(
            topic=topic,
            queue_id=queue_id,
            body=_BODY,
            properties=properties.encode(found),
            born_host=parse_host(address),
            store_host=self._store_host,
            born_at_ms=now_ms,
            unique_key=handle.unique_key,
        )
