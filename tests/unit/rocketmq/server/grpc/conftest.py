"""A node that serves gRPC, and clients of it."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.grpc_client import GrpcClient

from sprocket.rocketmq.model.topic import TopicConfig
from sprocket.rocketmq.settings import GrpcSettings

SERVED = GrpcSettings(port=0, poll_ms_min=0, invisible_ms_min=0)

GrpcScenario = Callable[["GrpcLab"], Awaitable[None]]


class GrpcLab:
    """A running node and a client.

    Attributes:
        lab: The node, as tests of remoting know it.
        service: What serves gRPC there.
        client: Its client.
    """

    def __init__(self, lab: Any) -> None:
        self.lab = lab
        self.node = lab.node
        self.broker = lab.node.broker
        self.clock = lab.clock
        self.service = lab.node.grpc
        self._clients: list[GrpcClient] = []
        self.client = self.another("c1")

    def another(self, client_id: str, **metadata: str) -> GrpcClient:
        """Return another client."""
        client = GrpcClient(self.node.addresses.grpc, client_id, **metadata)
        self._clients.append(client)
        return client

    def make_topic(self, name: str = "T", queues: int = 4, **attributes: str) -> None:
        """Make a topic; attributes by name, with an underscore for each dot."""
        said = {key.replace("_", "."): value for key, value in attributes.items()}
        self.broker.topics.put(
            TopicConfig(name=name, read_queues=queues, write_queues=queues, attributes=said)
        )

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.clock.advance(round(seconds * 1000))

    async def close(self) -> None:
        """Close all clients."""
        await asyncio.gather(*[one.close() for one in self._clients])


@pytest.fixture
def on_grpc(on_node: Callable[..., None]) -> Callable[..., None]:
    """Run a scenario with a node that serves gRPC; it takes short polls and invisible times."""

    def run(scenario: GrpcScenario, **more: Any) -> None:
        async def served(lab: Any) -> None:
            grpc_lab = GrpcLab(lab)
            try:
                await scenario(grpc_lab)
            finally:
                await grpc_lab.close()

        on_node(served, **{"grpc": SERVED, **more})

    return run
