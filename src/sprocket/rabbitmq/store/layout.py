"""Every path inside the folder of a virtual host; the only place that spells one out.

Source: RabbitMQ 3.10.8 `rabbit_vhost`, `rabbit_queue_index`; docs/formats/rabbitmq-folder.md.
"""

import re
from collections.abc import Iterable
from hashlib import md5

from sprocket.base.errors import CorruptRecord
from sprocket.rabbitmq.model.names import QueueName, name_bytes, name_text

OPENED_FROM = "0.2.0"
"""The lowest release that may open a node or a virtual host which this one has had open; see
`base.release`.

It rises with each change of what recovery has to know."""

SEGMENT = ".idx"
SEGMENT_V2 = ".qi"
STORE_V2 = ".qs"
STORE_FILE = ".rdq"
SUMS = ".sums"
COMPACTED_FILE = ".rdt"
"""What a compaction that is under way, or that was cut short, has written so far."""

STORE_ORIGIN = "msg_store_persistent"
"""What the message store is called in the write-ahead log, where its newest checksums are."""

DELAYED_ORIGIN = "sprocket.delayed"
"""What the store of delayed messages is called there, and its folder."""
DELAYED_RUN = ".run"

_WRITE_AHEAD = "sprocket.wal."
_VOID = "sprocket.void."
_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_PAIRS = [first + second for first in _DIGITS for second in _DIGITS]
"""Two digits at once: ten thousand queues are asked for at a start."""
_NUMBER = re.compile(r"0|[1-9][0-9]{0,18}")


class VhostLayout:
    """The paths of one virtual host in the folder `root`."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.name = f"{root}/.vhost"
        """The virtual host's name, raw bytes."""
        self.config = f"{root}/.config"
        """How many entries each segment of version 1 has."""
        self.geometry = f"{root}/sprocket.geometry"
        """Ours: the same, with a checksum."""
        self.recovery_terms = f"{root}/recovery.dets"
        """What each queue left at a clean stop."""
        self.clean = f"{root}/sprocket.clean"
        """Ours: the same, and the sizes of files then, so that the next start can believe it."""
        self.lock = f"{root}/sprocket.lock"
        """Ours: locked while somebody has the folder open to write."""
        self.upkeep_lock = f"{root}/sprocket.upkeep"
        """Ours: locked while files are changed otherwise than by appending, or are copied."""
        self.queues = f"{root}/queues"
        """The folder of all queues."""
        self.persistent = MessageStoreLayout(f"{root}/{STORE_ORIGIN}")
        """The large messages that survive a restart."""
        self.transient = MessageStoreLayout(f"{root}/msg_store_transient")
        """Those that do not."""
        self.delayed = DelayedLayout(f"{root}/{DELAYED_ORIGIN}")
        """Ours: messages that exchanges keep until they are due."""

    def queue(self, folder: str) -> "QueueLayout":
        """Return the paths of the queue whose folder has that name."""
        return QueueLayout(f"{self.queues}/{folder}")


class QueueLayout:
    """The paths of one queue in the folder `root`."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.name = f"{root}/.queue_name"
        """What the queue is called, for people."""
        self.journal = f"{root}/journal.jif"
        """What happened since the last flush of version 1."""

    def segment(self, number: int) -> str:
        """Return the path of a segment of version 1."""
        return f"{self.root}/{number}{SEGMENT}"

    @staticmethod
    def sums(path: str) -> str:
        """Return the path of the checksums, ours, of a segment or a journal."""
        return f"{path.rpartition('.')[0]}{SUMS}"

    def segment_v2(self, number: int) -> str:
        """Return the path of a segment of version 2."""
        return f"{self.root}/{number}{SEGMENT_V2}"

    def store_v2(self, number: int) -> str:
        """Return the path of the messages of a segment of version 2."""
        return f"{self.root}/{number}{STORE_V2}"

    @staticmethod
    def set_aside(path: str) -> str:
        """Return the path that a damaged file gets when it is replaced."""
        return f"{path}.damaged"


class MessageStoreLayout:
    """The paths of one message store in the folder `root`."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.clean = f"{root}/clean.dot"
        """Which queues used the store when it was stopped; not there after a crash."""
        self.summary = f"{root}/file_summary.ets"
        """How full each file was then."""
        self.index = f"{root}/msg_store_index.ets"
        """Where each message was then."""
        self.combined_file = f"{root}/sprocket.combined"
        """Ours: what two files are being combined into."""

    def sums(self, number: int) -> str:
        """Return the path of the checksums, ours, of a file's messages."""
        return f"{self.root}/{number}{SUMS}"

    def file(self, number: int) -> str:
        """Return the path of a file of messages."""
        return f"{self.root}/{number}{STORE_FILE}"

    def compacted_file(self, number: int) -> str:
        """Return the path of what a compaction writes."""
        return f"{self.root}/{number}{COMPACTED_FILE}"


