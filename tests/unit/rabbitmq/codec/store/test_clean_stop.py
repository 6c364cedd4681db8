"""`.config` and `clean.dot`, as a real RabbitMQ writes them, and what is none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.recorded_rabbitmq import CASES, RecordedVhosts

from sprocket.base.errors import CorruptRecord
from sprocket.rabbitmq.codec.store import clean_stop, text_terms


@pytest.mark.parametrize("case", CASES)
def test_recorded_files_come_back_as_they_were(case: str) -> None:
    """Byte for byte."""
    seen = 0
    for path, data in RecordedVhosts(case).files():
        if path.endswith("/.config"):
            seen += 1
            assert clean_stop.encode_config(clean_stop.decode_config(data)) == data
        if path.endswith("/clean.dot"):
            assert clean_stop.encode_clean(clean_stop.decode_clean(data)) == data
    assert seen > 0


def test_other_forms_of_the_same_terms_are_read() -> None:
    """Blanks, comments, further terms, binaries with text in them, quoted atoms."""
    config = b"% x\n{segment_entry_count,\n 8} . {'Other', [1, -2, \"a\"]}.\n"
    assert clean_stop.decode_config(config) == 8
    clean = b"{index_module,'rabbit_msg_store_ets_index'}.{client_refs,[<<\"ab\",0>>, <<>>]}."
    assert clean_stop.decode_clean(clean) == [b"ab\0", b""]


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "expected a segment_entry_count of 1 to 16384, found None"),
        (b"{segment_entry_count, 16385}.", "found 16385"),
        (b"{segment_entry_count, 0}.", "found 0"),
        (b"{segment_entry_count, 2048}", "does not end with a full stop"),
        (b"{, 5}.", "expected a term, found ','"),
        (b"{segment_entry_count 5}.", "expected a comma or '}', found '5'"),
        (b"[1].", "expected a name and a value"),
        (b"{x, \xff}.", "no term begins with"),
        (b"[" * 400, "expected a term, found '\\['"),
        (b"{x, " + b"9" * 700 + b"}.", "a number has 700 digits"),
        (b"{x, <<256>>}.", "a byte is a number from 0 to 255, found 256"),
        (b"{x, [1", "expected a comma or '\\]', found 'the end'"),
        (b" " * (text_terms.TEXT_BYTES_MAX + 1), "a file of terms has"),
    ],
)
def test_what_is_no_configuration_is_told(data: bytes, told: str) -> None:
    """With what was expected."""
    with pytest.raises(CorruptRecord, match=told):
        clean_stop.decode_config(data)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"{client_refs,[]}.", "expected the index_module rabbit_msg_store_ets_index, found None"),
        (b"{index_module,rabbit_msg_store_ets_index}.", "expected a list of client_refs"),
        (
            b"{client_refs,[1]}.{index_module,rabbit_msg_store_ets_index}.",
            "expected binaries as client_refs",
        ),
    ],
)
def test_what_is_no_clean_stop_is_told(data: bytes, told: str) -> None:
    """So that it is not trusted."""
    with pytest.raises(CorruptRecord, match=told):
        clean_stop.decode_clean(data)


@given(st.lists(st.sampled_from("{}[],.<>\"'%\n 0a9-\\")).map("".join))
def test_any_text_gives_terms_or_an_error_of_the_store(text: str) -> None:
    """However its signs are mixed."""
    try:
        clean_stop.decode_clean(text.encode())
    except CorruptRecord:
        return
