"""What becomes of messages that were sent together, before queues get them."""

import contextlib
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.field_tables import table
from tests.rabbit_queues import Yard
from tests.rabbit_topology import (
    ANYBODY,
    EXCHANGE,
    bound,
    declare_exchange,
    declare_queue,
    fresh_vhost,
)

from sprocket.rabbitmq.broker.access import UserAccess
from sprocket.rabbitmq.broker.channels import DirectReplies, Publication
from sprocket.rabbitmq.broker.message_ids import MessageIds
from sprocket.rabbitmq.broker.publishing import Publisher, Publishing
from sprocket.rabbitmq.broker.queues import BrokerQueue
from sprocket.rabbitmq.broker.topology import VhostTopology
from sprocket.rabbitmq.codec.amqp import Envelope, SentMessage, methods, tables
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

    def fresh(self) -> Publishing:
        """Return one that remembers nothing, and asks the topology for queues."""
        return Publishing(
            self.topology,
            lambda *given: [self._made[name] for name in self.topology.route(*given).queues],
            DirectReplies(),
            MessageIds(),
        )

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
        shop.publish(sent("a"), sent("b"), sent("a"), sent("a", BRIEF))
    assert shop.looked_count == 2
    before = shop.topology.changes
    declare_queue(shop.topology, "another")
    assert shop.topology.changes > before
    shop.queues["a"] = "b"
    assert shop.publish(sent("a")) == [("0", "b")]
    shop.access.change(None, {})
    ((_, why),) = shop.publish(sent("a"))
    assert "refused for user 'ann'" in why


HEADERS = {
    "none": None,
    "matching": tables.encode_table(table({"x": 1}))[4:],
    "copies": tables.encode_table(table({"CC": ["b"], "BCC": ["a"]}))[4:],
    "no copies": tables.encode_table(table({"CC": []}))[4:],
}
ENVELOPES = [
    *(Envelope(2, headers=one) for one in HEADERS.values()),
    *(Envelope(1, 7, "5", headers=one) for one in HEADERS.values()),
    Envelope(3),
    Envelope(2, expiration="five"),
]
METHODS = [
    methods.BasicPublish(0, exchange, key, is_mandatory, False)
    for exchange in ("", "d", "h", "to h", "nowhere")
    for key, is_mandatory in (("a", True), ("b", False), ("amq.rabbitmq.reply-to.k", False))
]
Change = Callable[[VhostTopology, UserAccess], object]
CHANGES: list[Change] = [
    lambda topology, _: topology.bind(bound("d", "a", "b"), ANYBODY),
    lambda topology, _: topology.unbind(bound("d", "a", "b"), ANYBODY),
    lambda topology, _: topology.bind(bound("d", "b", "x"), ANYBODY),
    lambda topology, _: declare_exchange(topology, "nowhere"),
    lambda topology, _: topology.delete_exchange("nowhere", ANYBODY, if_unused=False),
    lambda _, access: access.change(None, {}),
    lambda _, access: access.change(ANYTHING, {}),
]


@given(
    st.lists(
        st.one_of(
            st.tuples(
                st.sampled_from(METHODS),
                st.lists(st.sampled_from(ENVELOPES), min_size=1, max_size=4),
            ),
            st.sampled_from(CHANGES),
        )
    )
)
def test_ways_that_are_remembered_are_those_that_are_found(
    steps: list[tuple[methods.BasicPublish, list[Envelope]] | Change],
) -> None:
    """Whatever is asked of a message, and after any change: whoever remembers nothing agrees."""
    shop = Shop()
    topology = shop.topology
    for name in "ab":
        declare_queue(topology, name)
    declare_exchange(topology, "d", arguments={"alternate-exchange": "h"})
    for name in ("h", "to h"):
        declare_exchange(topology, name, "headers" if name == "h" else "fanout")
    topology.bind(bound("h", "a", arguments={"x": 1}), ANYBODY)
    topology.bind(bound("to h", "h", kind=EXCHANGE), ANYBODY)

    def found(publishing: Publishing, one: SentMessage) -> list[object]:
        counts = topology.exchange_counts(one.method.exchange)
        before = counts.published_in, counts.published_out
        said: list[object] = []
        try:
            for each in publishing.publications((one,), shop.publisher, lambda: "reply"):
                (message,) = each.messages
                labels = sorted(queue.label for queue in each.queues)
                said += (labels, message.routing_keys, message.properties, each[3:])
        except RequestRefused as refusal:
            said.append(refusal.remark)
        return [said, counts.published_in - before[0], counts.published_out - before[1]]

    remembering = shop.fresh()
    for step in steps:
        if isinstance(step, tuple):
            for envelope in step[1]:
                one = SentMessage(step[0], b"\0\0", envelope, (b"body",))
                assert found(shop.fresh(), one) == found(remembering, one)
        else:
            with contextlib.suppress(RequestRefused):
                step(topology, shop.access)


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
