"""`sprocket rabbit …` against what a real RabbitMQ 3.10.8 has answered.

Each command must ask what it asked when it was recorded, in that order.
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.rabbit_api import SCRIPT, Exchange, RecordedApi, recorded, replay, run
from typer.testing import CliRunner

from sprocket.cli.main import app

pytestmark = pytest.mark.slow  # each command is put together anew, 50 ms
GUIDE = Path(__file__).parents[5] / "docs" / "guides" / "rabbit.md"


def rows(name: str) -> list[dict[str, Any]]:
    """Return what a command of the script writes with --json, an object a line."""
    ended = replay(name, "--json")
    assert ended.exit_code == 0, ended.output
    return [json.loads(line) for line in ended.stdout.splitlines()]


def said(name: str) -> str:
    """Return what a command that ends well says on stderr, in one line."""
    ended = replay(name)
    assert (ended.exit_code, ended.stdout) == (0, ""), ended.output
    assert ended.stderr.startswith("sprocket: ")
    return ended.stderr.removeprefix("sprocket: ").rstrip("\n")


def refused(name: str) -> str:
    """Return what a command that must fail says: one line, with exit code 1."""
    ended = replay(name)
    assert (ended.exit_code, ended.stdout) == (1, ""), ended.output
    assert ended.stderr.startswith("sprocket: ")
    assert ended.stderr.count("\n") == 1
    return ended.stderr.removeprefix("sprocket: ").rstrip("\n")


def test_every_command_ends_as_it_did() -> None:
    """With the same exit code as against the real one, and without a traceback."""
    for one in SCRIPT:
        ended = replay(one.name)
        assert ended.exit_code == recorded(one.name).exit_code, ended.output
        assert isinstance(ended.exception, SystemExit | None), one.name


def test_queues_are_listed() -> None:
    """With their figures; for people in a table."""
    bills, orders = rows("queues")
    assert orders == {
        "vhost": "/",
        "queue": "orders",
        "messages": 5,
        "ready": 5,
        "unacked": 0,
        "consumers": 0,
        "type": "classic",
        "durable": True,
        "auto_delete": False,
        "exclusive": False,
        "policy": None,
        "state": "running",
        "arguments": {"x-max-length": 10},
    }
    assert (bills["queue"], bills["type"]) == ("bills", "quorum")
    assert replay("queues").stdout == (
        "vhost  queue   ready  unacked  consumers  type     features  policy\n"
        "/      bills   0      0        0          quorum   durable\n"
        "/      orders  5      0        0          classic  durable\n"
    )


def test_a_figure_that_was_not_counted_yet_is_none() -> None:
    """RabbitMQ counts some seconds after a queue was created."""
    (row,) = rows("queues of vhost")
    assert (row["vhost"], row["queue"], row["messages"]) == ("v/1", "q", None)
    assert "–" in replay("queues of vhost").stdout


def test_a_queue_is_shown_with_its_bindings() -> None:
    """Those of the default exchange, too."""
    (row,) = rows("show")
    assert row["bindings"] == [
        {"exchange": "", "routing_key": "orders"},
        {"exchange": "shop", "routing_key": "a.#"},
        {"exchange": "shop", "routing_key": "b/c"},
    ]
    assert row["consumer_details"] == []
    assert "(default)  orders" in replay("show").stdout


def test_queues_are_created_and_deleted() -> None:
    """An existing one must be the same."""
    assert said("create") == "queue orders is in /"
    (row,) = rows("create quorum")
    assert (row["type"], row["arguments"]) == ("quorum", {"x-queue-type": "quorum"})
    assert "inequivalent arg 'durable' for queue 'orders'" in refused("create other")
    assert rows("delete queue") == [{"vhost": "/", "queue": "orders", "deleted": True}]
    assert "there is no queue 'orders' in virtual host '/'" in refused("delete no queue")


def test_an_unknown_name_suggests_the_nearest() -> None:
    """Of a queue, of a queue in a virtual host that is not there, of a user, of a policy."""
    assert "no queue 'order' in virtual host '/'; did you mean orders?" in refused("no such queue")
    assert "there is no virtual host 'nowhere'" in refused("no such vhost")
    assert "there is no virtual host 'v1'" in refused("list nowhere")
    assert "there is no queue 'ordres'" in refused("bind nothing")
    assert "did you mean orders?" in refused("publish nowhere")
    assert "there is no user 'an'; did you mean ann?" in refused("permit nobody")
    assert "there is no policy 'short'" in refused("no such policy")
    assert "there is no connection 'nobody'" in refused("no such connection")


def test_exchanges_are_listed() -> None:
    """What every virtual host has only with --all; the default one by a name for people."""
    assert [row["exchange"] for row in rows("exchanges")] == ["shop"]
    found = {row["exchange"]: row["type"] for row in rows("all exchanges")}
    assert found.keys() >= {"", "amq.topic", "shop"}
    assert found["shop"] == "topic"
    assert "(default)" in replay("all exchanges").stdout
    assert "durable internal" in replay("all exchanges").stdout


def test_exchanges_are_created_and_deleted() -> None:
    """One that is in use stays, if that was asked."""
    assert said("create exchange") == "exchange shop is in /, of type topic"
    assert "inequivalent arg 'type' for exchange 'shop'" in refused("create other exchange")
    assert "in use" in refused("keep used exchange")
    assert rows("delete exchange") == [{"vhost": "/", "exchange": "shop", "deleted": True}]


def test_bindings_are_listed_created_and_deleted() -> None:
    """To queues and to exchanges, with keys that need escapes and arguments that are JSON."""
    assert said("bind again") == "orders gets what shop has for 'b/c'"
    ends = [(row["source"], row["to"], row["routing_key"]) for row in rows("bindings")]
    assert ends == [
        ("amq.fanout", "exchange", ""),
        ("shop", "queue", "a.#"),
        ("shop", "queue", "b/c"),
    ]
    assert [row["source"] for row in rows("bindings of queue")] == ["", "shop", "shop"]
    assert rows("bindings of queue")[1]["arguments"] == {"by": [1, 2]}
    assert said("unbind one") == "1 binding from shop to orders deleted"
    (row,) = rows("unbind")
    assert (row["routing_key"], row["deleted"]) == ("a.#", True)
    assert "shop has no binding to orders" in refused("unbind again")


def test_messages_are_published() -> None:
    """To a queue, to an exchange, a line of stdin each; blank lines are left out and counted."""
    assert rows("publish") == [
        {"vhost": "/", "exchange": "", "routing_key": "orders", "body_len": 5, "routed": True}
    ]
    assert said("publish") == "1 published to queue orders"
    assert said("publish to exchange") == "2 published to shop with key 'a.b'"
    assert said("publish lines") == "2 published to queue orders; 1 blank lines left out"
    (asked,) = [one for one in recorded("publish").exchanges if one.method == "POST"]
    assert json.loads(asked.body)["properties"] == {
        "delivery_mode": 2,
        "content_type": "text/plain",
        "priority": 3,
        "headers": {"n": 1, "s": "x"},
    }


def test_a_message_that_no_queue_took_ends_the_command() -> None:
    """What lies behind it on stdin is not sent."""
    text = refused("publish in vain")
    assert text == (
        "0 published to shop with key 'x.y', then line 1: no queue took it;"
        " nothing behind it was read"
    )


def test_messages_are_shown_and_put_back() -> None:
    """Whole for scripts, in a line for people."""
    first, second = rows("get")
    assert first == {
        "exchange": "",
        "routing_key": "orders",
        "redelivered": False,
        "body_len": 5,
        "body_sha256": "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824",
        "properties": {
            "priority": 3,
            "delivery_mode": 2,
            "headers": {"n": 1, "s": "x"},
            "content_type": "text/plain",
        },
        "body": "hello",
    }
    assert (second["exchange"], second["body"]) == ("shop", "world")
    assert replay("get").stdout.splitlines()[1] == 'shop a.b {"delivery_mode": 2} world'


def test_messages_are_taken_out() -> None:
    """A body that is not text comes in base64."""
    found = rows("get all")
    assert [row["redelivered"] for row in found] == [True, True, False, False, False]
    assert found[-1]["body_base64"] == "//4="
    assert found[-1]["properties"] == {"delivery_mode": 1}
    assert said("get none") == "queue orders has nothing that is ready"
    assert rows("get none") == []


def test_messages_that_were_taken_are_shown_before_more_are_asked_for() -> None:
    """The broker has them no more; a connection that breaks then loses none of them."""
    message = {
        "exchange": "",
        "routing_key": "q",
        "redelivered": False,
        "properties": [],
        "payload": "eA==",
        "payload_encoding": "base64",
    }
    body = '{"count": 100, "ackmode": "ack_requeue_false", "encoding": "base64"}'
    first = Exchange("GET", "/api/queues/%2F/q", "", 200, '{"name":"q","vhost":"/"}')
    taken = Exchange("POST", "/api/queues/%2F/q/get", body, 200, json.dumps([message] * 100))
    with RecordedApi([first, taken]) as api:
        ended = run(api.url, ["get", "q", "--ack", "--count", "1000", "--json"])
    assert ended.exit_code == 1
    assert len(ended.stdout.splitlines()) == 100
    assert json.loads(ended.stdout.splitlines()[0])["properties"] == {}


def test_a_queue_is_purged_if_somebody_says_so() -> None:
    """By --yes or by an answer."""
    assert rows("purge") == [{"vhost": "/", "queue": "orders", "purged": True}]
    assert rows("purge not") == [{"vhost": "/", "queue": "orders", "purged": False}]


def test_users_and_their_permissions() -> None:
    """Created with a password from the option or from a pipe, permitted, forbidden, deleted."""
    assert rows("users") == [{"user": "guest", "tags": ["administrator"], "password": True}]
    assert rows("create user") == [{"user": "ann", "tags": ["management", "own"], "password": True}]
    asked = recorded("create user by pipe").exchanges[1]
    assert json.loads(asked.body) == {"password": "secret", "tags": ""}
    assert rows("permissions") == [
        {"vhost": "/", "user": "ann", "configure": ".*", "write": "^shop", "read": ".*"}
    ]
    told = "user ann may enter /: configure .*, write ^shop, read .*"
    assert said("permit") == told
    assert "invalid_regexp ( missing )" in refused("permit wrongly")
    assert rows("forbid") == [{"vhost": "/", "user": "ann", "deleted": True}]
    assert "user ann has no permissions in /" in refused("forbid again")
    assert rows("delete user") == [{"user": "ann", "deleted": True}]


def test_virtual_hosts() -> None:
    """Their names may have slashes; nothing is deleted without a yes."""
    assert [row["vhost"] for row in rows("vhosts")] == ["/", "v/1"]
    assert said("create in vhost") == "queue q is in v/1"
    assert rows("keep vhost") == [{"vhost": "v/1", "deleted": False}]
    assert rows("delete vhost") == [{"vhost": "v/1", "deleted": True}]


def test_policies() -> None:
    """Set, listed, refused with the broker's own words, deleted."""
    wanted = {
        "vhost": "/",
        "policy": "short",
        "pattern": "^ord",
        "apply_to": "queues",
        "priority": 3,
        "definition": {"max-length": 5},
    }
    assert rows("set policy") == rows("policies") == [wanted]
    assert '[{<<"nonsense">>,5}] are not recognised policy settings' in refused("set nonsense")
    assert said("delete policy") == "policy short is deleted"


