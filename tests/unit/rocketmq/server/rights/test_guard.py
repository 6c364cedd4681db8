"""Requests to a broker with rights: who is let through, what is said to others, and the log."""

import asyncio
import json
import sys
from collections.abc import Callable
from typing import Any

import pytest
from tests.interop import link
from tests.unit.rocketmq.conftest import message_ext
from tests.unit.rocketmq.server.rights.conftest import ROOT, Signer
from tests.unit.rocketmq.server.test_refusals import BROKER

from sprocket.rocketmq.codec.codes import ResponseCode
from sprocket.rocketmq.codec.signature import SigningKey
from sprocket.rocketmq.server.rights import guard

NO_PERMISSION = ResponseCode.NO_PERMISSION
PULL = {
    "consumerGroup": "g",
    "topic": "orders",
    "queueId": 0,
    "queueOffset": 0,
    "maxMsgNums": 1,
    "sysFlag": 4,
    "subscription": "*",
}


async def make_user(root: Signer, name: str, *entries: tuple[str, list[str]], **more: Any) -> None:
    """Make a user whose password is the name and `-secret`, and allow them something."""
    user = json.dumps({"password": f"{name}-secret", **more}).encode()
    assert (await root.call(3001, {"username": name}, user)).code == 0
    if entries:
        allowed = [
            {"resource": resource, "actions": actions, "decision": "Allow"}
            for resource, actions in entries
        ]
        acl = {"policies": [{"entries": allowed}]}
        answer = await root.call(3006, {"subject": f"User:{name}"}, json.dumps(acl).encode())
        assert answer.code == 0


def test_requests_without_a_right_signature_are_refused(
    on_guarded_node: Callable[..., None],
) -> None:
    """Whatever they ask for; the answer has RocketMQ's sentence and no fields."""

    async def scenario(lab: Any, root: Signer) -> None:
        await make_user(root, "off", userStatus="disable")
        client = lab.broker
        for code in sorted(BROKER):
            answer = await client.call(code, {"topic": "t"}, b"\xff")
            assert (answer.code, answer.remark) == (NO_PERMISSION, "username cannot be null.")
            assert answer.ext_map() == {}
        send = {name: str(value) for name, value in message_ext("orders").items()}
        for who, expected in (
            (Signer(client, "", ""), "username cannot be null."),
            (Signer(client, "nobody", "x"), "User:nobody is not found."),
            (Signer(client, "off", "off-secret"), "User:off is disabled."),
            (Signer(client, ROOT[0], "wrong"), "check signature failed."),
        ):
            answer = await who.call(310, send, b"hello")
            assert (answer.code, answer.remark) == (NO_PERMISSION, expected)
        answer = await client.call(310, send | {"AccessKey": ROOT[0]}, b"hello")
        assert answer.remark == "check signature failed."
        signed = SigningKey(ROOT[1]).sign({**send, "AccessKey": ROOT[0]}, b"hello")
        answer = await client.call(
            310, send | {"AccessKey": ROOT[0], "Signature": signed}, b"hellp"
        )
        assert answer.remark == "check signature failed."
        assert lab.node.broker.store.end == 0

    on_guarded_node(scenario)


def test_what_there_is_not_is_told_to_users_only(on_guarded_node: Callable[..., None]) -> None:
    """As in RocketMQ."""

    async def scenario(lab: Any, root: Signer) -> None:
        assert (await lab.broker.call(9999)).code == NO_PERMISSION
        assert (await root.call(9999)).code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED

    on_guarded_node(scenario)


def test_a_super_user_may_do_everything(on_guarded_node: Callable[..., None]) -> None:
    """In both forms of headers, and on the second port too."""

    async def scenario(lab: Any, root: Signer) -> None:
        for serialize in (0, 1):
            answer = await root.call(310, message_ext("orders"), b"hello", serialize=serialize)
            assert answer.code == 0
        for code in sorted(BROKER):
            answer = await root.call(code, {"topic": "t"})
            assert "has no permission" not in (answer.remark or ""), code

    on_guarded_node(scenario)


def test_a_user_may_do_what_policies_allow(on_guarded_node: Callable[..., None]) -> None:
    """Publish to one topic, consume it in one group, and nothing else."""

    async def scenario(lab: Any, root: Signer) -> None:
        await make_user(root, "alice", ("Topic:orders", ["Pub", "Sub"]), ("Group:g", ["Sub"]))
        alice = Signer(lab.broker, "alice", "alice-secret")
        for _ in range(2):  # once decided, once remembered
            assert (await alice.call(310, message_ext("orders"), b"hello")).code == 0
            answer = await alice.call(310, message_ext("other"), b"hello")
            assert answer.code == NO_PERMISSION
            assert answer.remark == (
                "User:alice has no permission to access Topic:other from 127.0.0.1, "
                "no matched policies."
            )
            assert (await alice.call(11, PULL)).body
            answer = await alice.call(11, PULL | {"consumerGroup": "h"})
            assert "Group:h" in (answer.remark or "")
            answer = await alice.call(11, PULL | {"topic": "%RETRY%h"})
            assert "Group:h" in (answer.remark or "")
        for code in (25, 26, 28, 200, 201, 21, 43, 329, 3005):
            assert (await alice.call(code, {}, b'{"groupName":"x"}')).code == NO_PERMISSION, code

    on_guarded_node(scenario)


