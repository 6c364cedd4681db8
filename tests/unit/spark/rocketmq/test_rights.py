"""Source and sink at a broker that wants signatures: whose they are, and what is refused."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import StringType, StructField, StructType
from tests.unit.spark.samples import plain_rows, schema

from sprocket.base.errors import ClientError, SettingsError
from sprocket.node.rocketmq import Node
from sprocket.rocketmq.client import ClientSettings, SessionCredentials, blocking
from sprocket.rocketmq.settings import RightsSettings, ServerSettings
from sprocket.runtime.blocking import Portal
from sprocket.spark.rocketmq import RocketMQSource
from sprocket.spark.rocketmq.options import read_live_batch
from sprocket.spark.rocketmq.sink import writer
from sprocket.testing.local_broker import small_settings

ROOT = SessionCredentials("root", "root-secret")
RIGHTS = RightsSettings(
    authentication=True,
    authorization=True,
    initial_user=ROOT.access_key,
    initial_password=ROOT.secret_key,
)
KEYS = {"accessKey": "root", "secretKey": "root-secret"}
WRITTEN = StructType([StructField("body", StringType())])


@pytest.fixture(scope="module")
def nameserver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """That of a broker with rights and a topic of one queue, and one user without rights."""
    settings = replace(
        small_settings(), rights=RIGHTS, server=ServerSettings(nameserver_port=0, broker_port=0)
    )
    folder = str(tmp_path_factory.mktemp("guarded") / "store")
    with Portal("guarded broker") as portal:
        node = portal.call(Node.start, settings, folder)
        names = node.addresses.nameserver
        client = ClientSettings(credentials=ROOT)
        with blocking.Admin(names, client=client) as admin:
            for topic in ("option", "file", "environment", "refused"):
                admin.create_topic(topic, queues=1)
            admin.rights.create_user("guest", "guest-secret")
        yield names
        portal.call(node.stop)


@pytest.fixture(autouse=True)
def task(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let what a worker does be done here."""
    one = SimpleNamespace(partitionId=lambda: 0, getLocalProperty=lambda _: None)
    monkeypatch.setattr(writer, "_task", lambda: one)


def write(nameserver: str, topic: str, given: Mapping[str, str]) -> None:
    """Write two rows as a task does."""
    options = {"nameserver": nameserver, "topic": topic, **given}
    rows = pa.RecordBatch.from_pydict({"body": pa.array(["one", "two"])})
    RocketMQSource(options).writer(WRITTEN, False).write(iter([rows]))


def read(nameserver: str, topic: str, given: Mapping[str, str]) -> list[bytes]:
    """Return the bodies of a topic as planner and tasks read them."""
    options = {"nameserver": nameserver, "subscribe": topic, "columns": "body", **given}
    reader = RocketMQSource(options).reader(schema(read_live_batch(options)))
    return [
        row["body"] for part in reader.partitions() for row in plain_rows(list(reader.read(part)))
    ]


@pytest.mark.parametrize("where", ["option", "file", "environment"])
def test_credentials_from_wherever_they_are(
    nameserver: str, where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is written is read again."""
    given: dict[str, Any] = {}
    if where == "option":
        given = KEYS
    elif where == "file":
        path = tmp_path / "tools.yml"
        path.write_text("".join(f"{name}: {value}\n" for name, value in KEYS.items()))
        given = {"credentialsPath": str(path)}
    else:
        monkeypatch.setenv("SPROCKET_ACCESS_KEY", ROOT.access_key)
        monkeypatch.setenv("SPROCKET_SECRET_KEY", ROOT.secret_key)
    write(nameserver, where, given)
    assert read(nameserver, where, given) == [b"one", b"two"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "username cannot be null"),
        ({**KEYS, "secretKey": "wrong"}, "check signature failed"),
        ({**KEYS, "accessKey": "nobody"}, "User:nobody is not found"),
        (
            {"accessKey": "guest", "secretKey": "guest-secret"},
            "User:guest has no permission to access Topic:refused",
        ),
    ],
)
def test_what_is_refused_says_why(nameserver: str, given: Mapping[str, str], said: str) -> None:
    """In one error, at once: no later try would be another user's."""
    for deed in (read, write):
        with pytest.raises(ClientError, match=said) as refused:
            deed(nameserver, "refused", given)
        assert "secret" not in str(refused.value)
    assert read(nameserver, "refused", KEYS) == []


def test_half_of_the_credentials_is_an_error(nameserver: str) -> None:
    """Nobody asks without a signature then."""
    for deed in (read, write):
        with pytest.raises(SettingsError, match="go together"):
            deed(nameserver, "refused", {"accessKey": "root"})
