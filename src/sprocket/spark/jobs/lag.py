"""The job `lag`: how far consumer groups are, and how old what they have not consumed is.

In a store's folder that is read from the table of offsets, the ends of the queues, and two records
for each queue of a group; nothing in the folder is changed, and a broker may run on it. Of a
cluster its brokers are asked. Both are a few reads for each queue, so the driver does them.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import Annotated, Any

from sprocket.base.disk import Disk
from sprocket.base.errors import ForeignStore, SettingsError, WireError
from sprocket.base.nearest import hint
from sprocket.base.progress import Step, unwatched
from sprocket.rocketmq.codec.record import record
from sprocket.rocketmq.errors import EngineMissing
from sprocket.rocketmq.store import committed_offsets, geometry
from sprocket.rocketmq.store.layout import StoreLayout
from sprocket.rocketmq.store.queue import Queue, Queues, engines
from sprocket.spark.files import local_path
from sprocket.spark.jobs.cluster import NO_CLUSTER, JobCluster
from sprocket.spark.jobs.job import JobOption, JobReport
from sprocket.spark.jobs.job_files import LOCAL_FILES, JobFiles


class LagReport(JobReport, frozen=True, kw_only=True):
    """How far groups are.

    Attributes:
        lag: Messages that are not consumed, of all groups.
        queues: A row for each queue of a topic that a group has committed an offset of: `group`,
            `topic`, `queue_id`, `committed_offset`, `max_offset`, `lag`; `consumed_up_to_at_ms`,
            the store time of the last message that was consumed, and `waiting_since_at_ms`, that of
            the first one that was not. A time is -1 where there is no such message, or none is
            known; brokers do not report the second one. Of a cluster each row has `broker`, too.
    """

    lag: int
    queues: list[dict[str, Any]]


def lag(
    spark: Any,  # noqa: ARG001 - as every job
    *,
    store: Annotated[str, JobOption("A store's folder.", "FOLDER")] = "",
    files: JobFiles = LOCAL_FILES,
    cluster: JobCluster = NO_CLUSTER,
    group: Annotated[list[str], JobOption("Only this group; may be repeated.", also="-g")] = (),  # type: ignore[assignment]
    progress: Step = unwatched,
) -> LagReport:
    """Show how far consumer groups are, and since when messages wait for them.

    Raises:
        SettingsError: Neither or both of store and cluster are named, or a group is unknown; the
            store has its queues or offsets in a RocksDB that is on no local disk.
        StoreError: The folder is not a store, or cannot be read.
        ClientError: The cluster does not answer.
    """
    if bool(store) == bool(cluster.name_server):
        raise SettingsError("name one of --store and --name-server")
    if cluster.name_server:
        files.require_use(cluster.name_server)
        rows = _of_cluster(cluster, group)
    else:
        files.require_use(store)
        rows = _of_folder(store, files, group, progress)
    found = sorted(rows, key=lambda row: (row["group"], row["topic"], row["queue_id"]))
    return LagReport(lag=sum(row["lag"] for row in found), queues=found)


def _of_cluster(cluster: JobCluster, groups: Sequence[str]) -> Iterator[dict[str, Any]]:
    from sprocket.rocketmq.client.blocking import Admin

    with Admin(cluster.name_server, client=cluster.client) as admin:
        for group in groups or admin.group.names():
            for queue, known in admin.group.progress(group).queues.items():
                yield {
                    "group": group,
                    "topic": queue.topic,
                    "queue_id": queue.queue_id,
                    "broker": queue.broker_name,
                    "committed_offset": known.consumer_offset,
                    "max_offset": known.broker_offset,
                    "lag": known.lag,
                    "consumed_up_to_at_ms": known.last_consumed_at_ms,
                    "waiting_since_at_ms": -1,
                }


def _of_folder(
    folder: str, files: JobFiles, groups: Sequence[str], tell: Step
) -> Iterator[dict[str, Any]]:
    source = files.folder(folder)
    disk, layout = source.disk(), source.layout
    if not disk.is_folder(layout.commitlog):
        raise ForeignStore(f"{folder} is not a store directory: it has no folder commitlog")
    try:
        offsets = committed_offsets.read(disk, layout)
    except EngineMissing as error:
        if local_path(folder) is not None:
            raise
        raise SettingsError(
            f"{folder} has its offsets in a RocksDB, which can be read on the local disk only"
        ) from error
    known = {key.rpartition("@")[2] for key in offsets}
    for group in groups:
        if group not in known:
            raise SettingsError(f"no group {group!r} has committed{hint(group, known)}")
    wanted = set(groups) or known
    settled = geometry.resolve(disk, layout, None).queue
    if settled.engine != "files" and local_path(folder) is None:
        raise SettingsError(
            f"{folder} has its queues in a RocksDB, which can be read on the local disk only"
        )
    queues = engines.make(disk, layout, settled, write=False)
    try:
        _take_up(disk, layout, queues)
        for number, (key, by_queue) in enumerate(offsets.items()):
            topic, _, group = key.rpartition("@")
            tell("groups looked at", number, len(offsets))
            for queue_id, offset in by_queue.items() if group in wanted else ():
                queue = queues.by_key.get((topic, queue_id))
                yield {
                    "group": group,
                    "topic": topic,
                    "queue_id": queue_id,
                    "committed_offset": offset,
                    **_row(disk, layout, queue, offset),
                }
    finally:
        queues.close()


def _take_up(disk: Disk, layout: StoreLayout, queues: Queues) -> None:
    """Load queues with the bounds that a broker gives them."""
    from sprocket.rocketmq.store.recovery import Deletions, load_to_read  # no other job needs it

    starts = (int(name) for name in disk.list(layout.commitlog) if name.isdecimal())
    load_to_read(queues, Deletions(disk, layout, write=False), min(starts, default=0))


def _row(disk: Disk, layout: StoreLayout, queue: Queue | None, offset: int) -> Mapping[str, int]:
    """Return what a queue says of a group that is at `offset`."""
    end = queue.max_offset if queue is not None else 0

    def time_of(place: int) -> int:
        if queue is None or not queue.min_offset <= place < end:
            return -1
        return _stored_at_ms(disk, layout, queue, place)

    return {
        "max_offset": end,
        "lag": max(end - offset, 0),
        "consumed_up_to_at_ms": time_of(offset - 1),
        "waiting_since_at_ms": time_of(offset),
    }


def _stored_at_ms(disk: Disk, layout: StoreLayout, queue: Queue, offset: int) -> int:
    """Return the store time of a message; -1 if it is not in the log any more."""
    kept = queue.stored_at_ms(offset)
    if kept is not None:
        return kept
    place, size, _code = queue.unit(offset)
    starts = [int(name) for name in disk.list(layout.commitlog) if name.isdecimal()]
    start = max((one for one in starts if one <= place), default=-1)
    if start < 0:
        return -1
    with closing(disk.open(f"{layout.commitlog}/{start:020d}")) as file:
        data = file.read(place - start, size)
    try:
        return record.decode(data, 0, check_crc=False).stored_at_ms
    except WireError:
        return -1  # a filler, or damage, which `fsck` is for