def test_a_policy_holds_from_the_next_request_on(on_guarded_node: Callable[..., None]) -> None:
    """Also for what was allowed before, on a connection that is open."""

    async def scenario(lab: Any, root: Signer) -> None:
        await make_user(root, "alice", ("Topic:orders", ["Pub"]))
        alice = Signer(lab.broker, "alice", "alice-secret")
        send = message_ext("orders")
        assert (await alice.call(310, send, b"hello")).code == 0
        await root.call(3008, {"subject": "User:alice", "resource": "Topic:orders"})
        assert (await alice.call(310, send, b"hello")).code == NO_PERMISSION
        await make_super(root, "alice")
        assert (await alice.call(310, send, b"hello")).code == 0
        changed = json.dumps({"password": "new-secret"}).encode()
        await root.call(3002, {"username": "alice"}, changed)
        answer = await alice.call(310, send, b"hello")
        assert answer.remark == "check signature failed."
        alice = Signer(lab.broker, "alice", "new-secret")
        assert (await alice.call(310, send, b"hello")).code == 0
        await root.call(3003, {"username": "alice"})
        answer = await alice.call(310, send, b"hello")
        assert answer.remark == "User:alice is not found."

    on_guarded_node(scenario)


async def make_super(root: Signer, name: str) -> None:
    """Let somebody do everything."""
    answer = await root.call(3002, {"username": name}, b'{"userType":"Super"}')
    assert answer.code == 0


def test_without_authorization_every_user_may_do_everything(
    on_guarded_node: Callable[..., None],
) -> None:
    """Only the signature is looked at."""

    async def scenario(lab: Any, root: Signer) -> None:
        await make_user(root, "alice")
        alice = Signer(lab.broker, "alice", "alice-secret")
        assert (await alice.call(310, message_ext("orders"), b"hello")).code == 0
        assert (await alice.call(28)).code == 0
        assert (await lab.broker.call(28)).code == NO_PERMISSION

    on_guarded_node(scenario, authorization=False)


def test_white_lists_let_through(on_guarded_node: Callable[..., None]) -> None:
    """What need not be signed is from nobody: what it says of a user is not believed."""

    async def scenario(lab: Any, root: Signer) -> None:
        await make_user(root, "alice")
        alice = Signer(lab.broker, "alice", "alice-secret")
        assert (await lab.broker.call(28)).code == 0
        answer = await lab.broker.call(26, {"AccessKey": ROOT[0]})
        assert answer.code == NO_PERMISSION
        assert answer.remark == (
            "Authorization failed. Please verify your access rights and try again."
        )
        assert (await alice.call(26)).code == NO_PERMISSION
        assert (await root.call(26)).code == 0
        assert (await alice.call(21)).code == 0
        assert (await lab.broker.call(21)).code == NO_PERMISSION

    on_guarded_node(scenario, unsigned_codes=(28, 26), unchecked_codes=(28, 21))


def test_a_header_that_cannot_be_read_is_no_way_in(on_guarded_node: Callable[..., None]) -> None:
    """It is an error, as without rights, but only for those who sign it."""

    async def scenario(lab: Any, root: Signer) -> None:
        await make_user(root, "alice", ("Topic:orders", ["Pub"]))
        alice = Signer(lab.broker, "alice", "alice-secret")
        answer = await alice.call(310, message_ext("orders", e="x"), b"hello")
        assert answer.code == ResponseCode.SYSTEM_ERROR
        answer = await lab.broker.call(310, message_ext("orders", e="x"), b"hello")
        assert answer.code == NO_PERMISSION
        assert lab.node.broker.store.end == 0

    on_guarded_node(scenario)


def test_one_way_requests_are_refused_in_silence(on_guarded_node: Callable[..., None]) -> None:
    """Nothing is stored, and nobody answered."""

    async def scenario(lab: Any, root: Signer) -> None:
        lab.broker.send(310, message_ext("orders"), b"hello", oneway=True)
        await root.call(28)
        assert lab.node.broker.store.end == 0
        assert lab.broker.pushed.empty()

    on_guarded_node(scenario)


