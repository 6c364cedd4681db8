"""Routes equal those of a search that looks at every binding, after any changes."""

import re
import tracemalloc
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.field_tables import table
from tests.rabbit_topology import (
    ANYBODY,
    EXCHANGE,
    QUEUE,
    bound,
    declare_exchange,
    declare_queue,
    fresh_vhost,
    routed,
)

from sprocket.rabbitmq.broker.topology import VhostTopology, matching
from sprocket.rabbitmq.model.binding import Binding, Destination
from sprocket.rabbitmq.model.fields import NO_FIELDS, Field, FieldKind, FieldTable

EXCHANGES = ("x0", "x1", "x2", "x3")
QUEUES = ("q0", "q1", "q2")
TYPES = ("direct", "fanout", "topic", "headers")
PATTERNS = ("", "a", "a.b", "*", "#", "a.*", "*.b", "#.b", "a.#.b", "#.#", "*.#.*", "a..b")
KEYS = ("", "a", "b", "a.b", "a.c.b", "a..b", ".b", "a.b.b", "*", "#")
HEADERS: tuple[dict[str, object], ...] = ({}, {"h": 1}, {"h": "1"}, {"h": 1, "g": True}, {"x-k": 1})
CONDITIONS: tuple[dict[str, object], ...] = (
    {},
    {"h": 1},
    {"h": 1.0, "x-match": "any"},
    {"h": None, "g": True},
    {"x-match": "any", "h": 2, "g": True},
    {"x-match": "all-with-x", "x-k": 1},
    {"x-match": "any-with-x", "x-k": 2, "h": "1"},
)


@dataclass
class Naive:
    """Exchanges with their types and alternates, and a list of bindings."""

    types: dict[str, tuple[str, str | None]] = field(default_factory=dict)
    queues: set[str] = field(default_factory=set)
    bindings: list[Binding] = field(default_factory=list)

    def route(self, start: str, keys: Sequence[str], headers: FieldTable) -> tuple[str, ...]:
        """Look at every binding of every exchange that is reached."""
        reached, found = [start], set()
        for name in reached:
            if name not in self.types:
                continue
            kind, alternate = self.types[name]
            hits = [
                one.destination
                for one in self.bindings
                if one.source == name and matches(kind, one, keys, headers)
            ]
            if not hits and alternate is not None:
                hits = [Destination(EXCHANGE, alternate)]
            found |= {to for what, to in hits if what is QUEUE}
            reached += [to for what, to in hits if what is EXCHANGE and to not in reached]
        return tuple(sorted(found))


def matches(kind: str, binding: Binding, keys: Sequence[str], headers: FieldTable) -> bool:
    """Whether one binding takes a message."""
    if kind == "fanout":
        return True
    if kind == "direct":
        return binding.key in keys
    if kind == "topic":
        return any(fits(binding.key, key) for key in keys)
    return conditions_hold(binding.arguments, headers)


def fits(pattern: str, key: str) -> bool:
    """Whether a key fits a pattern: an expression over words that each end in a dot."""
    words = "".join(
        {"*": r"[^.]*\.", "#": r"(?:[^.]*\.)*"}.get(word, re.escape(word) + r"\.")
        for word in (pattern.split(".") if pattern else [])
    )
    return (
        re.fullmatch(words, "".join(f"{word}." for word in key.split(".")) if key else "")
        is not None
    )


def conditions_hold(conditions: FieldTable, headers: FieldTable) -> bool:
    """Whether headers are as the arguments of a binding ask."""
    given = conditions.get("x-match")
    how = given.value if given is not None else b"all"
    assert isinstance(how, bytes)
    hits = [
        is_met(wanted, headers.get(name))
        for name, wanted in conditions
        if name != "x-match" and (how.endswith(b"-with-x") or not name.startswith("x-"))
    ]
    return any(hits) if how.startswith(b"any") else all(hits)


def is_met(wanted: Field, found: Field | None) -> bool:
    """Whether one header is as asked."""
    if found is None:
        return False
    if wanted.kind is FieldKind.VOID:
        return True
    numbers = (FieldKind.SIGNED_INT, FieldKind.DOUBLE)
    is_like = wanted.kind is found.kind or (wanted.kind in numbers and found.kind in numbers)
    return is_like and wanted.value == found.value


