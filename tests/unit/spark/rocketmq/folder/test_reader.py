"""Batches over a folder: what options choose, wherever the folder lies."""

import json
import pickle
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.unit.spark.rocketmq.folder.test_plan import write_log
from tests.unit.spark.samples import (
    DATA,
    NARROW,
    encoded,
    expected,
    plain_rows,
    schema,
    unpack,
)

from sprocket.base.errors import DataLost, ForeignStore, SettingsError
from sprocket.rocketmq.codec.record import properties, record
from sprocket.rocketmq.model.internal import is_internal_topic
from sprocket.rocketmq.model.message import NewRecord
from sprocket.spark.rocketmq.folder import DirectoryReader
from sprocket.spark.rocketmq.options import read_directory

Row = dict[str, Any]

CASES = sorted(path.name for path in DATA.iterdir() if (path / "store.tar.xz").exists())
TORN = {"03-torn-last-cut": 1, "03-torn-last-head": 1}
"""How many records of the list the broker itself did not keep."""


def rows(store: str, **given: str) -> list[Row]:
    """Return the rows of a store, each task's read by a copy as a worker has it."""
    options = read_directory({"path": store, **given})
    reader = DirectoryReader(schema(options), options)
    parts = reader.partitions()
    assert isinstance(parts, list)
    read = [
        batch
        for part in parts
        for batch in pickle.loads(pickle.dumps(reader)).read(  # noqa: S301
            pickle.loads(pickle.dumps(part))  # noqa: S301
        )
    ]
    return plain_rows(read)


def places(found: Sequence[Row]) -> list[int]:
    """Return where the records of rows lie."""
    return [row["physicalOffset"] for row in found]


@pytest.mark.parametrize("case", CASES)
def test_every_store_of_a_real_broker(tmp_path: Path, case: str) -> None:
    """Each record that the broker's own decoder saw is a row, and no other."""
    store = unpack(case, tmp_path)
    lines = expected(case)
    lines = lines[: len(lines) - TORN.get(case, 0)]
    everything = rows(store, columns="physicalOffset,topic", includeinternaltopics="true")
    assert places(everything) == [line["phys"] for line in lines]
    prepared = {line["phys"] for line in lines if line["sys_flag"] & 0x4}
    users = [line for line in lines if not is_internal_topic(line["topic"])]
    wanted = [line["phys"] for line in users if line["phys"] not in prepared]
    assert places(rows(store, columns="physicalOffset")) == wanted


def test_from_an_object_store_row_for_row(tmp_path: Path, object_store: Any) -> None:
    """All columns are equal to those of the local folder, over several tasks."""
    store = unpack("02-kill9-load", tmp_path)
    address = object_store.put(store, "load")
    given = {"maxpartitionbytes": "256k", "includeinternaltopics": "true"}
    found = rows(address, **given, **object_store.options)
    assert found == rows(store, **given)
    assert len(found) == len(expected("02-kill9-load"))


def test_a_plan_reads_little_of_an_object_store(tmp_path: Path, object_store: Any) -> None:
    """Of a log that was closed, some ranges are read to plan; then each byte once."""
    store = unpack("01-basic", tmp_path)
    address = object_store.put(store, "basic")
    options = read_directory({"path": address, "maxpartitionbytes": "1m", **object_store.options})
    reader = DirectoryReader(schema(options), options)
    parts = reader.partitions()
    assert len(parts) == 4
    logs = [one for one in object_store.requests if "/commitlog/" in one.path]
    assert all(one.size is not None for one in logs if one.method == "GET")
    assert sum(one.size or 0 for one in logs) < 330_000
    assert len(object_store.requests) < 40
    log_bytes = sum(span.end - span.start for part in parts for span in part.value)
    object_store.requests.clear()
    for part in parts:
        assert plain_rows(list(reader.read(part)))
    assert sum(one.size or 0 for one in object_store.requests) == log_bytes
    assert len(object_store.requests) == 2 * sum(len(part.value) for part in parts)


