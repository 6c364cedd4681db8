"""Who waits for a group commit is told how it went."""

from sprocket.base.errors import StoreError, StoreFailed
from sprocket.rabbitmq.broker.commits import CommitDesk


class Waiting:
    """Writes down what it is told."""

    records = waiting_count = 1

    def __init__(self, told: list[str], *, fails: bool = False) -> None:
        self._told = told
        self._fails = fails

    def committed(self, error: StoreError | None) -> None:
        """See `Committed`."""
        if self._fails:
            raise RuntimeError("planted")
        self._told.append("durable" if error is None else str(error))


def test_everybody_is_told_though_telling_one_fails() -> None:
    """That it is durable, or why not."""
    told: list[str] = []
    desk = CommitDesk()
    group = [Waiting(told), Waiting(told, fails=True), Waiting(told)]
    answers = desk.ready(group, None)
    assert told == []
    desk.send(answers)
    desk.send(desk.ready(group[:1], StoreFailed("late")))
    desk.refuse(group, StoreFailed("failed"))
    assert told == ["durable", "durable", "late", "failed", "failed"]
