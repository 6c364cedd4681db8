"""The recording: what RocketMQ 5.3.3 told to each of the requests."""

import json
import lzma
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.answers.exchange import Exchange, Frames, Told

FILE = Path(__file__).parents[1] / "data/rocketmq-5.3.3/answers.jsonl.xz"
POPS_FILE = FILE.with_name("pops.jsonl.xz")
"""The scenarios of `popping`."""


def read(file: Path = FILE) -> dict[str, tuple[Any, list[Told]]]:
    """Return by the name of a request what it was, as `as_json` has it, and its answers."""
    found = {}
    for line in lzma.decompress(file.read_bytes()).decode().splitlines():
        value = json.loads(line)
        found[value["request"]["name"]] = value["request"], [Told(**one) for one in value["told"]]
    return found


def write(told: Iterable[tuple[Exchange | Frames, Sequence[Told]]], file: Path = FILE) -> None:
    """Keep what was told, in the order of the requests."""
    lines = [
        json.dumps({"request": as_json(step), "told": [asdict(one) for one in answers]})
        for step, answers in told
    ]
    file.write_bytes(lzma.compress("\n".join(lines).encode(), preset=9))


def as_json(step: Exchange | Frames) -> Any:
    """Return a request as JSON has it; a body of megabytes by its size."""
    value = asdict(step)
    if isinstance(step, Frames):
        value["chunks"] = [chunk.hex() for chunk in step.chunks]
    elif len(step.body) > 1 << 16:
        value["body"] = f"{len(step.body)} characters"
    return json.loads(json.dumps(value, default=str))
