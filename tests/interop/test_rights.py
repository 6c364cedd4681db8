"""Users and policies: official clients sign for them, and see what is refused.

With SPROCKET_INTEROP_BROKER=rocketmq the clients are judged by the real broker.
"""

import json
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.interop import guarded_brokers, link, peers
from tests.interop.clusters import Cluster
from tests.waits import LONG_SECONDS

pytestmark = [
    pytest.mark.interop,
    pytest.mark.slow,
    pytest.mark.xdist_group("interop-rights"),  # one worker, or each would start the brokers
]

QUEUES = 2
TOPIC_RIGHTS = {"shop": ["Pub", "Sub"], "reader": ["Sub"], "writer": ["Pub"], "far": ["All"]}
"""Who has which rights on the topic and, but for those who only write, on the group."""
FAR = ["10.0.0.0/8"]
"""Where one of them must be, and is not."""


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[peers.Broker]:
    """Run our broker with rights, or, so that the tests are judged too, the real one."""
    with guarded_brokers.either(tmp_path_factory.mktemp("guarded")) as broker:
        yield broker


@dataclass(frozen=True, slots=True)
class Deed:
    """What came of something that a user did: the code and text of the refusal, or bodies."""

    code: int
    text: str
    bodies: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What a client showed, by the number of the credentials and by what was done."""

    client: str
    deeds: Mapping[tuple[int, str], Deed]


CREDENTIALS = (
    ("shop", "shop-secret"),
    ("shop", "wrong-secret"),
    ("nobody", "nobody-secret"),
    ("reader", "reader-secret"),
    ("writer", "writer-secret"),
    ("far", "far-secret"),
)


@pytest.fixture(scope="module", params=[*peers.CLIENTS, "go"])
def shown(
    request: pytest.FixtureRequest, guarded: peers.Broker, tmp_path_factory: pytest.TempPathFactory
) -> Shown:
    """Run one of the official clients, for each of the users."""
    folder = tmp_path_factory.mktemp("client")
    topic, group = (
        f"Rights{request.param.replace('.', '')}",
        f"rights-{request.param.replace('.', '')}",
    )
    command = _command(request.param, folder)
    suffix = topic.lower()
    with guarded_brokers.root(guarded) as connection:
        link.create_topic(connection, topic, QUEUES)
        for name, actions in TOPIC_RIGHTS.items():
            entries = {f"Topic:{topic}": actions}
            if name != "writer":
                entries[f"Group:{group}"] = ["Sub"]
            more = {"sourceIps": FAR} if name == "far" else {}
            guarded_brokers.make_user(connection, f"{name}-{suffix}", entries, **more)
    out = folder / "shown.jsonl"
    names = [(f"{name}-{suffix}", secret) for name, secret in CREDENTIALS]
    words = [
        word
        for name, secret in names
        for word in (name, secret.replace("-secret", f"-{suffix}-secret"))
    ]
    told = subprocess.run(
        [*command, guarded.nameserver, topic, group, "3", str(out), *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LONG_SECONDS,
        check=False,
        env={**os.environ, "HOME": str(folder), "ROCKETMQ_GO_LOG_LEVEL": "error"},
    )
    if "usage: peer" in told.stderr:
        pytest.skip(f"NOT RUN: the Go program is older than its source: {peers.GO_PREPARE}")
    assert told.returncode == 0, told.stdout + told.stderr
    lines = [json.loads(line) for line in out.read_text("utf-8").splitlines()]
    deeds = {
        (one["number"], one["deed"]): Deed(one["code"], one.get("text", ""), one.get("bodies", ()))
        for one in lines
    }
    return Shown(client=request.param, deeds=deeds)


def _command(client: str, folder: Path) -> Sequence[str | Path]:
    try:
        if client == "go":
            return [peers.go_program(), "signed"]
        jars = peers.signing_library(client)
    except peers.PeerMissing as missing:
        pytest.skip(f"NOT RUN: {missing}")
    sources = [peers.SIGNED_SOURCE, peers.JAVA / "Lines.java"]
    classes = peers.compile_java(jars, folder, sources)
    return [*peers.java(jars, home=folder, classes=classes), "Signed"]


def is_refused(shown: Shown, number: int, deed: str, text: str) -> bool:
    """Tell whether somebody was refused something with a text; Go's errors have no code."""
    found = shown.deeds[number, deed]
    code = (
        found.code if shown.client != "go" else guarded_brokers.NO_PERMISSION * ("16" in found.text)
    )
    return code == guarded_brokers.NO_PERMISSION and text in found.text


def test_whoever_may_sends_and_consumes(shown: Shown) -> None:
    """All that was sent is there, in a pull and with a consumer that runs by itself."""
    sent = shown.deeds[0, "send"]
    assert (sent.code, len(sent.bodies)) == (0, 3)
    deeds = ["consume"] if shown.client == "go" else ["pull", "consume"]
    for deed in deeds:
        found = shown.deeds[0, deed]
        assert (found.code, sorted(found.bodies)) == (0, sorted(sent.bodies)), deed


def test_a_wrong_secret_is_refused(shown: Shown) -> None:
    """And the client says so."""
    assert is_refused(shown, 1, "send", "check signature failed"), shown.deeds[1, "send"]
    if shown.client != "go":
        assert is_refused(shown, 1, "pull", "check signature failed")


def test_an_unknown_user_is_refused(shown: Shown) -> None:
    """By name."""
    assert is_refused(shown, 2, "send", "is not found")


