"""Print how many nanoseconds this Python takes for work like a broker's, and where it is."""

import struct
import sys
import timeit

PARTS = [b"%08d" % number * 8 for number in range(500)]
HEAD = struct.Struct(">ii")


def _code(part: bytes) -> int:
    return int.from_bytes(part[:4], "big") & 255


def _work() -> list[bytes]:
    known: dict[bytes, int] = {}
    joined: list[bytes] = []
    for part in PARTS:
        code = known.get(part[4:12])
        if code is None:
            code = known[part[4:12]] = _code(part)
        joined.append(HEAD.pack(len(part), code) + part)
    return joined


print(round(min(timeit.repeat(_work, repeat=5, number=10)) * 1e8), sys.executable)
