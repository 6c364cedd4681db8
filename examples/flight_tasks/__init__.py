"""Flights as Celery tasks: one task a flight, by way of RabbitMQ's protocol and queues.

`make rabbit-run` runs it. The modules in the order in which they act: `broker`, `application`,
`ledger`, `sender`, `answers`, `picture`. The source, the processes and the report are those of
`examples.flights`.
"""