def test_refusals_and_changes_are_in_the_audit_log(
    on_guarded_node: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    """With the name and without a secret or a signature."""
    caplog.set_level("INFO")

    async def scenario(lab: Any, root: Signer) -> None:
        await make_user(root, "alice", ("Topic:orders", ["Pub"]))
        alice = Signer(lab.broker, "alice", "alice-secret")
        await alice.call(310, message_ext("other"), b"hello")
        await Signer(lab.broker, "mallory", "mallory-secret").call(28)
        await root.call(25, {}, b"rights.initial_password=other-secret\nfileReservedTime=48\n")

    on_guarded_node(scenario)
    text = caplog.text
    assert "create user" in text
    assert "user='root'" in text
    assert "put policies" in text
    assert "user='alice' request='SEND_MESSAGE_V2' why='User:alice has no permission" in text
    assert "user='mallory' request='GET_BROKER_RUNTIME_INFO'" in text
    assert "fileReservedTime=48" in text
    assert "-secret" not in text


def test_a_message_that_is_named_by_its_place_has_a_topic_of_its_own(
    on_guarded_node: Callable[..., None],
) -> None:
    """Who names a topic that they may use gets nothing of another one: by id, back, or by half."""

    async def scenario(lab: Any, root: Signer) -> None:
        await root.call(310, message_ext("hidden"), b"secret")
        half = await root.call(
            310, message_ext("hidden", f=4, i="TRAN_MSG\x01true\x02PGROUP\x01p\x02"), b"half"
        )
        assert half.code == 0
        await make_user(
            root, "alice", ("Topic:orders", ["All"]), ("Group:g", ["All"]), ("Cluster:*", ["Get"])
        )
        alice = Signer(lab.broker, "alice", "alice-secret")
        denied = "User:alice has no permission to access Topic:hidden from 127.0.0.1"
        back = {"offset": 0, "group": "g", "delayLevel": 1, "originTopic": "orders"}
        end = {
            "producerGroup": "p",
            "topic": "orders",
            "tranStateTableOffset": 0,
            "commitLogOffset": int(half.ext_map()["msgId"][16:], 16),
            "commitOrRollback": 8,
        }
        for code, ext in ((33, {"offset": 0, "topic": "orders"}), (36, back), (37, end)):
            answer = await alice.call(code, ext)
            assert answer.code == NO_PERMISSION, code
            assert (answer.remark or "").startswith(denied)
            assert b"secret" not in answer.body
        assert (await root.call(33, {"offset": 0, "topic": "orders"})).body
        assert (await root.call(37, end)).code == 0

    on_guarded_node(scenario)


class Slowly:
    """Counts the requests whose signature was looked at field by field."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.count = 0
        looks = SigningKey.is_right

        def is_right(*given: Any) -> bool:
            self.count += 1
            return looks(*given)

        patch.setattr(SigningKey, "is_right", is_right)

    def since(self) -> int:
        """Return how many there were since this was called last."""
        found, self.count = self.count, 0
        return found


@pytest.fixture
def slowly(monkeypatch: pytest.MonkeyPatch) -> Slowly:
    """Nothing counted yet."""
    return Slowly(monkeypatch)


JAVA_PULL = {
    "bname": "broker-a",
    "commitOffset": 0,
    "consumerGroup": "g",
    "expressionType": "TAG",
    "maxMsgBytes": 2147483647,
    "maxMsgNums": 32,
    "queueId": 0,
    "queueOffset": 0,
    "requestSource": 0,
    "subVersion": 0,
    "subscription": "*",
    "suspendTimeoutMillis": 15000,
    "sysFlag": 4,
    "topic": "orders",
}
"""As the Java client 5.3.3 sends it."""


@pytest.mark.parametrize(
    ("code", "changes", "is_quick"),
    [
        (310, {}, True),
        (310, {"e": 3, "g": 1, "i": "KEYS\x01ä\x02", "l": 16, "n": "broker-a"}, True),
        (310, {"e": "03"}, False),
        (310, {"k": "TRUE"}, False),
        (310, {"ns": "n"}, False),
        (320, {"m": "true"}, True),
        (11, {}, True),
        (11, {"queueOffset": "+0"}, False),
        (11, {"zone": "x"}, False),
    ],
)
def test_who_was_let_through_once_is_known(
    on_guarded_node: Callable[..., None],
    slowly: Slowly,
    code: int,
    changes: dict[str, object],
    is_quick: bool,
) -> None:
    """By what the header says; what other clients send is looked at field by field, as at first."""

    async def scenario(lab: Any, root: Signer) -> None:
        await make_user(root, "alice", ("Topic:orders", ["Pub", "Sub"]), ("Group:g", ["Sub"]))
        alice = Signer(lab.broker, "alice", "alice-secret")
        ext = (JAVA_PULL if code == 11 else message_ext("orders")) | changes
        body = b"" if code == 11 else b"hello"
        refused = NO_PERMISSION
        for turn in range(3):
            slowly.since()
            assert (await alice.call(code, ext, body)).code != refused
            assert slowly.since() == (0 if turn and is_quick else 1)
        texts = {name: str(value) for name, value in ext.items()} | {"AccessKey": "alice"}
        for key, others in (
            (SigningKey("other"), {}),
            (SigningKey("alice-secret"), {"e": "1", "queueId": "1"}),
            (SigningKey("alice-secret"), {"Signature": None}),
        ):
            signed = {**texts, "Signature": key.sign(texts, body), **others}
            sent = {name: text for name, text in signed.items() if text is not None}
            assert (await lab.broker.call(code, sent, body)).code == refused
        assert (
            await alice.call(code, ext | {"b": "other", "topic": "other"}, body)
        ).code == refused
        if code == 11:
            assert (await alice.call(code, ext | {"consumerGroup": "h"})).code == refused

    on_guarded_node(scenario)


@pytest.mark.skipif(sys.platform != "linux", reason="127.0.0.2 is an address on Linux only")
def test_who_was_let_through_from_one_address_is_not_known_at_another(
    on_guarded_node: Callable[..., None],
) -> None:
    """A policy may be for some addresses."""

    async def scenario(lab: Any, root: Signer) -> None:
        await make_user(root, "alice")
        entry = {"resource": "Topic:orders", "actions": ["Pub"], "decision": "Allow"}
        acl = {"policies": [{"entries": [entry | {"sourceIps": ["127.0.0.1"]}]}]}
        answer = await root.call(3006, {"subject": "User:alice"}, json.dumps(acl).encode())
        assert answer.code == 0
        texts = {name: str(value) for name, value in message_ext("orders").items()}
        texts["AccessKey"] = "alice"
        texts["Signature"] = SigningKey("alice-secret").sign(texts, b"hello")
        host, _, port = lab.node.addresses.broker.rpartition(":")

        async def code_from(address: str) -> int:
            reader, writer = await asyncio.open_connection(host, port, local_addr=(address, 0))
            writer.write(link.encode(310, 1, texts, b"hello"))
            size = int.from_bytes(await reader.readexactly(4), "big")
            answer = link.decode(await reader.readexactly(size))
            writer.close()
            return answer.code

        found = [await code_from(address) for address in ("127.0.0.1", "127.0.0.2") * 2]
        assert found == [0, NO_PERMISSION] * 2

    on_guarded_node(scenario)


def test_who_is_known_is_forgotten_when_rights_change(
    on_guarded_node: Callable[..., None], slowly: Slowly
) -> None:
    """Those of the user or of another: what is forgotten is only decided again."""

    async def scenario(lab: Any, root: Signer) -> None:
        await make_user(root, "alice", ("Topic:orders", ["Pub"]))
        alice = Signer(lab.broker, "alice", "alice-secret")
        send = message_ext("orders")
        for _ in range(2):
            await alice.call(310, send, b"hello")
        await make_user(root, "bob")
        slowly.since()
        for expected in (1, 0):
            assert (await alice.call(310, send, b"hello")).code == 0
            assert slowly.since() == expected
        await root.call(3008, {"subject": "User:alice"})
        assert (await alice.call(310, send, b"hello")).code == NO_PERMISSION

    on_guarded_node(scenario)


def test_memory_of_who_is_known_is_bounded(
    on_guarded_node: Callable[..., None], slowly: Slowly, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client can name any number of topics."""
    monkeypatch.setattr(guard, "PERMITS_MAX", 3)

    async def scenario(lab: Any, root: Signer) -> None:
        for topic in "abcde":
            await root.call(310, message_ext(topic), b"hello")
        slowly.since()
        quick = []
        for topic in "edcba":
            await root.call(310, message_ext(topic), b"hello")
            quick.append(slowly.since() == 0)
        assert quick == [True, True, False, False, False]

    on_guarded_node(scenario)


def test_a_white_list_of_one_code_is_none_of_another(
    on_guarded_node: Callable[..., None],
) -> None:
    """A send that needs no policy permits nobody a batch."""

    async def scenario(lab: Any, root: Signer) -> None:
        await make_user(root, "alice")
        alice = Signer(lab.broker, "alice", "alice-secret")
        for _ in range(2):
            assert (await alice.call(310, message_ext("orders"), b"hello")).code == 0
            answer = await alice.call(320, message_ext("orders", m="true"), b"hello")
            assert answer.code == NO_PERMISSION

    on_guarded_node(scenario, unchecked_codes=(310,))
