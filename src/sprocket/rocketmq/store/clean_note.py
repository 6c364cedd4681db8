"""The note that a clean stop of ours leaves in the folder: where log and index ended."""

import msgspec


class CleanNote(msgspec.Struct, frozen=True):
    """What a clean stop leaves for the next start, as `config/clean.json`.

    Attributes:
        log_end: Where the log ended.
        last_record: Where its last record begins.
        index_end: Where the last record in the index begins.
    """

    log_end: int
    last_record: int
    index_end: int


def encode(note: CleanNote) -> bytes:
    """Return the content of the file."""
    return msgspec.json.encode(note)


def decode(data: bytes) -> CleanNote | None:
    """Return the note; None if it cannot be read, which counts as if there were none."""
    try:
        return msgspec.json.decode(data, type=CleanNote)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
