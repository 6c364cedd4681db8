"""RabbitMQ's HTTP API: requests, what a real one answered, and how answers are compared."""
