"""What the log alone has of queues: the quick way gives what the way of files gives."""

from dataclasses import replace

from hypothesis import example, given
from hypothesis import strategies as st

from sprocket.rabbitmq.codec import index
from sprocket.rabbitmq.store.layout import VhostLayout
from sprocket.rabbitmq.store.queue_index import IndexRecovery, RecoveredIndex
from sprocket.rabbitmq.store.queue_index.carried import carried
from sprocket.rabbitmq.store.write_ahead import Origin, WriteAheadLog, read_log
from sprocket.testing.disk import SimulatedDisk

PATHS = VhostLayout("/v")
ENTRY_COUNT = 4
TERMS = (
    b"\x83 d\0\4true",
    b"\x83 w\4true",
    b"\x83 d\0\5false",
    b"",
    b"\0 damaged",
    b"\0 d\0\4true",
)


def publish(seq_id: int, term: bytes = TERMS[0], *, is_persistent: bool = True) -> bytes:
    """Return a publish record."""
    return index.publish(seq_id, b"%16d" % seq_id, 0, 9, term, is_persistent=is_persistent)


def plain(state: int, seq_id: int) -> bytes:
    """Return the records of a message up to its publish, deliver, or ack."""
    return b"".join([publish(seq_id), index.deliver(seq_id), index.ack(seq_id)][:state])


seq_ids = st.integers(0, 9)
any_records = st.lists(
    st.one_of(
        st.builds(publish, seq_ids, st.sampled_from(TERMS), is_persistent=st.booleans()),
        st.builds(publish, seq_ids),
        st.builds(index.deliver, seq_ids),
        st.builds(index.ack, seq_ids),
        st.binary(max_size=9),
    ),
    max_size=9,
).map(b"".join)
in_order = st.lists(st.integers(0, 3), max_size=9).map(
    lambda states: b"".join(plain(state, seq_id) for seq_id, state in enumerate(states))
)


def recovered(
    queues: dict[str, bytes], carried_bytes_max: int, *, with_folders: bool
) -> tuple[dict[str, RecoveredIndex], dict[str, bytes], dict[str, list[bytes]]]:
    """Recover queues that the log has records of; return what is known, the files, and the log."""
    disk = SimulatedDisk()
    disk.make_folder(PATHS.queues)
    log = WriteAheadLog(disk, PATHS.root, 1 << 20, 0)
    for folder, records in queues.items():
        log.append(Origin(folder), records)
        if with_folders:
            disk.make_folder(PATHS.queue(folder).root)
    log.commit()
    log.close()
    contents = read_log(disk, PATHS.root)
    recovery = IndexRecovery(
        disk, PATHS, ENTRY_COUNT, contents, sorted(queues), carried_bytes_max=carried_bytes_max
    )
    ids = list(recovery.stored_ids())
    found = recovery.run(lambda one: one in ids and one != b"%16d" % 1)
    if recovery.log is not None:
        recovery.log.close()
    files = {path: data for path, data in disk.contents().items() if path.endswith(".idx")}
    tails = read_log(disk, PATHS.root).tails
    known = {folder: replace(one, origin=None) for folder, one in found.items()}
    return known, files, {folder: tail.records for folder, tail in tails.items()}


@given(st.lists(st.one_of(in_order, any_records), min_size=1, max_size=3), st.integers(0, 400))
@example([publish(3) + index.deliver(3) + publish(4)], 400)
@example([publish(3) + index.ack(3)], 400)
@example([publish(3) + index.deliver(3) + index.ack(3) + publish(3)], 400)
def test_a_queue_without_a_folder_is_recovered_as_one_with(
    queues: list[bytes], carried_bytes_max: int
) -> None:
    """An empty folder has files looked for: what is known, appended and carried is the same."""
    named = {f"Q{number}": records for number, records in enumerate(queues)}
    expected = recovered(named, carried_bytes_max, with_folders=True)
    assert recovered(named, carried_bytes_max, with_folders=False) == expected


def test_what_is_plain_is_carried_as_it_is() -> None:
    """It needs no look at files; what a consumer settled is gone."""
    found = carried(plain(3, 0) + plain(2, 3) + plain(1, 4), ENTRY_COUNT)
    assert found is not None
    assert found.journal == plain(2, 3) + plain(2, 4)
    assert (found.counts, found.body_bytes) == ({0: 1, 1: 1}, 18)
