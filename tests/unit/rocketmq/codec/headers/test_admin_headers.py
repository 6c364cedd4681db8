"""Headers of administrators' requests."""

import msgspec
import pytest

from sprocket.base.errors import RequestRefused
from sprocket.rocketmq.codec.headers import Header, admin_headers, ext

KINDS = [
    kind
    for kind in vars(admin_headers).values()
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


def test_names_are_those_of_the_wire() -> None:
    """As mqadmin writes them."""
    read = ext.codec(admin_headers.GetConsumeStats).read
    stats = read({"consumerGroup": "g", "topicList": "a;b", "topic": "t"})
    assert (stats.consumer_group, stats.topic_list, stats.topic) == ("g", "a;b", "t")
    deletion = ext.codec(admin_headers.DeleteGroup).read({"groupName": "g", "cleanOffset": "true"})
    assert deletion.clean_offset
    with pytest.raises(RequestRefused):
        ext.codec(admin_headers.QueryConsumeQueue).read({"queueId": "1"})
