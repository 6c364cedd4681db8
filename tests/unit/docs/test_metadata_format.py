"""docs/formats/rabbitmq-metadata.md: its example is what the code writes."""

import re
from pathlib import Path

from tests.rabbit_topology import ANYBODY, FOLDER, Declarations, bound, declare_queue

from sprocket.base.disk import read_file

PAGE = Path(__file__).parents[3] / "docs" / "formats" / "rabbitmq-metadata.md"


def test_the_example_is_what_is_written() -> None:
    """The second and the third line of a new node's journal."""
    declarations = Declarations()
    vhost = declarations.vhost()
    declare_queue(vhost, "q", durable=True, arguments={"x-message-ttl": 1000})
    vhost.bind(bound("amq.topic", "q", "a.#"), ANYBODY)
    (block,) = re.findall(r"```hex\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    lines = read_file(declarations.disk, f"{FOLDER}/metadata.journal.1").splitlines(keepends=True)
    assert bytes.fromhex(block) == b"".join(lines[1:])
