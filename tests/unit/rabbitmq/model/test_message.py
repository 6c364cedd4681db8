"""What a message says of its body."""

import pytest

from sprocket.rabbitmq.model.message import BasicMessage


@pytest.mark.parametrize("fragments", [(), (b"",), (b"one",), (b"one", b"", b"two")])
def test_the_body_is_its_fragments(fragments: tuple[bytes, ...]) -> None:
    """In order, however many there are."""
    message = BasicMessage(bytes(16), "/", "", ("q",), b"\0\0", fragments, is_persistent=True)
    assert message.body == b"".join(fragments)
    assert message.body_size == len(message.body)
