"""Opens users and policies of a folder again and again, each time with another read that fails.

A program: it needs failing_reads.c preloaded. It prints what came of it as JSON.
"""

import ctypes
import json
import sys
from pathlib import Path

from tests.unit.rocketmq.store import rights_folders

PART = b"/config/"


def main(folder: Path) -> None:
    """Try one read after the other, until an opening has no more of them."""
    preloaded = ctypes.CDLL(None)
    contents = rights_folders.files(folder)
    expected = rights_folders.opened(folder)
    refused, wrong = [], []
    number = 0
    while True:
        rights_folders.put_back(folder, contents)
        preloaded.fail_read(PART, ctypes.c_long(number))
        found = rights_folders.outcome(folder)
        reads = preloaded.reads_done()
        preloaded.fail_read(b"", ctypes.c_long(-1))
        if reads <= number:
            break
        if isinstance(found, Exception):
            refused.append(str(found))
            if rights_folders.outcome(folder) != expected:
                wrong.append(f"read {number}: afterwards not as it was")
        elif found != expected:
            wrong.append(f"read {number}: {found}")
        number += 1
    json.dump({"reads": number, "refused": refused, "wrong": wrong}, sys.stdout)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
