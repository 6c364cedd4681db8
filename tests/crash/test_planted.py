"""Each sync of the store is there for a reason: without it, something acknowledged is lost.

Every place in the code that syncs a file or a folder is in one of the tables. Those of `NEEDED` and
`RARE` are taken out one by one, and the power loss suite must then find a loss. For those of
`HARMLESS` the table says why there is none; those of `APART` have a test of their own, as the suite
never comes to where they are needed. A new sync that is in no table fails the first test.
"""

from collections.abc import Callable
from random import Random

import pytest
from tests import repetition
from tests.crash import sites
from tests.crash.driver import GEOMETRY, ROOT, History, Life, Lost
from tests.crash.test_power_loss import NOW_MS, Heat, run

from sprocket.base.disk import Steps
from sprocket.base.errors import StoreError, WireError
from sprocket.rocketmq.store import opening
from sprocket.rocketmq.store.consistency import range_check
from sprocket.rocketmq.store.index import Indexes
from sprocket.rocketmq.store.log import CommitLog
from sprocket.rocketmq.store.queue import FileQueues
from sprocket.rocketmq.store.queue.file_queue import FileQueue
from sprocket.rocketmq.store.recovery import Deletions
from sprocket.rocketmq.store.store import Store
from sprocket.testing.clock import FakeClock
from sprocket.testing.disk import SimulatedDisk, _SimulatedFile

SEEDS = 300
SEEDS_RARE = 6000

NEEDED = {  # and a seed that has noticed it, which is tried first
    "sync flusher.LogSync.run": 1,
    "sync queue_files.sync_all": 10,
    "sync index_file.IndexFile.flush_steps": 1,
    "sync deletions.Deletions._save": 1,
    "sync deletions.Deletions.prune_steps": 19,
    "sync geometry.save": 1,
    "sync recovery._seal": 3,
    "sync_folder deletions.Deletions._save": 1,
    "sync_folder segments.create_segment": 1,
    "sync_folder queue_files.sync_all": 10,
    "sync_folder recovery.mark_open": 195,
}
BY_DAY = ("sync flusher.LogSync.run", "sync geometry.save", "sync_folder segments.create_segment")
RARE = [  # it takes two mishaps to need them
    "sync commit_log.CommitLog.undo",
    "sync index_file.IndexFile.truncate",
    "sync recovery.mark_open",
    "sync_folder key_index.Indexes.flush_steps",
    "sync_folder queue_files.move_away",
    "sync_folder recovery._seal",
    "sync_folder segments.SegmentFiles.drop_before_steps",
    "sync_folder segments.SegmentFiles.drop_from",
]
APART = {
    # An older checkpoint only makes recovery look at more, and in the suite the older one is the
    # lower one: what it calls durable is never cut, and store times do not go back. It is when a
    # checkpoint is taken back that the old one must not come again.
    "sync checkpoint.save",
    # Recovery gives a log file without its length that length again, so that the suite hardly ever
    # loses anything by it. `tests/unit/base/disk/test_segments.py` shows that a new file has it.
    "sync segments.create_segment",
    # The suite asks for no report of repairs; `test_recovery.py` does, after a loss of power.
    "sync recovery.Repaired.keep",
    "sync_folder recovery.Repaired.keep",
    # Of 1,500 seeds none notices that it is missing: the folders of queues are mostly durable since
    # the store was made. `tests/unit/rocketmq/store/queue/test_extension.py` notices.
    "sync_folder file_queues.FileQueues.flush",
}
HARMLESS = {
    # The zeros lie where zeros lay before; the sync only makes later ones cheaper.
    "sync flusher.FillJob.run",
    # Recovery seals what it did with a sync of the same files and folders, before anything counts
    # on it; a crash before that seal finds its work half done and does it again.
    "sync log_repair.cut",
    "sync log_repair.pad",
    "sync_folder key_index.Indexes._drop_from",
    # A derived file that was thrown away and is there again is refused again, or is as it was.
    "sync_folder recovery._throw_away",
    # Without the note, or with `abort` still there, the next start looks at more than it must.
    "sync recovery.mark_closed",
    "sync_folder recovery.mark_closed",
    # A missing checkpoint makes recovery begin with the oldest record.
    "sync_folder checkpoint.save",
    # The report is for people.
    "sync recovery.keep_report",
    "sync_folder recovery.keep_report",
    # Where queues end is only noted to make the next opening quick; a note that does not fit its
    # checksum, or is older than a queue, is passed over.
    "sync file_queues.FileQueues.seal",
    "sync_folder file_queues.FileQueues.seal",
    # The table is for queues whose folder somebody deleted, the sizes are for who opens without.
    "sync recovery.save_queue_table",
    "sync_folder recovery.save_queue_table",
    "sync_folder geometry.save",
    # Who opens the store next says the same, unless it is an older release.
    "sync release.admit",
    "sync_folder release.admit",
    # The table before has more deletions, which lie before the log.
    "sync_folder deletions.Deletions.prune_steps",
}


