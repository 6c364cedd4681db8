"""Clients that the broker asks something, whatever protocol they speak.

Services know a client by its link. Of remoting that is its connection; a client of gRPC has one of
its own (`CalledClient`), since several of them may share a connection, and one may have several.
"""

from collections.abc import Callable

from sprocket.rocketmq.broker.groups import Link
from sprocket.rocketmq.model.transaction import TransactionQuestion


class CalledClient:
    """A client of gRPC, as services know it; a `broker.groups.Link`.

    Args:
        client_id: What it calls itself.
        address: Where it is, `host:port`.
        proxy_address: See `Link`.
        ask: Asks it how a transaction ended.
        end: Ends what it has open.
    """

    def __init__(
        self,
        client_id: str,
        address: str,
        proxy_address: str,
        ask: Callable[[TransactionQuestion], None],
        end: Callable[[], None],
    ) -> None:
        self.client_id = client_id
        self.address = address
        self.proxy_address = proxy_address
        self.ask = ask
        self.close = end


def ask_either(
    ask_remoting: Callable[[Link, TransactionQuestion], None],
) -> Callable[[Link, TransactionQuestion], None]:
    """Return what asks a producer of either protocol how its transaction ended."""

    def ask(link: Link, question: TransactionQuestion) -> None:
        if isinstance(link, CalledClient):
            link.ask(question)
        else:
            ask_remoting(link, question)

    return ask


def notify_either(notify_remoting: Callable[[Link, str], None]) -> Callable[[Link, str], None]:
    """Return what tells a consumer that its group has changed; those of gRPC ask by themselves."""

    def notify(link: Link, group: str) -> None:
        if not isinstance(link, CalledClient):
            notify_remoting(link, group)

    return notify