def test_what_is_not_allowed_is_refused(shown: Shown) -> None:
    """A reader does not send, a writer does not read, and nobody does either from elsewhere."""
    assert is_refused(shown, 3, "send", "has no permission to access Topic:")
    assert (shown.deeds[4, "send"].code, len(shown.deeds[4, "send"].bodies)) == (0, 3)
    assert is_refused(shown, 5, "send", "has no permission to access Topic:")
    if shown.client != "go":
        assert shown.deeds[3, "pull"].code == 0
        assert is_refused(shown, 4, "pull", "has no permission to access")


def test_without_a_signature_nothing_is_served(guarded: peers.Broker) -> None:
    """But for what white lists let through."""
    with link.Link(guarded.address) as connection:
        answer = connection.ask(link.GET_MAX_OFFSET, {"topic": "TBW102", "queueId": 0})
        assert (answer.code, answer.remark) == (
            guarded_brokers.NO_PERMISSION,
            "username cannot be null.",
        )


def test_white_lists_are_for_some_requests_only(guarded: peers.Broker) -> None:
    """Those need neither a signature, right or wrong, nor a policy; all others do."""
    with guarded_brokers.root(guarded) as connection:
        guarded_brokers.make_user(connection, "guest", {"Topic:other": ["Sub"]})
    for credentials in (None, ("guest", "wrong"), ("nobody", "x"), ("guest", "guest-secret")):
        with link.Link(guarded.address, credentials=credentials) as connection:
            assert connection.ask(link.BROKER_RUNTIME_INFO, {}).code == link.SUCCESS
            answer = connection.ask(link.GET_MAX_OFFSET, {"topic": "TBW102", "queueId": 0})
            assert answer.code == guarded_brokers.NO_PERMISSION


def kept(broker: peers.Broker) -> Mapping[str, object]:
    """Return what a broker says of all users and policies."""
    with guarded_brokers.root(broker) as connection:
        return {
            name: sorted(json.loads(connection.call(code, {}).body), key=json.dumps)
            for name, code in (("users", 3005), ("acls", 3010))
        }


def change(broker: peers.Broker, part: str) -> Mapping[str, object]:
    """Make users and policies, then take some of it away; return what there is then."""
    with guarded_brokers.root(broker) as connection:
        for name in ("leaver", "changer", "loser"):
            more = {"sourceIps": FAR} if name == "loser" else {}
            entries = {f"Topic:{part}*": ["Pub", "Sub"], f"Group:{part}": ["Sub"]}
            guarded_brokers.make_user(connection, f"{part}-{name}", entries, **more)
        resource = {"subject": f"User:{part}-loser", "resource": f"Group:{part}"}
        connection.call(3008, resource)
        user = {"password": "newer", "userStatus": "disable"}
        connection.call(3002, {"username": f"{part}-changer"}, json.dumps(user).encode())
        connection.call(3003, {"username": f"{part}-leaver"})
    return kept(broker)


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_either_broker_goes_on_with_the_others_users(tmp_path: Path, end: str) -> None:
    """A real one opens our folder, changes more, and ours opens that; neither loses anything."""
    left: Mapping[str, object] = {}
    for number in range(4):
        run = guarded_brokers.real if number % 2 else guarded_brokers.ours
        with run(tmp_path / str(number), tmp_path / "store") as broker:
            if left:
                assert left == kept(broker)
            left = change(broker, f"part{number}")
            end_it = broker.kill if end == "kill" else broker.stop
            end_it()


INNER = ("inner", "inner-secret")
"""By whom brokers sign what they ask each other and NameServers."""
REAL_INNER = {
    "innerClientAuthenticationCredentials": json.dumps(
        {"accessKey": INNER[0], "secretKey": INNER[1]}
    )
}
OUR_INNER = (
    *("--set", f"rights.inner_user={INNER[0]}"),
    *("--set", f"rights.inner_password={INNER[1]}"),
)


def topics(address: str) -> set[str]:
    """Return the topics of a broker with rights."""
    with link.Link(address, credentials=guarded_brokers.ROOT) as connection:
        return set(json.loads(connection.call(21, {}).body)["topicConfigTable"])


def is_routed(nameserver: str, topic: str) -> bool:
    """Tell whether a NameServer knows a broker of a topic."""
    with link.Link(nameserver) as connection:
        return connection.ask(link.GET_ROUTE, {"topic": topic}).code == link.SUCCESS


def test_inner_credentials_go_between_ours_and_real_ones(jars: Path, tmp_path: Path) -> None:
    """A real slave reads the tables of our master, and each registers at the other's NameServer."""
    cluster = Cluster(tmp_path, jars)
    try:
        names = cluster.real_nameserver()
        master = cluster.broker("broker-a", [names], *guarded_brokers.OPTIONS, *OUR_INNER)
        with link.Link(master, credentials=guarded_brokers.ROOT) as connection:
            link.create_topic(connection, "mirrored", 2)
        with link.Link(master) as connection:
            assert connection.ask(21, {}).code == guarded_brokers.NO_PERMISSION
        peers.wait_until(lambda: is_routed(names, "mirrored"), "a registration of ours")
        store = tmp_path / "slave"
        slave = cluster.real_broker(
            "broker-a",
            [names],
            {
                **guarded_brokers.REAL,
                **REAL_INNER,
                "brokerId": 1,
                "brokerRole": "SLAVE",
                "storePathRootDir": store,
                "storePathCommitLog": store / "commitlog",
            },
        )
        peers.wait_until(lambda: "mirrored" in topics(slave), "what a slave reads of its master")
        cluster.stop(slave)
        names = cluster.nameserver()
        other = cluster.real_broker("other", [names], {**guarded_brokers.REAL, **REAL_INNER})
        with link.Link(other, credentials=INNER) as connection:
            link.create_topic(connection, "theirs", 2)
        peers.wait_until(lambda: is_routed(names, "theirs"), "a registration of theirs")
    finally:
        cluster.close()
