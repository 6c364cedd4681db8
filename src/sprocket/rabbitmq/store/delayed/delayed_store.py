"""The messages of a virtual host that are not due yet, with memory that does not grow with them.

Theory of operation

A message that is to wait is a record in the write-ahead log, durable with that, and an entry in
memory. When those take too much memory, or the log's oldest file is needed for them, they become a
*run*: a file of entries sorted by due time (`flush_steps`). Messages are taken in the order in
which they are due, from memory and from the beginnings of all runs, of which one block each is in
memory; so what is in memory does not depend on how many there are. When there are many runs of
about one size they become one (`merge_steps`).

What was taken is one key: everything up to it was routed, everything later was not (`done`).
The record that says so is in the same batch of the log as the messages in their queues, so after a
crash a message is either in its queues or here. That works because nothing is ever added that is
due before what was taken: delays are longer than zero, on a clock that never goes back.

`manifest` names the runs, and says up to which record of the log they have everything.

Invariants

1. The keys of a run are in order; no two entries have the same key.
2. Whatever was taken has a smaller key than whatever was not.
3. An entry that is durable is in the log after the last flush, or in a run that the manifest
   names.
4. A run goes when it is durable that all of it was routed, or that another one has the rest.

Source: ours. What it is to do: RabbitMQ's plugin `rabbitmq_delayed_message_exchange`.
"""

import heapq
from collections.abc import Collection, Sequence
from functools import partial
from typing import Final

from msgspec import Struct, structs

from sprocket.base import log as logging
from sprocket.base.disk import Disk, Steps, StepsTo, remove_if_there, replace_file
from sprocket.base.errors import DiskFailed, StoreError
from sprocket.rabbitmq.codec import delayed, message_term
from sprocket.rabbitmq.codec.delayed import (
    Added,
    DelayedEntry,
    DelayedKey,
    DelayedManifest,
    RunFile,
)
from sprocket.rabbitmq.model.message import BasicMessage
from sprocket.rabbitmq.store.delayed.opening import DelayedContents, subtract
from sprocket.rabbitmq.store.delayed.runs import (
    DelayedRun,
    LoadedBlock,
    Merge,
    NextBlock,
    ObsoleteEntries,
    load_block,
    next_block,
    open_made,
    open_run,
    write_run,
)
from sprocket.rabbitmq.store.layout import DelayedLayout
from sprocket.rabbitmq.store.write_ahead import Origin, WriteAheadLog

BLOCKS: Final = 128
"""Blocks of a run that was written from memory: one of each run is in memory again later."""
MERGE_RUNS: Final = 8
"""This many runs of about one size become one; and as much larger is the next size."""
TAKE_BYTES_MAX: Final = 1 << 20
"""When this much was taken, others have their turn."""

_log = logging.get_logger(__name__)


class DelayedMessage(Struct, frozen=True, gc=False):
    """A message that is due.

    Attributes:
        exchange: Which one has kept it.
        message: What was published, under an id of its own.
        due_us: When it was due.
    """

    exchange: str
    message: BasicMessage
    due_us: int


class _Flush:
    """A run that is being made of what is in memory."""

    def __init__(self, number: int, entries: list[DelayedEntry], basis: DelayedManifest) -> None:
        self.number = number
        self.entries = entries
        self.basis = basis
        """What holds when the run is there, its runs left out."""


