"""How an exchange finds what its bindings lead to, one class for each type.

Each is an index: it costs what it finds, not what is bound, but for headers, whose conditions have
to be looked at one by one.

Source: `rabbit_exchange_type_direct`, `…_fanout`, `…_topic`, `…_headers`.
"""

from collections import Counter
from collections.abc import Callable, Sequence, Set
from typing import Protocol

from sprocket.rabbitmq.model.binding import Binding, Destination
from sprocket.rabbitmq.model.exchange import DIRECT, FANOUT, HEADERS, TOPIC, text_of
from sprocket.rabbitmq.model.fields import (
    Field,
    FieldKind,
    FieldTable,
    FieldValue,
    ScaledInteger,
)

Headers = Callable[[], FieldTable]
"""Gives the headers of a message when somebody asks for them."""

WITH_X = frozenset({"all-with-x", "any-with-x"})
ANY = frozenset({"any", "any-with-x"})
X_MATCHES = frozenset({"all", "any"}) | WITH_X
X_MATCH = "x-match"


class Matcher(Protocol):
    """The bindings from one exchange."""

    def add(self, binding: Binding) -> None:
        """Take in a binding that is not there."""

    def remove(self, binding: Binding) -> None:
        """Give up one that is."""

    def match(self, keys: Sequence[str], headers: Headers) -> Set[Destination]:
        """Return where a message goes."""


def matcher(routing_type: str) -> Matcher:
    """Return an empty index for an exchange of that type."""
    return _MATCHERS[routing_type]()


class _Direct:
    """By key."""

    def __init__(self) -> None:
        self._by_key: dict[str, Counter[Destination]] = {}

    def add(self, binding: Binding) -> None:
        self._by_key.setdefault(binding.key, Counter())[binding.destination] += 1

    def remove(self, binding: Binding) -> None:
        found = self._by_key[binding.key]
        _take_off(found, binding.destination)
        if not found:
            del self._by_key[binding.key]

    def match(self, keys: Sequence[str], headers: Headers) -> Set[Destination]:  # noqa: ARG002
        if len(keys) == 1:
            return self._by_key.get(keys[0], _NOWHERE).keys()
        return set().union(*(self._by_key.get(key, _NOWHERE) for key in keys))


class _Fanout:
    """All."""

    def __init__(self) -> None:
        self._all: Counter[Destination] = Counter()

    def add(self, binding: Binding) -> None:
        self._all[binding.destination] += 1

    def remove(self, binding: Binding) -> None:
        _take_off(self._all, binding.destination)

    def match(self, keys: Sequence[str], headers: Headers) -> Set[Destination]:  # noqa: ARG002
        return self._all.keys()


class _Node:
    """What the words of patterns lead to that have begun alike."""

    __slots__ = ("children", "ends", "is_any_number")

    def __init__(self, word: str = "") -> None:
        self.is_any_number = word == _ANY_NUMBER
        self.children: dict[str, _Node] = {}
        self.ends: Counter[Destination] = Counter()
        """Of the patterns that end here."""


class _Topic:
    """By words: `*` is any one, `#` any number of them."""

    def __init__(self) -> None:
        self._root = _Node()

    def add(self, binding: Binding) -> None:
        node = self._root
        for word in words(binding.key):
            following = node.children.get(word)
            if following is None:
                following = node.children[word] = _Node(word)
            node = following
        node.ends[binding.destination] += 1

    def remove(self, binding: Binding) -> None:
        path = [self._root]
        pattern = words(binding.key)
        for word in pattern:
            path.append(path[-1].children[word])
        _take_off(path[-1].ends, binding.destination)
        for parent, word in zip(reversed(path[:-1]), reversed(pattern), strict=True):
            child = parent.children[word]
            if child.children or child.ends:
                return
            del parent.children[word]

    def match(self, keys: Sequence[str], headers: Headers) -> Set[Destination]:  # noqa: ARG002
        found: set[Destination] = set()
        for key in keys:
            self._collect(words(key), found)
        return found

    def _collect(self, key: Sequence[str], found: set[Destination]) -> None:
        """Follow all ways through the tree together, a word of the key at a time.

        A node is in `level` once at most, so that this costs what there are words and nodes,
        however many `#` a pattern has.
        """
        level = _with_skips({self._root: None})
        for word in key:
            following: dict[_Node, None] = {}
            for node in level:
                children = node.children
                if word in children:
                    following[children[word]] = None
                if _ONE in children:
                    following[children[_ONE]] = None
                if node.is_any_number:
                    following[node] = None
            level = _with_skips(following)
        for node in level:
            found.update(node.ends)


