"""Compiles expressions of SQL92, each once while it is in use."""

from collections import OrderedDict

from sprocket.rocketmq.broker.filters.filter_turns import FilterTurns
from sprocket.rocketmq.errors import ExpressionIllegal
from sprocket.rocketmq.filter import LENGTH_MAX, compile_sql
from sprocket.rocketmq.model.filters import PropertyFilter

KEPT_MAX = 128
"""Expressions that are remembered, also those that cannot be compiled; RocketMQ keeps 100."""
CHARACTER_COST = 3
"""The cost of parsing one character of an expression, in units of `MessageFilter.cost`."""


class SqlFilters:
    """The expressions that were asked for last."""

    def __init__(self, turns: FilterTurns) -> None:
        self._turns = turns
        self._kept: OrderedDict[str, PropertyFilter | ExpressionIllegal] = OrderedDict()

    def compile(self, text: str) -> PropertyFilter:
        """Return the filter that an expression is.

        Raises:
            ExpressionIllegal: It cannot be compiled.
            TurnSpent: Not in this turn.
        """
        found = self._kept.get(text)
        if found is None:
            self._turns.check()
            self._turns.charge(CHARACTER_COST * min(len(text), LENGTH_MAX))
            try:
                found = PropertyFilter.of(compile_sql(text))
            except ExpressionIllegal as illegal:
                found = illegal
            if len(text) <= LENGTH_MAX:
                self._kept[text] = found
                if len(self._kept) > KEPT_MAX:
                    self._kept.popitem(last=False)
        else:
            self._kept.move_to_end(text)
        if isinstance(found, ExpressionIllegal):
            raise found.with_traceback(None)
        return found
