"""`sprocket health`: whether a process that serves is alive, ready, and stores what it is sent."""

import json
import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

import typer

from sprocket.base.errors import ClientError, NotConnected, RequestTimeout, SettingsError
from sprocket.cli.options import AsJson
from sprocket.cli.terminal import output

if TYPE_CHECKING:
    import ssl

DEFAULT_URL = "http://127.0.0.1:9880"
PATH = "/health"
ANSWER_BYTES_MAX = 1 << 20
"""Far more than there can be reasons."""


class Check(StrEnum):
    """What can be asked for alone."""

    LIVE = "live"
    READY = "ready"
    STORES = "stores"


def health(
    check: Annotated[
        Check | None, typer.Argument(help="Only this one; by default all of them count.")
    ] = None,
    url: Annotated[
        str,
        typer.Option(
            "--url",
            metavar="URL",
            envvar="SPROCKET_HEALTH_URL",
            help="Where the process has its --health-port; https if it only encrypts.",
        ),
    ] = DEFAULT_URL,
    timeout_seconds: Annotated[
        float, typer.Option("--timeout", min=0.001, help="Longest wait for an answer, in seconds.")
    ] = 5.0,
    as_json: AsJson = False,
) -> None:
    """Say whether a process is alive, ready and stores; exit code 0 if it is, else 1."""
    with output.failing_in_one_line():
        checked = ask(url, check, timeout_seconds)
        for name, reasons in checked.items():
            if as_json:
                status = "failed" if reasons else "ok"
                output.write_json({"check": name, "status": status, "reasons": reasons})
            else:
                sys.stdout.write(f"{name}: {'; '.join(reasons) or 'ok'}\n")
        if any(checked.values()):
            raise typer.Exit(1)


def ask(url: str, check: str | None, timeout_seconds: float) -> dict[str, list[str]]:
    """Return why checks fail, by their names; nothing for one that does not.

    Raises:
        SettingsError: The address is wrong.
        NotConnected: There is no connection, or it was lost.
        RequestTimeout: There was no answer in time: the process is stuck.
        ClientError: The answer is from something else.
    """
    from http.client import HTTPConnection, HTTPException, HTTPSConnection

    try:
        place = urlsplit(url)
        host, port = place.hostname, place.port
    except ValueError:
        host = port = None
    if host is None or port is None or place.scheme not in ("http", "https"):
        raise SettingsError(f"{url!r} is not an address: expected {DEFAULT_URL}")
    target = PATH if check is None else f"{PATH}/{check}"
    told = f"{host}:{port}"
    connection = (
        HTTPConnection(host, port, timeout=timeout_seconds)
        if place.scheme == "http"
        else HTTPSConnection(host, port, timeout=timeout_seconds, context=_unchecked())
    )
    try:
        connection.request("GET", target)
        answer = connection.getresponse().read(ANSWER_BYTES_MAX)
    except TimeoutError:
        raise RequestTimeout(f"no answer from {told} in {timeout_seconds:g} s") from None
    except OSError as error:
        why = error.strerror or str(error) or type(error).__name__
        raise NotConnected(
            f"no connection to {told}: {why}; has the process a --health-port?"
        ) from None
    except HTTPException:
        raise _foreign(told) from None
    finally:
        connection.close()
    try:
        found: Any = json.loads(answer)["checks"]
        return {str(name): [str(one) for one in reasons] for name, reasons in found.items()}
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise _foreign(told) from None


def _unchecked() -> "ssl.SSLContext":
    """Return what encrypts and checks nobody: a probe tells nothing that is secret."""
    import ssl

    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _foreign(told: str) -> ClientError:
    return ClientError(f"{told} does not answer as a --health-port does")
