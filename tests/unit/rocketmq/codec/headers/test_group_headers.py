"""Headers about where groups go on and what they may read."""

import msgspec
import pytest

from sprocket.rocketmq.codec.headers import Header, ext, group_headers

KINDS = [
    kind
    for kind in vars(group_headers).values()
    if isinstance(kind, type) and issubclass(kind, Header) and kind is not Header
]


@pytest.mark.parametrize("kind", KINDS)
def test_every_header_can_be_written_and_read(kind: type[Header]) -> None:
    """Required fields and all others, from the same texts."""
    sample = {
        one.name: {str: "5", int: 5, bool: True}[ext.base_type(one.type)]
        for one in msgspec.structs.fields(kind)
    }
    header = kind(**sample)
    codec = ext.codec(kind)
    assert header == codec.read(codec.write(header))


def test_names_and_what_absent_fields_stand_for() -> None:
    """As mqadmin writes them; a reset without a time is one to the beginning."""
    reset = ext.codec(group_headers.ResetOffset).read({"topic": "T", "group": "g"})
    assert (reset.timestamp, reset.queue_id, reset.offset) == (0, -1, None)
    clone = ext.codec(group_headers.CloneOffsets).read({"srcGroup": "a", "destGroup": "b"})
    assert (clone.src_group, clone.dest_group, clone.topic, clone.offline) == (
        "a",
        "b",
        None,
        False,
    )
    forbidden = ext.codec(group_headers.GroupForbidden).read({"group": "g", "topic": "T"})
    assert forbidden.readable is None
