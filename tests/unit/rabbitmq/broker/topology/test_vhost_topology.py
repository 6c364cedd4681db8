"""What is declared in a virtual host, what goes with what, and what a restart leaves."""

from itertools import pairwise
from random import Random

import pytest
from tests.field_tables import table
from tests.rabbit_topology import (
    ANYBODY,
    EXCHANGE,
    QUEUE,
    Declarations,
    bound,
    declare_exchange,
    declare_queue,
    fresh_vhost,
    routed,
)

from sprocket.base.disk import steps
from sprocket.base.errors import DiskFull
from sprocket.rabbitmq.broker.access import Unlimited
from sprocket.rabbitmq.broker.topology import Requester, VhostTopology, check_consumption
from sprocket.rabbitmq.errors import RequestRefused
from sprocket.rabbitmq.model.binding import Binding, Destination
from sprocket.rabbitmq.model.declared_queue import DeclaredQueue
from sprocket.rabbitmq.model.policy import Policy
from sprocket.rabbitmq.model.vhost import Vhost


def there(topology: VhostTopology) -> tuple[set[str], set[str], set[Binding]]:
    """Return the names of exchanges and queues, and the bindings."""
    exchanges = {one.name for one in topology.exchanges() if one.name[:4] not in ("", "amq.")}
    return exchanges, {one.name for one in topology.queues()}, set(topology.bindings())


def test_a_restart_leaves_what_is_durable() -> None:
    """Exchanges, queues, and bindings between two of them; after a kill as after a clean stop."""
    before = Declarations()
    vhost = before.vhost()
    for name, durable in (("d", True), ("t", False)):
        declare_exchange(vhost, f"x{name}", durable=durable)
        declare_queue(vhost, f"q{name}", durable=durable, arguments={"x-max-length": 3})
    declare_queue(vhost, "own", durable=True, owner=1)
    for source in ("xd", "xt", "amq.topic"):
        for to in ("qd", "qt", "own"):
            vhost.bind(bound(source, to, "k"), Requester(Unlimited(), 1))
        vhost.bind(bound(source, "xd", "k", kind=EXCHANGE), ANYBODY)
    expected = (
        {"xd"},
        {"qd"},
        {
            bound(source, to, "k", kind=kind)
            for source in ("xd", "amq.topic")
            for to, kind in (("qd", QUEUE), ("xd", EXCHANGE))
        },
    )
    assert there(Declarations(before.disk.kill()).vhost()) == expected
    before.table.close()
    after = Declarations(before.disk.crash(lambda _: 0)).vhost()
    assert there(after) == expected
    assert after.find_queue("qd") == vhost.find_queue("qd")
    assert routed(after, "amq.topic", "k") == ("qd",)


def test_a_queue_takes_its_bindings_and_auto_delete_exchanges_along() -> None:
    """Also exchanges whose last binding led to an exchange that goes for it; on the disk, too."""
    before = Declarations()
    vhost = before.vhost()
    for name in ("a", "b", "c"):
        declare_exchange(vhost, name, durable=True, auto_delete=name != "c")
    for source, to in pairwise(("c", "a", "b")):
        vhost.bind(bound(source, to, kind=EXCHANGE), ANYBODY)
    declare_queue(vhost, "q", durable=True)
    declare_queue(vhost, "other", durable=True)
    vhost.bind(bound("b", "q", "1"), ANYBODY)
    vhost.bind(bound("b", "q", "2"), ANYBODY)
    vhost.bind(bound("c", "other"), ANYBODY)
    removed = vhost.remove_queue("q")
    assert {one.name for one in removed.exchanges} == {"a", "b"}
    assert len(removed.bindings) == 4
    expected = ({"c"}, {"other"}, {bound("c", "other")})
    assert there(vhost) == expected
    assert there(Declarations(before.disk.kill()).vhost()) == expected


def test_deleting_an_exchange_says_what_went_with_it() -> None:
    """The one that was asked for is not among them."""
    vhost = fresh_vhost()
    declare_exchange(vhost, "from", auto_delete=True)
    declare_exchange(vhost, "to")
    declare_queue(vhost, "q")
    vhost.bind(bound("from", "to", kind=EXCHANGE), ANYBODY)
    vhost.bind(bound("to", "q"), ANYBODY)
    removed = vhost.delete_exchange("to", ANYBODY, if_unused=False)
    assert [one.name for one in removed.exchanges] == ["from"]
    assert set(removed.bindings) == {bound("from", "to", kind=EXCHANGE), bound("to", "q")}
    assert there(vhost) == (set(), {"q"}, set())


