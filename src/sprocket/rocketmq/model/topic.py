"""Topics: how many queues they have and what may be done with them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

INHERIT = 1
"""New topics may be made after this one."""
WRITE = 2
READ = 4
PRIORITY = 8

UNIT = 1
UNIT_SUBSCRIPTION = 2
"""Bits of a topic's system flag."""

SINGLE_TAG = "SINGLE_TAG"
MULTI_TAG = "MULTI_TAG"


QUEUE_TYPE = "queue.type"
"""The attribute that says what the topic's queues hold."""
BATCH_QUEUES = "BatchCQ"
"""Its value for batches beside messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfig:
    """What a broker knows of one topic.

    `perm` is made of the bits above; `order` says that queues must not move between brokers;
    `filter_type` is SINGLE_TAG or MULTI_TAG; `attributes` are 5.x settings by name.
    """

    name: str
    read_queues: int = 16
    write_queues: int = 16
    perm: int = READ | WRITE
    order: bool = False
    filter_type: str = SINGLE_TAG
    sys_flag: int = 0
    attributes: Mapping[str, str] = field(default_factory=dict)

    @property
    def takes_batches(self) -> bool:
        """Whether a batch sent to it is kept as one record."""
        return self.attributes.get(QUEUE_TYPE) == BATCH_QUEUES
