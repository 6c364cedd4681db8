"""Appends records, and has who sent them answered when they may be."""

from collections.abc import Sequence
from typing import TypeAlias, TypeVar

from sprocket.base.errors import StoreError
from sprocket.rocketmq.broker.messages import pending_acks
from sprocket.rocketmq.broker.messages.pending_acks import (
    Answer,
    Answers,
    PendingAcks,
    Ready,
    Recipient,
    Waiting,
)
from sprocket.rocketmq.model.message import NewBatch, NewRecord
from sprocket.rocketmq.store.store import Store
from sprocket.runtime.group_commit import GroupCommit
from sprocket.runtime.pressure import Pressure

A = TypeVar("A")
R = TypeVar("R")
P = TypeVar("P", bound=Recipient)

Commits: TypeAlias = GroupCommit[Waiting, Ready]


class DurableAppender:
    """The way of every record into the store.

    Args:
        store: Where they go.
        commits: Writes and syncs them.
        pressure: How much waits for a sync; for those who may refuse to add to it.

    Threads: event loop only.
    """

    def __init__(self, store: Store, commits: Commits, pressure: Pressure) -> None:
        self._store = store
        self._wait = commits.wait
        self.gather = commits.gather
        self.take_up_now = commits.take_up_now
        self.pressure = pressure

    def append(self, record: NewRecord, answer: Answer[P, R], asker: P, request: R) -> None:
        """Append one record; it is answered once, when it may be acknowledged or is refused.

        Args:
            record: What to append.
            answer: Makes the answer.
            asker: Gets it.
            request: What is answered; only passed on, as a closure would cost three times as much.

        Durability: as the flush mode says, see `GroupCommit.wait`.
        """
        self.append_all([record], pending_acks.one, [(answer, asker, request)])

    def append_all(
        self, records: Sequence[NewRecord], answers: Answers[A], asked: Sequence[A]
    ) -> None:
        """Append records, each by itself, and each answered as `append` says.

        Args:
            records: What to append, in order.
            answers: Makes the answers.
            asked: What `answers` gets of each.
        """
        try:
            stored = self._store.append_all(records)
        except StoreError as error:
            if len(records) == 1:
                pending_acks.refuse([PendingAcks(answers, asked, None, 1)], error)
                return
            for number in range(len(records)):
                part = slice(number, number + 1)
                self.append_all(records[part], answers, asked[part])
            return
        self._wait(PendingAcks(answers, asked, stored, len(records)))

    def append_batch(self, batch: NewBatch, answers: Answers[A], asked: Sequence[A]) -> None:
        """Append messages as one: all of them are stored, at consecutive offsets, or none.

        There is one answer, of which `answers` gets the only element of `asked`.
        """
        try:
            stored = self._store.append_batch(batch)
        except StoreError as error:
            pending_acks.refuse([PendingAcks(answers, asked, None, 1)], error)
            return
        self._wait(PendingAcks(answers, asked, stored, len(stored)))
