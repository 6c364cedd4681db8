"""What a real 5.3.3 with rights answered, request after request, and what ours answers."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.unit.rocketmq.conftest import on_node  # noqa: F401

from sprocket.base.disk import RealDisk
from sprocket.rocketmq.codec.signature import SigningKey
from sprocket.rocketmq.settings import RightsSettings

RECORDED = Path(__file__).parents[4] / "data" / "rocketmq-5.3.3" / "rights.json"
SETTINGS = RightsSettings(
    authentication=True,
    authorization=True,
    initial_user="admin",
    initial_password="admin-pass",  # noqa: S106
    inner_user="inner",
    inner_password="inner-pass",  # noqa: S106
)

ROUTE = "routes are a NameServer's"
OURS_SAYS_MORE = "ours says what could not be read"
CLOSED = "ours wants a right"
DIFFERS: Mapping[str, tuple[int, str]] = {
    "create no body": (1, OURS_SAYS_MORE),
    "create bad body": (1, OURS_SAYS_MORE),
    "update alice no body": (1, OURS_SAYS_MORE),
    "get acl bad subject": (1, OURS_SAYS_MORE),
    "get acl no subject": (1, OURS_SAYS_MORE),
    "create acl no subject": (1, OURS_SAYS_MORE),
    "create acl no body": (1, OURS_SAYS_MORE),
    "create acl no policies": (1, OURS_SAYS_MORE),
    "create acl null actions": (16, "actions that are absent are none"),
    "create acl action Unknown": (16, "an action of this name allows nothing"),
    "delete acl bad resource": (16, "5.3.3 deletes all policies where it cannot read a resource"),
    "bob dup send": (16, "of two entries for a resource 5.3.3 takes the one that allows"),
    "alice route": (3, ROUTE),
    "alice heartbeat bad body": (16, OURS_SAYS_MORE),
    "alice send bad header": (1, OURS_SAYS_MORE),
    "alice 37 no topic": (1, OURS_SAYS_MORE),
    "alice runtime 28": (16, CLOSED),
}
"""Ours: the code, and why it or the remark is another one."""

UNKNOWN_ENTRY = '{"actions":["Unknown"],"decision":"Allow","resource":"Topic:tunknown"},'
TWICE = '{"actions":["Pub"],"decision":"Allow","resource":"Topic:dup"},'
"""Entries that are only in 5.3.3's answers."""


def test_answers_are_those_of_rocketmq(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """Code, remark and body, but where the table says why not."""
    recorded = json.loads(RECORDED.read_text())

    async def scenario(lab: Any) -> None:
        found: dict[str, object] = {}
        expected: dict[str, object] = {}
        for one in recorded:
            ext, body = dict(one["ext"]), one["body"].encode()
            options = one.get("options", {})
            if one["user"]:
                ext["AccessKey"], password = one["user"]
                if options.get("sign", True):
                    ext["Signature"] = SigningKey(password).sign(ext, body)
            answer = await lab.broker.call(one["code"], ext, body)
            name, theirs = one["name"], one["answer"]
            if name in DIFFERS:
                found[name], expected[name] = answer.code, DIFFERS[name][0]
                assert (answer.code, answer.remark) != (theirs["code"], theirs["remark"]), name
                continue
            found[name] = (answer.code, answer.remark, answer.body.decode())
            is_about_rights = 3001 <= one["code"] <= 3010
            expected[name] = (
                theirs["code"],
                theirs["remark"],
                theirs["body"].replace(UNKNOWN_ENTRY, "").replace(TWICE, "")
                if is_about_rights
                else answer.body.decode(),
            )
        assert {
            name: (one, found[name]) for name, one in expected.items() if one != found[name]
        } == {}

    run = request.getfixturevalue("on_node")
    run(scenario, disk=RealDisk(), folder=str(tmp_path / "store"), rights=SETTINGS)
