"""The pages of docs/formats about RabbitMQ's files: their examples are what the code writes."""

import re
from pathlib import Path

from sprocket.rabbitmq.codec import index, message_term
from sprocket.rabbitmq.codec.store import QueueTerms, StoreEntry, entries, recovery_terms
from sprocket.rabbitmq.model.message import BasicMessage
from sprocket.rabbitmq.model.names import QueueName
from sprocket.rabbitmq.store import layout

PAGES = Path(__file__).parents[3] / "docs" / "formats"


def example(page: str) -> bytes:
    """Return the bytes of the one hex example of a page."""
    blocks = re.findall(r"```hex\n(.*?)```", (PAGES / page).read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == 1
    return bytes.fromhex(blocks[0])


def test_the_queue_index() -> None:
    """A message's records in the journal, and in its segment."""
    message_id = bytes.fromhex("646307995ed3dc325ac6e4042355a7ed")
    record = index.publish(2050, message_id, 0, 13, b"\x83", is_persistent=True)
    journal = record + index.deliver(2050) + index.ack(2050)
    segment = index.segment_publish(2, record) + 2 * index.segment_mark(2)
    assert example("rabbitmq-queue-index.md") == journal + segment
    assert index.states(index.read_segment(segment), 2048).is_acked.tolist() == [True]


def test_the_message_on_its_page() -> None:
    """It is what encoding gives and decoding understands."""
    data = example("rabbitmq-message.md")
    message = BasicMessage(
        bytes(range(16)), "/", "", ("orders",), b"\x10\0\x02", (b"hello",), is_persistent=True
    )
    assert message_term.decode(data) == message
    assert message_term.encode(message) == data


def test_the_name_of_a_queue_on_its_page() -> None:
    """It belongs to the folder that the page names."""
    data = example("rabbitmq-folder.md")
    queue = QueueName("/", "prio", 3)
    assert layout.queue_folder(queue) == "B984Q77NT0PKP70QMSM45P98P"
    assert layout.encode_queue_name(queue) == data
    assert layout.decode_queue_name(data, layout.queue_folder(queue)) == queue


def test_the_entry_of_a_message_store_on_its_page() -> None:
    """It is what is written for a term, and found in a file."""
    data = example("rabbitmq-message-store.md")
    message_id = bytes(range(16))
    assert b"".join(entries.entry(message_id, b"\x83d\0\x04true")) == data
    found = list(entries.scan(lambda at, size: data[at : at + size], len(data)))
    assert found == [StoreEntry(0, len(data), message_id)]


def test_the_terms_of_a_queue_on_their_page() -> None:
    """They begin the data of a file, in a block of 256 bytes."""
    queue = QueueTerms(
        next_seq_id=7,
        next_deliver_seq_id=7,
        persistent_ref=bytes(range(16)),
        persistent_count=0,
        persistent_bytes=0,
        segments={},
    )
    file = recovery_terms.encode({"Q": queue})
    data = example("rabbitmq-recovery-terms.md")
    assert file[0x1538:] == data.ljust(256, b"\0")
    assert recovery_terms.decode(file).queues == {"Q": queue}


def test_the_segment_of_version_2_on_its_page() -> None:
    """Two messages, and one that was acknowledged between them."""
    segment = index.read_segment_v2(example("rabbitmq-queue-index-v2.md"))
    assert (segment.seq_ids.tolist(), segment.end_seq_id) == ([8, 10], 12)
    assert segment.places.tolist() == [
        index.MessagePlace.QUEUE_STORE,
        index.MessagePlace.SHARED_STORE,
    ]
    assert (segment.positions[0], segment.sizes[0], segment.expiry_us[0]) == (64, 189, 0)
    assert segment.message_ids[1].tobytes() == bytes(range(16))
    assert segment.body_sizes.tolist() == [11, 9000]
    assert segment.findings == ()


def test_the_checksums_of_a_segment_on_their_page() -> None:
    """They are those of the two records, and know them."""
    head = "c002 64630799 5ed3dc32 5ac6e404 2355a7ed 0000000000000000 0000000d 00000001"
    data = bytes.fromhex(f"{head} 83 4002")
    file = example("rabbitmq-index-sums.md")
    assert index.index_sum(data, 0, is_segment=True).encode() == file
    (one,) = index.decode_sums(file)
    assert (one.position, one.end, one.skeleton[:34]) == (0, 37, bytes.fromhex(head))
