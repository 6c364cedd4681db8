"""Definitions of a real RabbitMQ 3.10.8 are taken whole, and written again as it wrote them."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.rabbit_topology import (
    EXCHANGE,
    QUEUE,
    Declarations,
    bound,
    declare_queue,
    routed,
)

from sprocket.base.disk import steps
from sprocket.rabbitmq.broker import first_start
from sprocket.rabbitmq.broker.definitions import Followers, Report
from sprocket.rabbitmq.codec import definitions
from sprocket.rabbitmq.errors import RequestRefused

RECORDED = Path(__file__).parents[3] / "data" / "rabbitmq-3.10.8" / "definitions.json"


PASSWORDS = {
    "guest": "guest",
    "limited": "limited",
    "capped": "s3crét",
    "md5": "pwmd5",
    "sha512": "pw512",
}
"""Those of its users."""


class Told:
    """Who is told of what definitions have brought."""

    def __init__(self) -> None:
        self.vhosts: list[str] = []
        self.queues: list[str] = []
        self.changed: list[str] = []
        self.followers = Followers(
            vhost_made=lambda one: self.vhosts.append(one.vhost.name),
            queue_made=lambda one: self.queues.append(one.name),
            queues_changed=lambda some: self.changed.extend(one.name for one in some),
        )


def take(declarations: Declarations, file: object, vhost: str | None = None) -> tuple[Told, Report]:
    """Take definitions."""
    told, report = Told(), Report()
    data = definitions.decode(json.dumps(file).encode())
    steps.run(declarations.definitions.take_steps(data, told.followers, report, vhost))
    return told, report


def recorded() -> Any:
    """What the real one has written."""
    return json.loads(RECORDED.read_text(encoding="utf-8"))


def written(declarations: Declarations, vhost: str | None = None) -> Any:
    """What we write."""
    found = declarations.definitions.export(vhost)
    whole = {name: one if isinstance(one, str) else list(one) for name, one in found.items()}
    return json.loads(definitions.encode_entries(whole))


def in_order(file: Any) -> Any:
    """A file with its lists sorted: their order has no meaning."""
    return {
        name: sorted(value, key=json.dumps) if isinstance(value, list) else value
        for name, value in file.items()
    }


def test_definitions_of_a_real_rabbitmq_go_round() -> None:
    """All keys and values; but for a binding from an internal exchange, which it leaves out."""
    declarations = Declarations()
    file = recorded()
    told, report = take(declarations, file)
    why = "a binding from 'in' to 'dead': no exchange 'in' in vhost 'second'"
    assert report.passed_over == [why]
    file["bindings"] = [one for one in file["bindings"] if one["source"] != "in"]
    assert in_order(written(declarations)) == in_order(file)
    lists = {name: len(value) for name, value in file.items() if isinstance(value, list)}
    assert report.taken == lists
    assert sorted(told.vhosts) == sorted(one["name"] for one in file["vhosts"])
    assert sorted(told.queues) == sorted(one["name"] for one in file["queues"])


def test_what_was_taken_works_and_is_there_after_a_kill() -> None:
    """Users, routes, policies and limits; transient things are gone."""
    before = Declarations()
    take(before, recorded())
    after = Declarations(before.disk.kill())
    second = after.vhosts.get("second")
    work = second.find_queue("work.1")
    assert work is not None
    options = second.options(work)
    assert (options.max_length, options.message_ttl_ms, options.max_priority) == (100, 5000, 5)
    assert options.dead_letter_exchange == "dead"
    assert routed(second, "dead", "x") == ("dead",)
    assert second.find_queue("t") is None
    assert second.vhost.limits == {"max-queues": 50, "max-connections": -1}
    assert second.in_force(QUEUE, "work.1").operator_policy == "op"
    assert after.vhost().in_force(EXCHANGE, "x1").policy is None
    assert after.users.log_in("capped", "s3crét".encode(), is_loopback=False).limits


def test_users_log_in_with_the_passwords_that_they_had() -> None:
    """Hashed by SHA-256, SHA-512 and MD5."""
    declarations = Declarations()
    take(declarations, recorded())
    users = declarations.users
    for name, password in PASSWORDS.items():
        assert users.log_in(name, password.encode(), is_loopback=True).name == name
        with pytest.raises(RequestRefused, match=f"user '{name}' - invalid credentials"):
            users.log_in(name, password.upper().encode(), is_loopback=True)
    with pytest.raises(RequestRefused, match="user 'nopass' - invalid credentials"):
        users.log_in("nopass", b"", is_loopback=True)


def test_a_file_can_be_taken_again() -> None:
    """What is there is left, what is another one is told; nobody hears of queues twice."""
    declarations = Declarations()
    take(declarations, recorded())
    told, report = take(declarations, recorded())
    assert (told.vhosts, told.queues, told.changed) == ([], [], [])
    assert len(report.passed_over) == 1
    file = recorded()
    for one in file["queues"]:
        one["arguments"]["x-expires"] = 77
    file["exchanges"][0]["type"] = "direct"
    changed = file["exchanges"][0]["name"]
    _, report = take(declarations, file)
    assert [why for why in report.passed_over if "another one" in why] == [
        f"exchange '{changed}' in vhost 'second' is there already, and another one",
        *(
            f"queue '{one['name']}' in vhost '{one['vhost']}' is there already, and another one"
            for one in file["queues"]
        ),
    ]


def test_the_definitions_of_one_virtual_host() -> None:
    """They do not name it, so that they can be taken to another one."""
    declarations = Declarations()
    take(declarations, recorded())
    file = written(declarations, "second")
    assert set(file) == {
        *("rabbit_version", "parameters", "policies", "queues", "exchanges", "bindings")
    }
    assert all("vhost" not in one for value in file.values() for one in value if value != "3.10.8")
    declarations.vhost("third")
    _, report = take(declarations, file, "third")
    assert report.passed_over == []
    assert in_order(written(declarations, "third")) == in_order(file)


def test_internal_exchanges_are_not_lost() -> None:
    """RabbitMQ reads the key that says it; it does not write them."""
    declarations = Declarations()
    declarations.vhost()
    exchange = {"vhost": "/", "name": "in", "type": "fanout", "durable": True} | {
        "auto_delete": False,
        "internal": True,
        "arguments": {},
    }
    take(declarations, {"exchanges": [exchange]})
    assert written(declarations)["exchanges"] == [exchange]


def test_operator_policies_as_rabbitmqctl_writes_them() -> None:
    """Their definitions are lists of pairs, while RabbitMQ's HTTP API writes objects."""
    value = {
        "apply-to": "queues",
        "definition": [["expires", 9000], ["max-length", 7]],
        "pattern": "^x",
        "priority": 3,
    }
    one = {"component": "operator_policy", "name": "o", "vhost": "/"}
    declarations = Declarations()
    take(declarations, {"vhosts": [{"name": "/"}], "parameters": [{**one, "value": value}]})
    (found,) = written(declarations)["parameters"]
    assert found == {**one, "value": {**value, "definition": {"expires": 9000, "max-length": 7}}}