def test_queues_of_a_connection_are_known_by_it() -> None:
    """Until they are gone."""
    vhost = fresh_vhost()
    for name, owner in (("a", 1), ("b", 2), ("c", 1)):
        assert declare_queue(vhost, name, owner=owner, durable=True).is_durable is False
    assert [one.name for one in vhost.queues_of(1)] == ["a", "c"]
    for queue in vhost.queues_of(1):
        vhost.remove_queue(queue.name)
    assert (vhost.queues_of(1), [one.name for one in vhost.queues_of(2)]) == ([], ["b"])


def test_a_queue_without_a_name_is_given_one() -> None:
    """Another one each time, of 22 signs that stand in an address."""
    vhost = fresh_vhost()
    names = {declare_queue(vhost, "").name for _ in range(20)}
    assert {len(name) for name in names} == {len("amq.gen-") + 22}
    assert len(names) == 20


def test_ends_of_lines_are_no_part_of_names() -> None:
    """Wherever they stand."""
    vhost = fresh_vhost()
    assert declare_queue(vhost, "a\r\nb").name == "ab"
    assert vhost.check_queue("\nab", ANYBODY).name == "ab"
    declare_exchange(vhost, "x\n")
    vhost.bind(bound("\rx", "a\nb", "k\n"), ANYBODY)
    assert routed(vhost, "x", "k\n") == ("ab",)


def test_the_limit_of_queues_counts_new_ones() -> None:
    """A declaration of what is there is no new one."""
    vhost = Declarations().vhosts.put(Vhost(name="v", limits={"max-queues": 2}))
    declare_queue(vhost, "a")
    declare_queue(vhost, "b", owner=7)
    declare_queue(vhost, "a")
    with pytest.raises(RequestRefused) as refused:
        declare_queue(vhost, "c")
    text = "cannot declare queue 'c': queue limit in vhost 'v' (2) is reached"
    assert refused.value.remark == text
    vhost.remove_queue("b")
    declare_queue(vhost, "c")


def test_a_virtual_host_may_say_what_queues_are() -> None:
    """Those that can be that, and do not say it themselves."""
    vhost = Declarations().vhosts.put(Vhost(name="v", default_queue_type="quorum"))
    assert declare_queue(vhost, "a", durable=True).type == "quorum"
    assert declare_queue(vhost, "b").type == "classic"
    assert declare_queue(vhost, "c", durable=True, owner=1).type == "classic"
    given = {"x-queue-type": "classic"}
    assert declare_queue(vhost, "d", durable=True, arguments=given).type == "classic"


def test_a_stream_is_refused_by_name() -> None:
    """As a type that nobody knows."""
    with pytest.raises(RequestRefused) as refused:
        declare_queue(fresh_vhost(), "s", durable=True, arguments={"x-queue-type": "stream"})
    assert refused.value.remark == (
        "invalid arg 'x-queue-type' for queue 's' in vhost '/': \"unsupported queue type 'stream'\""
    )


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({}, "Invalid argument, 'x-delayed-type' must be an existing exchange type"),
        ({"x-delayed-type": 5}, "Invalid argument, 'x-delayed-type' must be an existing exchange"),
        ({"x-delayed-type": "x-delayed-message"}, "'x-delayed-message' can't be used for"),
        ({"x-delayed-type": "foo"}, "unknown exchange type 'foo'"),
    ],
)
def test_delayed_exchanges_say_what_they_behave_like(
    arguments: dict[str, object], text: str
) -> None:
    """And only that."""
    with pytest.raises(RequestRefused, match=text):
        declare_exchange(fresh_vhost(), "x", "x-delayed-message", arguments=arguments)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"x-priority": -5, "own": 1, "x-credit": 5}, ""),
        ({"x-priority": "5"}, "invalid arg 'x-priority' for queue 'q' in vhost '/': \"expected"),
        ({"x-cancel-on-ha-failover": 1}, "{unacceptable_type,signedint}"),
        (
            {"x-stream-offset": 1},
            "invalid arg 'x-stream-offset' for queue 'q' in vhost '/' of queue type rabbit_classic",
        ),
    ],
)
def test_arguments_of_consumers(arguments: dict[str, object], text: str) -> None:
    """Those that a queue has a use for are checked, unknown ones are not."""
    queue = DeclaredQueue(vhost="/", name="q")
    if not text:
        check_consumption(queue, table(arguments))
        return
    with pytest.raises(RequestRefused) as refused:
        check_consumption(queue, table(arguments))
    assert text in refused.value.remark


