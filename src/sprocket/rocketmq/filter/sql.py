"""An expression that was compiled."""

from dataclasses import dataclass, field

from sprocket.rocketmq.errors import ExpressionIllegal, Incomparable
from sprocket.rocketmq.filter.parser import Parser
from sprocket.rocketmq.filter.terms import Properties, Read

LENGTH_MAX = 16 * 1024
"""Characters of an expression; the longest is read in some 10 ms."""


@dataclass(frozen=True, slots=True, eq=False)
class SqlFilter:
    """A condition on the properties of messages.

    Attributes:
        text: The expression as it was given.
        names: The properties that it asks for.
        cost: Operands and operators, each of them some 0.2 µs a message.
        rest: What stands after the end of the expression, and is ignored as RocketMQ does: nearly
            always a mistake.
    """

    text: str
    names: frozenset[str]
    cost: int
    rest: str
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
    return SqlFilter(text, frozenset(parser.names), parser.count, rest, term.read)
