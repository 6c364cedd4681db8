"""Folders of virtual hosts made for a test, on a simulated disk."""

from collections.abc import Iterable, Sequence

from sprocket.rabbitmq.codec import index, message_term
from sprocket.rabbitmq.codec.store import QueueTerms, clean_stop, entries, recovery_terms
from sprocket.rabbitmq.model.message import BasicMessage
from sprocket.rabbitmq.model.names import QueueName
from sprocket.rabbitmq.store import layout
from sprocket.rabbitmq.store.layout import QueueLayout, VhostLayout
from sprocket.testing.disk import SimulatedDisk

ENTRIES = 8
"""Entries of each segment."""


def message(number: int, size: int = 10) -> BasicMessage:
    """Return the message with a number, whose body begins with it."""
    body = f"body {number} ".encode().ljust(size, b".")
    return BasicMessage(
        number.to_bytes(16, "big"), "/", "", ("q",), b"\x10\0\x02", (body,), is_persistent=True
    )


def term(number: int, size: int = 10) -> bytes:
    """Return how it is stored."""
    return message_term.encode(message(number, size))


def published(number: int, *, is_embedded: bool = True, is_persistent: bool = True) -> bytes:
    """Return the journal's publish record of the message of the same number, 10 bytes large."""
    return index.publish(
        number,
        number.to_bytes(16, "big"),
        0,
        10,
        term(number) if is_embedded else b"",
        is_persistent=is_persistent,
    )


def segment(numbers: Iterable[int], *, marks: int = 1) -> bytes:
    """Return a segment with those messages, each with so many marks: delivered, acknowledged."""
    parts = []
    for number in numbers:
        relative = number % ENTRIES
        parts.append(index.segment_publish(relative, published(number)))
        parts += [index.segment_mark(relative)] * marks
    return b"".join(parts)


def stored(numbers: Iterable[int]) -> bytes:
    """Return a file of a message store with those messages, 10 bytes large."""
    return b"".join(part for n in numbers for part in entries.entry(n.to_bytes(16, "big"), term(n)))


class MadeVhost:
    """A folder that a test fills."""

    def __init__(self, vhost: str = "/") -> None:
        self.vhost = vhost
        self.disk = SimulatedDisk()
        self.layout = VhostLayout(f"/vhosts/{layout.vhost_folder(vhost)}")
        self.put(self.layout.name, vhost.encode())
        self.put(self.layout.config, clean_stop.encode_config(ENTRIES))

    @property
    def folder(self) -> str:
        """Where it is."""
        return self.layout.root

    def put(self, path: str, data: bytes) -> None:
        """Write a file."""
        folder = path.rpartition("/")[0]
        self.disk.make_folder(folder)
        file = self.disk.open(path, write=True, create=True)
        file.resize(0)
        file.write([data], 0)
        file.sync()
        file.close()
        self.disk.sync_folder(folder)

    def queue(self, name: str = "q", priority: int | None = None) -> QueueLayout:
        """Make the folder of a queue; return its paths."""
        queue = QueueName(self.vhost, name, priority)
        paths = self.layout.queue(layout.queue_folder(queue))
        self.put(paths.name, layout.encode_queue_name(queue))
        return paths

    def leave_terms(self, names: Sequence[QueueName], next_deliver_seq_id: int | None) -> None:
        """Write what queues leave at a clean stop."""
        terms = QueueTerms(
            next_seq_id=1000,
            next_deliver_seq_id=next_deliver_seq_id,
            persistent_ref=bytes(16),
            persistent_count=0,
            persistent_bytes=0,
            segments={},
        )
        found = {layout.queue_folder(name): terms for name in names}
        self.put(self.layout.recovery_terms, recovery_terms.encode(found))
