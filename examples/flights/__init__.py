"""A year of flights: through the client into the log, out of it by a consumer group and by Spark.

`make run` runs it. The modules in the order in which they act: `source`, `processes`, `producer`,
`consumer`, `session`, `stream`, `pipeline`, `offline`, `answers`, `picture`, `report`.
"""
