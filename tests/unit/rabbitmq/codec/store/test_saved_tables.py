"""The tables that a message store leaves: read as a real RabbitMQ wrote them, and written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.recorded_rabbitmq import RecordedVhosts

from sprocket.base.errors import CorruptRecord
from sprocket.rabbitmq.codec.store import FileSummary, MessageLocation, StoreEntry, entries
from sprocket.rabbitmq.codec.store import saved_tables as tables

STORE = "628WB79CIFDYO9LJI6DKMI09L/msg_store_persistent/"
ROWS = [FileSummary(0, 70, None, 2, 90), FileSummary(2, 0, 0, None, 1 << 40)]
LOCATIONS = [MessageLocation(bytes([n]) * 16, n, 0, 300 * n, 1 << (10 * n)) for n in range(4)]


def test_the_tables_of_a_recorded_store_agree_with_its_files() -> None:
    """Each location is an entry; what is needed adds up to what each file says it has."""
    files = {
        path.removeprefix(STORE): data
        for path, data in RecordedVhosts("03-store-fanout").files()
        if path.startswith(STORE)
    }
    found: dict[tuple[int, int], StoreEntry] = {}
    sizes = {}
    for name, data in files.items():
        if name.endswith(".rdq"):
            number = int(name.removesuffix(".rdq"))
            sizes[number] = len(data)

            def read(position: int, size: int, data: bytes = data) -> bytes:
                return data[position : position + size]

            for one in entries.scan(read, len(data)):
                assert isinstance(one, StoreEntry)
                found[number, one.position] = one
    valid = dict.fromkeys(sizes, 0)
    for row in tables.decode_locations(files["msg_store_index.ets"]):
        entry = found[row.file, row.position]
        assert (entry.id, entry.size) == (row.id, row.size)
        valid[row.file] += row.size if row.ref_count else 0
    summary = tables.decode_summary(files["file_summary.ets"])
    assert {row.file: row.valid_bytes for row in summary} == valid
    assert {row.file: row.file_bytes for row in summary} == sizes
    assert [(row.left, row.right) for row in summary] == [(None, 1), (0, 2), (1, None)]


def test_written_tables_are_read_again() -> None:
    """Also empty ones."""
    assert tables.decode_summary(tables.encode_summary(ROWS)) == ROWS
    assert tables.decode_locations(tables.encode_locations(LOCATIONS)) == LOCATIONS
    assert tables.decode_locations(tables.encode_locations([])) == []


def test_written_tables_differ_from_recorded_ones_in_the_header_alone() -> None:
    """In who had the table, and how much memory it took."""
    recorded = dict(RecordedVhosts("03-store-fanout").files())
    for name, written in (
        (
            "file_summary.ets",
            tables.encode_summary(tables.decode_summary(recorded[STORE + "file_summary.ets"])),
        ),
        (
            "msg_store_index.ets",
            tables.encode_locations(
                tables.decode_locations(recorded[STORE + "msg_store_index.ets"])
            ),
        ),
    ):
        data = recorded[STORE + name]
        assert data[:8] == written[:8]
        assert (
            data[16 + int.from_bytes(data[8:12], "big") :]
            == (written[16 + int.from_bytes(written[8:12], "big") :])
        )


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "expected a table that was closed"),
        (b"\1\2\3\4\6\7\x08\x09", "expected a table that was closed, found 0102030406070809"),
        (tables.encode_summary(ROWS)[:-1], "expected an item of a table at"),
        (tables.encode_summary(ROWS)[:8], "a table of 0 items does not end with their count"),
        (tables.encode_summary(ROWS) + b"\0", "a table ends inside an item"),
        (tables.encode_locations(LOCATIONS), "expected a row of file_summary"),
    ],
)
def test_what_is_no_summary_is_told(data: bytes, told: str) -> None:
    """So that it is not trusted."""
    with pytest.raises(CorruptRecord, match=told):
        tables.decode_summary(data)


def test_a_summary_is_no_table_of_locations() -> None:
    """Nor is a row that lacks something."""
    with pytest.raises(CorruptRecord, match="expected a row of msg_location"):
        tables.decode_locations(tables.encode_summary(ROWS))


@given(st.data())
def test_any_bytes_give_rows_or_an_error_of_the_store(draw: st.DataObject) -> None:
    """However a table was cut and changed."""
    data = bytearray(tables.encode_locations(LOCATIONS))
    for _ in range(draw.draw(st.integers(1, 4))):
        data[draw.draw(st.integers(0, len(data) - 1))] = draw.draw(st.integers(0, 255))
    cut = draw.draw(st.one_of(st.just(len(data)), st.integers(0, len(data))))
    try:
        tables.decode_locations(bytes(data[:cut]))
    except CorruptRecord:
        return
