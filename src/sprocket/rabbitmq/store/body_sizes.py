"""How large the bodies of a queue's messages are: four bytes each.

A message that is acknowledged takes its body's size with it from what the queue holds, and only the
index on the disk would know it.
"""

from array import array
from collections.abc import Container, Sequence

_UNKNOWN = 0xFFFFFFFF


class BodySizes:
    """Sizes by sequence id, as far as they are known.

    Args:
        entry_count: Messages of a segment: they are forgotten together.
    """

    def __init__(self, entry_count: int) -> None:
        self._entry_count = entry_count
        self._segments: dict[int, tuple[int, array[int]]] = {}

    def put(self, seq_id: int, size: int) -> None:
        """Note a size."""
        number, relative_id = divmod(seq_id, self._entry_count)
        known = self._segments.get(number)
        if known is None:
            self._segments[number] = relative_id, array("I", (size,))
            return
        first, sizes = known
        at = relative_id - first
        if at == len(sizes):
            sizes.append(size)
        elif at < 0:
            gap = array("I", (_UNKNOWN,)) * -at
            self._segments[number] = relative_id, gap + sizes
            self._segments[number][1][0] = size
        else:
            if at > len(sizes):
                sizes.extend(array("I", (_UNKNOWN,)) * (at - len(sizes)))
                sizes.append(size)
            sizes[at] = size

    def put_all(self, first_seq_id: int, sizes: Sequence[int]) -> None:
        """Note the sizes of messages with numbers from the first on."""
        done = 0
        while done < len(sizes):
            number, relative_id = divmod(first_seq_id + done, self._entry_count)
            some = sizes[done : done + self._entry_count - relative_id]
            known = self._segments.get(number)
            if known is None:
                self._segments[number] = relative_id, array("I", some)
            elif relative_id - known[0] == len(known[1]):
                known[1].extend(some)
            else:
                for seq_id, size in enumerate(some, first_seq_id + done):
                    self.put(seq_id, size)
            done += len(some)

    def get(self, seq_id: int) -> int | None:
        """Return a size; None if nobody knows."""
        number, relative_id = divmod(seq_id, self._entry_count)
        known = self._segments.get(number)
        if known is None:
            return None
        first, sizes = known
        at = relative_id - first
        if not 0 <= at < len(sizes) or sizes[at] == _UNKNOWN:
            return None
        return sizes[at]

    def keep(self, numbers: Container[int]) -> None:
        """Forget all segments but some."""
        for number in [one for one in self._segments if one not in numbers]:
            del self._segments[number]