class DelayedStore:
    """See the head of the module.

    Args:
        disk: Where it lies.
        layout: Its paths.
        log: What makes durable what is added.
        origin: Its name in the log.
        found: What there was.
        memory_bytes_max: When messages in memory take more they become a run.

    Attributes:
        ahead_us: How far the clock of delays was ahead of the wall's when that was noted last.
        at_us: The latest time on that clock that is known.
        counts: Messages that wait, by exchange.
    Threads: one at a time; calls that steps give may run elsewhere.
    """

    def __init__(
        self,
        disk: Disk,
        layout: DelayedLayout,
        log: WriteAheadLog,
        origin: Origin,
        found: DelayedContents,
        memory_bytes_max: int,
    ) -> None:
        manifest = found.manifest
        self.ahead_us = manifest.ahead_us
        self.at_us = manifest.at_us
        self.counts = dict(manifest.counts)
        self._disk = disk
        self._layout = layout
        self._log = log
        self._origin = origin
        self._memory_bytes_max = memory_bytes_max
        self._block_bytes = max(memory_bytes_max // BLOCKS, 1)
        self._manifest = manifest
        """What the file says, or said last."""
        self._next_number = manifest.next_number
        self._done = self._taken = DelayedKey(manifest.done_us, manifest.done_number)
        self._dropped = dict(manifest.dropped)
        self._memory: dict[int, DelayedEntry] = {}
        self._memory_bytes = 0
        self._keys: list[DelayedKey] = []
        """A heap of the keys of what is in memory; what was taken is not in it."""
        self._in_hand: list[int] = []
        """Numbers of what was taken from memory and is not done."""
        self._leaving: dict[str, int] = {}
        """How many of `counts` were taken and are not done, those that cannot be read included."""
        self._runs = [open_run(disk, layout, one) for one in manifest.runs]
        self._next_run = found.next_run
        self._flush: _Flush | None = None
        self._is_noted = True
        """Whether the manifest and the runs say all that is known."""
        self._tell_faults()

    # -- messages

    def add(self, exchange: str, message: BasicMessage, due_us: int, at_us: int) -> int:
        """Keep a message; return its number.

        Args:
            exchange: Which one keeps it.
            message: What it is.
            due_us: When it is to be routed, later than `at_us`.
            at_us: The time, not earlier than it was in any call before.

        Raises:
            StoreError: It cannot be stored; nothing has changed.
        Durability: with the log's next write and sync, as all that follows.
        """
        assert due_us > at_us, "what is due is not kept"
        assert due_us > self._taken.due_us, "the clock went back"
        term = message_term.encode(message)
        one = DelayedEntry(due_us, self._next_number, exchange, term)
        self._append(delayed.added(at_us, one), at_us)
        self._memory[one.number] = one
        self._memory_bytes += len(term)
        heapq.heappush(self._keys, one.key)
        self.counts[exchange] = self.counts.get(exchange, 0) + 1
        return one.number

    def withdraw(self, numbers: Collection[int]) -> set[int]:
        """Remove messages that were refused, since the write after them has failed.

        Returns:
            The numbers of those that were there.
        """
        found = {one for one in numbers if one in self._memory}
        first = self._origin.unwritten_from
        unwritten = {one for one in found if 0 <= first <= one}
        gone: dict[str, int] = {}
        for number in unwritten:
            exchange = self._memory[number].exchange
            gone[exchange] = gone.get(exchange, 0) + 1
            self._forget(number)
        subtract(self.counts, gone)
        flush = self._flush
        if flush is not None:  # it has failed, and is tried again
            flush.entries = [one for one in flush.entries if one.number not in unwritten]
            left = dict(flush.basis.counts)
            subtract(left, gone)
            flush.basis = structs.replace(flush.basis, counts=left)

        def keep(records: bytes) -> bytes:
            some = delayed.decode_records(records)
            return b"".join(
                [
                    delayed.encode_record(one)
                    for one in some
                    if not (isinstance(one, Added) and one.number in unwritten)
                ]
            )

        self._log.withdraw(self._origin, keep)
        return found

    def _append(self, record: bytes, at_us: int) -> None:
        self._log.append(self._origin, record)
        if self._origin.unwritten_from < 0:
            self._origin.unwritten_from = self._next_number
        self._next_number += 1
        self.at_us = max(self.at_us, at_us)
        self._is_noted = False

    @property
    def count(self) -> int:
        """How many messages wait."""
        return sum(self.counts.values())

    @property
    def next_due_us(self) -> int | None:
        """When the next message is due, or earlier; None if none waits."""
        first = self._first_run()
        keys = [
            one for one in (self._first_key(), None if first is None else first.next_key) if one
        ]
        return min(keys).due_us if keys else None

    def take_steps(self, now_us: int, count_max: int) -> StepsTo[list[DelayedMessage]]:
        """Return the first messages of those that are due, in order.

        `done` is to be called before this is again. What is void or cannot be read is left out;
        what waits for a write ends it.

        Raises:
            DiskFailed: What comes first cannot be read; the next call skips it if it still
                cannot be.
        """
        taken: list[DelayedMessage] = []
        size = 0
        while len(taken) < count_max and size < TAKE_BYTES_MAX:
            run, key = self._first_run(), self._first_key()
            first = None if run is None else run.next_key
            if run is not None and first is not None and (key is None or first <= key):
                if first.due_us > now_us:
                    break
                if not run.entries:
                    fault = yield from self._load_steps(run)
                    if fault and taken:
                        break
                    if fault:
                        run.retried_at = run.position
                        raise DiskFailed(fault, run.file.path)
                    continue
                one = run.entries.popleft()
            elif key is not None and key.due_us <= now_us and not self._is_unwritten(key):
                heapq.heappop(self._keys)
                one = self._memory[key.number]
                self._in_hand.append(key.number)
            else:
                break
            if one.key <= self._taken:
                continue
            self._taken = one.key
            if self._is_void(one):
                continue
            self._leaving[one.exchange] = self._leaving.get(one.exchange, 0) + 1
            try:
                message = message_term.decode(one.term)
            except StoreError as error:
                _log.error("a delayed message cannot be read", number=one.number, why=str(error))
                continue
            taken.append(DelayedMessage(one.exchange, message, one.due_us))
            size += len(one.term)
        return taken

    def _is_unwritten(self, key: DelayedKey) -> bool:
        """Say whether a message waits for a write that may still refuse it."""
        return 0 <= self._origin.unwritten_from <= key.number

    def done(self, at_us: int) -> None:
        """Remove what the last `take_steps` has returned: it is in its queues."""
        counts, self._leaving = self._leaving, {}
        for run in self._runs:
            run.note_done()
        if self._taken == self._done:
            return
        self._done = self._taken
        self._append(delayed.done(self._next_number, at_us, self._done, counts), at_us)
        subtract(self.counts, counts)
        in_hand, self._in_hand = self._in_hand, []
        for number in in_hand:
            self._forget(number)
        if self.next_due_us is None:
            self.counts = {}  # of what was in damaged blocks nobody knows the exchange

    def drop(self, exchange: str, at_us: int) -> None:
        """Remove all messages of an exchange."""
        if exchange not in self.counts:
            return
        number = self._next_number
        self._append(delayed.dropped(number, at_us, exchange), at_us)
        self._dropped[exchange] = number
        del self.counts[exchange]
        self._leaving.pop(exchange, None)
        for one in list(self._memory.values()):
            if one.exchange == exchange:
                self._forget(one.number)

    def note_clock(self, ahead_us: int, at_us: int) -> None:
        """Note how far the clock of delays is ahead of the wall's: the next start needs it."""
        self._append(delayed.clock_set(self._next_number, at_us, ahead_us), at_us)
        self.ahead_us = ahead_us

    def _first_key(self) -> DelayedKey | None:
        """Return the first key of what is in memory and was not taken."""
        keys = self._keys
        while keys and (keys[0] <= self._taken or keys[0].number not in self._memory):
            heapq.heappop(keys)
        return keys[0] if keys else None

    def _first_run(self) -> DelayedRun | None:
        """Return the run that has the first message of all runs."""
        found, first = None, None
        for run in self._runs:
            key = run.next_key
            if key is not None and (first is None or key < first):
                found, first = run, key
        return found

    def _load_steps(self, run: DelayedRun) -> StepsTo[str]:
        """Read the next block of a run, or skip it if nothing of it is left.

        Returns:
            Why it cannot be read, at the first attempt; at the second one it is skipped.
        """
        head, position = run.head, run.position
        assert head is not None
        if head.last <= self._taken:
            end = position + delayed.HEAD_BYTES + head.size
            following: NextBlock = yield partial(next_block, run.file, end, run.file_bytes)
            if (run.position, run.head) == (position, head):
                if following.faults and run.retried_at != position:
                    return following.faults[0]
                run.skip_block(following)
        else:
            loaded: LoadedBlock = yield partial(
                load_block, run.file, position, head, run.file_bytes
            )
            if (run.position, run.head) == (position, head):
                if loaded.following.faults and run.retried_at != position:
                    return loaded.following.faults[0]
                run.take_block(loaded)
        self._tell_faults()
        return ""

    def _tell_faults(self) -> None:
        for run in self._runs:
            for fault in run.faults[run.reported_count :]:
                _log.error("delayed messages cannot be read; they stay in the file", why=fault)
            run.reported_count = len(run.faults)

    def _is_void(self, one: DelayedEntry) -> bool:
        return self._dropped.get(one.exchange, 0) > one.number

    def _forget(self, number: int) -> None:
        """Remove a message from memory, if it is there."""
        one = self._memory.pop(number, None)
        if one is not None:
            self._memory_bytes -= len(one.term)

    # -- upkeep

    @property
    def is_flush_due(self) -> bool:
        """Whether what is in memory takes too much of it."""
        return self._memory_bytes > self._memory_bytes_max

    @property
    def wants_flush(self) -> bool:
        """Whether a flush has something to do."""
        return not self._is_noted or self._flush is not None

    def flush_steps(self) -> Steps:
        """Make a run of what is in memory, and have the manifest say all.

        Raises:
            DiskFull, DiskFailed, StoreFailed: Nothing is lost; called again it goes on.
        """
        if not self.wants_flush:
            return
        if self._flush is None:
            self._flush = self._begin_flush()
        flush = self._flush
        known = [one.as_file for one in self._runs]  # as of now it will be durable
        yield from self._log.commit_steps()
        made: DelayedRun | None = None
        if flush.entries:
            made = yield from self._made_steps(flush)
            known.append(made.as_file)
        try:
            yield from self._keep_steps(structs.replace(flush.basis, runs=tuple(known)))
        except BaseException:
            if made is not None:
                made.close()
            raise
        if made is not None:
            self._runs.append(made)
            for one in flush.entries:
                self._forget(one.number)
            self._keys = [one for one in self._keys if one.number in self._memory]
            heapq.heapify(self._keys)
        self._log.end_flush(self._origin)
        self._flush = None
        self._is_noted = self._next_number == flush.basis.next_number

    def _made_steps(self, flush: _Flush) -> StepsTo[DelayedRun]:
        """Write the run of a flush, durably, and open it."""
        disk, layout = self._disk, self._layout
        if not (yield partial(disk.exists, layout.manifest)):  # a run without any is damage
            yield from self._keep_steps(self._manifest)
        path = layout.run(flush.number)
        size = yield partial(write_run, disk, path, flush.entries, self._block_bytes)
        yield partial(disk.sync_folder, layout.root)
        made: DelayedRun = yield partial(open_made, disk, layout, RunFile(flush.number, size, 0))
        return made

    def _begin_flush(self) -> _Flush:
        entries = sorted(self._memory.values(), key=lambda one: one.key)
        number, self._next_run = self._next_run, self._next_run + 1
        if not entries and not self._runs:
            self._dropped = {}
        self._log.begin_flush(self._origin, [])
        return _Flush(number, [one for one in entries if not self._is_void(one)], self._basis())

    def _basis(self) -> DelayedManifest:
        return DelayedManifest(
            next_number=self._next_number,
            done_us=self._done.due_us,
            done_number=self._done.number,
            at_us=self.at_us,
            ahead_us=self.ahead_us,
            counts=dict(self.counts),
            dropped=dict(self._dropped),
        )

    def _keep_steps(self, manifest: DelayedManifest) -> Steps:
        """Write the manifest, durably."""
        data = delayed.encode_manifest(manifest)
        yield partial(self._disk.make_folder, self._layout.root)
        yield partial(replace_file, self._disk, self._layout.manifest, data)
        self._manifest = manifest

    @property
    def wants_merge(self) -> bool:
        """Whether a merge has something to do."""
        return bool(self._used() or self._group())

    def merge_steps(self) -> StepsTo[int]:
        """Remove runs of which nothing is left, and make one run of many, if it pays.

        Returns:
            Files that are gone.

        Raises:
            DiskFull, DiskFailed, StoreFailed: Nothing is lost.
        """
        known = {one.number: one.as_file for one in self._runs}  # as of now it will be durable
        used = self._used()
        group = [] if used else self._group()
        if not used and not group:
            return 0
        obsolete = ObsoleteEntries(self._done, dict(self._dropped))
        yield from self._log.commit_steps()
        if used:
            yield from self._replace_steps(used, None, known)
            return len(used)
        number, self._next_run = self._next_run, self._next_run + 1
        merge = Merge(
            self._disk,
            self._layout,
            [known[one.number] for one in group],
            obsolete,
            self._layout.run(number),
            self._block_bytes,
        )
        try:
            while not (yield merge.step):
                pass
        finally:
            merge.close()
        assert merge.writer is not None
        if any(merge.faults.values()):  # who takes what is in them may read it after all
            for run in group:
                run.faults += merge.faults[run.number]
            self._tell_faults()
            yield partial(remove_if_there, self._disk, self._layout.run(number))
            return 0
        yield partial(self._disk.sync_folder, self._layout.root)
        found = RunFile(number, merge.writer.file_bytes, 0)
        made = yield partial(open_made, self._disk, self._layout, found)
        try:
            yield from self._replace_steps(group, made, known)
        except BaseException:
            if made not in self._runs:
                made.close()
            raise
        return len(group)

    def _used(self) -> list[DelayedRun]:
        """Return runs of which nothing is left."""
        return [run for run in self._runs if not run.left_bytes]

    def _group(self) -> list[DelayedRun]:
        """Return runs that are to become one; none if there are too few of one size."""
        sizes: dict[int, list[DelayedRun]] = {}
        for run in self._runs:
            if run.faults:
                continue
            size, step = run.left_bytes // self._memory_bytes_max, 0
            while size >= MERGE_RUNS // 2:
                size, step = size // MERGE_RUNS, step + 1
            sizes.setdefault(step, []).append(run)
        return next((runs for runs in sizes.values() if len(runs) >= MERGE_RUNS), [])

    def _replace_steps(
        self, runs: Sequence[DelayedRun], made: DelayedRun | None, known: dict[int, RunFile]
    ) -> Steps:
        """Replace some runs by one, or by none."""
        left = [one for one in self._runs if one not in runs]
        files = [known[one.number] for one in left]
        if made is not None:
            left.append(made)
            files.append(made.as_file)
        # The rest of the manifest stays as it is: the log continues from there.
        yield from self._keep_steps(structs.replace(self._manifest, runs=tuple(files)))
        self._runs = left
        for run in runs:
            run.close()
            if run.faults:
                yield partial(self._set_aside, run.number)
            else:
                yield partial(remove_if_there, self._disk, self._layout.run(run.number))
        yield partial(self._disk.sync_folder, self._layout.root)

    def _set_aside(self, number: int) -> None:
        """Keep the file of a run that could not be read whole, under another name."""
        self._disk.rename(self._layout.run(number), self._layout.damaged_run(number))

    def close(self) -> None:
        """Give the files up."""
        for run in self._runs:
            run.close()