def test_policies_are_in_force_for_what_is_there_and_what_comes() -> None:
    """Queues that are concerned are told; the alternate exchange takes effect at once."""
    declarations = Declarations()
    vhost = declarations.vhost()
    declare_exchange(vhost, "x")
    declare_queue(vhost, "all")
    vhost.bind(bound("amq.fanout", "all"), ANYBODY)
    for name in ("work.1", "work.2", "rest"):
        declare_queue(vhost, name, arguments={"x-max-length": 10})
    told: list[str] = []

    def apply(policy: Policy) -> None:
        told.clear()
        assert declarations.policies.put(policy)
        steps.run(vhost.reapply_steps(lambda some: told.extend(one.name for one in some)))

    apply(Policy(vhost="/", name="p", pattern="^work", definition={"max-length": 5, "expires": 9}))
    assert told == ["work.1", "work.2"]
    options = vhost.options(vhost.queue("work.1", ANYBODY))
    assert (options.max_length, options.expires_ms) == (5, 9)
    assert vhost.in_force(QUEUE, "work.1").policy == "p"
    assert vhost.options(vhost.queue("rest", ANYBODY)).max_length == 10
    declare_queue(vhost, "work.3")
    assert vhost.options(vhost.queue("work.3", ANYBODY)).max_length == 5
    assert routed(vhost, "x", "k") == ()
    apply(
        Policy(
            vhost="/",
            name="ae",
            pattern="x",
            definition={"alternate-exchange": "amq.fanout"},
            apply_to="exchanges",
        )
    )
    assert (told, routed(vhost, "x", "k")) == ([], ("all",))
    declarations.policies.remove("/", "p")
    steps.run(vhost.reapply_steps(lambda some: told.extend(one.name for one in some)))
    assert told == ["work.1", "work.2", "work.3"]
    assert vhost.in_force(QUEUE, "work.1").policy is None


def test_what_cannot_be_written_is_not_done() -> None:
    """A full disk: the client is told, and neither memory nor disk has it."""
    declarations = Declarations()
    vhost = declarations.vhost()
    declare_exchange(vhost, "x", durable=True)
    declare_queue(vhost, "q", durable=True)
    vhost.bind(bound("x", "q"), ANYBODY)
    expected = there(vhost)

    def full(call: str, _path: str) -> None:
        if call == "write":
            raise DiskFull("no space")

    declarations.disk.before = full
    for attempt in (
        lambda: declare_exchange(vhost, "y", durable=True),
        lambda: declare_queue(vhost, "p", durable=True),
        lambda: vhost.bind(bound("x", "q", "2"), ANYBODY),
        lambda: vhost.unbind(bound("x", "q"), ANYBODY),
        lambda: vhost.remove_queue("q"),
        lambda: vhost.delete_exchange("x", ANYBODY, if_unused=False),
        lambda: declarations.vhosts.put(Vhost(name="w")),
        lambda: declarations.vhosts.remove("/"),
    ):
        with pytest.raises(DiskFull):
            attempt()
    declarations.disk.before = None
    assert there(vhost) == expected
    assert len(declarations.vhosts) == 1
    assert there(Declarations(declarations.disk.kill()).vhost()) == expected


@pytest.mark.slow
def test_ten_thousand_of_everything() -> None:
    """A look-up and a deletion cost what they are about: counted in bindings that are looked at."""
    vhost = fresh_vhost()
    count = 10_000
    declare_exchange(vhost, "x", "topic")
    for number in range(count):
        declare_queue(vhost, f"q{number}")
        vhost.bind(bound("x", f"q{number}", f"k.{number}.#"), ANYBODY)
    assert routed(vhost, "x", "k.77.a.b") == ("q77",)
    assert routed(vhost, "", "q9999") == ("q9999",)
    rng = Random(1)
    for number in rng.sample(range(count), 1000):
        removed = vhost.remove_queue(f"q{number}")
        assert [one.key for one in removed.bindings] == [f"k.{number}.#"]
        assert routed(vhost, "x", f"k.{number}") == ()
    assert len(vhost.bindings_from("x")) == vhost.queue_count == count - 1000
    assert vhost.bindings_to(Destination(QUEUE, "q1"))[0].key == "k.1.#"
    vhost.delete_exchange("x", ANYBODY, if_unused=False)
    assert list(vhost.bindings()) == []


def test_a_binding_of_what_the_disk_has_lost_is_dropped() -> None:
    """The start goes on, and it does not come back with a queue of the same name."""
    declarations = Declarations()
    vhost = declarations.vhost()
    declare_exchange(vhost, "e")
    declare_queue(vhost, "q")
    vhost.bind(bound("e", "q"), ANYBODY)
    (queue,) = vhost.queues()
    declarations.table.write(gone=[queue])  # as if its line were damaged
    again = Declarations(declarations.disk)
    assert [*again.vhost().bindings()] == []
    assert Declarations(declarations.disk).table.of_vhost("/", Binding) == []