def test_connections() -> None:
    """With the name that their client has given them; closed with a reason."""
    assert rows("no connections") == []
    (row,) = rows("connections")
    assert (row["user"], row["vhost"], row["state"]) == ("guest", "/", "running")
    assert (row["channels"], row["tls"], row["client_name"]) == (1, False, "till 1")
    assert row["client"].startswith("Pika")
    (closed,) = rows("close connection")
    assert closed["closed"]


def test_definitions_go_out_and_in(tmp_path: Path) -> None:
    """To stdout and from stdin; to a file they are written for people to read."""
    found = json.loads(replay("export").stdout)
    assert [queue["name"] for queue in found["queues"]] == ["orders", "bills"]
    assert "users" not in json.loads(replay("export vhost").stdout)
    assert said("import") == "the broker took 1 vhost, 1 queue"
    file = tmp_path / "definitions.json"
    with RecordedApi(recorded("export").exchanges) as api:
        ended = run(api.url, ["definitions", "export", str(file)])
    assert (ended.exit_code, ended.stdout) == (0, "")
    assert "2 users, 1 vhost, 1 permission, 0 policies, 2 queues, 1 exchange" in ended.stderr
    assert json.loads(file.read_text(encoding="utf-8")) == found
    assert file.read_text(encoding="utf-8") == replay("export").stdout
    assert replay("export", "--json").stdout.count("\n") == 1
    with RecordedApi(recorded("export").exchanges) as api:
        ended = run(api.url, ["definitions", "export", str(file), "--json"])
    assert json.loads(ended.stdout)["queues"] == 2


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["definitions", "import", "none.json"], "none.json"),
        (["policies", "set", "p", ".*", "[]"], "is not a JSON object"),
        (["policies", "set", "p", ".*", "{"], "is not a JSON object"),
        (["publish", "q", "x", "--property", "prority=1"], "did you mean priority?"),
        (["publish", "q", "x", "--property", "zzz=1"], "there is content_type,"),
        (["publish", "q", "x", "--property", "priority=high"], "expected a whole number"),
        (["publish", "q", "x", "--header", "n"], "header 'n': expected NAME=VALUE"),
        (["publish", "q", "x", "--file", "f"], "send one of them"),
        (["queues", "create", "q", "--argument", "=1"], "expected NAME=VALUE"),
        (["bindings", "create", "", "q"], "bound to the default exchange by its name"),
        (["users", "create", "ann"], "needs a password"),
    ],
)
def test_wrong_input_asks_nothing(words: list[str], text: str) -> None:
    """It is one line, before anybody is asked."""
    with RecordedApi([]) as api:
        ended = run(api.url, words)
    assert api.unexpected == []
    assert (ended.exit_code, ended.stdout) == (1, "")
    assert text in ended.stderr
    assert ended.stderr.count("\n") == 1


