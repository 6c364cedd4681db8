"""A connection whose address a load balancer claims is listed as that."""

import socket
from dataclasses import replace

import requests
from tests.amqp import handshake
from tests.waits import LONG_SECONDS

from sprocket.rabbitmq.server.connection import WireLimits
from sprocket.runtime.settings import ListenSettings
from sprocket.testing.local_amqp import LocalAmqp, small_settings

CLAIM = b"PROXY TCP4 127.0.0.1 10.0.0.1 4711 5672\r\n"


def test_the_list_names_who_claims_it() -> None:
    """RabbitMQ's members have the claimed address, one of ours the socket's own other end."""
    settings = replace(small_settings(), server=ListenSettings(proxies=("127.0.0.1",)))
    with LocalAmqp(settings=settings) as broker:

        def listed() -> list[dict[str, object]]:
            asked = f"{broker.http_url}/connections"
            answer = requests.get(asked, auth=("guest", "guest"), timeout=LONG_SECONDS)
            return list(answer.json())

        sockets = []
        for before in (CLAIM, b""):
            one = socket.create_connection((broker.host, broker.port), timeout=LONG_SECONDS)
            one.sendall(before + handshake(WireLimits(heartbeat_seconds=0)))
            sockets.append(one)
            while len(listed()) < len(sockets):  # each look takes a turn of the broker's loop
                pass
        claimed, plain = sorted(listed(), key=lambda row: "peer_claimed_by" not in row)
        host, port = sockets[0].getsockname()
        assert (claimed["peer_host"], claimed["peer_port"]) == ("127.0.0.1", 4711)
        assert claimed["peer_claimed_by"] == f"{host}:{port}"
        assert "peer_claimed_by" not in plain
        for one in sockets:
            one.close()
