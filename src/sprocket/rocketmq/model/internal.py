"""What topics and groups may be called, and which are a system's own and no user's.

Source: RocketMQ `TopicValidator`, `MixAll.isSysConsumerGroup`, `TopicConfigManager.init`.
"""

import re
from collections.abc import Collection, Iterable

NAME = re.compile(r"[%|a-zA-Z0-9_-]+")
"""What names of topics and groups are made of."""
TOPIC_CHARACTERS_MAX = 127
"""Longer names do not fit the length byte of a V1 record."""
TEMPLATE_TOPIC = "TBW102"
"""The topic after which a broker models one that it creates by a send."""
SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"
"""Where delayed messages wait."""
TIMER_TOPIC = "rmq_sys_wheel_timer"
"""Where messages wait that say when they are to be delivered."""
HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
"""Where messages wait for their transaction to end."""
OP_TOPIC = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
"""Which of them have ended."""
CHECKED_TOO_OFTEN_TOPIC = "TRANS_CHECK_MAX_TIME_TOPIC"
"""Those of which nobody knew how their transaction ended."""
TRACE_TOPIC = "RMQ_SYS_TRACE_TOPIC"
"""Where clients send their traces, unless they are told another topic."""
FORBIDDEN_TO_SEND = frozenset(
    {
        SCHEDULE_TOPIC,
        HALF_TOPIC,
        OP_TOPIC,
        CHECKED_TOO_OFTEN_TOPIC,
        "SELF_TEST_TOPIC",
        "OFFSET_MOVED_EVENT",
    }
)
"""Topics to which only a broker itself writes."""
SYSTEM_TOPICS = FORBIDDEN_TO_SEND | {
    "BenchmarkTest",
    TRACE_TOPIC,
    "CHECKPOINT_TOPIC",
    TEMPLATE_TOPIC,
}
"""Names that belong to the system, whether or not the topic is there."""
SYSTEM_PREFIX = "rmq_sys_"
RETRY_PREFIX = "%RETRY%"
"""Before a group's name: the topic of messages that it is to get again."""
DEAD_LETTER_PREFIX = "%DLQ%"
"""Before a group's name: the topic of messages that it was given too often."""
LIGHT_PREFIX = "%LMQ%"
"""Begins the name of every light queue; its queue id is 0."""
_REPLY_SUFFIX = "_REPLY_TOPIC"

TRANSACTION_GROUP = "CID_RMQ_SYS_TRANS"
"""Whose progress in the topics of half and op messages says how far transactions have ended."""
TOOLS_GROUP = "TOOLS_CONSUMER"
"""The group under which tools read."""
SYSTEM_GROUPS = (
    TOOLS_GROUP,
    "FILTERSRV_CONSUMER",
    "SELF_TEST_C_GROUP",
    "CID_ONS-HTTP-PROXY",
    "CID_ONSAPI_PULL",
    "CID_ONSAPI_PERMISSION",
    "CID_ONSAPI_OWNER",
    TRANSACTION_GROUP,
)
"""Groups that are there from the start."""
_SYSTEM_GROUP_PREFIX = "CID_RMQ_SYS_"


def is_internal_topic(name: str, owners: Collection[str] = ()) -> bool:
    """Tell whether a topic holds what users did not send there: delayed, half, retried messages.

    Dead letters count as the users': somebody has to look at them. `owners` are names of clusters
    and brokers, where they are known: each has topics of its own.
    """
    return (
        name in SYSTEM_TOPICS
        or name in owners
        or name.startswith((RETRY_PREFIX, SYSTEM_PREFIX))
        or (name.endswith(_REPLY_SUFFIX) and name.removesuffix(_REPLY_SUFFIX) in owners)
    )


def reply_topic(cluster: str) -> str:
    """Return the topic to which consumers of a cluster send what they reply to requests."""
    return cluster + _REPLY_SUFFIX


def may_hold_replies(name: str) -> bool:
    """Tell whether a topic has a name as those in which a cluster keeps the answers to requests."""
    return name.endswith(_REPLY_SUFFIX)


def clusters_among(topics: Iterable[str]) -> set[str]:
    """Return the names of clusters that those of all topics tell.

    A broker gives its cluster a topic of the cluster's own name, and one for replies.
    """
    names = set(topics)
    return {found for name in names if (found := name.removesuffix(_REPLY_SUFFIX)) != name} & names


def is_internal_group(name: str) -> bool:
    """Tell whether a group is there for tools and for the broker itself."""
    return name in SYSTEM_GROUPS or name.startswith(_SYSTEM_GROUP_PREFIX)
