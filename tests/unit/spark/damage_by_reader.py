"""The table of the guide that says what each reader makes of damage; a test of each holds its row.

A test that has seen what a reader does says so in the words of the table:

    assert says("`pipe stats`", A_WRONG_BYTE) == (FAILS, REPORTED)
"""

from pathlib import Path

GUIDE = Path(__file__).resolve().parents[3] / "docs" / "guides" / "spark.md"

A_WRONG_BYTE, A_LOST_END = "a wrong byte", "a lost end"
FAILS = "fails, and names the place"
LOGGED = "gives the rest; the log names the place"
REPORTED = "works with the rest; the report names and counts the place"
ON_STDERR = "answers for the rest; stderr names the place"
FINDING = "a finding that names the place; exit code 1"
IS_DATA_LOSS = "fails, and names `failOnDataLoss`"
AT_NEW_END = "continues at the new end; the log names the queue"
WHAT_IS_THERE = "continues with what is there; the log names the queue"
NEVER = "cannot be asked for"


def rows() -> dict[str, dict[str, tuple[str, str]]]:
    """Return what is said by default and if it is left out, by reader and kind of damage."""
    table = GUIDE.read_text(encoding="utf-8").partition("| reader |")[2].partition("\n\n")[0]
    found = {}
    for line in table.splitlines()[2:]:
        reader, *cells = (cell.strip() for cell in line.strip("| ").split(" | "))
        first, second = (cells[0], cells[1]), (cells[2], cells[3])
        found[reader] = {A_WRONG_BYTE: first, A_LOST_END: second}
    return found


def says(reader: str, kind: str) -> tuple[str, str]:
    """Return what the guide says that a reader does by default, and if damage is to be left out."""
    return rows()[reader][kind]
