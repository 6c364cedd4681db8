"""What a consumer notes about its listener's calls: when each began, and how it ended."""

from collections.abc import Sequence

from sprocket.base.clock import Clock
from sprocket.rocketmq.client.consumer.delivery.listener import DeliverLater, Failure
from sprocket.rocketmq.client.producer import SendResult
from sprocket.rocketmq.client.received import ReceivedMessage
from sprocket.rocketmq.client.tracing import TraceWriter
from sprocket.rocketmq.codec.record import UniqueIds, properties
from sprocket.rocketmq.model.trace import ConsumeBegan, ConsumeEnded, ConsumeOutcome


class ConsumeTraces:
    """Notes both ends of each call, of each of its messages.

    A message of a sender that wants no traces (property `TRACE_ON`) gets none.

    Args:
        group: The consumer's.
        writer: Where it is noted.
        ids: Make what ties an end to its beginning.
        clock: For the times.

    Threads: event loop only.
    """

    def __init__(
        self, group: str, writer: TraceWriter[SendResult], ids: UniqueIds, clock: Clock
    ) -> None:
        self._group = group
        self.writer = writer
        self._ids = ids
        self._clock = clock

    def began(self, messages: Sequence[ReceivedMessage]) -> str:
        """Note that the listener gets messages; return what `ended` needs."""
        request_id = self._ids.next()
        now_ms = self._clock.now_ms()
        for message in filter(_is_traced, messages):
            record = ConsumeBegan(
                at_ms=now_ms,
                region=message.properties.get(properties.MSG_REGION, ""),
                group=self._group,
                request_id=request_id,
                message_id=message.message_id,
                retries=message.reconsume_times,
                keys=" ".join(message.keys),
            )
            self.writer.add(message.topic, record, (message.message_id, *message.keys))
        return request_id

    def ended(
        self,
        request_id: str,
        messages: Sequence[ReceivedMessage],
        failure: Failure | None,
        took_ms: int,
    ) -> None:
        """Note how the call ended for each of its messages."""
        if failure is not None and failure.is_withdrawn:
            return
        now_ms = self._clock.now_ms()
        done = len(messages) - (0 if failure is None else len(failure.rest))
        for number, message in enumerate(messages):
            if not _is_traced(message):
                continue
            is_success = number < done
            record = ConsumeEnded(
                request_id=request_id,
                message_id=message.message_id,
                cost_ms=took_ms // len(messages),
                is_success=is_success,
                keys=" ".join(message.keys),
                outcome=ConsumeOutcome.SUCCESS if is_success else _outcome(failure),
                at_ms=now_ms,
                group=self._group,
            )
            self.writer.add(message.topic, record, (message.message_id, *message.keys))


def _is_traced(message: ReceivedMessage) -> bool:
    return message.properties.get(properties.TRACE_ON) != "false"


def _outcome(failure: Failure | None) -> ConsumeOutcome:
    """Tell a listener that said that it failed from one that broke down."""
    told = failure is None or isinstance(failure.error, DeliverLater)
    return ConsumeOutcome.FAILED if told else ConsumeOutcome.RAISED
