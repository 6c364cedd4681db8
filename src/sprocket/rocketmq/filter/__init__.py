"""SQL92 filters: conditions on the properties of messages, as RocketMQ's brokers evaluate them.

`compile_sql` reads an expression once; what it returns says of the properties of each message
whether it passes. See `docs/formats/sql92-filters.md` for the language and what is odd about it.
"""

from sprocket.rocketmq.filter.sql import LENGTH_MAX, PropertyTest, SqlFilter, compile_sql

__all__ = ["LENGTH_MAX", "PropertyTest", "SqlFilter", "compile_sql"]
