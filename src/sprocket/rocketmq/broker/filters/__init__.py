"""Filters that consumers write: conditions on properties in SQL92.

`FilterRules` keeps those that groups have given with their heartbeats. `SqlFilters` compiles
expressions; `FilterTurns` bounds what they take of one turn of the event loop. `MessageBits` has
the store note of each message which of them it passes.
"""

from sprocket.rocketmq.broker.filters.filter_rules import FilterRules
from sprocket.rocketmq.broker.filters.filter_turns import FilterTurns, TurnSpent
from sprocket.rocketmq.broker.filters.message_bits import MessageBits
from sprocket.rocketmq.broker.filters.sql_filters import SqlFilters

__all__ = ["FilterRules", "FilterTurns", "MessageBits", "SqlFilters", "TurnSpent"]
