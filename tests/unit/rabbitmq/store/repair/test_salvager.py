"""Salvage: every whole message, in a new folder that breaks no rule."""

import pytest
from tests import repetition
from tests.rabbit_folders import ENTRIES, MadeVhost, message, published, segment, stored
from tests.recorded_rabbitmq import CASES, RecordedVhosts

from sprocket.base.disk import Disk
from sprocket.base.errors import ForeignStore
from sprocket.rabbitmq.codec import index
from sprocket.rabbitmq.model.names import QueueName
from sprocket.rabbitmq.store.layout import VhostLayout
from sprocket.rabbitmq.store.reading import VhostReader, vhost_folders
from sprocket.rabbitmq.store.repair import check_vhost, salvage_vhost

NEW = "/new/vhost"


def content(disk: Disk, folder: str) -> dict[str, list[object]]:
    """Return what consumers would get from each queue."""
    reader = VhostReader(disk, folder)
    return {
        queue.name: [
            (one.seq_id, one.queue.priority, one.state, one.expiry_us, one.message)
            for one in reader.messages(queue)
            if one.message is not None
        ]
        for queue in reader.queues()
    }


@pytest.mark.slow
@pytest.mark.parametrize("case", repetition.some(CASES, {*CASES} - {"03-store-fanout"}))
def test_all_of_a_recorded_folder_is_copied(case: str) -> None:
    """Every message with its number, its state and its expiry; the new folder breaks no rule."""
    disk = RecordedVhosts(case).in_memory()
    for folder in vhost_folders(disk, "/vhosts"):
        new = folder.replace("/vhosts", "/new")
        report = salvage_vhost(disk, folder, new)
        assert (report.lost, report.nameless, report.damage) == ([], [], [])
        assert report.clean_stop == (case != "04-dirty-kill9")
        assert content(disk, new) == content(disk, folder)
        assert list(check_vhost(disk, new)) == []


def test_queues_of_version_2_become_queues_of_version_1() -> None:
    """As RabbitMQ makes of them when a policy says so."""
    disk = RecordedVhosts("08-classic-v2").in_memory()
    (folder,) = vhost_folders(disk, "/vhosts")
    salvage_vhost(disk, folder, NEW)
    reader = VhostReader(disk, NEW)
    assert {part.is_v2 for queue in reader.queues() for part in queue.parts} == {False}
    terms = reader.terms["39MBGW1Y0C52U0YH20YJ0LNT7"]
    assert terms.segments == {0: 1332, 1: 1365, 2: 869}


def damaged() -> MadeVhost:
    """Return a folder of which some things are broken."""
    made = MadeVhost()
    queue = made.queue()
    made.put(queue.segment(0), segment([0, 1]) + b"\xc0")
    journal = published(9, is_embedded=False) + published(10, is_embedded=False)
    journal += published(11, is_persistent=False) + published(12) + index.deliver(12)
    made.put(queue.journal, journal + index.ack(12) + b"\0")
    made.put(made.layout.persistent.file(3), stored([10])[:-1] + b"\0" + stored([9]))
    return made


def test_what_is_whole_of_a_damaged_folder_is_copied() -> None:
    """What is not is told with its place; what had left its queue is not copied."""
    made = damaged()
    before = made.disk.contents()
    report = salvage_vhost(made.disk, made.folder, NEW)
    found = content(made.disk, NEW)["q"]
    assert [one[0] for one in found] == [0, 1, 9]  # type: ignore[index]
    assert [(one.queue, one.seq_id) for one in report.lost] == [("q", 10)]
    assert (report.messages, report.stored, report.body_bytes) == (3, 0, 30)
    assert not report.clean_stop
    assert len(report.damage) == 3
    assert list(check_vhost(made.disk, NEW)) == []
    after = made.disk.contents()
    assert {path: after[path] for path in before} == before


def test_large_messages_are_stored_once() -> None:
    """However many queues have them; small ones lie in the queues."""
    made = MadeVhost()
    large = message(7, 5000)
    from sprocket.rabbitmq.codec import message_term

    term = message_term.encode(large)
    record = index.publish(3, large.id, 5, 5000, term, is_persistent=True)
    for name in ("a", "b"):
        made.put(made.queue(name).journal, record)
    report = salvage_vhost(made.disk, made.folder, NEW)
    assert (report.queues, report.messages, report.stored) == (2, 2, 1)
    store = VhostLayout(NEW).persistent
    assert made.disk.size(store.file(0)) == len(term) + 25
    assert [one[4] for one in content(made.disk, NEW)["b"]] == [large]  # type: ignore[index]


def test_segments_are_as_a_flush_writes_them() -> None:
    """The last message first, each with its deliver record."""
    made = MadeVhost()
    made.put(made.queue().journal, published(ENTRIES) + published(ENTRIES + 1))
    salvage_vhost(made.disk, made.folder, NEW)
    (part,) = VhostReader(made.disk, NEW).queues()[0].parts
    path = VhostLayout(NEW).queue(part.folder).segment(1)
    written = made.disk.contents()[path]
    assert written == segment([ENTRIES + 1, ENTRIES])


def test_a_queue_without_a_name_is_left_behind() -> None:
    """RabbitMQ would delete its folder."""
    made = damaged()
    made.put(made.queue().name, b"?")
    report = salvage_vhost(made.disk, made.folder, NEW)
    assert report.nameless == [made.queue().root.rpartition("/")[2]]
    assert content(made.disk, NEW) == {}


def test_terms_of_queues_without_a_folder_are_kept() -> None:
    """RabbitMQ wants those of all queues, or none."""
    made = MadeVhost()
    made.put(made.queue().segment(0), segment([0]))
    made.leave_terms([QueueName("/", "q"), QueueName("/", "empty")], 1)
    assert salvage_vhost(made.disk, made.folder, NEW).clean_stop
    assert len(VhostReader(made.disk, NEW).terms) == 2


def test_nothing_is_written_over() -> None:
    """Nor into the folder that is read."""
    made = damaged()
    with pytest.raises(ForeignStore, match="expected a new or an empty folder"):
        salvage_vhost(made.disk, made.folder, made.layout.queues)
    with pytest.raises(ForeignStore, match="expected a folder outside of"):
        salvage_vhost(made.disk, made.folder, f"{made.folder}/new")
