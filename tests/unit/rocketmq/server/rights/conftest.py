"""A node with rights, and clients that sign."""

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.unit.rocketmq.conftest import Lab, RawClient

from sprocket.base.disk import RealDisk
from sprocket.rocketmq.codec.command import Command
from sprocket.rocketmq.codec.signature import SigningKey
from sprocket.rocketmq.settings import RightsSettings

ROOT = ("root", "root-secret")


class Signer:
    """Somebody who signs requests.

    Args:
        client: The connection.
        name: The name they give.
        password: What they sign with.
    """

    def __init__(self, client: RawClient, name: str, password: str) -> None:
        self._client = client
        self._name = name
        self._key = SigningKey(password)

    async def call(
        self, code: int, ext: Mapping[str, object] | None = None, body: bytes = b"", **more: Any
    ) -> Command:
        """Send a signed request and wait for its answer."""
        texts = {name: str(value) for name, value in (ext or {}).items()}
        texts["AccessKey"] = self._name
        texts["Signature"] = self._key.sign(texts, body)
        return await self._client.call(code, texts, body, **more)


Scenario = Callable[[Lab, Signer], Awaitable[None]]


@pytest.fixture
def on_guarded_node(on_node: Callable[..., None], tmp_path: Path) -> Callable[..., None]:
    """Run a scenario with a node that has one user, who may do everything."""

    def run(scenario: Scenario, *, authorization: bool = True, **settings: Any) -> None:
        async def with_root(lab: Lab) -> None:
            await scenario(lab, Signer(lab.broker, *ROOT))

        wanted = RightsSettings(
            authentication=True,
            authorization=authorization,
            initial_user=ROOT[0],
            initial_password=ROOT[1],
            **settings,
        )
        folder = str(tmp_path / "store")
        on_node(with_root, disk=RealDisk(), folder=folder, rights=wanted)

    return run
