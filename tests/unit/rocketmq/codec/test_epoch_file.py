"""The file of epochs, and what is not one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.strategies import epoch_lists

from sprocket.base.errors import WireError
from sprocket.rocketmq.codec import epoch_file
from sprocket.rocketmq.model.epochs import Epoch, Epochs

EPOCHS = Epochs.of([Epoch(1, 0), Epoch(3, 700), Epoch(4, 900)])


def test_it_is_lines_of_numbers() -> None:
    """How many, their checksum, and a line each."""
    assert epoch_file.encode(EPOCHS).split(b"\n")[2:] == [b"1-0", b"3-700", b"4-900", b""]
    assert epoch_file.encode(Epochs()) == b"0\n0\n"


@given(epoch_lists())
def test_it_is_read_as_it_was_written(epochs: Epochs) -> None:
    """With the ends of lines of either platform."""
    assert epoch_file.decode(epoch_file.encode(epochs)) == epochs


def test_what_another_platform_wrote_is_read() -> None:
    """Java ends lines as the platform does; a checksum of 0 is none."""
    unchecked = b"2\r\n0\r\n1-0\r\n3-700\r\n"
    assert epoch_file.decode(unchecked) == Epochs.of([Epoch(1, 0), Epoch(3, 700)])


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"1\n",
        b"1\n0",
        b"x\n0\n",
        b"2\n0\n1-0\n",
        b"1\n5\n1-0\n",
        b"1\n0\n1\n",
        b"1\n0\n1-\n",
        b"1\n0\n-1-0\n",
        b"2\n0\n1-0\n1-5\n",
        b"2\n0\n1-5\n2-5\n",
        b"1\n0\n99999999999-0\n",
        b"1\n0\n1-9223372036854775808\n",
    ],
)
def test_what_is_not_one_is_refused(content: bytes) -> None:
    """Each with a word of what is wrong."""
    with pytest.raises(WireError):
        epoch_file.decode(content)


@given(st.binary(max_size=64))
def test_any_bytes_give_epochs_or_an_error(content: bytes) -> None:
    """And nothing else."""
    try:
        found = epoch_file.decode(content)
    except WireError:
        return
    assert Epochs.of(found.entries) == found


@given(epoch_lists(min_size=1), st.data())
def test_a_wrong_bit_is_found(epochs: Epochs, data: st.DataObject) -> None:
    """Unless it makes the checksum 0, which says that there is none, or changes an end of line."""
    content = bytearray(epoch_file.encode(epochs))
    bit = data.draw(st.integers(0, 8 * len(content) - 1))
    content[bit // 8] ^= 1 << bit % 8
    try:
        found = epoch_file.decode(bytes(content))
    except WireError:
        return
    assert found == epochs or content.split(b"\n")[1].strip() == b"0"


def test_the_example_of_its_page() -> None:
    """As docs/formats/epochs.md has it."""
    assert (
        epoch_file.encode(Epochs.of([Epoch(1, 0), Epoch(3, 700)])) == b"2\n2063830116\n1-0\n3-700\n"
    )