def words(key: str) -> Sequence[str]:
    """Return the words of a key or of a pattern; an empty one has none."""
    return key.split(".") if key else ()


def _with_skips(level: dict[_Node, None]) -> dict[_Node, None]:
    """Return the nodes, and those that a `#` reaches from them without a word."""
    reached = dict(level)
    for node in level:
        while (skipped := node.children.get(_ANY_NUMBER)) is not None and skipped not in reached:
            reached[skipped] = None
            node = skipped
    return reached


class _Conditions:
    """What one binding of a headers exchange asks for."""

    def __init__(self, arguments: FieldTable) -> None:
        how = text_of(arguments.get(X_MATCH))
        self._needs_one = how in ANY
        self._pairs = tuple(
            (name, field)
            for name, field in arguments
            if name != X_MATCH and (how in WITH_X or not name.startswith("x-"))
        )

    def hold(self, headers: Sequence[tuple[str, Field]]) -> bool:
        """Whether they do; both are sorted by name, and of one name the first counts."""
        at = 0
        for name, wanted in self._pairs:
            while at < len(headers) and headers[at][0] < name:
                at += 1
            is_met = False
            if at < len(headers) and headers[at][0] == name:
                found = headers[at][1]
                is_met = wanted.kind is FieldKind.VOID or is_equal(wanted.value, found.value)
                at += 1
            if is_met == self._needs_one:
                return is_met
        return not self._needs_one


class _Headers:
    """By conditions on headers."""

    def __init__(self) -> None:
        self._conditions: dict[Binding, _Conditions] = {}

    def add(self, binding: Binding) -> None:
        self._conditions[binding] = _Conditions(binding.arguments)

    def remove(self, binding: Binding) -> None:
        del self._conditions[binding]

    def match(self, keys: Sequence[str], headers: Headers) -> Set[Destination]:  # noqa: ARG002
        ordered = sorted(headers(), key=lambda entry: entry[0])
        return {
            binding.destination
            for binding, conditions in self._conditions.items()
            if conditions.hold(ordered)
        }


def is_equal(one: FieldValue, other: FieldValue) -> bool:
    """Whether two values are, as Erlang compares them: 1 is 1.0, but neither "1" nor true."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, int | float) and isinstance(other, int | float):
        return one == other
    are_lists = isinstance(one, FieldTable | tuple) and isinstance(other, FieldTable | tuple)
    if are_lists and not one and not other:
        return True  # a table or an array, without anything in it
    if type(one) is not type(other):
        return False
    if isinstance(one, FieldTable) and isinstance(other, FieldTable):
        return [name for name, _ in one] == [name for name, _ in other] and _are_equal(
            [field for _, field in one], [field for _, field in other]
        )
    if isinstance(one, ScaledInteger) or isinstance(other, ScaledInteger):
        return one == other
    if isinstance(one, tuple) and isinstance(other, tuple):
        return _are_equal(one, other)
    return one == other


def _are_equal(some: Sequence[Field], others: Sequence[Field]) -> bool:
    return len(some) == len(others) and all(
        one.kind.word == other.kind.word and is_equal(one.value, other.value)
        for one, other in zip(some, others, strict=True)
    )


def _take_off(found: Counter[Destination], destination: Destination) -> None:
    found[destination] -= 1
    if not found[destination]:
        del found[destination]


_ONE = "*"
_ANY_NUMBER = "#"
_NOWHERE: Counter[Destination] = Counter()
_MATCHERS: dict[str, Callable[[], Matcher]] = {
    DIRECT: _Direct,
    FANOUT: _Fanout,
    TOPIC: _Topic,
    HEADERS: _Headers,
}
