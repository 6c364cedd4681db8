"""Which version of its master's tables a slave has."""

from sprocket.rocketmq.replication import TableVersions


def test_what_was_asked_for_is_had_when_it_is_here() -> None:
    """Not what the master has told meanwhile."""
    versions = TableVersions()
    told: list[int] = []
    versions.when_had(lambda: told.append(versions.had))
    versions.want(5)
    assert versions.changed.is_set()
    assert versions.is_behind
    asked = versions.begin_round()
    assert not versions.changed.is_set()
    versions.want(6)
    versions.finish_round(asked)
    assert told == [5]
    assert versions.changed.is_set()
    versions.finish_round(versions.begin_round())
    versions.finish_round(versions.begin_round())
    assert told == [5, 6]
    assert not versions.is_behind


def test_a_version_counts_for_one_link() -> None:
    """Another master counts in another way."""
    versions = TableVersions()
    versions.want(5)
    asked = versions.begin_round()
    versions.begin_link()
    versions.finish_round(asked)
    assert versions.had == 0
    versions.want(5)
    assert versions.changed.is_set()
