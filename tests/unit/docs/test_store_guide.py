"""The commands of the guides to stores, of both products, print what the pages say."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGES = {"store.md": 12, "rabbit-store.md": 11}
"""Pages of `docs/guides`, and how many commands each has at least."""
BLOCK = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)
SHELL = 'sprocket() { "$PYTHON" -c "from sprocket.cli.main import main; main()" "$@"; }\n'
VARIES = "…"
"""Stands in the page for what differs from run to run, at the end of a line or for a line."""


def commands(text: str) -> Iterator[tuple[str, str]]:
    """Each command with what the page says it prints."""
    for block in BLOCK.findall(text):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, printed = part.partition("\n")
            yield command, printed


def run(command: str, folder: Path) -> str:
    """Run one command line in a folder; return what it prints, errors too."""
    environment = {
        **os.environ,
        "PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT / "src"),
        "REPOSITORY": str(ROOT),
        "COLUMNS": "80",
    }
    ended = subprocess.run(
        ["bash", "-c", SHELL + command],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return ended.stdout


def pattern(printed: str) -> str:
    """Return what matches the text, with anything for what varies."""
    parts = re.split(rf"{VARIES} *", printed)
    return "[^│\n]*".join(map(re.escape, parts))


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_every_command_prints_what_the_page_says(page: str, tmp_path: Path) -> None:
    """In the order of the page, in one folder."""
    pytest.importorskip("rocksdict")
    path = ROOT / "docs" / "guides" / page
    found = list(commands(path.read_text(encoding="utf-8")))
    assert len(found) >= PAGES[page]
    for command, printed in found:
        said = run(command, tmp_path)
        assert re.fullmatch(pattern(printed), said), f"$ {command}\n{said}"
