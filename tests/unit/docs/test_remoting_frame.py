"""The examples of docs/formats/remoting-frame.md."""

import re
from pathlib import Path

import pytest

from sprocket.rocketmq.codec import headers
from sprocket.rocketmq.codec.frame import BINARY, JSON
from sprocket.rocketmq.remoting import Connection

PAGE = Path(__file__).parents[3] / "docs" / "formats" / "remoting-frame.md"


@pytest.mark.parametrize(
    ("name", "size", "serialize", "opaque"), [("json", 131, JSON, 0), ("binary", 41, BINARY, 7)]
)
def test_the_examples_are_what_the_page_says(
    name: str, size: int, serialize: int, opaque: int
) -> None:
    """Whole frames that ask for the route of T."""
    block = re.search(rf"```hex {name}\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert block is not None
    lines = (line.partition("   ")[0] for line in block[1].splitlines())
    data = bytes.fromhex("".join(lines))
    assert len(data) == size
    (found,) = Connection().receive(data)
    assert (found.code, found.serialize, found.opaque) == (105, serialize, opaque)
    assert (found.language, found.version, found.body) == ("JAVA", 479, b"")
    assert found.header(headers.GetRoute).topic == "T"
