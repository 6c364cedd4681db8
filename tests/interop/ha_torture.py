"""Many faults of a set of two machines, one after the other, and what must hold after each.

    make torture-ha                      200 faults, about 50 minutes
    make torture-ha FAULTS=20 SEED=7     so many, of this seed
    make torture-ha KIND=etcd            of those that have this in their name
    make torture-ha PLANT=all            four faults of our own, planted: each must be found

Four senders send all the while. `ha_faults` has the faults, `ha_check` what must hold. A seed gives
the same faults in the same order; what they meet is up to the clock.
"""

import itertools
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from tests.interop import ha_planted, ha_set, peers
from tests.interop.ha_check import Broken, Check
from tests.interop.ha_faults import FAULTS, SILENCE_SECONDS, Scene
from tests.interop.ha_load import Ack, Load
from tests.interop.peers import ROOT

OPTIONS = (
    *("--set", f"ha.silence_ms_max={SILENCE_SECONDS * 1000:.0f}"),
    *("--set", f"log.segment_bytes={4 << 20}"),
)
"""Small files, so that there are many; and not to wait long for a slave that is gone."""
SWITCHES = frozenset(
    {
        "master killed (-9)",
        "master stopped (SIGSTOP)",
        "master cut off from etcd",
        "master cut off from both",
        "master's disk emptied",
    }
)
"""Faults after which another one is to lead soon."""
HAND_OVER = "hand-over"
_ACK_SECONDS = 30.0
_NAMED_MAX = 20


@dataclass(frozen=True)
class Outcome:
    """What one fault has cost.

    Attributes:
        kind: Which one.
        note: What it has drawn.
        silence: The longest time without an acknowledgement after it began, in seconds.
        epochs: How many there were during it.
    """

    kind: str
    note: str
    silence: float
    epochs: int


def kinds(random: Random, of: Sequence[str]) -> Iterator[str]:
    """Give kinds of faults for ever: all of them, in any order, and again."""
    while True:
        yield from random.sample(of, len(of))


def happen(kind: str, scene: Scene) -> Outcome:
    """Have one fault happen, and check what must hold then. Raises Broken."""
    ha, before = scene.ha, scene.ha.epoch
    scene.at = time.monotonic()
    scene.note = ""
    try:
        FAULTS[kind](scene)
        ha.wait_settled()
        settled = time.monotonic()
        peers.wait_until(
            lambda: _is_acknowledged_after(scene.load.acks.all, settled),
            "an acknowledgement",
            seconds=_ACK_SECONDS,
        )
    except TimeoutError as error:
        raise Broken(f"the set does not get well: {error}") from error
    silence = silence_after(scene.load.acks.all, scene.at)
    with scene.load.paused():
        scene.check.now()
    return Outcome(kind, scene.note, silence, ha.epoch - before)


def _is_acknowledged_after(acks: Sequence[Ack], at: float) -> bool:
    return any(one.at > at for one in acks[-10:])


def silence_after(acks: Sequence[Ack], at: float) -> float:
    """Return the longest time without an acknowledgement from a moment on."""
    times = [one.at for one in itertools.takewhile(lambda one: one.at > at, reversed(acks))]
    gaps = [later - earlier for later, earlier in itertools.pairwise([*times, at])]
    return max(gaps, default=0.0)


