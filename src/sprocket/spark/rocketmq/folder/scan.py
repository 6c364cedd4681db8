"""Rows of a partition of a store directory."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

from sprocket.base import log
from sprocket.base.disk import RealDisk
from sprocket.base.errors import FileMissing
from sprocket.rocketmq.codec.columns import Records, Stop
from sprocket.spark.files import Files, ReadableFile, read_on
from sprocket.spark.rocketmq.folder.plan import Span
from sprocket.spark.rocketmq.folder.slices import resync, slices
from sprocket.spark.rocketmq.folder.unit_counts import UnitCounts
from sprocket.spark.rocketmq.rows.batches import Batches
from sprocket.spark.rocketmq.rows.damage import DamagedRange

_log = log.get_logger(__name__)


def scan(
    disk: Files,
    spans: Sequence[Span],
    batches: Batches,
    *,
    fail_on_data_loss: bool,
    counts: UnitCounts | None = None,
) -> Iterator[Any]:
    """Give the Arrow batches of some spans.

    Each span must end where a record ends (or in the padding of its file), else it is damaged: a
    cut that fell on bytes that only look like a record shows here.

    Args:
        disk: Where.
        spans: The spans.
        batches: Makes the batches.
        fail_on_data_loss: A file that was cleaned away is an error.
        counts: What the queues say, where only their messages are counted.

    Raises:
        CorruptRecord: There is damage, and the mode is FAILFAST.
        FileMissing: A file was cleaned away since the query was planned, and that is an error.
    """
    for span in spans:
        if span.why:
            yield from batches.damage([span.damage])
            continue
        counted = None if counts is None else counts.of(span)
        if counted is not None and (made := batches.of_counts(counted)) is not None:
            yield from made
            continue
        try:
            file = disk.open(span.path)
        except FileMissing as error:
            if fail_on_data_loss:
                text = f"{span.path} was cleaned away while the query ran; see failOnDataLoss"
                raise FileMissing(text) from error
            _log.warning("file cleaned away while the query ran", path=span.path)
            continue
        with closing(read_on(disk, file, span.end - span.base)) as ahead:
            # Elsewhere than on the local disk a read costs more than what it spares.
            skip_bodies = isinstance(disk, RealDisk) and not batches.has_bodies
            for piece in pieces(ahead, span, skip_bodies=skip_bodies):
                if isinstance(piece, Records):
                    yield from batches.of(piece, span.path)
                else:
                    yield from batches.damage([piece])


def pieces(
    file: ReadableFile, span: Span, *, skip_bodies: bool = False
) -> Iterator[Records | DamagedRange]:
    """Give the records of a span, some thousand at a time, and between them what is damaged.

    Args:
        file: That of the span.
        span: Where to look.
        skip_bodies: Bodies are not wanted: leave them out where they are large.
    """
    at, end = span.start - span.base, span.end - span.base
    while at < end:
        stop, why = None, ""
        for piece in slices(file, span.base, at, end, skip_bodies=skip_bodies):
            yield piece.records
            at, stop, why = piece.end, piece.stop, piece.why
        if stop is Stop.END or (stop is Stop.BLANK and span.may_pad):
            return
        start = span.base + at
        if stop is Stop.BLANK:
            why = f"the padding of the file begins here, before {span.end}"
        found = resync(file, span.base, at + 1, end)
        at = found if found >= 0 else end
        yield DamagedRange(span.path, start, span.base + at - start, why)
