"""Who waits for a group commit is told how it went."""

from sprocket.base.errors import StoreError, StoreFailed
from sprocket.rabbitmq.broker.commits import CommitDesk, Waiter


def test_everybody_is_told_though_telling_one_fails() -> None:
    """That it is durable, or why not."""
    told: list[str] = []

    def note(error: StoreError | None) -> None:
        told.append("durable" if error is None else str(error))

    def fail(_: StoreError | None) -> None:
        raise RuntimeError("planted")

    desk = CommitDesk()
    group = [Waiter(note), Waiter(fail), Waiter(note)]
    answers = desk.ready(group, None)
    assert told == []
    desk.send(answers)
    desk.send(desk.ready(group[:1], StoreFailed("late")))
    desk.refuse(group, StoreFailed("failed"))
    assert told == ["durable", "durable", "late", "failed", "failed"]
