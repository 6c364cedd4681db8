"""The stream of live topics: one partition per queue, offsets per queue in Spark's checkpoint.

Spark runs `initialOffset`, `latestOffset` and `partitions` on one long-lived object, and `read` on
copies that were pickled when the query was planned; connections are opened at first use and are
not part of what is pickled.

Traps that are closed here

1. Spark asks for the initial offset twice at the first start and mixes the answers; it is kept.
2. After a failure before the first batch Spark asks again and the answer may lie behind the end
   that it has noted; `offsets.between` refuses that.
3. An offset that did not move is given back as it came, since Spark compares its text.
4. `Trigger.AvailableNow` never passes the end that was seen at its start, and Trigger.Once takes
   everything whatever the limits say.
"""

from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow

from sprocket.base import log
from sprocket.base.clock import Clock, SystemClock
from sprocket.base.errors import DataLost, SettingsError
from sprocket.rocketmq.client.blocking import Puller
from sprocket.rocketmq.errors import NoRoute
from sprocket.rocketmq.model.route import MessageQueue
from sprocket.spark.rocketmq.admission import Admission
from sprocket.spark.rocketmq.live import offsets
from sprocket.spark.rocketmq.live.cluster import Live, open_live, read_range
from sprocket.spark.rocketmq.live.offsets import Offsets, QueueSlice
from sprocket.spark.rocketmq.options import EARLIEST, LATEST, Options
from sprocket.spark.rocketmq.rows.batches import Batches

_log = log.get_logger(__name__)

UNKNOWN_TOPIC_TRIES = 10
"""How often a new query asks again for a topic that nobody knows: 5 s by default, in which a broker
that is started registers. A query that runs waits for as long as for anything else."""


class LiveReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """Reads live topics into the schema, a StructType, that Spark wants filled."""

    def __init__(self, schema: Any, options: Options, clock: Clock | None = None) -> None:
        self._schema = schema
        self._options = options
        self._admission = Admission(options, clock or SystemClock())
        self._live: Live | None = None
        self._initial: dict[str, Any] | None = None
        self._target: Offsets | None = None
        self._latest: Offsets | None = None
        Batches(schema, options)

    def __getstate__(self) -> dict[str, Any]:
        """Leave the connections out."""
        return {**self.__dict__, "_live": None}

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Return where a new query starts, the same each time."""
        if self._initial is None:
            self._initial = offsets.encode(self._starting())
        return self._initial

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return the limit that the options set."""
        return self._admission.read_limit()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Fix the end up to which this query reads."""
        self._target = self._ends({})

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Return where the next batch ends.

        Raises:
            DataLost: A queue is gone or ends before `start`, and that is an error.
        """
        begin = offsets.decode(start)
        if self._target is None:
            ends = self._latest = self._without_loss(begin, self._ends(begin))
        else:
            # A queue that was deleted meanwhile, or is ahead of the target, stays where it is.
            ends = begin | {
                queue: max(end, begin.get(queue, 0)) for queue, end in self._target.items()
            }
        admitted = self._admission.admitted(limit, is_waiting=self._target is None)
        if offsets.count(begin, ends) < admitted.count_min:
            return start
        if admitted.count_max:
            ends = offsets.limit(begin, ends, admitted.count_max)
        if ends == begin:
            return start
        self._admission.note_batch()
        return offsets.encode(ends)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """Return the end that was seen last, for the query's progress."""
        ends = self._latest if self._target is None else self._target
        return None if ends is None else offsets.encode(ends)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[Any]:
        """Return a partition for each queue that has something between the two offsets."""
        first, last = offsets.decode(start), offsets.decode(end)
        loss = self._options.fail_on_data_loss
        ranges = offsets.between(first, last, fail_on_data_loss=loss)
        return [InputPartition(wanted) for wanted in ranges]

    def read(self, partition: Any) -> Iterator[Any]:
        """Give the batches of one partition; runs in a worker."""
        wanted: QueueSlice = partition.value
        options = self._options
        live = open_live(options)
        try:
            yield from read_range(
                live,
                wanted,
                Batches(self._schema, options, wanted.queue.broker_name),
                count_max=options.pull_count_max,
                fail_on_data_loss=options.fail_on_data_loss,
            )
        finally:
            live.close()

    def stop(self) -> None:
        """Close the connections."""
        if self._live is not None:
            self._live.close()

    def _cluster(self) -> Live:
        if self._live is None:
            self._live = open_live(self._options)
        return self._live

    def _queues(self, topic: str) -> list[MessageQueue]:
        """Return the queues of a topic that a new query reads, as soon as somebody knows it.

        Raises:
            NoSuchTopic: Nobody does; the text names the nearest.
        """
        tries = UNKNOWN_TOPIC_TRIES
        return self._cluster().ask(lambda cluster: cluster.queues(topic), unknown_tries_max=tries)

    def _starting(self) -> Offsets:
        """Return the offsets that `startingOffsets` stands for."""
        wanted = self._options.starting_offsets
        found = {queue for topic in self._options.topics for queue in self._queues(topic)}
        chosen: dict[MessageQueue, int] = {}
        if isinstance(wanted, dict):
            chosen = offsets.decode({"v": offsets.VERSION, "queues": wanted})
            unknown = sorted(set(chosen) - found)
            if unknown:
                text = offsets.name(unknown[0])
                raise SettingsError(f"startingOffsets names {text}, which is not read")
        default = wanted if isinstance(wanted, int) else EARLIEST
        return {queue: self._resolved(queue, chosen.get(queue, default)) for queue in found}

    def _resolved(self, queue: MessageQueue, offset: int) -> int:
        if offset == EARLIEST:
            return self._cluster().ask(lambda cluster: cluster.min_offset(queue))
        if offset == LATEST:
            return self._max(queue)
        return offset

    def _max(self, queue: MessageQueue) -> int:
        return self._cluster().ask(lambda cluster: cluster.max_offset(queue))

    def _ends(self, begin: Offsets) -> Offsets:
        """Return where all queues end now.

        While a broker is away, its queues are missing among those of the topic; they are asked for
        until they are there again, or patience ends.
        """
        ends: Offsets = {}
        for topic in self._options.topics:
            known = {queue for queue in begin if queue.topic == topic}
            for queue in sorted(self._present(topic, known)):
                ends[queue] = self._max(queue)
        return ends

    def _present(self, topic: str, known: set[MessageQueue]) -> set[MessageQueue]:
        """Return the queues of a topic, all of `known` among them unless they are gone.

        Raises:
            NoRoute: They are gone, and that is an error.
        """
        seen: set[MessageQueue] = set()

        def question(cluster: Puller) -> set[MessageQueue]:
            seen.clear()
            seen.update(cluster.queues(topic))
            if known - seen:
                missing = offsets.name(min(known - seen))
                raise NoRoute(f"{missing} is not in its topic's route any more")
            return seen

        try:
            return self._cluster().ask(question)
        except NoRoute as error:
            if not known or self._options.fail_on_data_loss:
                raise
            _log.warning("queues are gone", topic=topic, error=str(error))
            return seen

    def _without_loss(self, begin: Offsets, ends: Offsets) -> Offsets:
        """Return `ends`, after looking whether any queue went backwards."""
        for queue, end in ends.items():
            if begin.get(queue, 0) > end:
                text = f"{offsets.name(queue)} ends at {end}, {begin[queue]} were read"
                if self._options.fail_on_data_loss:
                    raise DataLost(f"{text}. failOnDataLoss=false goes on at the new end")
                _log.warning("queue went backwards", queue=offsets.name(queue), end=end)
        return ends
