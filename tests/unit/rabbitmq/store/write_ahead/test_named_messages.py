"""Which messages that the log names the store has, whole."""

from pathlib import Path
from zlib import crc32

from tests.kept_files import KeptFiles

from sprocket.rabbitmq.codec.checksums import TermSum
from sprocket.rabbitmq.codec.store import entries
from sprocket.rabbitmq.store.layout import MessageStoreLayout
from sprocket.rabbitmq.store.write_ahead.named_messages import missing_messages


def message_id(number: int) -> bytes:
    """Return the id of a message."""
    return b"%016d" % number


def term(number: int) -> bytes:
    """Return its term."""
    return b"\x83h\x06d\0\x0dbasic_message" + message_id(number) + b"d\0\4true"


def test_what_no_file_has_whole_is_missing(tmp_path: Path) -> None:
    """Of another length or with other bytes it is not the one; no file stays open."""
    disk, paths = KeptFiles(), MessageStoreLayout(str(tmp_path / "store"))
    disk.make_folder(paths.root)
    for file_number, numbers in enumerate(((1, 2), (3, 4))):
        file = disk.open(paths.file(file_number), write=True, create=True)
        for number in numbers:
            file.write(entries.entry(message_id(number), term(number)), file.size())
        file.close()
    sums = {n: TermSum(len(term(n)), crc32(term(n))) for n in range(1, 6)}
    sums[2] = TermSum(len(term(2)) + 1, crc32(term(2)))
    sums[4] = TermSum(len(term(4)), crc32(term(5)))
    named = {message_id(n): known for n, known in sums.items()}
    assert missing_messages(disk, paths, named) == {message_id(n) for n in (2, 4, 5)}
    assert disk.left_open() == []
