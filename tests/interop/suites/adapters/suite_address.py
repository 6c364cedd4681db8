"""Sends the connections that a suite makes to ports of its own choice to the server under test.

Some suites have the address `localhost:5672` in their source. As a plugin of pytest this leads them
elsewhere, so that no port has to be free and nothing of theirs is changed; `sitecustomize` does it
in processes that a suite starts. SUITE_ADDRESS has the port of the server under test.
"""

import importlib
import os
import socket
from typing import Any

PORT = int(os.environ["SUITE_ADDRESS"])
WRITTEN = (5672, 5671)
"""The ports in the suites' sources; the server takes encrypted connections on the same port."""


def _led(address: Any) -> Any:
    if isinstance(address, tuple) and address[1] in WRITTEN:
        return ("127.0.0.1", PORT) if len(address) == 2 else ("::ffff:127.0.0.1", PORT, 0, 0)
    return address


def _lead(kind: Any) -> None:
    connect, connect_ex = kind.connect, kind.connect_ex

    def led_connect(self: Any, address: Any) -> Any:
        return connect(self, _led(address))

    def led_connect_ex(self: Any, address: Any) -> Any:
        return connect_ex(self, _led(address))

    kind.connect, kind.connect_ex = led_connect, led_connect_ex


_lead(socket.socket)


def pytest_configure() -> None:
    """Lead gevent's sockets, too, which are a class of their own."""
    _lead(importlib.import_module("gevent.socket").socket)
