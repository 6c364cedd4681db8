"""The stream of live topics: offsets per queue in Spark's checkpoint.

Spark runs `initialOffset`, `latestOffset` and `partitions` on one long-lived object, and `read` on
copies that were pickled when the query was planned; connections are opened at first use and are
not part of what is pickled.

Traps that are closed here

1. Spark asks for the initial offset twice at the first start and mixes the answers; it is kept.
2. After a failure before the first batch Spark asks again and the answer may lie after the end
   that it has noted; `offsets.between` refuses that.
3. An offset that did not move is given back as it came, since Spark compares its text.
4. `Trigger.AvailableNow` never passes the end that was seen at its start, and Trigger.Once takes
   everything whatever the limits say.
5. Spark never commits the last batch of a query to its source. But when it asks where the next
   batch ends, all before its start is in the sink; so that start is what the group's progress is.
6. The queues may be others than those that were read, with the same names. So of each queue the
   checkpoint has a message that was read, and a query that starts looks whether it is still there.
   That costs a pull for each queue then and every `_LOOKED_AT_SECONDS`, and as much to choose the
   message. A queue that is another one continues in the next batch, since Spark has noted the start
   of this one already.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow

from sprocket.base import log
from sprocket.base.clock import Clock, SystemClock
from sprocket.base.errors import ClientError, DataLost
from sprocket.rocketmq.client.blocking import Puller
from sprocket.rocketmq.errors import NoRoute, NoSuchTopic
from sprocket.rocketmq.model.route import MessageQueue, QueueSlice
from sprocket.spark.rocketmq.admission import Admission
from sprocket.spark.rocketmq.live import chosen, cluster, last_read, offsets
from sprocket.spark.rocketmq.live.cluster import Live
from sprocket.spark.rocketmq.live.offsets import LastRead, Offsets
from sprocket.spark.rocketmq.options import Options
from sprocket.spark.rocketmq.rows.batches import Batches

_log = log.get_logger(__name__)

_NAMES_MAX = 10
"""How many topics or queues an error names; a pattern may have had thousands."""
_LOOKED_AT_SECONDS = 600
"""How often a query that runs looks at the messages that the checkpoint has: much more often than
retention can take one of them, so that one of them is there when the query starts again."""


class _QueuesAway(NoRoute):
    """Queues that were read are not in the route of their topic, nor is their broker."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Present:
    """The queues of a topic.

    Args:
        queues: Those that can be read, as far as the options choose them.
        withdrawn: Those that were read, and cannot be any more: their broker says itself that the
            topic has fewer. It still knows where they end.
    """

    queues: set[MessageQueue]
    withdrawn: set[MessageQueue]


class LiveReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """Reads live topics into the schema, a StructType, that Spark wants filled."""

    def __init__(self, schema: Any, options: Options, clock: Clock | None = None) -> None:
        self._schema = schema
        self._options = options
        self._clock = clock or SystemClock()
        self._admission = Admission(options, self._clock)
        self._live: Live | None = None
        self._initial: dict[str, Any] | None = None
        self._target: Offsets | None = None
        self._is_target_checked = False
        self._latest: Offsets | None = None
        self._is_drop_told = False
        self._pushed: Offsets = {}
        self._withdrawn: set[MessageQueue] = set()
        self._told: set[MessageQueue] = set()
        self._looked_at: float | None = None
        self._is_last_due = False
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
            DataLost: A queue is gone with messages that were not read, or ends before `start`, or
                is another one, or the options choose it no more, and that is an error.
        """
        begin = self._still_chosen(offsets.decode(start))
        known = offsets.decode_last(start)
        if self._target is None:
            ends = self._latest = self._ends(begin)
        else:
            ends = self._toward_target(begin, self._target)
        moved = self._moved(begin, ends, known)
        ends = ends | moved
        if self._options.commit_offsets:
            self._push(begin)
        admitted = self._admission.admitted(limit, is_waiting=self._target is None)
        first = self._first(begin, ends) if admitted.count_min or admitted.count_max else begin
        if not moved and offsets.count(first, ends) < admitted.count_min:
            return start
        if admitted.count_max:
            ends = offsets.limit(first, ends, admitted.count_max)
        if ends == begin:
            return start
        self._admission.note_batch()
        kept = {queue: one for queue, one in known.items() if queue not in moved}
        return offsets.encode(ends, kept | self._last_read(begin, ends, kept, moved))

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
        """Return where all queues end now, those of `begin` among them unless they are gone.

        Raises:
            DataLost: See `_ends_of`.
        """
        names = chosen.topics(self._cluster(), self._options)
        # With a pattern, a topic is not there while nobody knows it.
        read = [] if self._options.topic_pattern is None else sorted({one.topic for one in begin})
        return self._ends_of(list(dict.fromkeys((*names, *read))), begin)

    def _ends_of(self, topics: Sequence[str], begin: Offsets) -> Offsets:
        """Return where the queues of some topics end now.

        While a broker is away, its queues are missing among those of the topic; they are asked for
        until they are there again, or patience ends. Those that a topic has not any more end where
        they were read up to.

        Raises:
            DataLost: A queue is gone, or cannot be read, with messages that were not read, and that
                is an error.
        """
        queues: set[MessageQueue] = set()
        withdrawn: set[MessageQueue] = set()
        for topic in topics:
            known = {queue for queue in begin if queue.topic == topic}
            found = self._present(topic, known)
            queues |= found.queues
            withdrawn |= found.withdrawn
        self._withdrawn = (self._withdrawn | withdrawn) - queues
        asked = sorted(queues | withdrawn)
        if not asked:
            return {}
        ends = dict(self._cluster().ask(lambda cluster: cluster.max_offsets(asked)))
        for queue in sorted(withdrawn):
            self._leave(queue, ends[queue] - begin[queue])
        return ends | {queue: begin[queue] for queue in withdrawn}

    def _leave(self, queue: MessageQueue, count: int) -> None:
        """Take note of a queue that cannot be read any more, and has so many unread messages.

        Raises:
            DataLost: That is an error.
        """
        if count <= 0:
            return
        text = (
            f"{offsets.name(queue)} cannot be read any more, as its topic has fewer queues than"
            f" before: {count} messages in it were not read"
        )
        if self._options.fail_on_data_loss:
            raise DataLost(
                f"{text}. Give the topic as many queues as it had, or failOnDataLoss=false goes on"
                " without them"
            )
        if queue not in self._told:
            self._told.add(queue)
            _log.warning("messages cannot be read", text=text)

    def _toward_target(self, begin: Offsets, target: Offsets) -> Offsets:
        """Return the fixed end, as far as the queues to be read go on to it.

        Those that were missing when it was fixed, since their broker was away, stay where they are.
        A queue that is deleted later does not matter.
        """
        if not self._is_target_checked:
            missing = {queue: begin[queue] for queue in begin if queue not in target}
            there = self._ends_of(sorted({queue.topic for queue in missing}), missing)
            target.update({queue: missing[queue] for queue in missing if queue in there})
            self._is_target_checked = True
        return dict(target)

    def _first(self, begin: Offsets, ends: Offsets) -> Offsets:
        """Return where messages begin that a batch will find, for counting them.

        A new queue begins at its oldest message; so does one of which messages were lost, if that
        is not an error.
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

    def _present(self, topic: str, known: set[MessageQueue]) -> _Present:
        """Return the queues of a topic, all of `known` among them unless they are gone.

        Raises:
            DataLost: They are gone, and that is an error.
            NoRoute: Nobody says which there are.
        """
        seen = _Present(set(), set())

        def question(cluster: Puller) -> _Present:
            nonlocal seen
            every = cluster.queues(topic)
            queues = {queue for queue in every if chosen.names_queue(self._options, queue)}
            brokers = {queue.broker_name for queue in every}
            withdrawn = {queue for queue in known - queues if queue.broker_name in brokers}
            seen = _Present(queues, withdrawn)
            if away := known - queues - withdrawn:
                missing = offsets.name(min(away))
                raise _QueuesAway(f"{missing} is not in its topic's route any more")
            return seen

        try:
            return self._cluster().ask(question)
        except NoRoute as error:
            if not known and self._options.topic_pattern is not None:
                return _Present(set(), set())  # it was listed, and was deleted since
            if not known or not isinstance(error, NoSuchTopic | _QueuesAway):
                raise
            if self._options.fail_on_data_loss:
                raise DataLost(
                    f"topic {topic!r} was read until now: {error}. failOnDataLoss=false goes on"
                    " without what is gone"
                ) from error
            _log.warning("queues are gone", topic=topic, error=str(error))
            return seen

    def _moved(
        self, begin: Offsets, ends: Offsets, known: Mapping[MessageQueue, LastRead]
    ) -> Offsets:
        """Return where to go on in queues that do not have what was read of them.

        In one that is another queue that is at its first message that is younger than what was
        read, which is the first one if the topic was made again; in one that only lost messages, at
        its end.

        Raises:
            DataLost: There are any, and that is an error.
        """
        shorter = sorted(queue for queue in ends if begin.get(queue, 0) > ends[queue])
        if shorter and self._options.fail_on_data_loss:
            queue = shorter[0]
            raise DataLost(
                f"{offsets.name(queue)} ends at {ends[queue]}, {begin[queue]} were read."
                " failOnDataLoss=false goes on at the new end, or where it is another queue at its"
                " first message"
            )
        looked_at = ends.keys() if self._is_look_due() else set(shorter)
        compared = {
            queue: known[queue]
            for queue in looked_at
            if queue in known and queue in begin and queue not in self._withdrawn
        }
        found = last_read.others(self._cluster(), compared, ends) if compared else {}
        moved = {queue: ends[queue] for queue in shorter if queue not in found}
        for queue, offset in moved.items():
            _log.warning("messages are gone", queue=offsets.name(queue), going_on_at=offset)
        return moved | self._starts_of_others(begin, compared, found)

    def _starts_of_others(
        self,
        begin: Offsets,
        known: Mapping[MessageQueue, LastRead],
        found: Mapping[MessageQueue, LastRead],
    ) -> Offsets:
        """Return where to go on in queues that are others than those that were read.

        Raises:
            DataLost: There are any, and that is an error.
        """
        if not found:
            return {}
        texts: dict[MessageQueue, str] = {}
        for queue in sorted(found):
            was, now = known[queue], found[queue]
            texts[queue] = (
                f"{offsets.name(queue)} is not the one that was read: message {was.queue_offset}"
                f" was stored at {was.stored_at_ms} (ms since 1970) at physical offset"
                f" {was.physical_offset}, message {now.queue_offset} is now one stored at"
                f" {now.stored_at_ms} at {now.physical_offset}. Its topic was deleted and made"
                " again, or its broker lost messages and has got others since"
            )
            if self._options.fail_on_data_loss:
                raise DataLost(
                    f"{texts[queue]}. failOnDataLoss=false goes on at the first message that is"
                    " younger than what was read"
                )
        times = {queue: known[queue].stored_at_ms + 1 for queue in found}
        younger = self._cluster().ask(lambda cluster: cluster.offsets_by_time(times))
        starts = {queue: min(younger[queue], begin[queue]) for queue in texts}
        for queue, text in texts.items():
            _log.warning("another queue is there", text=text, going_on_at=starts[queue])
        return starts

    def _is_look_due(self) -> bool:
        """Tell whether to look at the messages that the checkpoint has; then others are chosen."""
        now = self._clock.monotonic()
        if self._looked_at is not None and now - self._looked_at < _LOOKED_AT_SECONDS:
            return False
        self._looked_at, self._is_last_due = now, True
        return True

    def _last_read(
        self,
        begin: Offsets,
        ends: Offsets,
        known: Mapping[MessageQueue, LastRead],
        moved: Offsets,
    ) -> dict[MessageQueue, LastRead]:
        """Return the last messages before `ends`, of the queues that it is time for."""
        wanted = {
            queue: end - 1
            for queue, end in ends.items()
            if queue not in moved and queue not in self._withdrawn and end > 0
        }
        for queue in list(wanted):
            is_known = queue in known
            if self._is_last_due:
                is_wanted = not is_known or known[queue].queue_offset < wanted[queue]
            else:
                is_wanted = not is_known and ends[queue] > begin.get(queue, 0)
            if not is_wanted:
                del wanted[queue]
        self._is_last_due = False
        return last_read.messages_at(self._cluster(), wanted) if wanted else {}
