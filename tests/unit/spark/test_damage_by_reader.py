"""Every row of the guide's table of damage by reader is held by a test of that reader."""

import re
from pathlib import Path

from tests.unit.spark.damage_by_reader import A_LOST_END, A_WRONG_BYTE, rows

HELD = re.compile(r'assert says\(\s*"([^"]+)", (A_\w+)\s*\) ==')
KINDS = {"A_WRONG_BYTE": A_WRONG_BYTE, "A_LOST_END": A_LOST_END}


def test_every_row_is_held_by_a_test() -> None:
    """Both kinds of damage, but where there is none."""
    held = set()
    for path in Path(__file__).parent.rglob("test_*.py"):
        for reader, kind in HELD.findall(path.read_text(encoding="utf-8")):
            held.add((reader, KINDS[kind]))
    wanted = {(reader, kind) for reader, kinds in rows().items() for kind in kinds}
    assert held == wanted
    assert len(wanted) > 20
