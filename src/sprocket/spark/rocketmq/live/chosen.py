"""Which queues of a cluster a query reads, where it starts and ends: what the options mean now.

Options name topics, a pattern of their names, or single queues; the cluster says what there is.
Offsets and times of many queues are asked for many at a time.
"""

from collections.abc import Collection, Mapping
from functools import partial

from sprocket.base import log
from sprocket.base.errors import DataLost, SettingsError
from sprocket.rocketmq.client.blocking import Puller
from sprocket.rocketmq.model.internal import clusters_among, is_internal_topic
from sprocket.rocketmq.model.route import MessageQueue
from sprocket.spark.rocketmq.live import offsets
from sprocket.spark.rocketmq.live.cluster import Live
from sprocket.spark.rocketmq.live.offsets import Offsets
from sprocket.spark.rocketmq.options import EARLIEST, LATEST, Options, QueueNumbers

_log = log.get_logger(__name__)

UNKNOWN_TOPIC_TRIES = 10
"""How often a new query asks again for a topic that nobody knows: 5 s by default, in which a broker
that is started registers. A query that runs waits for as long as for anything else."""


def topics(live: Live, options: Options) -> list[str]:
    """Return the topics that the options choose; with a pattern, those that are there.

    Raises:
        ClientError: The cluster did not answer in time.
    """
    if options.topics:
        return list(options.topics)
    if options.assigned is not None:
        return sorted(options.assigned)
    return [name for name in _listed(live) if options.names_topic(name)]


def require_pattern(live: Live, options: Options) -> None:
    """Check that a pattern of topics which was given has any, as a batch has no later.

    Raises:
        SettingsError: It has none.
        ClientError: The cluster did not answer in time.
    """
    if options.topic_pattern is not None and not topics(live, options):
        raise SettingsError(
            f"no topic fits subscribePattern {options.topic_pattern.pattern!r}; there are"
            f" {len(_listed(live))}"
        )


def _listed(live: Live) -> list[str]:
    """Return the topics of users that the cluster has."""
    names = live.ask(lambda one: one.topics())
    clusters = clusters_among(names)
    return [name for name in names if not is_internal_topic(name, clusters)]


def queues(cluster: Puller, topic: str, options: Options) -> set[MessageQueue]:
    """Return the queues of a topic that the options choose, as far as they are there."""
    return {queue for queue in cluster.queues(topic) if names_queue(options, queue)}


def names_queue(options: Options, queue: MessageQueue) -> bool:
    """Tell whether the options choose a queue, if it is there."""
    if options.assigned is None:
        return options.names_topic(queue.topic)
    return queue.queue_id in options.assigned.get(queue.topic, {}).get(queue.broker_name, ())


def new_queues(live: Live, options: Options) -> set[MessageQueue]:
    """Return the queues that a new query reads, as soon as somebody knows their topics.

    Raises:
        NoSuchTopic: Nobody knows one; the text names the nearest.
        SettingsError: Options name a queue that is not there.
    """
    found: set[MessageQueue] = set()
    for topic in topics(live, options):
        question = partial(queues, topic=topic, options=options)
        found |= live.ask(question, gone_tries_max=UNKNOWN_TOPIC_TRIES)
    named = {
        "assign": [
            MessageQueue(topic, broker, queue)
            for topic, brokers in (options.assigned or {}).items()
            for broker, numbers in brokers.items()
            for queue in numbers
        ],
        **{name: list(_by_queue(table)) for name, table in options.queue_tables.items()},
    }
    for name, chosen in named.items():
        unknown = sorted(set(chosen) - found)
        if unknown:
            raise SettingsError(f"{name} names {offsets.name(unknown[0])}, which is not there")
    return found


def starting(live: Live, options: Options, found: Collection[MessageQueue]) -> Offsets:
    """Return where a new query starts in some queues.

    Raises:
        SettingsError: A queue has nothing from its time on, and that is to be an error.
        ClientError: The cluster did not answer in time.
    """
    times = _by_queue(options.first_times)
    if options.starting_at_ms is not None:
        times = dict.fromkeys(found, options.starting_at_ms)
    wanted = options.starting_offsets
    told = _by_queue(wanted)
    default = wanted if isinstance(wanted, int) else EARLIEST
    numbers = {queue: told.get(queue, default) for queue in found if queue not in times}
    earliest = [queue for queue, offset in numbers.items() if offset == EARLIEST]
    latest = [queue for queue, offset in numbers.items() if offset == LATEST]
    return {
        **{queue: offset for queue, offset in numbers.items() if offset >= 0},
        **(live.ask(lambda cluster: cluster.min_offsets(earliest)) if earliest else {}),
        **(live.ask(lambda cluster: cluster.max_offsets(latest)) if latest else {}),
        **_by_time(live, options, {queue: times[queue] for queue in found if queue in times}),
    }


