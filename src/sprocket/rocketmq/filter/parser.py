"""Reads an expression by the powers of its operators, and makes the terms on the way.

Source: RocketMQ `SelectorParser.jj`. As there, what stands after the end of the expression is not
read, but for its first word.
"""

from sprocket.rocketmq.errors import ExpressionIllegal
from sprocket.rocketmq.filter import lexer, terms
from sprocket.rocketmq.filter.lexer import FLOAT, INTEGER, NAME, NEGATABLE, TEXT, Token
from sprocket.rocketmq.filter.terms import Term, Type

DEPTH_MAX = 64
"""How deep conditions may lie inside each other; five calls each, of the 1,000 that Python has."""
TERMS_MAX = 512
"""How many operands and operators an expression may have: some 0.1 ms for each message."""

_OR, _AND, _EQUALITY, _ORDER, _OPERAND = range(1, 6)
_POWERS = {
    "OR": _OR,
    "AND": _AND,
    **dict.fromkeys(("=", "<>", "IS"), _EQUALITY),
    **dict.fromkeys((">", ">=", "<", "<=", "NOT", *NEGATABLE), _ORDER),
}
_LITERALS = {"TRUE": True, "FALSE": False, "NULL": None}
_OPERANDS = (TEXT, INTEGER, FLOAT, NAME, "(", *_LITERALS)


class Parser:
    """Reads one expression.

    Attributes:
        names: The properties that it has met.
        count: The terms that it has made.
        next: The first word that it has not used.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._depth = 0
        self.names: set[str] = set()
        self.count = 0
        self.next = lexer.token_at(text, 0)

    def condition(self) -> Term:
        """Return the whole expression. Raises ExpressionIllegal."""
        start = self.next.position
        return terms.condition(self._expression(_OR), start)

    def _expression(self, power_min: int) -> Term:
        """Read operands that are joined by operators of this power or more.

        None is of a higher power than the one before it: after IS NULL, `<` ends the expression.
        """
        term = self._operand()
        power_max = _OPERAND
        while power_min <= (power := _POWERS.get(self.next.kind, 0)) <= power_max:
            term = self._counted(self._operation(term, self._take(), power))
            power_max = power
        return term

    def _operation(self, left: Term, sign: Token, power: int) -> Term:
        """Read what follows an operator, and return the operation."""
        if power <= _AND:
            return self._joined(left, sign, power)
        is_inverted = sign.kind == "NOT"
        if is_inverted:
            sign = self._take(*NEGATABLE)
        kind, at = sign.kind, sign.position
        if kind == "IS":
            is_inverted = self.next.kind == "NOT" and bool(self._take())
            self._take("NULL")
            term = terms.absent(left)
            return terms.inverted(term) if is_inverted else term
        if kind == "BETWEEN":
            low = self._expression(_OPERAND)
            self._take("AND")
            high = self._expression(_OPERAND)
            return terms.between(left, low, high, at, is_inverted=is_inverted)
        if kind == "IN":
            return terms.one_of(left, self._texts(), at, is_inverted=is_inverted)
        if kind in NEGATABLE:
            return terms.search(kind, left, self._string(), is_inverted=is_inverted)
        right = self._expression(power + 1)
        if power == _ORDER:
            return terms.ordered(kind, left, right, at)
        term = terms.equal(left, right, at)
        return term if kind == "=" else terms.inverted(term)

    def _joined(self, left: Term, sign: Token, power: int) -> Term:
        """Read all conditions that AND or OR joins."""
        conditions = [terms.condition(left, sign.position)]
        while True:
            start = self.next.position
            conditions.append(terms.condition(self._expression(power + 1), start))
            if self.next.kind != sign.kind:
                return terms.joined(conditions, decisive=power == _OR)
            self._take()

    def _operand(self) -> Term:
        """Read a literal, a name or what is in brackets, with the signs before it."""
        signs: list[Token] = []
        while self.next.kind in ("+", "-", "NOT"):
            signs.append(self._take())
        token = self._take(*_OPERANDS, wanted="a property, a literal or a bracket")
        if token.kind == "(":
            self._depth += 1
            self._check(self._depth)
            term = self._expression(_OR)
            self._take(")")
            self._depth -= 1
        else:
            term = self._counted(self._single(token))
        for sign in reversed(signs):
            if sign.kind == "-":
                term = self._counted(terms.negative(term))
            elif sign.kind == "NOT":
                term = self._counted(terms.inverted(terms.condition(term, sign.position)))
        return term

    def _single(self, token: Token) -> Term:
        match token.kind:
            case lexer.NAME:
                self.names.add(token.text)
                return terms.named(token.text)
            case lexer.TEXT:
                return terms.constant(Type.TEXT, _unquoted(token))
            case lexer.INTEGER:
                return terms.integer(token.text, token.position)
            case lexer.FLOAT:
                return terms.floating(token.text, token.position)
        return terms.constant(Type.BOOLEAN, _LITERALS[token.kind])

    def _texts(self) -> list[str]:
        self._take("(")
        texts = [self._string()]
        while self._take(",", ")").kind == ",":
            texts.append(self._string())
        return texts

    def _string(self) -> str:
        return _unquoted(self._take(TEXT, wanted="a text in quotes"))

    def _take(self, *kinds: str, wanted: str = "") -> Token:
        """Return the next word, which must be one of these, and go on after it."""
        token = self.next
        if kinds and token.kind not in kinds:
            wanted = wanted or " or ".join(kinds)
            raise ExpressionIllegal(f"expected {wanted}, found {token}", token.position)
        self.next = lexer.token_at(self._text, token.end)
        return token

    def _counted(self, term: Term) -> Term:
        """Return a new term, if it is not one too many and not too deep."""
        self.count += 1
        if self.count > TERMS_MAX:
            raise ExpressionIllegal(f"more than {TERMS_MAX} terms", self.next.position)
        self._check(term.depth)
        return term

    def _check(self, depth: int) -> None:
        if depth > DEPTH_MAX:
            raise ExpressionIllegal(f"deeper than {DEPTH_MAX} levels", self.next.position)


def _unquoted(token: Token) -> str:
    return token.text[1:-1].replace("''", "'")
