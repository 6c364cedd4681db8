"""`grpcurl`, which learns by reflection what is served, and calls it."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.interop import link, peers
from tests.waits import LONG_SECONDS

from sprocket.rocketmq.codec.grpc.schema import RPCS, SERVICE

pytestmark = pytest.mark.interop
TOPIC = "Curled"


@pytest.fixture(scope="module")
def program() -> str:
    """Return `SPROCKET_GRPCURL`, or what `make peers-sdks` built."""
    found = Path(os.environ.get("SPROCKET_GRPCURL", peers.ROOT / ".peers/go/grpcurl"))
    if not found.exists():
        pytest.skip(f"no grpcurl at {found}; build it with: make peers-sdks")
    return str(found)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run a broker and return where it serves gRPC."""
    folder, port = tmp_path_factory.mktemp("grpcurl"), peers.free_port()
    options = ["--grpc-port", str(port)]
    with peers.Sprocket(folder, folder / "data", options) as broker:
        with link.Link(broker.address) as connection:
            link.create_topic(connection, TOPIC, 4)
        yield f"127.0.0.1:{port}"


def said(program: str, *arguments: str) -> str:
    """Return what it prints."""
    command = [program, "-plaintext", "-max-time", str(LONG_SECONDS), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_it_lists_and_describes_what_is_served(program: str, address: str) -> None:
    """Services, all methods, and messages with their fields."""
    assert said(program, address, "list").split() == [
        SERVICE,
        "grpc.health.v1.Health",
        "grpc.reflection.v1.ServerReflection",
        "grpc.reflection.v1alpha.ServerReflection",
    ]
    methods = said(program, address, "list", SERVICE).split()
    assert sorted(methods) == sorted(f"{SERVICE}.{rpc.name}" for rpc in RPCS)
    text = said(program, address, "describe", SERVICE)
    assert "rpc SendMessage ( .apache.rocketmq.v2.SendMessageRequest )" in text
    assert "( stream .apache.rocketmq.v2.TelemetryCommand )" in text
    text = said(program, address, "describe", ".apache.rocketmq.v2.Message")
    assert "bytes body = 4;" in text
    assert "map<string, string> user_properties = 2;" in text


def test_it_asks_how_the_broker_is(program: str, address: str) -> None:
    """And is told of a service that there is not."""
    asked = (address, "grpc.health.v1.Health/Check")
    assert json.loads(said(program, *asked)) == {"status": "SERVING"}
    named = json.dumps({"service": SERVICE})
    assert json.loads(said(program, "-d", named, *asked)) == {"status": "SERVING"}
    command = [program, "-plaintext", "-d", '{"service":"other"}', *asked]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "NotFound" in done.stderr
    assert done.returncode != 0


def test_it_asks_for_a_route(program: str, address: str) -> None:
    """Of a topic, as an SDK does."""
    host, _, port = address.rpartition(":")
    asked = {
        "topic": {"name": TOPIC},
        "endpoints": {"scheme": "IPv4", "addresses": [{"host": host, "port": int(port)}]},
    }
    told = json.loads(
        said(
            program,
            *("-H", "x-mq-client-id: curl"),
            *("-d", json.dumps(asked)),
            *(address, f"{SERVICE}/QueryRoute"),
        )
    )
    assert told["status"]["code"] == "OK"
    assert len(told.get("messageQueues", [])) == 4, told
    assert {one["topic"]["name"] for one in told["messageQueues"]} == {TOPIC}
