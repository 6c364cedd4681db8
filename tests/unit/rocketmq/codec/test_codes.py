"""Numbers on the wire."""

from sprocket.rocketmq.codec import codes
from sprocket.rocketmq.codec.codes import RequestCode, ResponseCode


def test_every_request_has_its_name() -> None:
    """Refusals name what they refuse, up to POP; a number of no release has no name."""
    assert codes.request_name(310) == "SEND_MESSAGE_V2"
    assert codes.request_name(RequestCode.POP_MESSAGE) == "POP_MESSAGE"
    assert codes.request_name(9999) is None


def test_what_we_answer_fits_the_go_client() -> None:
    """It reads codes and version as int16."""
    assert max(codes.VERSION, *ResponseCode) <= 32767


def test_languages_are_in_the_order_of_their_bytes() -> None:
    """Positions are the bytes of binary headers; our own name is one that old clients know."""
    assert codes.LANGUAGES.index("GO") == 9
    assert codes.LANGUAGES.index(codes.LANGUAGE) == 3
    assert codes.OTHER_LANGUAGE in codes.LANGUAGES