def ending(live: Live, options: Options, found: Collection[MessageQueue]) -> Offsets:
    """Return where a batch ends in some queues, before that offset.

    Raises:
        ClientError: The cluster did not answer in time.
    """
    times = _by_queue(options.last_times)
    if options.ending_at_ms is not None:
        times = dict.fromkeys(found, options.ending_at_ms)
    times = {queue: times[queue] for queue in found if queue in times}
    told = _by_queue(options.last_offsets)
    numbers = {queue: told[queue] for queue in found if told.get(queue, LATEST) != LATEST}
    latest = [queue for queue in found if queue not in times and queue not in numbers]
    return {
        **numbers,
        **(live.ask(lambda cluster: cluster.max_offsets(latest)) if latest else {}),
        **(live.ask(lambda cluster: cluster.offsets_by_time(times)) if times else {}),
    }


def require_inside(live: Live, options: Options, starts: Offsets, ends: Offsets) -> None:
    """Check that the offsets which options name for a batch are those of messages that are there.

    What is outside of its queue, and is not an error, is moved to the nearest that is inside.

    Raises:
        DataLost: One is outside, and that is an error.
        SettingsError: A queue is to end before it begins.
        ClientError: The cluster did not answer in time.
    """
    first = {queue for queue, offset in _by_queue(options.first_offsets).items() if offset >= 0}
    last = {queue for queue, offset in _by_queue(options.last_offsets).items() if offset >= 0}
    named = sorted((first | last) & starts.keys())
    if not named:
        return
    lows = live.ask(lambda cluster: cluster.min_offsets(named))
    highs = live.ask(lambda cluster: cluster.max_offsets(named))
    for queue in named:
        if queue in first & last and starts[queue] > ends[queue]:
            raise SettingsError(
                f"{offsets.name(queue)} is to begin at {starts[queue]} and to end at {ends[queue]}"
            )
        for table, is_named in ((starts, queue in first), (ends, queue in last)):
            if is_named:
                table[queue] = _inside(
                    queue, table[queue], lows[queue], highs[queue], options.fail_on_data_loss
                )


def _inside(queue: MessageQueue, offset: int, low: int, high: int, is_error: bool) -> int:
    """Return the offset of a queue from `low` up to `high` that is nearest to one."""
    if low <= offset <= high:
        return offset
    why = f"the oldest kept is {low}" if offset < low else f"the queue ends at {high}"
    text = f"{offsets.name(queue)}: offset {offset} is gone, {why}"
    if is_error:
        raise DataLost(f"{text}. failOnDataLoss=false goes on with what is there")
    _log.warning("messages are gone", queue=offsets.name(queue), wanted=offset, found=why)
    return low if offset < low else high


def _by_time(live: Live, options: Options, times: Mapping[MessageQueue, int]) -> Offsets:
    """Return the offsets of the first messages stored at some times or later, else the ends."""
    if not times:
        return {}
    found: Offsets = dict(live.ask(lambda cluster: cluster.offsets_by_time(times)))
    if options.time_strategy == "error":
        ends = live.ask(lambda cluster: cluster.max_offsets(list(found)))
        for queue in sorted(found):
            if found[queue] >= ends[queue]:
                raise SettingsError(
                    f"{offsets.name(queue)} has no message that was stored at {times[queue]} ms "
                    "since 1970 or later; startingOffsetsByTimestampStrategy=latest starts at its "
                    "end"
                )
    return found


def _by_queue(table: "QueueNumbers | int | None") -> Offsets:
    """Return a table of an option by queue, empty if it is none."""
    if not isinstance(table, dict):
        return {}
    return {
        MessageQueue(topic, broker, queue): number
        for topic, brokers in table.items()
        for broker, numbers in brokers.items()
        for queue, number in numbers.items()
    }