class DelayedLayout:
    """The paths of the store of delayed messages, ours, in the folder `root`."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.manifest = f"{root}/manifest"
        """Which runs there are."""

    def run(self, number: int) -> str:
        """Return the path of a sorted run of messages."""
        return f"{self.root}/{number}{DELAYED_RUN}"

    def damaged_run(self, number: int) -> str:
        """Return the path of one that was used up, but for what could not be read."""
        return f"{self.root}/{number}.damaged"


def numbers(names: Iterable[str], suffix: str) -> list[int]:
    """Return, in ascending order, the N of those names that are `<N><suffix>`."""
    stems = (name.removesuffix(suffix) for name in names if name.endswith(suffix))
    return sorted(int(stem) for stem in stems if _NUMBER.fullmatch(stem))


def room_file(folder: str) -> str:
    """Return the path of the file that is written to find out whether there is room again."""
    return f"{folder}/sprocket.room"


def write_ahead_file(root: str, number: int) -> str:
    """Return the path of a file of the write-ahead log, ours, of the virtual host in `root`."""
    return f"{root}/{_WRITE_AHEAD}{number}"


def write_ahead_files(names: Iterable[str]) -> list[int]:
    """Return, in ascending order, the numbers of those names that are its files'."""
    return _numbered(names, _WRITE_AHEAD)


def void_log_file(root: str, number: int) -> str:
    """Return the path of a file of a log that did not count any more when it was found."""
    return f"{root}/{_VOID}{number}"


def void_log_files(names: Iterable[str]) -> list[int]:
    """Return, in ascending order, the numbers of those names that are such files'."""
    return _numbered(names, _VOID)


def _numbered(names: Iterable[str], start: str) -> list[int]:
    ends = (name.removeprefix(start) for name in names if name.startswith(start))
    return sorted(int(end) for end in ends if _NUMBER.fullmatch(end))


def vhost_folder(vhost: str) -> str:
    """Return what the folder of a virtual host is called."""
    return _folder(name_bytes(vhost))


def queue_folder(queue: QueueName) -> str:
    """Return what the folder of a queue, or of one of its priorities, is called."""
    return _folder(b"queue" + name_bytes(queue.vhost) + _inner_name(queue))


def _folder(name: bytes) -> str:
    number = int.from_bytes(md5(name, usedforsecurity=False).digest(), "big")
    pairs = []
    while number:
        number, pair = divmod(number, len(_PAIRS))
        pairs.append(_PAIRS[pair])
    return "".join(reversed(pairs)).lstrip("0")


def _inner_name(queue: QueueName) -> bytes:
    name = name_bytes(queue.name)
    return name if queue.priority is None else name + bytes((0, queue.priority))


_VHOST_LINE = b"VHOST: "
_QUEUE_LINE = b"\nQUEUE: "
_VERSION_LINE = b"\nINDEX: v2"


def encode_queue_name(queue: QueueName, *, is_v2: bool = False) -> bytes:
    """Return the content of `.queue_name`."""
    version = _VERSION_LINE if is_v2 else b""
    return b"".join(
        (_VHOST_LINE, name_bytes(queue.vhost), _QUEUE_LINE, _inner_name(queue), version, b"\n")
    )


def decode_queue_name(data: bytes, folder: str) -> QueueName:
    """Return the queue that a `.queue_name` in the folder of that name names.

    Names may hold line ends: the folder's name, which is a hash of both, says where each one ends.

    Raises:
        CorruptRecord: It does not belong to this folder, or is not such a file.
    """
    if data.startswith(_VHOST_LINE) and data.endswith(b"\n"):
        text = data[len(_VHOST_LINE) : -1]
        end = text.find(_QUEUE_LINE)
        while end >= 0:
            rest = text[end + len(_QUEUE_LINE) :]
            for inner in (rest.removesuffix(_VERSION_LINE), rest):
                queue = _queue_name(text[:end], inner)
                if queue_folder(queue) == folder:
                    return queue
            end = text.find(_QUEUE_LINE, end + 1)
    raise CorruptRecord(f"expected the name of the queue in {folder}, found {data[:80]!r}")


def _queue_name(vhost: bytes, inner: bytes) -> QueueName:
    if len(inner) > 2 and inner[-2] == 0:
        return QueueName(name_text(vhost), name_text(inner[:-2]), inner[-1])
    return QueueName(name_text(vhost), name_text(inner))