def test_policies_reach_queues_that_are_there() -> None:
    """Before new queues are declared."""
    declarations = Declarations()
    declare_queue(declarations.vhost(), "old")
    rule = {"vhost": "/", "name": "p", "pattern": "", "definition": {"max-length": 1}}
    told, _ = take(declarations, {"policies": [rule]})
    assert told.changed == ["old"]


def test_exclusive_queues_are_not_written() -> None:
    """Nor are the broker's own exchanges; transient queues are, as RabbitMQ does it."""
    declarations = Declarations()
    declare_queue(declarations.vhost(), "own", owner=5)
    declare_queue(declarations.vhost(), "transient")
    file = written(declarations)
    assert [one["name"] for one in file["queues"]] == ["transient"]
    assert file["exchanges"] == []


QUEUE_OF_V = {"vhost": "v", "name": "q", "durable": True, "auto_delete": False, "arguments": {}}


@pytest.mark.parametrize(
    ("file", "text"),
    [
        (
            {"queues": [QUEUE_OF_V]},
            'Please create virtual host "v" prior to importing definitions.',
        ),
        (
            {"queues": [{**QUEUE_OF_V, "vhost": "/", "arguments": {"x-expires": 0}}]},
            "invalid arg 'x-expires' for queue 'q' in vhost '/': {value_zero,0}",
        ),
        (
            {
                "exchanges": [
                    {**QUEUE_OF_V, "vhost": "/", "name": "x", "internal": False}
                    | {"type": "x-delayed-message", "arguments": {"x-delayed-type": "zz"}}
                ]
            },
            "unknown exchange type 'zz'",
        ),
        (
            {"queues": [{**QUEUE_OF_V, "vhost": "/", "arguments": {"x": None}}]},
            "an argument cannot be None",
        ),
        (
            {"parameters": [{"vhost": "/", "component": "shovel", "name": "s", "value": {}}]},
            "Validation failed\n\ncomponent shovel not found\n (//shovel/s)",
        ),
        (
            {
                "parameters": [
                    {"vhost": "/", "component": "operator_policy", "name": "q", "value": {}}
                ]
            },
            "operator policy 'q': Object missing required field `pattern`",
        ),
        (
            {
                "parameters": [
                    {"vhost": "/", "component": "operator_policy", "name": "q"}
                    | {"value": {"pattern": "", "definition": [["max-length"]]}}
                ]
            },
            "operator policy 'q': Expected `array` of length 2, got 1 - at `$[0]`",
        ),
        (
            {
                "bindings": [
                    {"vhost": "/", "source": "x", "destination": "q"}
                    | {"destination_type": "node", "routing_key": ""}
                ]
            },
            "a binding cannot lead to a node, only to a queue or exchange",
        ),
        (
            {"users": [{"name": "u", "password": "a", "password_hash": "b", "tags": ""}]},
            "user 'u': both_password_and_password_hash_are_provided",
        ),
        (
            {"users": [{"name": "u", "password_hash": "?", "tags": ""}]},
            "user 'u': its password hash is not in base 64",
        ),
        (
            {"policies": [{"name": "p", "pattern": "", "definition": {"max-length": 1}}]},
            "Virtual host does not exist and is not specified in definitions file.",
        ),
    ],
)
def test_what_cannot_be_taken(file: dict[str, object], text: str) -> None:
    """One clear error, and what stands before it is there."""
    declarations = Declarations()
    declarations.vhost()
    with pytest.raises(RequestRefused) as refused:
        take(declarations, {"vhosts": [{"name": "w"}], **file})
    assert refused.value.remark == text
    assert ("w" in {one.vhost.name for one in declarations.vhosts}) == ("users" not in file)