@pytest.fixture(autouse=True)
def uncompared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep recovery from comparing queues with the log: it would compare stores so small whole."""
    nothing = dict.fromkeys(range_check.COMPARED_BYTES, 0)
    monkeypatch.setattr(range_check, "COMPARED_BYTES", nothing)


Look = Callable[[str], bool]
"""Is told of each sync and where it comes from; says whether it is done."""


@pytest.fixture
def plant(monkeypatch: pytest.MonkeyPatch) -> Callable[[Look], None]:
    """Let a test decide about each sync of the simulated disk."""
    sync, sync_folder = _SimulatedFile.sync, SimulatedDisk.sync_folder

    def watch(look: Look) -> None:
        def looked_sync(file: _SimulatedFile) -> None:
            if look(f"sync {sites.here()}"):
                sync(file)

        def looked_sync_folder(disk: SimulatedDisk, path: str) -> None:
            if look(f"sync_folder {sites.here()}"):
                sync_folder(disk, path)

        monkeypatch.setattr(_SimulatedFile, "sync", looked_sync)
        monkeypatch.setattr(SimulatedDisk, "sync_folder", looked_sync_folder)

    return watch


@pytest.mark.slow
@pytest.mark.parametrize(
    "seeds",
    [
        pytest.param([*range(20), 113], id="by day"),  # 19 and 113 come to every sync
        pytest.param([*range(120)], id="by night", marks=pytest.mark.nightly),
    ],
)
def test_every_sync_is_in_a_table(seeds: list[int], plant: Callable[[Look], None]) -> None:
    """And every entry of the tables is a sync that is done."""
    seen = set()

    def look(site: str) -> bool:
        seen.add(site)
        return True

    plant(look)
    for seed in seeds:
        run(seed)
    assert {*NEEDED, *RARE, *APART, *HARMLESS} == seen


def _is_noticed(plant: Callable[[Look], None], planted: str, seeds: int, first: int = 1) -> bool:
    heat = Heat()

    def look(site: str) -> bool:
        if site == planted:
            heat.calls = 12
        return site != planted

    plant(look)
    for seed in (first, *range(1, seeds)):
        heat.calls = 0
        try:
            run(seed, heat if seed % 2 else None)
        except (Lost, WireError, StoreError):
            return True
    return False


@pytest.mark.slow
@pytest.mark.parametrize("planted", repetition.some(NEEDED, BY_DAY))
def test_a_sync_that_is_taken_out_is_noticed(planted: str, plant: Callable[[Look], None]) -> None:
    """Soon."""
    assert _is_noticed(plant, planted, SEEDS, NEEDED[planted])


@pytest.mark.nightly
@pytest.mark.parametrize("planted", RARE)
def test_a_sync_that_is_rarely_needed_is_noticed(
    planted: str, plant: Callable[[Look], None]
) -> None:
    """In the end."""
    assert _is_noticed(plant, planted, SEEDS_RARE)


@pytest.mark.parametrize("is_planted", [False, True])
def test_a_distrusted_store_is_looked_at_whole(
    is_planted: bool, plant: Callable[[Look], None]
) -> None:
    """From its first record on, though the power goes before it is opened; not without the sync."""
    disk = SimulatedDisk()
    life = Life(disk, History(), Random(1), NOW_MS)
    for _ in range(9):
        life.append()
        life.write()
        life.sync()
        life.dispatch()
        life.clock.advance(5_000)
    life.store.close()
    if is_planted:
        plant(lambda site: site not in APART)
    opening.distrust(disk, ROOT)
    left = disk.crash(lambda _: 0)
    store = Store.open(left, ROOT, life.settings, FakeClock(NOW_MS + 60_000), GEOMETRY)
    assert store.report is not None
    assert (store.report.start == store.first) is not is_planted


def _no_steps(*_: object) -> Steps:
    yield from ()


@pytest.mark.parametrize(
    ("owner", "call", "first"),  # the seed that notices it is tried before the others
    [
        (Indexes, "recover", 4),
        (FileQueue, "_cut", 17),
        (FileQueues, "wipe_behind_ends", 17),
        (FileQueues, "flush_steps", 49),
        (CommitLog, "zero", 2),
        (Deletions, "begin", 1),
    ],
)
def test_what_else_is_taken_out_is_noticed(
    owner: type, call: str, first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Steps of recovery and of deletions, and all syncs of queues at once."""
    monkeypatch.setattr(owner, call, _no_steps if "steps" in call else lambda *_: None)
    with pytest.raises((Lost, WireError)):
        sum(run(seed) for seed in (first, *range(1, SEEDS)))
