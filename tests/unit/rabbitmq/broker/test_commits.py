"""Who waits for a group commit is told how it went."""

from sprocket.base.errors import StoreError, StoreFailed
from sprocket.rabbitmq.broker.commits import CommitResponder, Waiter


def test_everybody_is_told_though_telling_one_fails() -> None:
    """That it is durable, or why not."""
    told: list[str] = []

    def note(error: StoreError | None) -> None:
        told.append("durable" if error is None else str(error))

    def fail(_: StoreError | None) -> None:
        raise RuntimeError("planted")

    responder = CommitResponder()
    group = [Waiter(note), Waiter(fail), Waiter(note)]
    answers = responder.ready(group, None)
    assert told == []
    responder.send(answers)
    responder.send(responder.ready(group[:1], StoreFailed("late")))
    responder.refuse(group, StoreFailed("failed"))
    assert told == ["durable", "durable", "late", "failed", "failed"]