def test_a_user_who_is_there_is_not_created_again() -> None:
    """It would lose its tags without a word; `passwd` keeps them."""
    (every,) = recorded("users").exchanges
    guest = Exchange("GET", "/api/users/guest", "", 200, json.dumps(json.loads(every.answer)[0]))
    with RecordedApi([guest]) as api:
        ended = run(api.url, ["users", "create", "guest"], b"secret\n")
    assert (ended.exit_code, api.unexpected) == (1, [])
    assert "users passwd" in ended.stderr
    body = json.dumps({"password": "secret", "tags": "administrator"})
    put = Exchange("PUT", "/api/users/guest", body, 204, "")
    with RecordedApi([guest, put, guest]) as api:
        ended = run(api.url, ["users", "passwd", "guest"], b"secret\n")
    assert (ended.exit_code, api.unexpected) == (0, [])
    assert "user guest has another password" in ended.stderr


def test_the_last_administrator_is_not_deleted_by_accident() -> None:
    """Only with --yes; nobody is asked."""
    (every,) = recorded("users").exchanges
    guest = Exchange("GET", "/api/users/guest", "", 200, json.dumps(json.loads(every.answer)[0]))
    with RecordedApi([guest, every]) as api:
        ended = run(api.url, ["users", "delete", "guest"], b"y\n")
    assert (ended.exit_code, api.unexpected) == (1, [])
    assert "the last administrator" in ended.stderr
    gone = Exchange("DELETE", "/api/users/guest?last-administrator=true", "", 204, "")
    with RecordedApi([guest, every, gone]) as api:
        ended = run(api.url, ["users", "delete", "guest", "--yes"])
    assert (ended.exit_code, api.unexpected) == (0, [])


