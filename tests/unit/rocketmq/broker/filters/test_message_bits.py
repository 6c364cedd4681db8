"""The bits that a real RocketMQ left beside its queue units save reads, and hide nothing."""

from collections.abc import Mapping, Sequence

import pytest
from tests.recorded import Recorded
from tests.timers import FakeTimers

from sprocket.base.place import Place
from sprocket.rocketmq.broker.filters import FilterRules, FilterTurns, MessageBits, SqlFilters
from sprocket.rocketmq.codec.record import record
from sprocket.rocketmq.filter import compile_sql
from sprocket.rocketmq.model.filters import PropertyFilter
from sprocket.rocketmq.settings import PullSettings, StoreSettings
from sprocket.rocketmq.store.queue import GroupFilter
from sprocket.rocketmq.store.store import Store
from sprocket.testing.clock import FakeClock

CASE = Recorded("10b-cq-ext-sql")


@pytest.mark.parametrize("group", ["Sql_g0", "Sql_g1", "Sql_g2"])
def test_groups_of_a_real_broker_read_what_passes(group: str) -> None:
    """By its rules and its maps; what is older than a rule has to be read."""
    disk, clock = CASE.in_memory(), FakeClock()
    settings = StoreSettings(fill_ahead_bytes=0, extended_units=True, filter_bits=True)
    subscriptions: dict[str, Sequence[GroupFilter]] = {}
    store = Store.open(disk, "/store", settings, clock, CASE.geometry, subscriptions)
    turns = FilterTurns(FakeTimers(clock))
    rules = FilterRules(
        Place(disk, "/store", clock),
        store.log_clock,
        SqlFilters(turns),
        turns,
        PullSettings(),
        MessageBits(settings, subscriptions, is_certain=store.report.clean),
    )
    rule = rules.get("Sql", group)
    assert rule is not None
    assert len(subscriptions["Sql"]) == 3
    bits = rules.bits(rule)
    assert bits is not None
    assert bits.since_ms == rule.born_time
    read = 0
    matches = compile_sql(rule.expression).matches

    def counting(found: Mapping[str, str]) -> bool:
        nonlocal read
        read += 1
        return matches(found)

    wanted = PropertyFilter(frozenset({"a", "b", "c", "TAGS"}), 4, counting, bits=bits)
    passed = []
    for queue_id in range(8):
        offset = 0
        while offset < store.queue_range("Sql", queue_id).max:
            result = store.get_messages("Sql", queue_id, offset, wanted=wanted)
            offset = result.next_offset
            passed += [(queue_id, record.entry(one).queue_offset) for one in result.records]
    lines = [line for line in CASE.records if line["topic"] == "Sql"]
    expected = sorted(
        (line["queue_id"], line["queue_offset"]) for line in lines if matches(line["properties"])
    )
    assert passed == expected
    assert read < len(lines)
    store.close()
