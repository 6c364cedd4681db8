"""Four faults of our own in what keeps a set safe, each of which `make torture-ha` must find.

Each is planted alone in a copy of `src`, which the brokers then run.
"""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.interop.peers import ROOT


@dataclass(frozen=True)
class Plant:
    """What is changed, and by which kinds of faults that can be found.

    Attributes:
        module: Below `src/sprocket`.
        before: What is there, once.
        after: What is there instead.
        kinds: See `ha_faults.FAULTS`.
    """

    module: str
    before: str
    after: str
    kinds: tuple[str, ...]


PLANTS: Mapping[str, Plant] = {
    "take without being in sync": Plant(
        "rocketmq/failover/mastership.py",
        "            and self.me in view.state.in_sync\n            and self._log",
        "            and self._log",
        ("slave left behind, master killed",),
    ),
    "grow without waiting for both": Plant(
        "rocketmq/failover/mastership.py",
        "every = self._state.in_sync.union(self._joining, *(one.in_sync for one in self._open))",
        "every = self._state.in_sync",
        ("killed between grow and answer",),
    ),
    "acknowledgements without an epoch": Plant(
        "rocketmq/replication/master_speech.py",
        "        return Said(\n            answer=switch_frames.master_handshake(said),",
        "        return Said(\n            end=frame.end,\n"
        "            answer=switch_frames.master_handshake(said),",
        ("killed while it cuts its log",),
    ),
    "cut without zeros": Plant(
        "rocketmq/store/cutting/log_cut.py",
        "                segment.file.write([_ZEROS[:size]], position)\n",
        "",
        ("killed while it cuts its log",),
    ),
}


def planted(plant: Plant, folder: Path) -> Path:
    """Return the folder with a copy of `src` that has a fault."""
    shutil.copytree(ROOT / "src", folder, ignore=shutil.ignore_patterns("__pycache__"))
    path = folder / "sprocket" / plant.module
    text = path.read_text(encoding="utf-8")
    assert text.count(plant.before) == 1, f"{plant.module} has changed: {plant.before!r}"
    path.write_text(text.replace(plant.before, plant.after), encoding="utf-8")
    return folder
