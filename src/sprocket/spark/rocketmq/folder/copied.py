"""Copying ranges of a log to a new one, records being replaced on the way.

Only whole records that fit their checksums are copied, and the blank record of a file: what lies
after it, or after the end of the log, such as remains of older records, is not.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing

from sprocket.base.disk import Buffer, File
from sprocket.base.errors import CorruptRecord
from sprocket.rocketmq.codec.columns import Records, Stop
from sprocket.rocketmq.codec.record_layout import BLANK_BYTES
from sprocket.spark.files import Files, read_on
from sprocket.spark.rocketmq.folder.plan import Span
from sprocket.spark.rocketmq.folder.slices import slices


def copy_records(
    disk: Files,
    spans: Sequence[Span],
    target: Callable[[Span], File | None],
    replaced: Callable[[Records], Mapping[int, bytes]],
) -> None:
    """Copy the records of some spans to the same places of another log.

    Args:
        disk: Where they lie.
        spans: As `plan` has found them.
        target: Returns the open file that is as the one of a span; None to copy nothing.
        replaced: Says of some records what stands in the place of which: bytes by where in
            `Records.data` the record begins, as many as it has.

    Raises:
        CorruptRecord: There is damage.
    """
    for span in spans:
        if span.why:
            raise CorruptRecord(str(span.damage))
        file = target(span)
        ahead = read_on(disk, disk.open(span.path), span.end - span.base)
        with closing(ahead) as opened:
            at, end = span.start - span.base, span.end - span.base
            stop: Stop | None = None
            why = ""
            for piece in slices(opened, span.base, at, end):
                _require_sound(piece.records, span, piece.start)
                at, stop, why = piece.end, piece.stop, piece.why
                others = replaced(piece.records)
                if file is None:
                    continue
                data: Buffer = memoryview(piece.records.data)[: piece.end - piece.start]
                if others:
                    data = bytearray(data)
                    for start, other in others.items():
                        data[start : start + len(other)] = other
                file.write([data], piece.start)
            if stop is Stop.BLANK and span.may_pad:
                if file is not None:
                    file.write([opened.read(at, BLANK_BYTES)], at)
            elif stop is not Stop.END:
                raise CorruptRecord(f"{span.path}, at physical offset {span.base + at}: {why}")


def _require_sound(records: Records, span: Span, start: int) -> None:
    bad = records.wrong_sums()
    if bad.any():
        place = span.base + start + int(records.start[bad][0])
        raise CorruptRecord(
            f"{span.path}, at physical offset {place}: a record does not fit its checksum"
        )