def test_a_permission_that_is_left_out_is_nothing() -> None:
    """Else who may read may also delete; what was given is told."""
    user, vhost, put, got = recorded("permit").exchanges
    given = json.dumps({"configure": "", "write": "", "read": "^shop"})
    answer = json.dumps({"user": "ann", "vhost": "/", **json.loads(given)})
    exchanges = [user, vhost, put._replace(body=given), got._replace(answer=answer)]
    with RecordedApi(exchanges) as api:
        ended = run(api.url, ["permissions", "set", "ann", "--read", "^shop"])
    assert (ended.exit_code, api.unexpected) == (0, [])
    told = "user ann may enter /: configure nothing, write nothing, read ^shop"
    assert ended.stderr == f"sprocket: {told}\n"


def test_a_definition_that_is_no_object_is_refused() -> None:
    """Nor is a file that is not JSON sent."""
    for stdin, text in ((b"[]", "expected an object"), (b"{", "is not JSON")):
        with RecordedApi([]) as api:
            ended = run(api.url, ["definitions", "import", "-"], stdin)
        assert ended.exit_code == 1
        assert text in ended.stderr


def test_a_family_without_a_command_lists() -> None:
    """With options, too; --help is that of the family, and an unknown command is an error."""
    with RecordedApi(recorded("users").exchanges) as api:
        ended = run(api.url, ["users", "--json"])
    assert ended.exit_code == 0
    assert json.loads(ended.stdout)["user"] == "guest"
    with RecordedApi([]) as api:
        assert run(api.url, ["users", "lst"]).exit_code == 2


def test_the_guide_lists_every_name() -> None:
    """What the commands write with --json stands in the guide's table, and nothing else."""
    text = GUIDE.read_text(encoding="utf-8").partition("## Names in JSON")[2]
    listed: set[str] = set()
    for line in text.partition("\n## ")[0].splitlines():
        if line.startswith("| `"):
            listed.update(re.findall(r"`(\w+)`", line.split("|")[1]))
    used: set[str] = set()
    for one in SCRIPT:
        if one.words[0] == "definitions":
            continue
        if recorded(one.name).exit_code == 0:
            for row in rows(one.name):
                used.update(row)
    assert used - listed == set()
    assert listed - used == set()


def test_a_shell_is_told_of_every_command_of_a_family(monkeypatch: pytest.MonkeyPatch) -> None:
    """Although a family lists when none is named."""
    for name, value in {
        "_SPROCKET_COMPLETE": "complete_bash",
        "COMP_WORDS": "sprocket rabbit queues ",
        "COMP_CWORD": "3",
    }.items():
        monkeypatch.setenv(name, value)
    told = CliRunner().invoke(app(), prog_name="sprocket").stdout
    assert told.split() == ["ls", "show", "create", "delete"]