@pytest.mark.slow
@pytest.mark.nightly
def test_what_is_read_whole_takes_few_requests(tmp_path: Path, object_store: Any) -> None:
    """For 16 MiB each: to plan, as the log was not closed, its last part again, and the rows.

    Once more the end is read, for the time of its last record.
    """
    body = bytes(60_000)
    data = encoded(600, body=body)
    path = tmp_path / "commitlog" / f"{0:020d}"
    path.parent.mkdir()
    path.write_bytes(data + bytes(1000))
    (tmp_path / "abort").touch()
    address = object_store.put(str(tmp_path), "seldom")
    options = read_directory({"path": address, "columns": "size", **object_store.options})
    reader = DirectoryReader(schema(options), options)
    (part,) = reader.partitions()
    large = [one.size for one in object_store.requests if (one.size or 0) > 100_000]
    assert len(large) <= 7
    object_store.requests.clear()
    assert len(plain_rows(list(reader.read(part)))) == 600
    sizes = [one.size or 0 for one in object_store.requests if one.method == "GET"]
    assert (len(sizes), sum(sizes)) == (3, len(data))


def test_what_an_object_store_lacks(object_store: Any, tmp_path: Path) -> None:
    """A folder that is not there, and a topic that is not in it, are named by their address."""
    write_log(tmp_path, [1])
    (tmp_path / "consumequeue" / "orders" / "0").mkdir(parents=True)
    (tmp_path / "consumequeue" / "orders" / "0" / f"{0:020d}").write_bytes(bytes(20))
    address = object_store.put(str(tmp_path), "small")
    with pytest.raises(Exception, match=f"{address}/no is not a store directory"):
        rows(f"{address}/no", **object_store.options)
    with pytest.raises(SettingsError, match=f"'order' in {address}; did you mean orders"):
        rows(address, subscribe="order", **object_store.options)


def numbered(folder: Path, counts: Sequence[tuple[str, int, int]]) -> str:
    """Write a log of messages, of each (topic, queue id, messages) in turn, with queue files.

    Message number n of the log was stored at 1,000,000 + n ms; its tag is `even` or `odd`.
    """
    data, ends = b"", Counter[tuple[str, int]]()
    units: dict[tuple[str, int], bytes] = {}
    number = 0
    for topic, queue_id, count in counts:
        for _ in range(count):
            pairs = {"TAGS": ("even", "odd")[number % 2], "n": "ü\n"}
            new = NewRecord(
                topic,
                queue_id,
                b"body",
                properties.encode(pairs),
                born_host=NARROW,
                store_host=NARROW,
            )
            made = record.encode(
                new,
                queue_offset=ends[topic, queue_id],
                physical_offset=len(data),
                stored_at_ms=1_000_000 + number,
                crc_tail=False,
            )
            unit = len(data).to_bytes(8, "big") + len(made).to_bytes(4, "big") + bytes(8)
            units[topic, queue_id] = units.get((topic, queue_id), b"") + unit
            data += made
            ends[topic, queue_id] += 1
            number += 1
    log = folder / "commitlog"
    log.mkdir(parents=True)
    (log / f"{0:020d}").write_bytes(data + bytes(1000))
    for (topic, queue_id), found in units.items():
        queue = folder / "consumequeue" / topic / str(queue_id)
        queue.mkdir(parents=True)
        (queue / f"{0:020d}").write_bytes(found + bytes(200))
    return str(folder)


@pytest.fixture
def store(tmp_path: Path) -> str:
    """Two topics: `a` with queues 0 and 1, `b` with queue 0, four messages in each, interleaved."""
    return numbered(tmp_path, [("a", 0, 2), ("a", 1, 4), ("b", 0, 4), ("a", 0, 2)])


