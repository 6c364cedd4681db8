"""Why something correct is not done: the errors that several rooms raise, with RabbitMQ's texts."""

from sprocket.rabbitmq.codec.amqp import ReplyCode
from sprocket.rabbitmq.errors import RequestRefused
from sprocket.rabbitmq.model.resource import Resource


def not_found(resource: Resource) -> RequestRefused:
    """Return the error about something that is not there."""
    return RequestRefused(ReplyCode.NOT_FOUND, f"no {resource.text}")


def access_refused(why: str) -> RequestRefused:
    """Return the error about something that nobody may do, or not this user."""
    return RequestRefused(ReplyCode.ACCESS_REFUSED, why)


def precondition_failed(why: str) -> RequestRefused:
    """Return the error about something that does not fit what is there, or is not a valid value."""
    return RequestRefused(ReplyCode.PRECONDITION_FAILED, why)


def not_allowed(why: str) -> RequestRefused:
    """Return the error about a connection that may not be."""
    return RequestRefused(ReplyCode.NOT_ALLOWED, why)
