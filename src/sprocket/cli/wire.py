"""What commands that talk to a running cluster share: where it is, and how it is reached."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, Concatenate, TypeVar

import typer

from sprocket.cli import logs, output

if TYPE_CHECKING:
    from sprocket.rocketmq.client import ClientSettings
    from sprocket.rocketmq.client.blocking import Admin

T = TypeVar("T")
R = TypeVar("R")

ASKED_MAX = 32
"""Questions that wait for their answers at a time; with 10,000 topics one by one is 10 s."""

DEFAULT_NAMESERVER = "127.0.0.1:9876"
READER_GROUP = "TOOLS_CONSUMER"
"""The group under which commands read: every broker has it from the beginning, as mqadmin reads
under it too. A broker makes a group that it does not know, which would be a trace."""
_PANEL = "Connection"

NameServer = Annotated[
    str,
    typer.Option(
        "--nameserver",
        "-n",
        metavar="HOST:PORT",
        help="The NameServer; several with ; between.",
        envvar="NAMESRV_ADDR",
        rich_help_panel=_PANEL,
    ),
]
Tls = Annotated[
    bool,
    typer.Option(
        "--tls",
        help="Encrypt every connection; servers are not checked without --tls-trust.",
        envvar="SPROCKET_TLS",
        rich_help_panel=_PANEL,
    ),
]
TlsTrust = Annotated[
    str,
    typer.Option(
        "--tls-trust",
        metavar="FILE",
        help="PEM file of the authorities that servers must be signed by; encrypts.",
        envvar="SPROCKET_TLS_TRUST",
        rich_help_panel=_PANEL,
    ),
]
TlsCert = Annotated[
    str,
    typer.Option(
        "--tls-cert",
        metavar="FILE",
        help="PEM file of the client certificate, if servers ask for one; encrypts.",
        envvar="SPROCKET_TLS_CERT",
        rich_help_panel=_PANEL,
    ),
]
TlsKey = Annotated[
    str,
    typer.Option(
        "--tls-key",
        metavar="FILE",
        help="PEM file of its key.",
        envvar="SPROCKET_TLS_KEY",
        rich_help_panel=_PANEL,
    ),
]
TlsKeyPassword = Annotated[
    str,
    typer.Option(
        "--tls-key-password",
        metavar="TEXT",
        help="Password of the key; better given by the variable.",
        envvar="SPROCKET_TLS_KEY_PASSWORD",
        rich_help_panel=_PANEL,
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Remote:
    """The cluster that a command talks to.

    Attributes:
        nameserver: `host:port`, several with `;` between.
        client: How connections are made.
    """

    nameserver: str
    client: "ClientSettings"

    def admin(self) -> "Admin":
        """Return an admin of it, to be opened by `with`."""
        from sprocket.rocketmq.client.blocking import Admin

        return Admin(self.nameserver, client=self.client)


def over_the_wire(command: Callable[Concatenate[Remote, ...], None]) -> Callable[..., None]:
    """Give a command the options that say where the cluster is and how it is reached.

    The command's first parameter is the `Remote` that they make. Its errors are one line.
    """

    @wraps(command)
    def run(
        *,
        nameserver: str,
        tls: bool,
        tls_trust: str,
        tls_cert: str,
        tls_key: str,
        tls_key_password: str,
        **options: Any,
    ) -> None:
        with output.failing_in_one_line(), logs.warnings_as_lines():
            from sprocket.rocketmq.client import ClientSettings, tls_context

            context = None
            if tls or tls_trust or tls_cert or tls_key:
                context = tls_context(
                    trust_path=tls_trust,
                    cert_path=tls_cert,
                    key_path=tls_key,
                    key_password=tls_key_password,
                )
            remote = Remote(nameserver=nameserver, client=ClientSettings(tls=context))
            command(remote, **options)

    own = list(inspect.signature(command).parameters.values())[1:]
    shared = [
        inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
        )
        for name, default, annotation in (
            ("nameserver", DEFAULT_NAMESERVER, NameServer),
            ("tls", False, Tls),
            ("tls_trust", "", TlsTrust),
            ("tls_cert", "", TlsCert),
            ("tls_key", "", TlsKey),
            ("tls_key_password", "", TlsKeyPassword),
        )
    ]
    run.__signature__ = inspect.Signature([*own, *shared])  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in [*own, *shared]}
    return run


async def each(items: Sequence[T], ask: Callable[[T], Awaitable[R]]) -> list[R]:
    """Return the answers about some things, in their order; many are asked about at once.

    Raises:
        ClientError: One could not be answered; the others are not waited for.
    """
    answers: dict[int, R] = {}
    rest = iter(enumerate(items))

    async def work() -> None:
        for number, item in rest:
            answers[number] = await ask(item)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(ASKED_MAX):
                group.create_task(work())
    except BaseExceptionGroup as several:
        raise several.exceptions[0] from None
    return [answers[number] for number in range(len(items))]
