"""What a member knows of its set without anybody who decides, on its disk and for others.

The file has a JSON text with the documents of leader and state, and before it a line with the
CRC-32 of that in decimal.
"""

from typing import Final, TypeVar

import msgspec
from msgspec import Struct

from sprocket.base import log
from sprocket.base.checksum import crc32
from sprocket.base.disk import Disk, read_file, replace_file
from sprocket.base.errors import FileMissing, WireError
from sprocket.rocketmq.failover.documents import (
    decode_leader,
    decode_report,
    decode_state,
    encode_leader,
    encode_report,
    encode_state,
)
from sprocket.rocketmq.failover.values import Leader, MemberReport, SetState

EPOCH_CHANGES_MAX: Final = 1 << 32
"""A word has one number for its epoch and the change in it."""

_log = log.get_logger(__name__)
D = TypeVar("D", bound=Struct)


class Word(Struct, frozen=True, kw_only=True):
    """Who leads, and who is in sync.

    Attributes:
        change: Which change of this epoch it is, from 0.
        tenure: The revision at which its leader began; 0 without one.
        leader: None if it has handed over, or nobody ever led.
        state: Its epoch is that of the last leader, or of an operator's word.
    """

    change: int
    tenure: int
    leader: Leader | None
    state: SetState

    @property
    def revision(self) -> int:
        """What tells the newer of two words."""
        return self.state.epoch * EPOCH_CHANGES_MAX + self.change


class Notice(Struct, frozen=True, kw_only=True):
    """What a member tells others."""

    word: Word | None
    report: MemberReport | None


class _WordDocument(Struct):
    change: int
    tenure: int
    leader: msgspec.Raw
    state: msgspec.Raw


class _NoticeDocument(Struct):
    word: _WordDocument | None
    report: msgspec.Raw


_NULL = msgspec.Raw(b"null")


def encode_notice(notice: Notice) -> bytes:
    """Return the JSON of a notice."""
    report = _NULL if notice.report is None else msgspec.Raw(encode_report(notice.report))
    word = None if notice.word is None else _written(notice.word)
    return msgspec.json.encode(_NoticeDocument(word, report))


def decode_notice(text: bytes | str) -> Notice:
    """Return the notice that a JSON text has. Raises WireError."""
    found = _decode(text, _NoticeDocument)
    report = bytes(found.report)
    return Notice(
        word=None if found.word is None else _read(found.word),
        report=None if report == b"null" else decode_report(report),
    )


def load(disk: Disk, path: str) -> Word | None:
    """Return the word that a file has; None if there is none, or it is damaged: others know it."""
    try:
        crc, _, text = read_file(disk, path).partition(b"\n")
    except FileMissing:
        return None
    if crc == b"%d" % crc32(text):
        return _read(_decode(text, _WordDocument))
    _log.error("what is known of the set cannot be read: others are asked", file=path)
    return None


def save(disk: Disk, path: str, word: Word) -> None:
    """Keep a word. Raises DiskFull, DiskFailed.

    Durability: on the disk when this returns.
    """
    text = msgspec.json.encode(_written(word))
    replace_file(disk, path, b"%d\n%b" % (crc32(text), text))


def _written(word: Word) -> _WordDocument:
    leader = _NULL if word.leader is None else msgspec.Raw(encode_leader(word.leader))
    return _WordDocument(word.change, word.tenure, leader, msgspec.Raw(encode_state(word.state)))


def _read(found: _WordDocument) -> Word:
    leader = bytes(found.leader)
    return Word(
        change=found.change,
        tenure=found.tenure,
        leader=None if leader == b"null" else decode_leader(leader),
        state=decode_state(bytes(found.state)),
    )


def _decode(text: bytes | str, kind: type[D]) -> D:
    try:
        return msgspec.json.decode(text, type=kind)
    except msgspec.MsgspecError as error:
        raise WireError(f"expected what a member says, found {text[:80]!r}: {error}") from error