@st.composite
def bindings(draw: st.DrawFn) -> Binding:
    """Draw a binding between any of them."""
    kind = draw(st.sampled_from((QUEUE, EXCHANGE)))
    to = draw(st.sampled_from(QUEUES if kind is QUEUE else EXCHANGES))
    return bound(
        draw(st.sampled_from(EXCHANGES)),
        to,
        draw(st.sampled_from(PATTERNS)),
        kind=kind,
        arguments=draw(st.sampled_from(CONDITIONS)),
    )


messages = st.tuples(
    st.sampled_from(EXCHANGES),
    st.lists(st.sampled_from(KEYS), min_size=1, max_size=2),
    st.sampled_from(HEADERS),
)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("bind"), bindings()),
        st.tuples(st.just("bind"), bindings()),
        st.tuples(st.just("unbind"), st.integers(0, 20)),
        st.tuples(st.just("drop queue"), st.sampled_from(QUEUES)),
        st.tuples(st.just("drop exchange"), st.sampled_from(EXCHANGES)),
        st.tuples(
            st.just("exchange"),
            st.tuples(
                st.sampled_from(EXCHANGES),
                st.sampled_from(TYPES),
                st.sampled_from((None, *EXCHANGES)),
            ),
        ),
    ),
    max_size=25,
)


def do(topology: VhostTopology, naive: Naive, what: str, operand: object) -> None:
    """Change both in the same way."""
    if what == "exchange":
        assert isinstance(operand, tuple)
        name, kind, alternate = operand
        if name not in naive.types:
            arguments = {} if alternate is None else {"alternate-exchange": alternate}
            declare_exchange(topology, name, kind, arguments=arguments)
            naive.types[name] = kind, alternate
    elif what == "bind":
        assert isinstance(operand, Binding)
        kind, to = operand.destination
        if kind is QUEUE and to not in naive.queues:
            declare_queue(topology, to)
            naive.queues.add(to)
        if operand.source in naive.types and (kind is QUEUE or to in naive.types):
            is_new = topology.bind(operand, ANYBODY)
            assert is_new == (operand not in naive.bindings)
            if is_new:
                naive.bindings.append(operand)
    elif what == "unbind":
        assert isinstance(operand, int)
        if operand < len(naive.bindings):
            topology.unbind(naive.bindings.pop(operand), ANYBODY)
    elif what == "drop queue":
        topology.remove_queue(str(operand))
        naive.queues.discard(str(operand))
        naive.bindings = [b for b in naive.bindings if b.destination != (QUEUE, operand)]
    else:
        topology.delete_exchange(str(operand), ANYBODY, if_unused=False)
        naive.types.pop(str(operand), None)
        naive.bindings = [
            b
            for b in naive.bindings
            if operand != b.source and b.destination != (EXCHANGE, operand)
        ]


@pytest.mark.slow
@given(steps, st.lists(messages, min_size=1, max_size=6))
def test_routes_are_those_of_a_search(
    changes: list[tuple[str, object]], sent: list[tuple[str, list[str], dict[str, object]]]
) -> None:
    """After each change, and asked twice, so that nothing is remembered too long."""
    topology, naive = fresh_vhost(), Naive()
    for number, name in enumerate(EXCHANGES):
        do(topology, naive, "exchange", (name, TYPES[number], None))
    for what, operand in [*changes, ("drop queue", "none")]:
        do(topology, naive, what, operand)
        for start, keys, headers in sent * 2:
            if start in naive.types:
                expected = naive.route(start, keys, table(headers))
                assert expected == routed(topology, start, *keys, headers=headers)
    assert sorted(map(repr, naive.bindings)) == sorted(map(repr, topology.bindings()))


def test_the_default_exchange_leads_to_every_queue_by_its_name() -> None:
    """To those that are there at the moment, each once."""
    topology = fresh_vhost()
    assert routed(topology, "", "a") == ()
    declare_queue(topology, "a")
    declare_queue(topology, "b")
    assert routed(topology, "", "a") == ("a",)
    assert routed(topology, "", "b", "a", "b", "c") == ("a", "b")
    topology.remove_queue("a")
    assert routed(topology, "", "a") == ()


