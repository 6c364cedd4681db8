"""RabbitMQ's classic queues: AMQP 0-9-1, its broker, and its store byte for byte."""
