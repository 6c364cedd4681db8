"""Members come and go, their groups are told, and subscriptions follow the newest heartbeat."""

from sprocket.rocketmq.broker.groups import ClientManager
from sprocket.rocketmq.broker.groups.client_manager import EMPTY_GROUP_SECONDS
from sprocket.rocketmq.model.group import (
    BROADCASTING,
    CLUSTERING,
    Heartbeat,
    Membership,
    Subscription,
)
from sprocket.testing.clock import FakeClock


class Link:
    """A connection that notes whether it was closed."""

    address = "1.2.3.4:5"
    proxy_address = ""

    def __init__(self) -> None:
        self.is_closed = False

    def close(self) -> None:
        """Note it."""
        self.is_closed = True


class Table:
    """The members of a broker, with whom they told."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.told: list[Link] = []
        self.quiet: set[str] = set()
        self.members = ClientManager(
            self.clock,
            120.0,
            lambda link, _group: self.told.append(link),  # type: ignore[arg-type]
            lambda group: group not in self.quiet,
        )

    def beat(
        self,
        link: Link,
        *topics: str,
        version: int = 1,
        model: str = CLUSTERING,
        fingerprint: int = 0,
        without_sub: bool = False,
    ) -> bool:
        """Send a heartbeat of group g."""
        data = Heartbeat(
            client_id=f"c{id(link)}",
            producers=["p"],
            consumers=[
                Membership(
                    group="g",
                    subscriptions=[Subscription(topic, version=version) for topic in topics],
                    message_model=model,
                )
            ],
            fingerprint=fingerprint,
            without_sub=without_sub,
        )
        return self.members.heartbeat(link, data, "JAVA", 479, data.consumers)

    def topics(self) -> dict[str, int]:
        """Return the versions of the group's subscriptions."""
        return {t: s.version for t, s in self.members.consumers("g").subscriptions.items()}

    def count(self) -> int:
        """Return how many consumers the group has."""
        return len(self.members.consumers("g").clients)


def test_only_changes_are_told_and_to_everybody() -> None:
    """A new member and a new topic are changes; a newer version of a known topic is none."""
    table = Table()
    a, b = Link(), Link()
    table.beat(a, "T")
    table.beat(b, "T")
    assert table.told == [a, a, b]
    table.beat(a, "T", version=2)
    assert table.told == [a, a, b]
    assert table.topics() == {"T": 2}
    table.beat(a, "T", "U", version=2)
    assert table.told == [a, a, b, a, b]


def test_the_newest_version_counts_and_absent_topics_leave() -> None:
    """An older version does not replace, a topic that is not named is gone."""
    table = Table()
    a = Link()
    table.beat(a, "T", "U", version=5)
    table.beat(a, "T", version=4)
    assert table.topics() == {"T": 5}


def test_broadcasting_groups_are_not_told() -> None:
    """They have nothing to share."""
    table = Table()
    table.beat(Link(), "T", model=BROADCASTING)
    assert table.told == []


def test_leaving_is_told_to_those_who_stay() -> None:
    """By request or by a closed connection; leaving twice changes nothing."""
    table = Table()
    a, b, c = Link(), Link(), Link()
    for link in (a, b, c):
        table.beat(link, "T")
    table.told.clear()
    table.members.unregister(b, "p", "g")
    assert table.told == [a, c]
    assert b not in table.members.producers("p")
    table.members.drop(c)
    assert table.told == [a, c, a]
    table.members.drop(c)
    table.members.unregister(b, "p", "g")
    table.members.unregister(b, None, None)
    assert table.told == [a, c, a]
    assert table.count() == 1
    assert list(table.members.producers("p")) == [a]


def test_a_group_that_wants_no_notices_hears_of_closed_connections_only() -> None:
    """Not of who comes, of topics or of who leaves by request."""
    table = Table()
    table.quiet.add("g")
    a, b, c = Link(), Link(), Link()
    for link in (a, b, c):
        table.beat(link, "T")
    table.beat(a, "T", "U")
    table.members.unregister(b, "p", "g")
    assert table.told == []
    assert table.count() == 2
    table.members.drop(c)
    assert table.told == [a]


def test_silent_members_are_closed() -> None:
    """Only those whose last heartbeat is too old."""
    table = Table()
    a, b = Link(), Link()
    table.beat(a, "T")
    table.clock.advance(60_000)
    table.beat(b, "T")
    table.clock.advance(60_001)
    table.members.expire()
    assert (a.is_closed, b.is_closed) == (True, False)
    assert table.count() == 1


