"""What becomes of messages that were sent together, before queues get them."""

import pytest
from tests.rabbit_queues import Yard
from tests.rabbit_topology import declare_queue, fresh_vhost

from sprocket.rabbitmq.broker.access import UserAccess
from sprocket.rabbitmq.broker.channels import DirectReplies, Publication
from sprocket.rabbitmq.broker.message_ids import MessageIds
from sprocket.rabbitmq.broker.publishing import Publisher, Publishing
from sprocket.rabbitmq.broker.queues import BrokerQueue
from sprocket.rabbitmq.codec.amqp import Envelope, SentMessage, methods
from sprocket.rabbitmq.errors import RequestRefused
from sprocket.rabbitmq.model.user import User, VhostPermission

ANYTHING = VhostPermission(user="ann", vhost="/", configure="", write=".*", read="")
PLAIN, URGENT, BRIEF = Envelope(2), Envelope(2, priority=7), Envelope(2, expiration="5")


class Shop:
    """A virtual host, and two queues."""

    def __init__(self) -> None:
        self.topology = fresh_vhost()
        self.access = UserAccess("ann", "/")
        self.access.change(ANYTHING, {})
        self.publisher = Publisher(User(name="ann"), self.access)
        self.looked_count = 0
        self.queues: dict[str, str] = {"a": "a", "b": "b", "c": "a b"}
        """What a key leads to."""
        self.publishing = Publishing(
            self.topology,
            lambda _, keys, __: self._find(keys[0]),
            DirectReplies(),
            MessageIds(),
        )
        self._made = {name: Yard().queue(name) for name in "ab"}

    def _find(self, key: str) -> list[BrokerQueue]:
        self.looked_count += 1
        return [self._made[name] for name in self.queues.get(key, "").split()]

    def publish(self, *sent: SentMessage) -> list[tuple[str, str]]:
        """Publish; return positions and queues of each publication, and why it ended early."""
        found = []
        try:
            for one in self.publishing.publications(sent, self.publisher, lambda: "reply"):
                found.append(_said(one))
        except RequestRefused as refusal:
            found.append(("", refusal.remark))
        return found


def _said(one: Publication) -> tuple[str, str]:
    assert len(one.messages) == len(one.positions)
    return " ".join(map(str, one.positions)), "".join(queue.label for queue in one.queues)


KNOWN = {key: methods.BasicPublish(0, "", key, False, False) for key in "abcx"}


def sent(key: str, envelope: Envelope = PLAIN) -> SentMessage:
    """Return a message as the connection gives it: methods that are equal are the same."""
    return SentMessage(KNOWN[key], b"\x10\0\2", envelope, (b"body",))


def test_messages_that_go_the_same_way_are_together() -> None:
    """However they alternate, as long as their queues are others."""
    assert Shop().publish(*map(sent, "aabba")) == [("0 1 4", "a"), ("2 3", "b")]


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("acb", [("0", "a"), ("1", "ab"), ("2", "b")]),
        ("cab", [("0", "ab"), ("1", "a"), ("2", "b")]),
        ("abc", [("0", "a"), ("1", "b"), ("2", "ab")]),
        ("axa", [("0 2", "a"), ("1", "")]),
    ],
)
def test_each_queue_keeps_the_order(order: str, expected: list[tuple[str, str]]) -> None:
    """Where two ways lead to the same queue, what came first goes first."""
    assert Shop().publish(*map(sent, order)) == expected


def test_what_is_special_comes_alone_and_in_its_place() -> None:
    """With another priority, or a time to live."""
    order = [sent("a"), sent("a", URGENT), sent("a", BRIEF), sent("a"), sent("a")]
    said = [("0", "a"), ("1", "a"), ("2", "a"), ("3 4", "a")]
    assert Shop().publish(*order) == said


def test_what_comes_before_a_mistake_is_published() -> None:
    """And nothing behind it."""
    bad = sent("a", Envelope(9))
    told = "invalid message: {delivery_mode_unknown,9}"
    (*before, (_, why)) = Shop().publish(sent("a"), sent("b"), bad, sent("a"))
    assert before == [("0", "a"), ("1", "b")]
    assert told in why


def test_ways_are_looked_for_once_until_something_changes() -> None:
    """The topology, or what the user may do."""
    shop = Shop()
    for _ in range(3):
        shop.publish(sent("a"), sent("b"), sent("a"))
    assert shop.looked_count == 2
    before = shop.topology.changes
    declare_queue(shop.topology, "another")
    assert shop.topology.changes > before
    shop.queues["a"] = "b"
    assert shop.publish(sent("a")) == [("0", "b")]
    shop.access.change(None, {})
    ((_, why),) = shop.publish(sent("a"))
    assert "refused for user 'ann'" in why


def test_ways_are_looked_for_again_when_others_had_their_turn() -> None:
    """Topology may have changed between two publications of what was sent together."""
    shop = Shop()
    work = shop.publishing.publications([*map(sent, "aca")], shop.publisher, lambda: "reply")
    assert _said(next(work)) == ("0", "a")
    declare_queue(shop.topology, "another")
    shop.queues["a"] = "b"
    assert [*map(_said, work)] == [("1", "ab"), ("2", "b")]


def test_messages_with_several_envelopes_are_together() -> None:
    """If they have the same priority; each is as durable as it says."""
    shop = Shop()
    order = [sent("a"), sent("a", Envelope(1)), sent("a")]
    (found,) = shop.publishing.publications(order, shop.publisher, lambda: "reply")
    assert [one.is_persistent for one in found.messages] == [True, False, True]


def counted(shop: Shop) -> tuple[int, int]:
    """Return what is counted for the default exchange."""
    found = shop.topology.exchange_counts("")
    return found.published_in, found.published_out


def test_exchanges_count_what_comes_in_and_what_goes_to_queues() -> None:
    """A message for two queues goes out twice, one for nobody does not; each envelope counts."""
    shop = Shop()
    assert shop.topology.find_exchange_counts("") is None
    shop.publish(*map(sent, "aaac"))
    assert counted(shop) == (4, 5)
    shop.publish(sent("x"), sent("a", URGENT), sent("c", BRIEF), sent("x", BRIEF))
    assert counted(shop) == (8, 8)
