"""Gives Spark's blocking code access to a live cluster."""

import asyncio
import ssl

from sprocket.rocketmq.client import ClientSettings
from sprocket.rocketmq.client.blocking import Puller
from sprocket.runtime.blocking import Portal

GROUP = "sprocket-spark"
"""Under which name brokers see the pulls; no group is joined and nothing is committed."""
_CONNECT_MS_MAX = 3_000


class Door:
    """Opens connections, and waits between two tries.

    Args:
        name_server: `host:port`, several with `;` between.
        timeout_ms: How long one request may take.
        tls: Encrypts every connection; None: none are.
    """

    def __init__(
        self, name_server: str, timeout_ms: int, tls: ssl.SSLContext | None = None
    ) -> None:
        self._name_server = name_server
        self._client = ClientSettings(
            tls=tls,
            request_timeout_ms=timeout_ms,
            connect_timeout_ms=min(timeout_ms, _CONNECT_MS_MAX),
        )

    def connect(self) -> Puller:
        """Return a puller that asks once; how often to ask again is for `live.Live` to say.

        Raises:
            SettingsError: The name server's address cannot be read.
        """
        puller = Puller(self._name_server, group=GROUP, patience_ms=0, client=self._client)
        puller.start()
        return puller

    def wait(self, seconds: float) -> None:
        """Block for so long."""
        with Portal("sprocket-wait") as portal:
            portal.call(asyncio.sleep, seconds)
