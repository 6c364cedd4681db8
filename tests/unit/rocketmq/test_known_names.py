"""RocketMQ's names are told from misspelt ones."""

from sprocket.rocketmq import aliases
from sprocket.rocketmq.known_names import BROKER_NAMES, BROKER_UNREAD_NAMES, NAMESERVER_NAMES


def test_every_name_is_one_word_of_java() -> None:
    """And no line of the table ran into another."""
    assert all(name.isidentifier() and len(name) < 50 for name in BROKER_NAMES | NAMESERVER_NAMES)
    assert (len(BROKER_NAMES), len(NAMESERVER_NAMES)) == (442, 40)


def test_names_that_nothing_reads_are_none_of_rocketmqs() -> None:
    """Otherwise they would belong to its table."""
    assert BROKER_UNREAD_NAMES.isdisjoint(BROKER_NAMES)


def test_every_alias_is_a_name_of_rocketmq() -> None:
    """What we tell tools in RocketMQ's words are its words."""
    assert set(aliases.BROKER) <= BROKER_NAMES
    assert set(aliases.NAMESERVER) <= NAMESERVER_NAMES
    assert aliases.TAKEN_CARE_OF <= BROKER_NAMES
