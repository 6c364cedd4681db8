"""Reads of queues wait for each other."""

from tests.rabbit_queues import HeldReads

from sprocket.base.disk import Steps
from sprocket.rabbitmq.broker.queues import FewReads


def test_a_few_reads_are_out_at_a_time() -> None:
    """Others begin when those have ended, in order, however many there are."""
    reads = HeldReads()
    reads.is_holding = True
    few = FewReads(reads, at_once=2)
    began: list[int] = []
    ended: list[BaseException | None] = []

    def work(number: int) -> Steps:
        began.append(number)
        yield from ()

    for number in range(5000):
        few.drive(work(number), ended.append)
    assert len(reads.held) == 2
    first, done = reads.held.pop(0)
    first.close()
    done(ValueError("failed"))
    assert len(reads.held) == 2
    reads.is_holding = False
    reads.go_on()
    assert began == list(range(1, 5000))
    assert len(ended) == 5000
    assert sum(error is not None for error in ended) == 1
