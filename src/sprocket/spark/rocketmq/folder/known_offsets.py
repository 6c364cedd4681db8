"""Queues and offsets that a query names, compared with what a store's folder still has.

Where queues are not kept in files nothing can be said; rows are chosen by offset all the same.
"""

from sprocket.base import log
from sprocket.base.errors import DataLost, SettingsError
from sprocket.rocketmq.store.layout import StoreLayout
from sprocket.spark.files import Files
from sprocket.spark.rocketmq.folder.queue_files import QueueBounds, queue_files
from sprocket.spark.rocketmq.options import Options

_log = log.get_logger(__name__)


def require_offsets(files: Files, folder: str, options: Options) -> None:
    """Check that the queues, and the offsets at which to begin and to end, are there.

    Raises:
        SettingsError: A queue that is named is not there.
        DataLost: An offset is outside of its queue, and that is an error.
    """
    named = _named(options)
    if not named:
        return
    layout = StoreLayout(folder)
    has_queues = bool(files.list(layout.consumequeue))
    log_start = min(
        (int(name) for name in files.sizes(layout.commitlog) if name.isdecimal()), default=0
    )
    for (topic, queue_id), wanted in sorted(named.items()):
        text = f"queue {queue_id} of topic {topic!r} in {folder}"
        found = queue_files(files, layout, topic, queue_id).offsets(log_start)
        if found is not None:
            _require(wanted, found, text, options.fail_on_data_loss)
        elif has_queues and not files.list(f"{layout.batch_queues}/{topic}"):
            raise SettingsError(f"there is no {text}")
        else:
            _log.warning("nothing tells which offsets a queue has", queue=text)


def _named(options: Options) -> dict[tuple[str, int], set[int]]:
    """Return by topic and queue id the offsets that are named."""
    named: dict[tuple[str, int], set[int]] = {}
    for topic, assigned in (options.assigned or {}).items():
        for queue_ids in assigned.values():
            named |= {(topic, queue_id): set() for queue_id in queue_ids}
    for table, has_offsets in (
        (options.first_offsets, True),
        (options.last_offsets, True),
        (options.first_times, False),
        (options.last_times, False),
    ):
        for topic, brokers in table.items() if isinstance(table, dict) else ():
            for numbers in brokers.values():
                for queue_id, number in numbers.items():
                    offsets = named.setdefault((topic, queue_id), set())
                    if has_offsets and number >= 0:
                        offsets.add(number)
    return named


def _require(wanted: set[int], found: QueueBounds, text: str, is_error: bool) -> None:
    """Raise if an offset is outside of a queue, or say so."""
    for offset in sorted(wanted):
        if found.first <= offset <= found.end:
            continue
        why = f"the oldest kept is {found.first}"
        if offset > found.end:
            why = f"the queue ends at {found.end}"
        if is_error:
            raise DataLost(
                f"{text}: offset {offset} is gone, {why}. failOnDataLoss=false goes on with what"
                " is there"
            )
        _log.warning("messages are gone", queue=text, wanted=offset, found=why)
