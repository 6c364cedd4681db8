"""Topics: how many queues they have and what may be done with them."""

import re
from collections.abc import Mapping

from msgspec import Struct, field

INHERIT = 1
"""New topics may be made after this one."""
WRITE = 2
READ = 4

UNIT = 1
UNIT_SUBSCRIPTION = 2
"""Bits of a topic's system flag."""

SINGLE_TAG = "SINGLE_TAG"
MULTI_TAG = "MULTI_TAG"


CLEANUP_POLICY = "cleanup.policy"
"""The attribute that says how old messages of the topic go."""
COMPACTION = "COMPACTION"
"""Its value for a topic of which the last message of each key is kept."""

QUEUE_TYPE = "queue.type"
"""The attribute that says what the topic's queues hold."""
BATCH_QUEUES = "BatchCQ"
"""Its value for batches beside messages."""


RESERVE_TIME = "reserve.time"
"""The attribute that says for how many hours the topic's messages are kept."""
_HOURS = re.compile(r"\+?[0-9]+|-1")
_HOURS_MAX = (1 << 63) - 1


def is_hours(text: str) -> bool:
    """Return whether a text may be the value of RESERVE_TIME: an integer, −1 or more."""
    return bool(_HOURS.fullmatch(text)) and int(text) <= _HOURS_MAX


class TopicConfig(Struct, frozen=True, kw_only=True, rename="camel"):
    """What a broker knows of one topic; its members are named as RocketMQ's JSON does.

    `perm` is made of the bits above; `order` says that queues must not move between brokers;
    `filter_type` is SINGLE_TAG or MULTI_TAG; `attributes` are 5.x settings by name.
    """

    name: str = field(name="topicName")
    read_queues: int = field(name="readQueueNums", default=16)
    write_queues: int = field(name="writeQueueNums", default=16)
    perm: int = READ | WRITE
    order: bool = False
    filter_type: str = field(name="topicFilterType", default=SINGLE_TAG)
    sys_flag: int = field(name="topicSysFlag", default=0)
    attributes: Mapping[str, str] = field(default_factory=dict)

    @property
    def takes_batches(self) -> bool:
        """Whether a batch sent to it is kept as one record."""
        return self.attributes.get(QUEUE_TYPE) == BATCH_QUEUES

    @property
    def is_compacted(self) -> bool:
        """Whether the last message of each key is kept."""
        return self.attributes.get(CLEANUP_POLICY) == COMPACTION

    @property
    def reserve_hours(self) -> int:
        """For how many hours its messages are kept at least, 0 if it does not say."""
        text = self.attributes.get(RESERVE_TIME, "")
        return max(0, int(text)) if is_hours(text) else 0
