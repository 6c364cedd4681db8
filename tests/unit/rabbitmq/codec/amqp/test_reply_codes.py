"""Why a server closes: codes and texts."""

import pytest

from sprocket.rabbitmq.codec.amqp import (
    AmqpError,
    ReplyCode,
    binary_text,
    frame_error,
    numbers_text,
    reply_text,
    unexpected_frame,
)


def test_a_text_begins_with_the_name_of_its_code() -> None:
    """And is that name if there is nothing to explain."""
    assert reply_text(ReplyCode.NOT_FOUND, "no queue 'q'") == "NOT_FOUND - no queue 'q'"
    assert reply_text(ReplyCode.NO_ROUTE, "") == "NO_ROUTE"


@pytest.mark.parametrize(
    ("explanation", "expected"),
    [
        ("x" * 243, "x" * 243),
        ("x" * 244, "x" * 240 + "..."),
        ("é" * 200, "é" * 120 + "..."),
        ("x" + "é" * 200, "x" + "é" * 119 + "..."),
    ],
)
def test_a_long_text_is_cut(explanation: str, expected: str) -> None:
    """To 255 octets, never inside a sign."""
    text = reply_text(ReplyCode.NOT_FOUND, explanation)
    assert text == f"NOT_FOUND - {expected}"
    assert len(text.encode()) <= 255


def test_octets_that_are_no_text_do_not_stop_an_answer() -> None:
    """They are replaced: clients need UTF-8."""
    assert reply_text(ReplyCode.NOT_FOUND, "no queue '\udcff'") == "NOT_FOUND - no queue '\ufffd'"
    assert reply_text(ReplyCode.NOT_FOUND, "\udcff" * 300).encode()


@pytest.mark.parametrize(
    ("octets", "text"),
    [
        (b"abc", '<<"abc">>'),
        (b'a"\\\n', '<<"a\\"\\\\\\n">>'),
        (b"\x00\x0a\x00\x0a", "<<0,10,0,10>>"),
        (b"", "<<>>"),
        (b"a\xff", "<<97,255>>"),
    ],
)
def test_octets_are_written_as_erlang_does(octets: bytes, text: str) -> None:
    """As text, if all of them are printable."""
    assert binary_text(octets) == text


def test_numbers_are_never_text() -> None:
    """For those errors that have it so."""
    assert numbers_text(b"abc") == "<<97,98,99>>"


def test_frames_are_shown_as_rabbitmq_does() -> None:
    """Whole up to 16 octets."""
    assert frame_error(9, b"abc", "unknown_frame").text == (
        'FRAME_ERROR - type 9, all octets = <<"abc">>: unknown_frame'
    )
    assert frame_error(1, b"a" * 17, "unknown_frame").text == (
        'FRAME_ERROR - type 1, first 16 octets = <<"aaaaaaaaaaaaaaaa">>: unknown_frame'
    )
    assert unexpected_frame(3, b"x").text == 'UNEXPECTED_FRAME - type 3, all octets = <<"x">>'


def test_an_error_knows_whom_it_ends() -> None:
    """Its channel, or the connection."""
    refused = AmqpError(ReplyCode.PRECONDITION_FAILED, "unknown delivery tag 9", (60, 80))
    assert not refused.code.ends_connection
    assert ReplyCode.NOT_ALLOWED.ends_connection
    assert str(refused) == refused.text == "PRECONDITION_FAILED - unknown delivery tag 9"