def chosen(store: str, **given: Any) -> list[tuple[str, int, int]]:
    """Return topic, queue and queue offset of the rows; options of queues may be given as dicts."""
    texts = {
        name: json.dumps(value) if isinstance(value, dict) else str(value)
        for name, value in given.items()
    }
    found = rows(store, columns="topic,queueId,queueOffset", **texts)
    return sorted((row["topic"], row["queueId"], row["queueOffset"]) for row in found)


ALL = [(topic, queue, n) for topic, queue in (("a", 0), ("a", 1), ("b", 0)) for n in range(4)]


def test_what_is_no_store_is_named(tmp_path: Path) -> None:
    """Whatever else is asked for: a file, such as one of the log, and a name that nothing has."""
    log = tmp_path / f"{0:020d}"
    log.write_bytes(bytes(100))
    for given in ({}, {"subscribe": "orders"}, {"subscribepattern": "o.*"}):
        with pytest.raises(ForeignStore, match="is not a store directory: it is a file"):
            rows(str(log), **given)
        with pytest.raises(ForeignStore, match="is not a store directory: nothing has this name"):
            rows(f"{tmp_path}/gone", **given)


def test_topics_by_pattern_and_queues_by_name(store: str) -> None:
    """A pattern is of the whole name; queues are assigned one by one."""
    assert chosen(store) == chosen(store, subscribepattern="a|b") == ALL
    assert chosen(store, subscribepattern="[b-z]") == ALL[8:]
    assert chosen(store, assign={"a": {"any": [1]}}) == ALL[4:8]
    assert chosen(store, assign={"a": {"any": [0]}, "b": {"any": [0]}}) == ALL[:4] + ALL[8:]
    with pytest.raises(SettingsError, match=r"no topic in .* fits subscribePattern 'c\.\*'"):
        chosen(store, subscribepattern="c.*")
    with pytest.raises(SettingsError, match="there is no queue 7 of topic 'a'"):
        chosen(store, assign={"a": {"any": [7]}})


def test_a_pattern_does_not_show_internal_topics(tmp_path: Path) -> None:
    """Unless they are asked for."""
    folder = numbered(tmp_path, [("%RETRY%g", 0, 1), ("orders", 0, 1)])
    assert [row[0] for row in chosen(folder, subscribepattern=".*")] == ["orders"]
    both = chosen(folder, subscribepattern=".*", includeinternaltopics="true")
    assert [row[0] for row in both] == ["%RETRY%g", "orders"]


def test_offsets_of_single_queues(store: str) -> None:
    """A start is included, an end is not; queues that are not named are read whole."""
    start = {"a": {"any": {"0": 2, "1": -2}}}
    assert chosen(store, startingoffsets=start) == ALL[2:]
    end = {"a": {"any": {"0": 3, "1": 0}}, "b": {"any": {"0": -1}}}
    assert chosen(store, endingoffsets=end) == ALL[:3] + ALL[8:]
    assert chosen(store, startingoffsets=start, endingoffsets=end) == ALL[2:3] + ALL[8:]
    assert chosen(store, startingoffsets={"a": {"any": {"0": 4}}}) == ALL[4:]


def test_offsets_that_are_gone(store: str) -> None:
    """An offset outside of its queue is an error, or a warning."""
    with pytest.raises(
        DataLost, match=r"queue 0 of topic 'a' in .*: offset 5 is gone, the queue en"
    ):
        chosen(store, startingoffsets={"a": {"any": {"0": 5}}})
    with pytest.raises(DataLost, match="offset 9 is gone, the queue ends at 4"):
        chosen(store, endingoffsets={"b": {"any": {"0": 9}}})
    gentle = {"failondataloss": "false", "startingoffsets": {"a": {"any": {"0": 5}}}}
    assert chosen(store, **gentle) == ALL[4:]
    with pytest.raises(SettingsError, match="there is no queue 3 of topic 'b'"):
        chosen(store, startingoffsets={"b": {"any": {"3": 0}}})


