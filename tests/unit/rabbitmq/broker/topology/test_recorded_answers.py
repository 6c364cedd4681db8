"""What a real RabbitMQ 3.10.8 answered to declarations, bindings and publishes is what we answer.

Each case is a list of steps in one virtual host, done one after the other; `declarations.json` has
what the real one said: nothing, a code with its text, or the queues that a message went to.
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.field_tables import table
from tests.rabbit_topology import Declarations, bound

from sprocket.rabbitmq.broker.access import Need
from sprocket.rabbitmq.broker.topology import Requester, VhostTopology
from sprocket.rabbitmq.codec.amqp import ReplyCode, reply_text
from sprocket.rabbitmq.errors import RequestRefused
from sprocket.rabbitmq.model.declared_queue import DeclaredQueue
from sprocket.rabbitmq.model.exchange import Exchange
from sprocket.rabbitmq.model.fields import Field, FieldTable
from sprocket.rabbitmq.model.resource import ResourceKind, queue_resource
from sprocket.rabbitmq.model.user import TopicPermission, User, VhostPermission

RECORDED = Path(__file__).parents[4] / "data" / "rabbitmq-3.10.8" / "declarations.json"
CASES: dict[str, list[dict[str, Any]]] = json.loads(RECORDED.read_text(encoding="utf-8"))
GENERATED = re.compile(r"amq\.gen-[-\w]{22}")
"""The name of a queue that was declared without one."""
CONNECTIONS = {"a": 1, "b": 2, "limited": 3}


class Client:
    """Does the steps of a case."""

    def __init__(self) -> None:
        declarations = Declarations()
        self.topology: VhostTopology = declarations.vhost()
        users = declarations.users
        for name, anything, there in (
            ("guest", ".*", ".*"),
            ("limited", r"^lim\.", r"^lim\.|^amq\.topic$"),
        ):
            users.put(User(name=name))
            users.allow(
                VhostPermission(user=name, vhost="/", configure=anything, write=there, read=there)
            )
        users.allow(
            TopicPermission(
                user="limited", vhost="/", exchange="amq.topic", write=r"^{username}\.", read="^lim"
            )
        )
        self.requesters = {
            label: Requester(
                users.access("limited" if label == "limited" else "guest", "/"), number
            )
            for label, number in CONNECTIONS.items()
        }

    def answer(self, step: dict[str, Any]) -> object:
        """Do a step; return what the recorded answers have."""
        try:
            return getattr(self, step["do"].replace(".", "_"))(step, self.by(step))
        except RequestRefused as error:
            text = reply_text(ReplyCode(error.code), error.remark)
            return [error.code, GENERATED.sub("amq.gen-", text)]

    def by(self, step: dict[str, Any]) -> Requester:
        """Whose step it is."""
        return self.requesters[step.get("as", "a")]

    def queue_declare(self, step: dict[str, Any], by: Requester) -> None:
        """Declare a queue, passively if the step says so."""
        if step.get("passive"):
            self.topology.check_queue(step["queue"], by)
            return
        queue = DeclaredQueue(
            vhost="/",
            name=step["queue"],
            is_durable=step.get("durable", False),
            is_auto_delete=step.get("auto_delete", False),
            owner=by.connection if step.get("exclusive") else None,
            arguments=table(step.get("arguments")),
        )
        self.topology.declare_queue(queue, by)

    def queue_delete(self, step: dict[str, Any], by: Requester) -> None:
        """Delete a queue."""
        found = self.topology.deletable_queue(step["queue"], by)
        if found is not None:
            self.topology.remove_queue(found.name)

    def exchange_declare(self, step: dict[str, Any], by: Requester) -> None:
        """Declare an exchange, passively if the step says so."""
        if step.get("passive"):
            self.topology.check_exchange(step["exchange"])
            return
        exchange = Exchange(
            vhost="/",
            name=step["exchange"],
            type=step["type"],
            is_durable=step.get("durable", False),
            is_auto_delete=step.get("auto_delete", False),
            is_internal=step.get("internal", False),
            arguments=table(step.get("arguments")),
        )
        self.topology.declare_exchange(exchange, by)

    def exchange_delete(self, step: dict[str, Any], by: Requester) -> None:
        """Delete an exchange."""
        self.topology.delete_exchange(step["exchange"], by, if_unused=step.get("if_unused", False))

    def bind(self, step: dict[str, Any], by: Requester) -> None:
        """Bind a queue or an exchange."""
        self.topology.bind(self.binding(step), by)

    def unbind(self, step: dict[str, Any], by: Requester) -> None:
        """Take a binding away."""
        self.topology.unbind(self.binding(step), by)

    def binding(self, step: dict[str, Any]) -> Any:
        """The binding that a step is about."""
        return bound(
            step["source"],
            step["destination"],
            step["key"],
            kind=ResourceKind(step["to"]),
            arguments=step.get("arguments"),
        )

    def publish(self, step: dict[str, Any], by: Requester) -> list[str]:
        """Return the queues that a message goes to."""
        self.topology.check_publish(step["exchange"], step["key"], by.access)
        headers = table(step.get("headers"))
        keys = [step["key"]]
        for name in ("CC", "BCC"):
            keys += copies(headers, name)
        return list(self.topology.route(step["exchange"], keys, lambda: headers).queues)


def copies(headers: FieldTable, name: str) -> list[str]:
    """The further keys of a message."""
    found = headers.get(name)
    values = found.value if found is not None and isinstance(found.value, tuple) else ()
    texts = [one.value for one in values if isinstance(one, Field)]
    return [text.decode() for text in texts if isinstance(text, bytes)]


@pytest.mark.parametrize("case", CASES)
def test_every_step_is_answered_as_by_the_real_one(case: str) -> None:
    """Codes, texts to the letter, and routes."""
    client = Client()
    different = []
    for number, step in enumerate(CASES[case]):
        answer = client.answer(step)
        recorded = step["answer"]
        if recorded and recorded[0] in set(ReplyCode):
            recorded = [recorded[0], GENERATED.sub("amq.gen-", recorded[1])]
        if answer != recorded:
            different.append((number, step, answer))
    assert different == []


def test_permission_may_end_while_somebody_is_in() -> None:
    """What a user may do is looked up at each step."""
    client = Client()
    access = client.requesters["limited"].access
    access.check(Need.READ, queue_resource("lim.q", "/"))
    with pytest.raises(RequestRefused, match="refused for user 'limited'"):
        access.check(Need.READ, queue_resource("other", "/"))
