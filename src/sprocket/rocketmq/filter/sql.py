"""An expression that was compiled."""

from dataclasses import dataclass, field

from sprocket.rocketmq.errors import ExpressionIllegal, Incomparable
from sprocket.rocketmq.filter.parser import Parser
from sprocket.rocketmq.filter.terms import Properties, Read

LENGTH_MAX = 16 * 1024
"""Characters of an expression; the longest is read in some 10 ms."""


TESTS_MAX = 4
"""So many properties of an expression are tested by themselves."""


@dataclass(frozen=True, slots=True, eq=False)
class PropertyTest:
    """What one property has to be for a message to pass.

    Attributes:
        name: The property; of others nothing is asked.
    """

    name: str
    _reads: tuple[Read, ...] = field(repr=False)

    def matches(self, properties: Properties) -> bool:
        """Say whether a message with these properties may pass."""
        try:
            return all(read(properties) is True for read in self._reads)
        except Incomparable:
            return False


@dataclass(frozen=True, slots=True, eq=False)
class SqlFilter:
    """A condition on the properties of messages.

    Attributes:
        text: The expression as it was given.
        names: The properties that it asks for.
        cost: Operands and operators, each of them some 0.2 µs a message.
        rest: What stands after the end of the expression, and is ignored as RocketMQ does: nearly
            always a mistake.
        tests: A message passes only if all of these match: the conditions that AND joins, as far as
            each asks for one property.
        is_tested: It passes if they do.
    """

    text: str
    names: frozenset[str]
    cost: int
    rest: str
    tests: tuple[PropertyTest, ...]
    is_tested: bool
    _read: Read = field(repr=False)

    def matches(self, properties: Properties) -> bool:
        """Say whether a message with these properties passes; if it cannot be said, it does not."""
        try:
            return self._read(properties) is True
        except Incomparable:
            return False

    def evaluate(self, properties: Properties) -> bool | None:
        """Return what the expression says of a message; None for unknown.

        Raises:
            Incomparable: A text cannot be read as the number that it is compared with.
        """
        value = self._read(properties)
        return None if value is None else value is True


def compile_sql(text: str) -> SqlFilter:
    """Compile an expression.

    Raises:
        ExpressionIllegal: It is not one, or longer, deeper or dearer than is allowed.
    Source: RocketMQ `SelectorParser`.
    """
    if len(text) > LENGTH_MAX:
        raise ExpressionIllegal(f"longer than {LENGTH_MAX} characters", LENGTH_MAX)
    parser = Parser(text)
    term = parser.condition()
    rest = text[parser.next.position :]
    parts = term.conjuncts or (term,)
    by_name: dict[str, list[Read]] = {}
    for part in parts:
        if len(part.names) == 1:
            (name,) = part.names
            by_name.setdefault(name, []).append(part.read)
    tests = [PropertyTest(name, tuple(reads)) for name, reads in by_name.items()][:TESTS_MAX]
    is_tested = len(by_name) == len(tests) and all(len(part.names) == 1 for part in parts)
    names = frozenset(parser.names)
    return SqlFilter(text, names, parser.count, rest, tuple(tests), is_tested, term.read)
