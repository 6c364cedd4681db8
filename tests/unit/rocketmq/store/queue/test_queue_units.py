"""Which units records get: one, one with a time, several, one with bits."""

import pytest
from tests.stores import HOST, filled, log_files, new

from sprocket.base.errors import SettingsError
from sprocket.rocketmq.codec.bloom import Bloom
from sprocket.rocketmq.codec.columns import RecordBatch, columns
from sprocket.rocketmq.codec.record import Entry, Extra, properties, record
from sprocket.rocketmq.model.internal import SCHEDULE_TOPIC
from sprocket.rocketmq.model.message import TRANSACTION_PREPARED, NewRecord
from sprocket.rocketmq.store.log import LogScanner
from sprocket.rocketmq.store.queue import GroupFilter, UnitAssigner, delays_ms


def entry(topic: str = "T", extra: Extra | None = None) -> Entry:
    """Return the entry of a record stored at 1000 ms."""
    return Entry(topic, 3, 7, 10_000, 100, 42, 1000, ("k",), 0, 0, True, extra)


def test_plain_records_are_their_own_units() -> None:
    """Not even the list is another one."""
    entries = [entry(), entry()]
    assert UnitAssigner().of(entries) is entries
    assert list(UnitAssigner().each(entries[0])) == [entry()]


@pytest.mark.parametrize(
    ("level", "delay_ms"), [(1, 1000), (3, 10_000), (4, 30_000), (18, 7_200_000), (99, 7_200_000)]
)
def test_delayed_messages_have_their_time_for_a_code(level: int, delay_ms: int) -> None:
    """A level above the highest counts as that one. To ask twice changes nothing."""
    (unit,) = UnitAssigner().each(entry(SCHEDULE_TOPIC, Extra(delay_level=level)))
    assert unit.tags_code == 1000 + delay_ms
    assert UnitAssigner().of([unit]) == [unit]


def test_the_levels_are_a_setting() -> None:
    """Words of a number and a unit."""
    assert delays_ms("1s 2m 3h 1d") == (1000, 120_000, 10_800_000, 86_400_000)
    units = UnitAssigner(delays=delays_ms("5s"))
    assert units.each(entry(SCHEDULE_TOPIC, Extra(delay_level=2)))[0].tags_code == 6000
    for wrong in ("", "5", "5 s", "-1s", "5w", "5s,6s"):
        with pytest.raises(SettingsError, match="delay levels"):
            delays_ms(wrong)


def test_light_queues_get_units_of_their_own() -> None:
    """Behind the record's own, with the plain code, and nothing for the index."""
    own, first, second = UnitAssigner().of(
        [entry(extra=Extra(light=(("%LMQ%a", 5), ("%LMQ%b", 0))))]
    )
    assert (own.topic, own.queue_id, own.queue_offset, own.keys) == ("T", 3, 7, ("k",))
    assert [(u.topic, u.queue_id, u.queue_offset) for u in (first, second)] == [
        ("%LMQ%a", 0, 5),
        ("%LMQ%b", 0, 0),
    ]
    assert {(u.physical_offset, u.size, u.tags_code) for u in (own, first, second)} == {
        (10_000, 100, 42)
    }
    assert first.keys == ()
    assert UnitAssigner().of([own, first, second])[1:] == [first, second]


def test_offsets_that_nobody_can_have_given_are_left_out() -> None:
    """Before the record there is no room for so many others."""
    far = UnitAssigner().of([entry(extra=Extra(light=(("%LMQ%a", 1 << 40), ("%LMQ%b", 1))))])
    assert [unit.topic for unit in far] == ["T", "%LMQ%b"]


def test_registered_filters_are_tried_on_the_properties() -> None:
    """The bits of those that pass are set; topics without filters are left alone."""
    disk, store = filled(1)
    store.append(new("other", name="N1"))
    store.write()
    files = log_files(disk)
    bloom = Bloom()
    subscriptions: dict[str, list[GroupFilter]] = {}
    units = UnitAssigner(files, subscriptions=subscriptions)
    entries = [record.entry(data) for _, data in store.records()][1:]
    first = Entry("topic", 0, 0, 0, store.record_at(0).nbytes, 1, 1000)
    assert units.of([first]) == [first]
    subscriptions["topic"] = [
        GroupFilter((0, 9), lambda properties: properties["UNIQ_KEY"] == "N0"),
        GroupFilter((1,), lambda properties: "nothing" in properties),
    ]
    (unit,) = units.of([first])
    assert unit.extra == Extra(bit_map=bloom.bit_map([(0, 9)]))
    assert [entry.topic for entry in entries] == ["other"]
    assert list(units.of(entries)) == entries
    assert list(UnitAssigner(subscriptions=subscriptions).of([first])) == [first]


def test_columns_are_units_where_no_filter_is_registered() -> None:
    """For any of their topics; a filter of another one does not matter."""
    disk, store = filled(3)
    files = log_files(disk)
    (batch,) = LogScanner(files.segments, 0, check_crc=False).batches()
    assert isinstance(batch, RecordBatch)
    subscriptions: dict[str, list[GroupFilter]] = {
        "topic": [],
        "other": [GroupFilter((0,), bool)],
    }
    units = UnitAssigner(files, subscriptions=subscriptions)
    assert units.are_records(batch)
    subscriptions["topic"] = [GroupFilter((0,), bool)]
    assert not units.are_records(batch)
    assert not UnitAssigner(deleted={"topic": 1}).are_records(batch)
    assert UnitAssigner(deleted={"other": store.end}).are_records(batch)


LIGHT = {"INNER_MULTI_DISPATCH": "%LMQ%a", "INNER_MULTI_QUEUE_OFFSET": "0"}


@pytest.mark.parametrize(
    "kinds",
    [
        "plain plain",
        "plain delayed plain delayed",
        "delayed",
        "light plain delayed",
        "half plain delayed",
        "half",
    ],
)
@pytest.mark.parametrize("deleted", [{}, {"T": 150}])
def test_units_of_columns_are_those_of_entries(kinds: str, deleted: dict[str, int]) -> None:
    """Of records of any kind that lie among each other, those of deleted topics left out."""
    log, stored = b"", []
    for number, kind in enumerate(kinds.split()):
        pairs = {"light": LIGHT, "delayed": {"DELAY": "3"}}.get(kind, {"TAGS": f"T{number}"})
        new_record = NewRecord(
            topic=SCHEDULE_TOPIC if kind == "delayed" else "T",
            queue_id=number % 2,
            body=b"",
            properties=properties.encode(pairs),
            born_host=HOST,
            store_host=HOST,
            sys_flag=TRANSACTION_PREPARED if kind == "half" else 0,
        )
        stored.append(len(log))
        log += record.encode(
            new_record,
            queue_offset=number,
            physical_offset=len(log),
            stored_at_ms=1000 + number,
            crc_tail=False,
        )
    found = columns.scan(log, 0, len(log))
    batch = RecordBatch(columns.records(log, found.positions, found.stopped_at, 0))
    units_of = UnitAssigner(deleted=deleted)
    entries = [record.entry(log, at) for at in stored]
    expected = [unit for one in entries if one.queueable for unit in units_of.each(one)]
    made = [
        (*key, *row)
        for one in units_of.batches(batch)
        for key, units in one.by_queue()
        for row in zip(*(column.tolist() for column in units), strict=True)
    ]
    assert sorted(made) == sorted(
        (
            e.topic,
            e.queue_id,
            e.queue_offset,
            e.physical_offset,
            e.size,
            e.tags_code,
            e.stored_at_ms,
        )
        for e in expected
    )