def test_a_delayed_message_is_kept_and_then_routed() -> None:
    """By the type that the exchange behaves like; also where it comes by another exchange."""
    topology = fresh_vhost()
    declare_queue(topology, "q")
    arguments = {"x-delayed-type": "topic", "alternate-exchange": "amq.fanout"}
    declare_exchange(topology, "later", "x-delayed-message", arguments=arguments)
    declare_exchange(topology, "first", "fanout")
    topology.bind(bound("later", "q", "a.#"), ANYBODY)
    topology.bind(bound("amq.fanout", "q"), ANYBODY)
    topology.bind(bound("first", "later", kind=EXCHANGE), ANYBODY)
    delayed = table({"x-delay": 1500})
    for start in ("later", "first"):
        found = topology.route(start, ["a.b"], lambda: delayed)
        assert (found.queues, found.held_by, found.delay_ms) == ((), ("later",), 1500)
        assert routed(topology, start, "a.b") == ("q",)
    released = topology.release("later", ["a.b"], lambda: delayed)
    assert (released.queues, released.held_by) == (("q",), ())


def test_delays_that_are_none() -> None:
    """Zero, negative, strange and too long ones are passed over; texts of digits count."""
    topology = fresh_vhost()
    declare_exchange(topology, "x", "x-delayed-message", arguments={"x-delayed-type": "fanout"})
    expected = {0: 0, -5: 0, "12": 12, "x": 0, "": 0, "9" * 300: 0, 1 << 32: 0}
    expected |= {2.9: 2, -1.5: 0, (1 << 32) - 1: (1 << 32) - 1}
    for value, wait_ms in expected.items():
        found = topology.route("x", ["k"], partial(table, {"x-delay": value}))
        assert (value, found.delay_ms) == (value, wait_ms)


def test_headers_are_made_only_if_somebody_asks() -> None:
    """A publish to a direct exchange does not have its headers read."""
    topology = fresh_vhost()
    declare_queue(topology, "q")
    topology.bind(bound("amq.direct", "q", "k"), ANYBODY)

    def fail() -> FieldTable:
        raise AssertionError("nobody needs them")

    assert topology.route("amq.direct", ["k"], fail).queues == ("q",)


def test_a_pattern_of_many_hashes_is_no_trap() -> None:
    """Forty `#` and a long key: the ways are followed together, not one by one."""
    topology = fresh_vhost()
    declare_queue(topology, "q")
    topology.bind(bound("amq.topic", "q", "#.a." * 20 + "b"), ANYBODY)
    assert routed(topology, "amq.topic", "a." * 60 + "c") == ()
    assert routed(topology, "amq.topic", "a." * 60 + "b") == ("q",)


def test_patterns_that_are_gone_take_no_memory() -> None:
    """A client that binds and unbinds a new key each time leaves nothing behind."""
    topology = fresh_vhost()
    declare_queue(topology, "q")

    def bind_and_unbind(start: int) -> None:
        for number in range(start, start + 300):
            one = bound("amq.topic", "q", f"a.{number}.b")
            topology.bind(one, ANYBODY)
            topology.unbind(one, ANYBODY)

    bind_and_unbind(0)
    tracemalloc.start()
    try:
        bind_and_unbind(1000)
        assert tracemalloc.get_traced_memory()[0] < 20_000
    finally:
        tracemalloc.stop()


def test_a_condition_that_stands_twice_wants_the_header_twice() -> None:
    """RabbitMQ goes through both sorted lists together, and so do we."""
    topology = fresh_vhost()
    declare_queue(topology, "q")
    once = table({"h": 1})
    twice = FieldTable(once.entries * 2)
    one = bound("amq.headers", "q")
    topology.bind(
        Binding(vhost="/", source=one.source, destination=one.destination, arguments=twice), ANYBODY
    )
    assert topology.route("amq.headers", ["k"], lambda: once).queues == ()
    assert topology.route("amq.headers", ["k"], lambda: twice).queues == ("q",)


def test_an_empty_array_is_an_empty_table() -> None:
    """Both are an empty list to Erlang, where a header is compared; inside of one they are not."""
    assert matching.is_equal((), NO_FIELDS)
    inside = [
        (Field(kind, value),)
        for kind, value in ((FieldKind.ARRAY, ()), (FieldKind.TABLE, NO_FIELDS))
    ]
    assert not matching.is_equal(*inside)
