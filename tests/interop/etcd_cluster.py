"""Real etcd of Debian 12, three members on 127.0.0.1, unpacked beside the repository.

Each member is a process of its own, which is killed, stopped (SIGSTOP) and emptied by its pid.
"""

import base64
import contextlib
import json
import os
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from tests.certificates import Certificate
from tests.interop import peers
from tests.interop.peers import ROOT, PeerMissing
from tests.waits import LONG_SECONDS

PREPARE = "make peers-etcd"
"""The one command that fetches it."""
VARIABLE = "SPROCKET_ETCD"
"""Names the program `etcd`, if it is another one."""
HEARTBEAT_MS, ELECTION_MS = 50, 500


def program() -> Path:
    """Return the program.

    Raises:
        PeerMissing: It is not there.
    """
    found = Path(os.environ.get(VARIABLE, ROOT / ".peers/etcd/usr/bin/etcd"))
    if not found.exists():
        raise PeerMissing(f"no etcd at {found}; {PREPARE} fetches it")
    return found


@dataclass(frozen=True)
class Seat:
    """Where a member runs.

    Attributes:
        host: Where it listens.
        port: The same, for clients.
        peer_port: The same, for other members.
        wrapper: What its command begins with.
    """

    host: str
    port: int
    peer_port: int
    wrapper: Sequence[str] = ()


def _free_seats(count: int) -> list[Seat]:
    return [Seat("127.0.0.1", peers.free_port(), peers.free_port()) for _ in range(count)]


class EtcdMember:
    """One process with a folder of its own."""

    def __init__(self, name: str, folder: Path, seat: Seat, tls: Certificate | None) -> None:
        self.name = name
        self.folder = folder
        self.host, self.port, self.peer_port = seat.host, seat.port, seat.peer_port
        self.wrapper = seat.wrapper
        self.tls = tls
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Where clients reach it."""
        return f"http{'s' * (self.tls is not None)}://{self.host}:{self.port}"

    @property
    def peer_url(self) -> str:
        """Where other members reach it."""
        return f"http://{self.host}:{self.peer_port}"

    def signal(self, number: int) -> None:
        """Send a signal to the process."""
        assert self.process is not None
        os.kill(self.process.pid, number)

    def kill(self) -> None:
        """End the process at once, also if it is stopped."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(LONG_SECONDS)
            self.process = None


