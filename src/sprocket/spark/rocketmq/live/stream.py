"""The stream of live topics: offsets per queue in Spark's checkpoint.

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
5. Spark never commits the last batch of a query to its source. But when it asks where the next
   batch ends, all before its start is in the sink; so that start is what the group's progress is.
"""

from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow

from sprocket.base import log
from sprocket.base.clock import Clock, SystemClock
from sprocket.base.errors import ClientError, DataLost
from sprocket.rocketmq.client.blocking import Puller
from sprocket.rocketmq.errors import NoRoute
from sprocket.rocketmq.model.route import MessageQueue, QueueSlice
from sprocket.spark.rocketmq.admission import Admission
from sprocket.spark.rocketmq.live import chosen, cluster, offsets
from sprocket.spark.rocketmq.live.cluster import Live
from sprocket.spark.rocketmq.live.offsets import Offsets
from sprocket.spark.rocketmq.options import Options
from sprocket.spark.rocketmq.rows.batches import Batches

_log = log.get_logger(__name__)

_NAMES_MAX = 10
"""How many topics or queues an error names; a pattern may have had thousands."""


class LiveReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """Reads live topics into the schema, a StructType, that Spark wants filled."""

    def __init__(self, schema: Any, options: Options, clock: Clock | None = None) -> None:
        self._schema = schema
        self._options = options
        self._admission = Admission(options, clock or SystemClock())
        self._live: Live | None = None
        self._initial: dict[str, Any] | None = None
        self._target: Offsets | None = None
        self._is_target_checked = False
        self._latest: Offsets | None = None
        self._is_drop_told = False
        self._pushed: Offsets = {}
        Batches(schema, options)

    def __getstate__(self) -> dict[str, Any]:
        """Leave the connections out."""
        return {**self.__dict__, "_live": None}

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Return where a new query starts, the same each time."""
        if self._initial is None:
            live = self._cluster()
            found = chosen.new_queues(live, self._options)
            self._initial = offsets.encode(chosen.starting(live, self._options, found))
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
            DataLost: A queue is gone or ends before `start`, or the options choose it no more, and
                that is an error.
        """
        begin = self._still_chosen(offsets.decode(start))
        if self._target is None:
            ends = self._latest = self._without_loss(begin, self._ends(begin))
        else:
            ends = self._toward_target(begin, self._target)
        if self._options.commit_offsets:
            self._push(begin)
        admitted = self._admission.admitted(limit, is_waiting=self._target is None)
        first = self._first(begin, ends) if admitted.count_min or admitted.count_max else begin
        if offsets.count(first, ends) < admitted.count_min:
            return start
        if admitted.count_max:
            ends = offsets.limit(first, ends, admitted.count_max)
        if ends == begin:
            return start
        self._admission.note_batch()
        return offsets.encode(ends)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """Return the end that was seen last, for the query's progress."""
        ends = self._latest if self._target is None else self._target
        return None if ends is None else offsets.encode(ends)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[Any]:
        """Return what each task reads of the queues that have something between two offsets."""
        first, last = offsets.decode(start), offsets.decode(end)
        loss = self._options.fail_on_data_loss
        ranges = offsets.between(first, last, fail_on_data_loss=loss)
        tasks = offsets.tasks(ranges, self._options.partitions_min)
        return [InputPartition(slices) for slices in tasks]

    def read(self, partition: Any) -> Iterator[Any]:
        """Give the batches of one partition; runs in a worker."""
        slices: list[QueueSlice] = partition.value
        return cluster.read_task(slices, self._schema, self._options)

    def stop(self) -> None:
        """Close the connections."""
        if self._live is not None:
            self._live.close()

    def _cluster(self) -> Live:
        if self._live is None:
            self._live = cluster.open_live(self._options)
        return self._live

    def _still_chosen(self, begin: Offsets) -> Offsets:
        """Return the offsets of the queues that the options still choose.

        Raises:
            DataLost: A checkpoint has others, and that is an error.
        """
        dropped = [queue for queue in begin if not chosen.names_queue(self._options, queue)]
        if not dropped:
            return begin
        if self._options.assigned is None:
            names = [f"topic {topic!r}" for topic in sorted({queue.topic for queue in dropped})]
        else:
            names = [offsets.name(queue) for queue in sorted(dropped)]
        which = ", ".join(names[:_NAMES_MAX])
        if len(names) > _NAMES_MAX:
            which += f" and {len(names) - _NAMES_MAX} more"
        if self._options.fail_on_data_loss:
            raise DataLost(
                f"the query read {which} until now, which its options do not choose any more: what "
                "is still there would not be read. Name them again in subscribe, subscribePattern "
                "or assign, or begin with a new checkpoint; failOnDataLoss=false goes on without "
                "them"
            )
        if not self._is_drop_told:
            _log.warning("the options do not choose what was read until now", dropped=which)
            self._is_drop_told = True
        gone = set(dropped)
        return {queue: offset for queue, offset in begin.items() if queue not in gone}

    def _ends(self, begin: Offsets) -> Offsets:
        """Return where all queues end now.

        While a broker is away, its queues are missing among those of the topic; they are asked for
        until they are there again, or patience ends.
        """
        live = self._cluster()
        names = chosen.topics(live, self._options)
        # With a pattern, a topic is not there while nobody knows it.
        read = [] if self._options.topic_pattern is None else sorted({one.topic for one in begin})
        found: set[MessageQueue] = set()
        for topic in dict.fromkeys((*names, *read)):
            known = {queue for queue in begin if queue.topic == topic}
            found |= self._present(topic, known)
        return dict(live.ask(lambda cluster: cluster.max_offsets(sorted(found)))) if found else {}

    def _toward_target(self, begin: Offsets, target: Offsets) -> Offsets:
        """Return the fixed end, as far as the queues to be read go on to it.

        Those that were missing when it was fixed, since their broker was away, stay where they are.
        A queue that is deleted later does not matter.
        """
        if not self._is_target_checked:
            missing = {queue for queue in begin if queue not in target}
            for topic in sorted({queue.topic for queue in missing}):
                known = {queue for queue in missing if queue.topic == topic}
                for queue in self._present(topic, known) & known:
                    target[queue] = begin[queue]
            self._without_loss(begin, target)
            self._is_target_checked = True
        return dict(target)

    def _first(self, begin: Offsets, ends: Offsets) -> Offsets:
        """Return where messages begin that a batch will find, for counting them.

        A new queue begins at its oldest message; so does one of which messages were lost, if that
        is no error.
        """
        loss = self._options.fail_on_data_loss
        asked = [queue for queue in ends if queue not in begin or not loss]
        if not asked:
            return begin
        oldest = self._cluster().ask(lambda cluster: cluster.min_offsets(asked))
        return begin | {queue: max(begin.get(queue, 0), oldest[queue]) for queue in asked}

    def _push(self, begin: Offsets) -> None:
        """Tell brokers how far the group is: all before `begin` is where the query writes to."""
        for queue, offset in begin.items():
            if self._pushed.get(queue) == offset:
                continue
            try:
                self._cluster().ask_once(lambda cluster: cluster.commit(queue, offset))  # noqa: B023
            except ClientError as error:
                _log.warning("progress not noted", queue=offsets.name(queue), error=str(error))
                return
            self._pushed[queue] = offset

    def _present(self, topic: str, known: set[MessageQueue]) -> set[MessageQueue]:
        """Return the queues of a topic, all of `known` among them unless they are gone.

        Raises:
            NoRoute: They are gone, and that is an error.
        """
        seen: set[MessageQueue] = set()

        def question(cluster: Puller) -> set[MessageQueue]:
            seen.clear()
            seen.update(chosen.queues(cluster, topic, self._options))
            if known - seen:
                missing = offsets.name(min(known - seen))
                raise NoRoute(f"{missing} is not in its topic's route any more")
            return seen

        try:
            return self._cluster().ask(question)
        except NoRoute as error:
            if not known and self._options.topic_pattern is not None:
                return set()  # it was listed, and was deleted since
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
