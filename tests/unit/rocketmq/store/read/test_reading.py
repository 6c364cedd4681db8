"""What a read gives, as objects."""

from tests.unit.rocketmq.store.logs import filled, unit_of


def test_records_are_told_apart_in_their_runs() -> None:
    """By the sizes at their heads."""
    log = filled(5)
    log.data += bytes(7)
    log.add()
    result = log.get(0, own_from=0)
    assert [len(run) for run in result.runs] == [unit_of(log, 4)[0] + unit_of(log, 4)[1], 93]
    assert [len(one) for one in result.records] == [log.queue.unit(n)[1] for n in range(6)]


def test_records_end_where_one_is_damaged() -> None:
    """There is no telling where the next one begins."""
    log = filled(5)
    log.data[log.queue.unit(2)[0] + 3] = 0
    result = log.get(0, own_from=0)
    assert (result.count, len(result.records)) == (5, 2)


def test_nothing_found_has_no_records() -> None:
    """And no bytes."""
    result = filled(2).get(2)
    assert (result.records, result.count, result.bytes) == ([], 0, 0)
