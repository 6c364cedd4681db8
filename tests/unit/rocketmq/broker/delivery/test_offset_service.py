"""Where groups go on is told, noted and moved by values; no connection is needed."""

from collections.abc import Callable
from functools import partial
from typing import cast

import pytest
from tests.unit.rocketmq.broker.delivery.test_pull import FakeStore, Harness

from sprocket.rocketmq.broker.delivery import CommitOutcome, OffsetService, PullHold
from sprocket.rocketmq.errors import Refusal, Refused
from sprocket.rocketmq.model.group import CLUSTERING
from sprocket.rocketmq.model.offset_reset import OffsetReset
from sprocket.rocketmq.model.topic import TopicConfig
from sprocket.rocketmq.store.read import Boundary
from sprocket.rocketmq.store.store import Store


class Queues(FakeStore):
    """Queues from 0 to 9, of which time t is at offset t."""

    def queue_end(self, *_: object) -> int:
        """Tell the same of every queue."""
        return 9

    def offset_by_time(self, _topic: str, _queue_id: int, at_ms: int, _: Boundary) -> int:
        """Answer the time itself."""
        return at_ms


class Woken:
    """Notes which queues were woken."""

    def __init__(self) -> None:
        self.queues: list[tuple[str, int]] = []

    def wake(self, topic: str, queue_id: int) -> None:
        """Note it."""
        self.queues.append((topic, queue_id))


class Services(Harness):
    """The service, over topic T with two queues; group g is in it."""

    def __init__(self) -> None:
        super().__init__()
        self.store, self.woken = Queues(), Woken()
        self.beat(CLUSTERING)
        self.groups.put([self.groups.find("g")])
        self.service = OffsetService(
            cast("Store", self.store),
            self.topics,
            self.groups,
            self.members,
            self.offsets,
            cast("PullHold", self.woken),
        )


def refusal(call: Callable[[], object]) -> Refusal:
    """Return why a call is refused."""
    with pytest.raises(Refused) as refused:
        call()
    return refused.value.why


def test_a_reset_moves_queues_and_wakes_who_waits() -> None:
    """By time all queues, by offset one; commits do not count until it was taken."""
    lab = Services()
    assert lab.service.reset(OffsetReset(topic="T", group="g", timestamp=4)) == {0: 4, 1: 4}
    assert lab.woken.queues == [("T", 0), ("T", 1)]
    assert lab.service.commit("g", "T", 0, 7) is CommitOutcome.RESET_BEFORE
    assert lab.service.reset(OffsetReset(topic="T", group="g", queue_id=1, offset=10)) == {1: 10}
    assert lab.offsets.of("g", "T") == {0: 4, 1: 10}
    assert lab.service.reset(OffsetReset(topic="T", group="g", timestamp=-1)) == {0: 9, 1: 9}
    assert lab.offsets.take_reset("g", "T", 0) == 9
    assert lab.service.commit("g", "T", 0, 7) is CommitOutcome.KEPT


def test_a_reset_that_cannot_be_moves_nothing() -> None:
    """One past the end is the last offset that may be given."""
    lab = Services()
    for asked in (
        OffsetReset(topic="T", group="g", queue_id=0, offset=11),
        OffsetReset(topic="T", group="g", queue_id=0, offset=-2),
    ):
        assert refusal(partial(lab.service.reset, asked)) is Refusal.OTHER
    assert refusal(lambda: lab.service.reset(OffsetReset(topic="T", group="h"))) is Refusal.NO_GROUP
    assert refusal(lambda: lab.service.reset(OffsetReset(topic="U", group="g"))) is Refusal.NO_TOPIC
    assert not lab.offsets.of("g", "T")
    assert not lab.woken.queues


def test_what_is_left_of_a_deleted_topic_is_not_committed() -> None:
    """Where a topic was made again, an offset past its end is that of the one before."""
    lab = Services()
    lab.store.made_anew.add("T")
    assert lab.service.commit("g", "T", 0, 10) is CommitOutcome.OF_DELETED_TOPIC
    assert lab.service.commit("g", "T", 0, 9) is CommitOutcome.KEPT
    assert lab.service.query("g", "T", 0, may_begin=False) == 9
    assert refusal(lambda: lab.service.query("g", "T", 1, may_begin=False)) is Refusal.NOT_FOUND
    assert lab.service.query("g", "T", 1, may_begin=True) == 0
    assert refusal(lambda: lab.service.commit("g", "T", None, 9)) is Refusal.INVALID_ARGUMENT


def test_the_smallest_offset_that_has_a_message() -> None:
    """Of all groups but those that are forgotten, and of offsets the queue still has."""
    lab = Services()
    for group, offset in (("g", 5), ("h", 3), ("i", -1)):
        lab.offsets.commit(group, "T", 0, offset)
    assert lab.service.smallest("T", []) == {0: 3}
    assert lab.service.smallest("T", ["h"]) == {0: 5}
    assert lab.offsets.get("h", "T", 0) is None


def test_a_clone_asks_what_the_target_follows() -> None:
    """Members of g follow T alone; whoever is offline gets all."""
    lab = Services()
    lab.topics.put(TopicConfig(name="U"))
    for topic in ("T", "U", "V"):
        lab.offsets.commit("h", topic, 0, 4)
    lab.service.clone("h", "g", None, is_offline=False)
    assert lab.offsets.topics_of("g") == ["T"]
    lab.service.clone("h", "g", None, is_offline=True)
    assert lab.offsets.topics_of("g") == ["T", "U"]