def test_an_empty_group_keeps_its_subscriptions_for_a_while() -> None:
    """A restart of its last member finds them; ten minutes later they are gone."""
    table = Table()
    a = Link()
    table.beat(a, "T")
    assert table.members.groups_subscribed_to("T") == ["g"]
    table.members.drop(a)
    table.clock.advance(int(EMPTY_GROUP_SECONDS * 1000))
    table.members.expire()
    assert table.topics() == {"T": 1}
    assert table.members.groups_subscribed_to("T") == [], "nobody is there"
    table.clock.advance(1)
    table.members.expire()
    assert table.members.consumer_groups() == []
    assert table.members.consumers("g").client_ids() == []


def test_a_changed_fingerprint_is_reported() -> None:
    """The first one is taken, a changed one is reported; none, of an old client, counts as 0."""
    table = Table()
    a = Link()
    assert not table.beat(a, "T", fingerprint=4)
    assert table.beat(a, "T")
    assert table.beat(a, "T", fingerprint=5)
    assert not table.beat(a, fingerprint=5, without_sub=True)
    assert table.topics() == {"T": 1}
    assert table.beat(a, "T", fingerprint=6)
    assert not table.beat(a, "T", fingerprint=6)


def test_a_short_heartbeat_says_how_an_unknown_group_consumes() -> None:
    """A broadcasting group became a clustering one when its broker was started again."""
    table = Table()
    table.beat(Link(), model=BROADCASTING, fingerprint=7, without_sub=True)
    group = table.members.consumers("g")
    assert group.message_model == BROADCASTING
    assert table.told == []


def test_a_short_heartbeat_changes_how_a_group_consumes_but_not_what() -> None:
    """Its subscriptions stay, though it names none."""
    table = Table()
    a = Link()
    table.beat(a, "T", fingerprint=7)
    table.beat(a, model=BROADCASTING, fingerprint=7, without_sub=True)
    group = table.members.consumers("g")
    assert (group.message_model, table.topics()) == (BROADCASTING, {"T": 1})


def test_a_short_heartbeat_of_a_group_without_subscriptions_asks_for_the_full_one() -> None:
    """Else its consumers could not pull until something else changes."""
    table = Table()
    a = Link()
    assert table.beat(a, fingerprint=7, without_sub=True)
    assert not table.beat(a, "T", fingerprint=7)
    assert not table.beat(a, fingerprint=7, without_sub=True)


def test_a_pull_brings_its_own_subscription() -> None:
    """For a group that sends no heartbeats; a newer version replaces, an older does not."""
    table = Table()
    register = table.members.register_for_pull
    register("g", Subscription("T", version=2), CLUSTERING)
    register("g", Subscription("T", version=1), CLUSTERING)
    register("g", Subscription("U", version=1), CLUSTERING)
    assert table.topics() == {"T": 2, "U": 1}
    assert table.count() == 0
    register("g", Subscription("T", version=3), CLUSTERING)
    assert table.topics() == {"T": 3, "U": 1}
    table.clock.advance(int(EMPTY_GROUP_SECONDS * 1000) + 1)
    table.members.expire()
    assert table.topics() == {}


def test_a_producing_client_is_found_by_its_id() -> None:
    """On its newest connection, until that is gone or it has left its last group."""
    table = Table()
    a, b = Link(), Link()

    def beat(link: Link) -> None:
        data = Heartbeat(client_id="c", producers=["p"])
        table.members.heartbeat(link, data, "JAVA", 479, [])

    assert table.members.producer_link("c") is None
    beat(a)
    beat(b)
    assert table.members.producer_link("c") is b
    table.members.drop(a)
    assert table.members.producer_link("c") is b
    table.members.unregister(b, "p", None)
    assert table.members.producer_link("c") is None


def test_a_connection_that_names_itself_anew_keeps_one_id() -> None:
    """Replies go to the last; nothing is kept of the others."""
    members, link = Table().members, Link()
    for name in ("c", "d"):
        data = Heartbeat(client_id=name, producers=["p", "q"])
        members.heartbeat(link, data, "JAVA", 479, [])
    assert members.producer_link("c") is None
    assert members.producer_link("d") is link
