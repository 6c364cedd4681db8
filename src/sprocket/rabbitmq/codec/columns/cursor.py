"""A position in each of many pieces of one buffer, moved along together.

A piece that is not as it should be is marked, and its position stays inside of it, so nothing is
read beyond the buffer whatever the bytes say.
"""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Ints: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]
Octets: TypeAlias = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Spans:
    """Ranges of a buffer, one a row: bytes from `starts` to before `ends`."""

    starts: Ints
    ends: Ints

    def __len__(self) -> int:
        return len(self.starts)

    def of(self, rows: Ints | Mask) -> "Spans":
        """Return those of some rows."""
        return Spans(self.starts[rows], self.ends[rows])


def gather(octets: Octets, starts: Ints, size: int) -> Octets:
    """Return this many bytes from each place on, as rows; all of them lie in the buffer."""
    return np.ascontiguousarray(octets[starts[:, None] + np.arange(size)])


class Cursor:
    """Positions in many pieces.

    Args:
        octets: The buffer.
        pieces: Where each piece is in it.
    """

    def __init__(self, octets: Octets, pieces: Spans) -> None:
        self.at = pieces.starts.astype(np.int64)
        """Where it is in each piece."""
        self.is_good = np.ones(len(pieces), np.bool_)
        """Whether everything was as expected so far."""
        self.every = np.arange(len(pieces), dtype=np.int64)
        """The numbers of all pieces."""
        self._octets = octets
        self._ends = pieces.ends.astype(np.int64)

    @property
    def is_at_end(self) -> Mask:
        """Say which pieces are read to their end."""
        found: Mask = self.at == self._ends
        return found

    def left(self, rows: Ints) -> Ints:
        """Return how many bytes are left of some pieces."""
        return self._ends[rows] - self.at[rows]

    def number(self, form: str, rows: Ints) -> Ints:
        """Read a number of numpy's type `form` in some pieces; 0 where the piece ends before."""
        size = np.dtype(form).itemsize
        fits = self.left(rows) >= size
        found = np.zeros(len(rows), np.int64)
        found[fits] = gather(self._octets, self.at[rows[fits]], size).view(form)[:, 0]
        self.is_good[rows[~fits]] = False
        self.at[rows[fits]] += size
        return found

    def span(self, sizes: Ints, rows: Ints) -> Spans:
        """Pass over this many bytes of some pieces, and return where they are; none if too many."""
        fits = (sizes >= 0) & (sizes <= self.left(rows))
        self.is_good[rows[~fits]] = False
        starts = self.at[rows]
        ends = starts + np.where(fits, sizes, 0)
        self.at[rows] = ends
        return Spans(starts, ends)

    def matches(self, form: bytes, rows: Ints) -> Mask:
        """Say in which of some pieces these bytes come next."""
        fits = self.left(rows) >= len(form)
        found: Mask = fits.copy()
        heads = gather(self._octets, self.at[rows[fits]], len(form))
        found[fits] = (heads == np.frombuffer(form, np.uint8)).all(axis=1)
        return found

    def skip(self, form: bytes, rows: Ints) -> None:
        """Pass over these bytes in some pieces, which must come next."""
        found = self.matches(form, rows)
        self.is_good[rows[~found]] = False
        self.at[rows[found]] += len(form)
