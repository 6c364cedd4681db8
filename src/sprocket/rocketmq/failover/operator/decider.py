"""The decider's calls where each member keeps what holds; see the room's head."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Final

from msgspec import structs

from sprocket.base import log
from sprocket.base.disk import Disk
from sprocket.base.errors import ClientError, StoreError, WireError
from sprocket.rocketmq.failover.decider import Alter, Renew, Ruling, Take, Verdict
from sprocket.rocketmq.failover.operator import word as words
from sprocket.rocketmq.failover.operator.word import Notice, Word
from sprocket.rocketmq.failover.values import MemberId, MemberReport, SetState, SetView, Tenure
from sprocket.runtime.offload import DiskThread
from sprocket.runtime.tasks import is_set_within

OPERATOR_STEP: Final = 1 << 20
"""An operator's word raises the epoch by so much: more than members do by themselves meanwhile."""
DECIDER_ID: Final = "operator"

_log = log.get_logger(__name__)

AskOthers = Callable[[], Awaitable[Sequence[Notice]]]
"""Asks the other members; gives what those say that answer."""

_LOST = Ruling(verdict=Verdict.LOST, why="the condition does not hold")
_NOT_KEPT = Ruling(verdict=Verdict.UNKNOWN, why="what was said cannot be kept on the disk")


class OperatorDecider:
    """See the head of the room; a `failover.Decider`.

    Args:
        disk: Where the store lies.
        path: Of the file with the word.
        me: Number of this member.
        ask: Asks the others.
        seconds: How often.

    Threads: event loop only.
    Durability: what was decided is on the disk here; others learn of it when they ask.
    """

    def __init__(
        self, disk: Disk, path: str, me: MemberId, ask: AskOthers, *, seconds: float
    ) -> None:
        self._disk = disk
        self._path = path
        self._me = me
        self._ask = ask
        self._seconds = seconds
        self._thread = DiskThread("sprocket-word")
        self._one_by_one = asyncio.Lock()
        self._word: Word | None = None
        self._is_loaded = False
        self._leads = False
        self._has_met = False
        self._report: MemberReport | None = None
        self._reports: dict[MemberId, MemberReport] = {}
        self._changed = asyncio.Event()

    @property
    def notice(self) -> Notice:
        """What others are told."""
        return Notice(word=self._word, report=self._report)

    async def take(self, call: Take) -> Ruling:
        """See `Decider`; only whoever led last, or was named, asks."""
        async with self._one_by_one:
            view = self._view()
            if view.leader is not None or call.seen_revision != view.state_revision:
                return _LOST
            word = Word(change=0, tenure=0, leader=call.leader, state=call.state)
            word = structs.replace(word, tenure=word.revision)
            if not await self._keep(word):
                return _NOT_KEPT
            self._leads = True
        tenure = Tenure(revision=word.tenure, lease=word.tenure)
        return Ruling(verdict=Verdict.DONE, tenure=tenure, state_revision=word.revision)

    async def renew(self, call: Renew) -> Ruling:
        """See `Decider`: as long as no newer word is known."""
        if self._is_mine(call.tenure):
            return Ruling(verdict=Verdict.DONE)
        return Ruling(verdict=Verdict.LOST, why="another word is newer")

    async def alter(self, call: Alter) -> Ruling:
        """See `Decider`; who hands over is not in sync any more, so that others need not wait."""
        async with self._one_by_one:
            word = self._word
            if word is None or not self._is_mine(call.tenure):
                return _LOST
            if call.seen_revision != word.revision:
                return _LOST
            if call.state is None:
                left = word.state.in_sync - {call.leader.member}
                state = structs.replace(word.state, in_sync=left)
                changed = Word(change=word.change + 1, tenure=0, leader=None, state=state)
            else:
                changed = structs.replace(word, change=word.change + 1, state=call.state)
            if not await self._keep(changed):
                return _NOT_KEPT
            self._leads = call.state is not None
        return Ruling(verdict=Verdict.DONE, state_revision=changed.revision)

    async def init(self, state: SetState, *, seen_revision: int = 0) -> Ruling:
        """See `Decider`; by an operator's word it holds although somebody leads.

        A master of whom it is said begins another epoch, too: a member that it does not reach may
        have begun one by itself meanwhile, and that must not be the greater one.
        """
        async with self._one_by_one:
            word = self._word
            if seen_revision != (0 if word is None else word.revision):
                return _LOST
            epoch = max(state.epoch, 0 if word is None else word.state.epoch)
            state = structs.replace(state, epoch=epoch + OPERATOR_STEP)
            said = Word(change=0, tenure=0, leader=None, state=state)
            if not await self._keep(said):
                return _NOT_KEPT
            self._leads = False
        return Ruling(verdict=Verdict.DONE, state_revision=said.revision)

    async def read(self) -> SetView | None:
        """See `Decider`; the others are asked first."""
        await self._exchange()
        return self._view()

    async def watch(self) -> AsyncGenerator[SetView, None]:
        """See `Decider`."""
        known: SetView | None = None
        while True:
            await self._exchange()
            self._changed.clear()
            view = self._view()
            if view != known:
                known = view
                yield view
            await is_set_within(self._seconds, self._changed)

    async def report(self, report: MemberReport) -> bool:
        """See `Decider`; others get it when they ask."""
        self._report = report
        return True

    async def close(self) -> None:
        """See `Decider`."""
        await self._thread.stop()

    def _is_mine(self, tenure: Tenure) -> bool:
        word = self._word
        return self._leads and word is not None and word.tenure == tenure.revision

    async def _exchange(self) -> None:
        """Ask the others, and take the newest word."""
        async with self._one_by_one:
            if not self._is_loaded:
                self._word = await self._thread.run(lambda: words.load(self._disk, self._path))
                self._is_loaded = True
        try:
            notices = await self._ask()
        except (ClientError, WireError) as error:
            _log.debug("other members do not answer", why=str(error))
            notices = []
        reports = [one.report for one in notices if one.report is not None]
        self._reports = {one.member.id: one for one in reports}
        async with self._one_by_one:
            for one in notices:
                if one.word is not None and self._is_newer(one.word):
                    _log.info("another member has a newer word", epoch=one.word.state.epoch)
                    if await self._keep(one.word):
                        self._leads = False
        self._has_met |= bool(notices)

    def _is_newer(self, word: Word) -> bool:
        return self._word is None or word.revision > self._word.revision

    async def _keep(self, word: Word) -> bool:
        try:
            await self._thread.run(lambda: words.save(self._disk, self._path, word))
        except StoreError as error:
            _log.error("the word of the set cannot be kept", why=str(error))
            return False
        self._word = word
        self._changed.set()
        return True

    def _view(self) -> SetView:
        """Return what holds here.

        Whoever led before this process began may again, once it has met another member that knows
        of nothing newer.
        """
        word = self._word
        leader = None if word is None else word.leader
        if (
            leader is not None
            and leader.member.id == self._me
            and not self._leads
            and self._has_met
        ):
            leader = None
        reports = dict(self._reports)
        if self._report is not None:
            reports[self._me] = self._report
        revision = 0 if word is None else word.revision
        tenure = None
        if word is not None and leader is not None:
            tenure = Tenure(revision=word.tenure, lease=word.tenure)
        return SetView(
            decider_id=DECIDER_ID,
            revision=revision,
            leader=leader,
            tenure=tenure,
            state=None if word is None else word.state,
            state_revision=revision,
            reports=reports,
        )