def test_too_many_queues_are_refused_before_the_first() -> None:
    """In RabbitMQ's words."""
    declarations = Declarations()
    limit = {"vhost": "/", "component": "vhost-limits", "name": "limits"}
    declare_queue(declarations.vhost(), "q0")
    take(declarations, {"parameters": [{**limit, "value": {"max-queues": 2}}]})
    queues = [{**QUEUE_OF_V, "vhost": "/", "name": f"q{number}"} for number in range(3)]
    with pytest.raises(RequestRefused) as refused:
        take(declarations, {"queues": queues})
    assert refused.value.remark == (
        'Adding 2 queue(s) to virtual host "/" would exceed the limit of 2 queue(s).\n\n'
        "This virtual host currently has 1 queue(s) defined.\n\nImport aborted!"
    )
    assert declarations.vhost().queue_count == 1
    take(declarations, {"queues": queues[:2]})


def test_a_virtual_host_that_is_there_keeps_its_limits() -> None:
    """What is said of it is what the file says; limits are settings of their own."""
    declarations = Declarations()
    take(declarations, recorded())
    take(declarations, {"vhosts": [{"name": "second", "metadata": {"description": "new"}}]})
    second = declarations.vhosts.get("second").vhost
    assert (second.description, second.tags) == ("new", ())
    assert second.limits == {"max-queues": 50, "max-connections": -1}


def test_users_of_old_files() -> None:
    """Tags are a text with commas, and old versions hash by MD5."""
    declarations = Declarations()
    user = {"name": "u", "password_hash": "AQIDBLS2/xHiPQ252ze35ZtSjBQ=", "tags": "a, b"}
    take(declarations, {"rabbit_version": "3.5.7", "users": [user, {"name": "v"}]})
    assert declarations.users.log_in("u", b"pwmd5", is_loopback=False).tags == ("a", "b")
    take(declarations, {"users": [{"name": "u", "password": "new", "limits": {"max-channels": 1}}]})
    assert declarations.users.log_in("u", b"new", is_loopback=False).limits == {"max-channels": 1}
    take(declarations, {"users": [{"name": "u", "password": "newer"}]})
    assert declarations.users.log_in("u", b"newer", is_loopback=False).limits


@pytest.mark.slow
def test_ten_thousand_queues_and_bindings_are_taken_in_small_pieces(tmp_path: Path) -> None:
    """No piece takes more than 32 entries, so that the loop can serve others between them."""
    declarations = Declarations(real=str(tmp_path))
    count = 10_000
    declarations.vhost()
    queues = [{**QUEUE_OF_V, "vhost": "/", "name": f"q{number}"} for number in range(count)]
    bindings = [
        {"vhost": "/", "source": "amq.direct", "destination": f"q{number}"}
        | {"destination_type": "queue", "routing_key": f"k{number}"}
        for number in range(count)
    ]
    file = definitions.decode(json.dumps({"queues": queues, "bindings": bindings}).encode())
    report = Report()
    last = pieces = 0
    for call in declarations.definitions.take_steps(file, Told().followers, report):
        call()
        pieces += 1
        assert sum(report.taken.values()) - last <= 32
        last = sum(report.taken.values())
    assert (last, pieces > 600) == (2 * count, True)
    after = Declarations(real=str(tmp_path))
    assert routed(after.vhost(), "amq.direct", "k9999") == ("q9999",)
    assert after.vhost().bindings_from("amq.direct")[5] == bound("amq.direct", "q5", "k5")


def test_a_first_start_has_guest_and_a_virtual_host() -> None:
    """A later one leaves everything as it is, though guest is gone."""
    declarations = Declarations()
    assert first_start.prepare(declarations.users, declarations.vhosts)
    guest = declarations.users.log_in("guest", b"guest", is_loopback=True)
    assert guest.tags == ("administrator",)
    declarations.users.access("guest", "/")
    declarations.users.remove("guest")
    again = Declarations(declarations.disk.kill())
    assert not first_start.prepare(again.users, again.vhosts)
    assert len(again.users) == 0
