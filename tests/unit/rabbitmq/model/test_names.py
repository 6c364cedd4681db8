"""Names of queues, as text and as bytes."""

import pytest

from sprocket.rabbitmq.model.names import name_bytes, name_text


@pytest.mark.parametrize("data", [b"", b"orders", "β vhost".encode(), b"\xff\xfe", b"\xc3"])
def test_any_name_comes_back_as_it_was(data: bytes) -> None:
    """Also one that is not UTF-8."""
    assert name_bytes(name_text(data)) == data
