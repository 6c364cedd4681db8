"""The frame around a command."""

import pytest

from sprocket.base.errors import WireError
from sprocket.rocketmq.codec import frame


def test_join_writes_the_prefix_before_the_header_and_passes_the_body_on() -> None:
    """The length counts all that follows it; body buffers are the same objects."""
    body: list[frame.Buffer] = [b"abc", memoryview(b"de")]
    head, *rest = frame.join(frame.BINARY, b"HEAD", body)
    assert bytes.fromhex("0000000d 01000004") + b"HEAD" == bytes(head)
    assert body[0] is rest[0]
    assert body[1] is rest[1]


@pytest.mark.parametrize(
    ("length", "mark", "expected"),
    [
        (3, 0, "3 bytes follow"),
        (0xFFFFFFFF, 0, "4294967295 bytes follow"),
        (100, 97, "a header of 97 bytes"),
    ],
)
def test_bad_prefix_says_what_was_found(length: int, mark: int, expected: str) -> None:
    """The error tells the size that cannot be."""
    assert expected in str(frame.bad_prefix(length, mark, 1000))


def test_checked_length_gives_exactly_what_a_frame_may_have() -> None:
    """4 bytes may follow, and limit − 4; one less or more may not."""
    for good in (4, 96):
        assert good == frame.checked_length(good.to_bytes(4, "big"), 100)
    for bad in (3, 97, 0x80000000):
        with pytest.raises(WireError):
            frame.checked_length(bad.to_bytes(4, "big"), 100)


def test_a_frame_that_nobody_could_read_is_our_own_mistake() -> None:
    """Beyond 16 MiB a client closes the connection, so such a frame is never made."""
    with pytest.raises(AssertionError):
        frame.join(frame.JSON, b"{}", [b"x" * frame.FRAME_BYTES_MAX])