def test_times_are_of_each_record(store: str) -> None:
    """The first store time is included, the last one is not."""
    assert len(chosen(store, startingtimestamp=1_000_002)) == 10
    assert len(chosen(store, startingtimestamp=1_000_002, endingtimestamp=1_000_003)) == 1
    assert chosen(store, endingtimestamp="1970-01-01T00:16:40.002Z") == ALL[:2]
    by_queue = {"a": {"any": {"0": 1_000_010, "1": 1_000_004}}}
    assert chosen(store, startingoffsetsbytimestamp=by_queue) == [
        *ALL[2:4],
        *ALL[6:8],
        *ALL[8:],
    ]
    assert chosen(store, endingoffsetsbytimestamp=by_queue) == ALL[:2] + ALL[4:6] + ALL[8:]


def test_a_time_wins_over_offsets(store: str) -> None:
    """As in Kafka's connector: one time for all, times by queue, offsets."""
    offsets = {"a": {"any": {"0": 3}}}
    times = {"a": {"any": {"0": 1_000_001}}}
    given = {"startingoffsets": offsets, "startingoffsetsbytimestamp": times}
    assert chosen(store, **given) == ALL[1:]
    assert chosen(store, **given, startingtimestamp=0) == ALL


def test_tags(store: str) -> None:
    """Only messages with one of the tags, compared as text."""
    odd = chosen(store, subexpression="odd || other")
    assert len(odd) == 6
    assert sorted(odd + chosen(store, subexpression="even")) == ALL
    assert chosen(store, subexpression="*") == ALL
    assert chosen(store, subexpression="od") == []


def test_properties_as_json(store: str) -> None:
    """As the old connector gave them, whatever characters a value has; or not at all."""
    first = rows(store, propertiesformat="json", columns="properties")[0]
    assert json.loads(first["properties"]) == {"TAGS": "even", "n": "ü\n"}
    assert "properties" not in rows(store, includeproperties="false")[0]


def test_several_directories(tmp_path: Path) -> None:
    """They are read one after the other, as if they were one table."""
    one = numbered(tmp_path / "one", [("a", 0, 2)])
    two = numbered(tmp_path / "two", [("a", 0, 3)])
    options = read_directory({"paths": json.dumps([one, f"file://{two}"])})
    reader = DirectoryReader(schema(options), options)
    parts = reader.partitions()
    assert [part.value[0].path.partition("/commitlog/")[0] for part in parts] == [one, two]
    assert len(plain_rows([batch for part in parts for batch in reader.read(part)])) == 5


def test_filters_leave_rows_out(store: str) -> None:
    """By topic, queue and time, all of which hold; what else is chosen is chosen all the same."""

    def found(**filters: Any) -> list[tuple[str, int, int]]:
        return chosen(store, filters=filters)

    assert found() == ALL
    assert found(topic=["b", "c"]) == [one for one in ALL if one[0] == "b"]
    assert found(queueId=[1, 7]) == [one for one in ALL if one[1] == 1]
    assert found(topic=["a"], queueId=[0]) == [one for one in ALL if one[:2] == ("a", 0)]
    assert found(topic=[]) == []
    assert found(storeTimestamp=[1_000_001, 1_000_003]) == [("a", 0, 1), ("a", 1, 0), ("a", 1, 1)]
    assert found(storeTimestamp=[None, 999_999]) == []
    assert found(storeTimestamp=[1_000_011, None]) == [("a", 0, 3)]
    assert chosen(store, subscribe="b", filters={"topic": ["a"]}) == []


def test_filters_show_nothing_that_is_hidden(tmp_path: Path) -> None:
    """An internal topic stays hidden: it is named by a filter, and not by an option."""
    folder = numbered(tmp_path, [("%RETRY%g", 0, 1), ("orders", 0, 1)])
    assert chosen(folder, filters={"topic": ["%RETRY%g"]}) == []
