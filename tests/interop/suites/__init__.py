"""Clients' own suites, run against the real RabbitMQ and against ours; see `__main__`."""
