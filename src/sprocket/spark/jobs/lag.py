"""The job `lag`: how far consumer groups are, and how old what they have not consumed is.

In a store's folder that is read from the table of offsets, the ends of the queues, and two records
for each queue of a group; nothing in the folder is changed, and a broker may run on it. Of a
cluster its brokers are asked. Both are a few reads for each queue, so the driver does them.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

from sprocket.base.errors import SettingsError
from sprocket.base.nearest import hint
from sprocket.base.progress import Step, unwatched
from sprocket.rocketmq.store.queue import Queue
from sprocket.spark.jobs import stored_queues
from sprocket.spark.jobs.cluster import NO_CLUSTER, JobCluster
from sprocket.spark.jobs.job import JobOption, JobReport
from sprocket.spark.jobs.job_files import LOCAL_FILES, JobFiles
from sprocket.spark.jobs.stored_queues import FolderQueues


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
    with stored_queues.opened(files.folder(folder)) as stored:
        known = {key.rpartition("@")[2] for key in stored.offsets}
        for group in groups:
            if group not in known:
                raise SettingsError(f"no group {group!r} has committed{hint(group, known)}")
        wanted = set(groups) or known
        for number, (key, by_queue) in enumerate(stored.offsets.items()):
            topic, _, group = key.rpartition("@")
            tell("groups looked at", number, len(stored.offsets))
            for queue_id, offset in by_queue.items() if group in wanted else ():
                yield {
                    "group": group,
                    "topic": topic,
                    "queue_id": queue_id,
                    "committed_offset": offset,
                    **_row(stored, stored.get(topic, queue_id), offset),
                }


def _row(stored: FolderQueues, queue: Queue | None, offset: int) -> Mapping[str, int]:
    """Return what a queue says of a group that is at `offset`."""
    end = queue.max_offset if queue is not None else 0

    def time_of(place: int) -> int:
        if queue is None or not queue.min_offset <= place < end:
            return -1
        return _stored_at_ms(stored, queue, place)

    return {
        "max_offset": end,
        "lag": max(end - offset, 0),
        "consumed_up_to_at_ms": time_of(offset - 1),
        "waiting_since_at_ms": time_of(offset),
    }


def _stored_at_ms(stored: FolderQueues, queue: Queue, offset: int) -> int:
    """Return the store time of a message; -1 if it is not in the log any more."""
    kept = queue.stored_at_ms(offset)
    if kept is not None:
        return kept
    message = stored.message(queue, offset)
    return -1 if message is None else message.stored_at_ms
