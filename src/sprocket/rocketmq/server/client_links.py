"""Clients that the broker asks something, whatever protocol they speak.

Services know a client by its link. Of remoting that is its connection; a client of gRPC has one of
its own (`CalledClient`), since several of them may share a connection, and one may have several.
"""

from collections.abc import Callable
from typing import Protocol

from msgspec import Struct

from sprocket.rocketmq.broker.groups import Link
from sprocket.rocketmq.model.message import StoredMessage
from sprocket.rocketmq.model.transaction import TransactionQuestion


class ClientAnswer(Struct, frozen=True):
    """What a client says to a question.

    Attributes:
        is_success: Whether it could do what was asked.
        text: What its threads are at, or what went wrong.
    """

    is_success: bool
    text: str


Answered = Callable[[ClientAnswer | None], None]
"""Told what a client says; None if it says nothing in time, or is gone."""


class Asking(Protocol):
    """Asks the clients of one protocol, each by its id."""

    def ask_transaction(self, client_id: str, question: TransactionQuestion, /) -> None:
        """Ask a producer how a transaction ended; its answer comes as any other end."""

    def ask_threads(self, client_id: str, answered: Answered, /) -> None:
        """Ask a client what its threads are at."""

    def ask_to_consume(self, client_id: str, message: StoredMessage, answered: Answered, /) -> None:
        """Have the listener of a consumer try a message."""

    def end(self, client_id: str, /) -> None:
        """End what a client has open."""


class CalledClient:
    """A client of gRPC, as services know it; a `broker.groups.Link`.

    Args:
        client_id: What it calls itself.
        address: Where it is, `host:port`.
        proxy_address: See `Link`.
        asking: Asks it.
    """

    def __init__(self, client_id: str, address: str, proxy_address: str, asking: Asking) -> None:
        self.client_id = client_id
        self.address = address
        self.proxy_address = proxy_address
        self._asking = asking

    def close(self) -> None:
        """End what it has open."""
        self._asking.end(self.client_id)

    def ask_transaction(self, question: TransactionQuestion) -> None:
        """See `Asking`."""
        self._asking.ask_transaction(self.client_id, question)

    def ask_threads(self, answered: Answered) -> None:
        """See `Asking`."""
        self._asking.ask_threads(self.client_id, answered)

    def ask_to_consume(self, message: StoredMessage, answered: Answered) -> None:
        """See `Asking`."""
        self._asking.ask_to_consume(self.client_id, message, answered)


def ask_either(
    ask_remoting: Callable[[Link, TransactionQuestion], None],
) -> Callable[[Link, TransactionQuestion], None]:
    """Return what asks a producer of either protocol how its transaction ended."""

    def ask(link: Link, question: TransactionQuestion) -> None:
        if isinstance(link, CalledClient):
            link.ask_transaction(question)
        else:
            ask_remoting(link, question)

    return ask


def notify_either(notify_remoting: Callable[[Link, str], None]) -> Callable[[Link, str], None]:
    """Return what tells a consumer that its group has changed; those of gRPC ask by themselves."""

    def notify(link: Link, group: str) -> None:
        if not isinstance(link, CalledClient):
            notify_remoting(link, group)

    return notify
