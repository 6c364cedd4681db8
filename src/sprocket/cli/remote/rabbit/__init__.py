"""`sprocket rabbit …`: what a running RabbitMQ or Sprocket has for AMQP's clients.

Every command asks RabbitMQ's HTTP API (`management`); the others are a module each for what they
list and change.
"""

from sprocket.cli.remote.rabbit.family import app

__all__ = ["app"]
