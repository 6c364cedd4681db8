"""What commands that talk to a running cluster share: where it is, and how it is reached."""

import inspect
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial, wraps
from typing import TYPE_CHECKING, Annotated, Any, Protocol, TypeVar, cast

import typer

from sprocket.cli.options import expanded
from sprocket.cli.terminal import CommandAnswer, answering, logs, output
from sprocket.rocketmq.model.internal import TOOLS_GROUP

if TYPE_CHECKING:
    from sprocket.rocketmq.client import ClientSettings
    from sprocket.rocketmq.client.blocking import Admin

T = TypeVar("T")
R = TypeVar("R")

ASKED_MAX = 32
"""Questions that wait for their answers at a time; with 10,000 topics one by one is 10 s."""

DEFAULT_NAMESERVER = "127.0.0.1:9876"
READER_GROUP = TOOLS_GROUP
"""The group under which commands read: every broker has it from the beginning, as mqadmin reads
under it too. A broker makes a group that it does not know, which would be a trace."""
_option = partial(typer.Option, rich_help_panel="Connection")


@dataclass(frozen=True, slots=True, kw_only=True)
class Remote:
    """The cluster that a command talks to, and how it is reached."""

    nameserver: Annotated[
        str,
        _option(
            "--nameserver",
            "-n",
            metavar="HOST:PORT",
            help="The NameServer; several with ; between.",
            envvar="NAMESRV_ADDR",
        ),
    ] = DEFAULT_NAMESERVER
    tls: Annotated[
        bool,
        _option(
            "--tls",
            help="Encrypt every connection; servers are not checked without --tls-trust.",
            envvar="SPROCKET_TLS",
        ),
    ] = False
    tls_trust: Annotated[
        str,
        _option(
            metavar="FILE",
            help="PEM file of the authorities that servers must be signed by; encrypts.",
            envvar="SPROCKET_TLS_TRUST",
        ),
    ] = ""
    tls_cert: Annotated[
        str,
        _option(
            metavar="FILE",
            help="PEM file of the client certificate, if servers ask for one; encrypts.",
            envvar="SPROCKET_TLS_CERT",
        ),
    ] = ""
    tls_key: Annotated[
        str, _option(metavar="FILE", help="PEM file of its key.", envvar="SPROCKET_TLS_KEY")
    ] = ""
    tls_key_password: Annotated[
        str,
        _option(
            metavar="TEXT",
            help="Password of the key; better given by the variable.",
            envvar="SPROCKET_TLS_KEY_PASSWORD",
        ),
    ] = ""
    access_key: Annotated[
        str,
        _option(
            metavar="NAME",
            help="Sign every request as this user, for brokers that want it; else "
            "SPROCKET_ACCESS_KEY.",
        ),
    ] = ""
    secret_key: Annotated[
        str,
        _option(
            metavar="TEXT",
            help="The password of that user; better given by SPROCKET_SECRET_KEY or a file.",
        ),
    ] = ""
    credentials: Annotated[
        str,
        _option(
            metavar="FILE",
            help="A file with both, such as RocketMQ's conf/tools.yml.",
            envvar="SPROCKET_CREDENTIALS",
        ),
    ] = ""
    opened: ExitStack = field(default_factory=ExitStack, init=False)
    """What the command has open until it has answered."""

    @property
    def client(self) -> "ClientSettings":
        """How connections are made. Raises SettingsError: a file cannot be used."""
        from sprocket.rocketmq.client import ClientSettings, credentials_if_given, tls_if_asked

        context = tls_if_asked(
            self.tls,
            trust_path=self.tls_trust,
            cert_path=self.tls_cert,
            key_path=self.tls_key,
            key_password=self.tls_key_password,
        )
        credentials = credentials_if_given(self.access_key, self.secret_key, path=self.credentials)
        return ClientSettings(tls=context, credentials=credentials)

    def admin(self) -> "Admin":
        """Return an admin of it, open until the command has answered."""
        from sprocket.rocketmq.client.blocking import Admin

        return self.opened.enter_context(Admin(self.nameserver, client=self.client))


class Reached(Protocol):
    """What a command talks to, of whichever product."""

    @property
    def opened(self) -> ExitStack:
        """What the command has open until it has answered."""


def over_the_wire(command: Callable[..., CommandAnswer | None]) -> Callable[..., None]:
    """Make a command of a function that has a `remote`; its errors are one line."""
    if inspect.signature(command).return_annotation is CommandAnswer:
        command = answering(cast("Callable[..., CommandAnswer]", command))

    @wraps(command)
    def run(*, remote: Reached, **given: Any) -> None:
        with output.failing_in_one_line(), logs.warnings_as_lines(), remote.opened:
            command(remote=remote, **given)

    return expanded(run)


async def each(items: Sequence[T], ask: Callable[[T], Awaitable[R]]) -> list[R]:
    """Return the answers about some things, in their order; many are asked about at once.

    Raises:
        ClientError: One could not be answered; the others are not waited for.
    """
    import asyncio

    room = asyncio.Semaphore(ASKED_MAX)

    async def answer(item: T) -> R:
        async with room:
            return await ask(item)

    try:
        async with asyncio.TaskGroup() as group:
            asked = [group.create_task(answer(item)) for item in items]
    except BaseExceptionGroup as several:
        raise several.exceptions[0] from None
    return [one.result() for one in asked]
