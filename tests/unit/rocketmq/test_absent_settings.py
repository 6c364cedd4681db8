"""RocketMQ's names are told from misspelt ones; what tools are shown of settings we do not have."""

import pytest
from tests.answers import recording

from sprocket.rocketmq import absent_settings, aliases
from sprocket.rocketmq.absent_settings import BROKER_UNREAD
from sprocket.rocketmq.aliases import BROKER_NAMES, NAMESERVER_NAMES
from sprocket.rocketmq.settings import Settings

UNTOLD = {"configStorePath", "kvConfigPath", "rocketmqHome"}
"""Where a NameServer's files lie."""


def test_every_name_is_one_word_of_java() -> None:
    """And no line of the table ran into another."""
    assert all(name.isidentifier() and len(name) < 50 for name in BROKER_NAMES | NAMESERVER_NAMES)
    assert (len(BROKER_NAMES), len(NAMESERVER_NAMES)) == (442, 40)


def test_names_that_nothing_reads_are_none_of_rocketmqs() -> None:
    """Otherwise they would belong to its table."""
    assert BROKER_UNREAD.isdisjoint(BROKER_NAMES)


def test_every_alias_is_a_name_of_rocketmq() -> None:
    """What we tell tools in RocketMQ's words are its words."""
    assert set(aliases.BROKER) <= BROKER_NAMES
    assert set(aliases.NAMESERVER) <= NAMESERVER_NAMES
    assert aliases.TAKEN_CARE_OF <= BROKER_NAMES


@pytest.mark.parametrize(
    ("request_name", "told", "untold"),
    [
        ("26", aliases.to_broker_conf(Settings(), folder="/data"), set()),
        ("names/319", aliases.to_nameserver_conf(Settings()), UNTOLD),
    ],
)
def test_every_setting_that_rocketmq_tells_is_told(
    request_name: str, told: dict[str, str], untold: set[str]
) -> None:
    """The real 5.3.3 named them."""
    _, (answer,) = recording.read()[request_name]
    assert set(answer.body) - told.keys() == untold
    assert list(told) == sorted(told)


def test_they_are_names_that_a_settings_file_may_hold() -> None:
    """Whoever makes a broker.conf of what was told can start with it."""
    assert absent_settings.BROKER.keys() <= BROKER_NAMES | BROKER_UNREAD
    assert absent_settings.NAMESERVER.keys() <= NAMESERVER_NAMES
    told = aliases.to_broker_conf(Settings(), folder="/data")
    text = "\n".join(f"{name}={value}" for name, value in told.items())
    assert aliases.read_broker_conf(text, "broker.conf").folder == "/data"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("traceOn", "true"),
        ("aclEnable", "false"),
        ("sendMessageThreadPoolNums", "1"),
    ],
)
def test_what_is_told_is_true_of_ours(name: str, value: str) -> None:
    """RocketMQ's default where that is so, else what is."""
    assert absent_settings.BROKER[name] == value


def test_no_setting_of_ours_is_told_by_default() -> None:
    """Its value would be shadowed, or say something else."""
    ours = {alias.name for alias in aliases.BROKER.values()}
    assert not ours & absent_settings.BROKER.keys()
    names = {alias.name for alias in aliases.NAMESERVER.values()}
    assert not names & absent_settings.NAMESERVER.keys()