class EtcdCluster:
    """Members that know each other.

    Args:
        etcd: What `program` returned.
        folder: Where they write; is made.
        count: How many they are.
        tls: What clients are to encrypt with; nothing if None.
        seats: Where they run; on loopback by default.
    """

    def __init__(
        self,
        etcd: Path,
        folder: Path,
        count: int = 3,
        tls: Certificate | None = None,
        seats: Sequence[Seat] = (),
    ) -> None:
        self._etcd = etcd
        self._tls = tls
        self._token = f"sprocket-{folder.name}"
        self.members = [
            EtcdMember(f"m{number}", folder / f"m{number}", seat, tls)
            for number, seat in enumerate(seats or _free_seats(count))
        ]

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """Where clients reach them."""
        return [(one.host, one.port) for one in self.members]

    @property
    def url(self) -> str:
        """The setting of a broker."""
        return "etcd://" + ",".join(f"{one.host}:{one.port}" for one in self.members)

    def start(self) -> Self:
        """Start all members and wait until they have a leader."""
        for one in self.members:
            self.begin(one)
        for one in self.members:
            self.wait(one)
        return self

    def begin(self, one: EtcdMember) -> None:
        """Start a member, which goes on with what is in its folder."""
        every = ",".join(f"{member.name}={member.peer_url}" for member in self.members)
        command: list[str] = [
            *(*one.wrapper, str(self._etcd), "--name", one.name, "--data-dir", str(one.folder)),
            *("--listen-client-urls", one.url, "--advertise-client-urls", one.url),
            *("--listen-peer-urls", one.peer_url, "--initial-advertise-peer-urls", one.peer_url),
            *("--initial-cluster", every, "--initial-cluster-token", self._token),
            *("--heartbeat-interval", str(HEARTBEAT_MS), "--election-timeout", str(ELECTION_MS)),
            *("--logger", "zap", "--log-level", "error", "--unsafe-no-fsync"),
        ]
        if self._tls is not None:
            command += ["--cert-file", self._tls.cert, "--key-file", self._tls.key]
        one.folder.parent.mkdir(parents=True, exist_ok=True)
        with one.folder.with_suffix(".log").open("ab") as log:
            one.process = subprocess.Popen(command, stdout=log, stderr=log, env=_environment())

    def wait(self, one: EtcdMember) -> None:
        """Wait until a member serves."""
        until = time.monotonic() + LONG_SECONDS
        while not self.ask(one, "/v3/kv/range", {"key": "Lw=="}):
            assert one.process is not None, "it was started"
            assert one.process.poll() is None, "etcd has ended"
            assert time.monotonic() < until, f"{one.name} does not serve"
            time.sleep(0.05)

    def leader(self) -> EtcdMember:
        """Return the member that the others follow."""
        for one in self.members:
            found = self.ask(one, "/v3/maintenance/status", {})
            if found and found.get("leader") == found["header"]["member_id"]:
                return one
        raise AssertionError("nobody leads")

    def ask(
        self, one: EtcdMember, path: str, body: Mapping[str, object], token: str = ""
    ) -> dict[str, Any]:
        """Return what a member answers; nothing if it does not, or with an error."""
        request = urllib.request.Request(  # noqa: S310
            one.url + path, json.dumps(body).encode(), {"Authorization": token} if token else {}
        )
        context = None
        if self._tls is not None:
            import ssl

            context = ssl.create_default_context(cafile=self._tls.cert)
        try:
            with urllib.request.urlopen(request, timeout=2, context=context) as answer:  # noqa: S310
                found = json.load(answer)
        except (OSError, urllib.error.URLError):
            return {}
        assert isinstance(found, dict)
        return found

    def command(self, *parts: tuple[str, Mapping[str, object]]) -> Sequence[dict[str, Any]]:
        """Ask the leader several things."""
        leader = self.leader()
        return [self.ask(leader, path, body) for path, body in parts]

    def value(self, key: str) -> dict[str, Any] | None:
        """Return the JSON that a key has, None if there is none, as most members know it.

        Raises:
            AssertionError: No member answers.
        """
        for one in self.members:
            found = self.ask(one, "/v3/kv/range", {"key": _written(key)})
            if found:
                kvs = found.get("kvs", [])
                return json.loads(base64.b64decode(kvs[0]["value"])) if kvs else None
        raise AssertionError("no member of etcd answers")

    def values(self, key: str, seconds: float = 0.5) -> list[dict[str, Any]]:
        """Return all that a key ever was, the JSON of each, as a watch from the beginning gives it.

        Args:
            key: Which one.
            seconds: Of silence after which the watch is over.
        """
        create = {"create_request": {"key": _written(key), "start_revision": "1"}}
        found: list[dict[str, Any]] = []
        for one in self.members:
            if one.process is None:
                continue
            request = urllib.request.Request(  # noqa: S310
                one.url + "/v3/watch", json.dumps(create).encode()
            )
            with (
                contextlib.suppress(OSError),
                urllib.request.urlopen(request, timeout=seconds) as (  # noqa: S310
                    answer
                ),
            ):
                for line in answer:
                    for event in json.loads(line)["result"].get("events", []):
                        if event.get("type", "PUT") == "PUT":
                            found.append(json.loads(base64.b64decode(event["kv"]["value"])))
            if found:
                break
        return found

    def empty(self) -> None:
        """End all members, empty their folders, and start them as another cluster."""
        self.stop()
        self._token += "-again"
        for one in self.members:
            shutil.rmtree(one.folder)
        self.start()

    def stop(self) -> None:
        """End all members."""
        for one in self.members:
            one.kill()


def _environment() -> dict[str, str]:
    """Return the environment without settings of etcd that this machine may have."""
    known = {key: value for key, value in os.environ.items() if not key.startswith("ETCD")}
    return {**known, "ETCD_UNSUPPORTED_ARCH": "arm64"} if os.uname().machine == "aarch64" else known


def _written(key: str) -> str:
    """Return a key as etcd's gateway takes it."""
    return base64.b64encode(key.encode()).decode()