def torture(folder: Path, count: int, seed: int, of: Sequence[str], source: Path) -> list[Outcome]:
    """Have so many faults happen; print what each costs, and what all have cost.

    Args:
        folder: Holds what the processes write.
        count: Of faults.
        seed: Of what is drawn.
        of: Kinds of faults.
        source: The folder with the package of ours that is run.

    Raises:
        Broken: What must hold does not, with what has happened last.
        PeerMissing: There is no etcd.
    """
    random = Random(seed)
    outcomes: list[Outcome] = []
    with ha_set.running(folder, OPTIONS, source, cuts_clients=True) as ha:
        load = Load([one.own_address for one in ha.members], seed)
        check = Check(ha, load.acks)
        scene = Scene(ha, load, check, random)
        try:
            peers.wait_until(lambda: len(load.acks.all) > 100, "messages", seconds=60)
            for number, kind in enumerate(itertools.islice(kinds(random, of), count), 1):
                try:
                    outcome = happen(kind, scene)
                except AssertionError as broken:
                    raise Broken(f"fault {number}, {kind} ({scene.note}): {broken}") from broken
                outcomes.append(outcome)
                _say(f"[{number:3}/{count}] {told(outcome)}")
        finally:
            load.stop()
        check.everything()
        _say("")
        _say(table(outcomes))
        doubled = check.doubled
        _say(
            f"{len(load.acks.all):,} messages acknowledged in {check.epochs} epochs, 0 lost; "
            f"{len(doubled)} doubled, as they were sent again: {_named(doubled)}\n"
            "no offset acknowledged twice, one master in each epoch, logs equal byte for byte"
        )
    return outcomes


def told(outcome: Outcome) -> str:
    """Return what one fault has cost, for people."""
    note = f" ({outcome.note})" if outcome.note else ""
    what = f"{outcome.epochs} new masters" if outcome.epochs != 1 else "another master"
    return f"{outcome.kind}{note}: {outcome.silence:.2f} s without an answer, {what}"


def _named(keys: Sequence[str]) -> str:
    more = f" and {len(keys) - _NAMED_MAX} more" if len(keys) > _NAMED_MAX else ""
    return (" ".join(keys[:_NAMED_MAX]) or "none") + more


def table(outcomes: Sequence[Outcome]) -> str:
    """Return what each kind has cost: seconds without an acknowledgement."""
    rows: dict[str, list[float]] = {}
    for one in outcomes:
        rows.setdefault(one.kind, []).append(one.silence)
    lines = [f"{'seconds without an answer':36} {'count':>5} {'p50':>6} {'p95':>6} {'max':>6}"]
    lines += [_row(kind, rows[kind]) for kind in FAULTS if kind in rows]
    every = [one.silence for one in outcomes if one.kind in SWITCHES and one.epochs]
    if every:
        lines.append(_row("another master, unasked", every))
    return "\n".join(lines)


def _row(what: str, seconds: Sequence[float]) -> str:
    found = sorted(seconds)
    at = [found[min(len(found) - 1, int(len(found) * part))] for part in (0.5, 0.95)]
    return f"{what:36} {len(found):5} {at[0]:6.2f} {at[1]:6.2f} {found[-1]:6.2f}"


def _say(text: str) -> None:
    print(text, flush=True)


def find_planted(name: str, seed: int, count: int) -> str | None:
    """Plant a fault of our own; return what it broke, None if nothing. Raises PeerMissing."""
    plant = ha_planted.PLANTS[name]
    with tempfile.TemporaryDirectory(prefix="sprocket-ha-") as made:
        source = ha_planted.planted(plant, Path(made) / "src")
        try:
            torture(Path(made), count, seed, plant.kinds, source)
        except Broken as broken:
            return str(broken)
    return None


def main(environment: Mapping[str, str]) -> int:
    """Do what the head of the module says."""
    seed = int(environment.get("SEED") or Random().randrange(10**6))
    plant = environment.get("PLANT", "")
    _say(f"SEED={seed}")
    if plant:
        missed = 0
        for name in ha_planted.PLANTS if plant == "all" else [plant]:
            _say(f"planted: {name}")
            found = find_planted(name, seed, int(environment.get("FAULTS") or 12))
            missed += found is None
            _say(f"{name}: {found or 'FOUND BY NONE'}")
        return 1 if missed else 0
    wanted = environment.get("KIND", "")
    of = [one for one in FAULTS if wanted in one]
    folder = Path(environment.get("FOLDER") or tempfile.mkdtemp(prefix="sprocket-ha-"))
    try:
        torture(folder, int(environment.get("FAULTS") or 200), seed, of, ROOT / "src")
    except Broken as broken:
        _say(f"BROKEN: {broken}\nwhat the processes wrote is in {folder}")
        return 1
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(os.environ))
    except peers.PeerMissing as missing:
        sys.exit(str(missing))
