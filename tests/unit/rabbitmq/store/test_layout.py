"""Folders and files of a virtual host, as a real RabbitMQ names them."""

import pytest
from tests.recorded_rabbitmq import CASES, RecordedVhosts

from sprocket.base.errors import CorruptRecord
from sprocket.rabbitmq.model.names import QueueName, name_text
from sprocket.rabbitmq.store import layout
from sprocket.rabbitmq.store.layout import VhostLayout


@pytest.mark.parametrize(
    ("vhost", "folder"),
    [
        ("/", "628WB79CIFDYO9LJI6DKMI09L"),
        ("sprocket/β vhost", "B0ETS5NA2DV0A0LZ7C0QFUR8S"),
    ],
)
def test_the_folder_of_a_vhost(vhost: str, folder: str) -> None:
    """It is a hash of the name."""
    assert layout.vhost_folder(vhost) == folder


def test_the_folder_of_a_queue_and_of_one_of_its_priorities() -> None:
    """The virtual host counts, and the priority."""
    assert layout.queue_folder(QueueName("/", "orders")) == "F0LI8Q2L5NQQX8KRJAO1AHU7J"
    assert layout.queue_folder(QueueName("/", "prio", 3)) == "B984Q77NT0PKP70QMSM45P98P"


@pytest.mark.parametrize("case", CASES)
def test_each_recorded_folder_is_where_its_name_says(case: str) -> None:
    """Virtual hosts and queues; and the file with the name is made of the same bytes."""
    names: dict[str, str] = {}
    queues = 0
    for path, data in RecordedVhosts(case).files():
        vhost, _, inside = path.partition("/")
        if inside == ".vhost":
            names[vhost] = name_text(data)
            assert layout.vhost_folder(names[vhost]) == vhost
        if inside.endswith("/.queue_name"):
            queues += 1
            queue = layout.decode_queue_name(data, inside.split("/")[1])
            assert queue.vhost == names[vhost]
            is_v2 = case == "08-classic-v2"
            assert layout.encode_queue_name(queue, is_v2=is_v2) == data
    assert queues > 0


@pytest.mark.parametrize(
    "queue",
    [
        QueueName("/", "a\nQUEUE: b"),
        QueueName("a\nQUEUE: b", "c"),
        QueueName("/", "a\nINDEX: v2"),
        QueueName("/", ""),
        QueueName("/", "p", 255),
        QueueName("/", "p\n", 10),
    ],
)
@pytest.mark.parametrize("is_v2", [False, True])
def test_names_with_line_ends_are_told_apart(queue: QueueName, is_v2: bool) -> None:
    """The folder's name decides."""
    data = layout.encode_queue_name(queue, is_v2=is_v2)
    assert layout.decode_queue_name(data, layout.queue_folder(queue)) == queue


@pytest.mark.parametrize("data", [b"", b"VHOST: /\n", b"VHOST: /\nQUEUE: orders", b"\xff" * 100])
def test_what_names_no_queue_of_the_folder_is_told(data: bytes) -> None:
    """With the bytes that were found."""
    with pytest.raises(CorruptRecord, match="expected the name of the queue in F0LI8Q2L5NQQX"):
        layout.decode_queue_name(data, "F0LI8Q2L5NQQX8KRJAO1AHU7J")


def test_files_have_numbers_for_names() -> None:
    """In their order as numbers; what only looks like one is none."""
    names = ["10.idx", "9.idx", "0.idx", "01.idx", "x.idx", "-1.idx", "1.qi", ".idx", "²3.idx"]
    assert layout.numbers(names, layout.SEGMENT) == [0, 9, 10]
    assert layout.numbers(["7" * 30 + ".rdq"], layout.STORE_FILE) == []


def test_the_paths_of_a_vhost() -> None:
    """Each one as RabbitMQ has it."""
    vhost = VhostLayout("/v")
    queue = vhost.queue("Q")
    assert [vhost.name, vhost.config, vhost.recovery_terms] == [
        *("/v/.vhost", "/v/.config", "/v/recovery.dets"),
    ]
    assert [queue.name, queue.journal, queue.segment(3)] == [
        *("/v/queues/Q/.queue_name", "/v/queues/Q/journal.jif", "/v/queues/Q/3.idx"),
    ]
    assert [queue.segment_v2(1), queue.store_v2(2)] == ["/v/queues/Q/1.qi", "/v/queues/Q/2.qs"]
    store = vhost.persistent
    assert [store.file(4), store.compacted_file(4), store.clean] == [
        "/v/msg_store_persistent/4.rdq",
        "/v/msg_store_persistent/4.rdt",
        "/v/msg_store_persistent/clean.dot",
    ]
    assert [store.summary, store.index, vhost.transient.root] == [
        "/v/msg_store_persistent/file_summary.ets",
        "/v/msg_store_persistent/msg_store_index.ets",
        "/v/msg_store_transient",
    ]
