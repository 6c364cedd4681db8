"""What the HTTP API, the scrapes and the export say, byte for byte: order of members included.

`python -m tests.unit.rabbitmq.server.management.resources.test_golden_answers` records it again.
"""

import difflib
import json
import lzma
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pika
import pytest
import requests
from tests.management.requests import STEPS, Step, delete, get, put
from tests.waits import LONG_SECONDS

from sprocket.testing.local_amqp import LocalAmqp

RECORDED = Path(__file__).parents[5] / "data" / "amqp-answers.json.xz"
NOW_MS = 1_700_000_000_000
DETAILED = "/metrics/detailed?" + "&".join(
    f"family={name}"
    for name in (
        *("connection_churn_metrics", "node_coarse_metrics", "node_metrics", "queue_metrics"),
        *("node_persister_metrics", "auth_attempt_metrics", "queue_coarse_metrics"),
        *("queue_consumer_count", "channel_metrics", "channel_exchange_metrics", "vhost_status"),
        *("channel_queue_metrics", "connection_coarse_metrics", "connection_metrics"),
        *("channel_queue_exchange_metrics", "exchange_bindings", "exchange_names"),
    )
)
MORE: list[Step] = [
    put("/policies/%2F/p", {"pattern": "^q", "definition": {"max-length": 5}, "priority": 1}),
    put("/operator-policies/%2F/o", {"pattern": "", "definition": {"max-length": 9}}),
    put("/topic-permissions/%2F/plain", {"exchange": "amq.topic", "write": "a", "read": "b"}),
    put("/vhost-limits/%2F/max-queues", {"value": 50}),
    put("/user-limits/plain/max-channels", {"value": 5}),
    put("/exchanges/%2F/in", {"type": "fanout", "internal": True, "auto_delete": True}),
    *map(get, ("/policies", "/operator-policies", "/parameters", "/definitions")),
    *map(get, ("/definitions/%2F", "/connections", "/channels", "/consumers", "/queues")),
    *map(get, ("/queues/%2F/held", "/exchanges/%2F/x1", "/vhosts", "/users", "/bindings")),
    *map(get, ("/overview?lengths_age=60&lengths_incr=5", "/queues?disable_stats=true")),
    *map(get, ("/metrics", "/metrics/per-object", DETAILED)),
    delete("/policies/%2F/p"),
]
MEASURED = (
    r"mem_used|mem_limit|fd_used|fd_total|sockets_total|disk_free|disk_free_limit|os_pid|processors"
    r"|io_sync_avg_time|rate|password_hash|uptime|recv_cnt|send_cnt|send_pend|send_oct|recv_oct"
    r"|avg_rate|avg|sample|ports|io_sync_count|db_dir|node|mem_used_details|client_properties|location"
)
SCRUBBED = (
    (re.compile(rf'"({MEASURED})":("[^"]*"|\[[^\]]*\]|\{{[^{{}}]*\}}|[-\d.e]+)'), r'"\1":*'),
    (re.compile(r"sprocket@[\w.-]+"), "NODE"),
    (re.compile(r"127\.0\.0\.1:\d+"), "ADDRESS"),
    (re.compile(r'"(port|peer_port)":\d+'), r'"\1":*'),
    (
        re.compile(
            r"^(\w*(?:fds|sockets|memory\w*|disk_space\w*|seconds|seconds_total|io_sync_ops_total"
            r"|(?:incoming|outgoing)_\w+)(?:\{.*\})?) \S+$",
            re.MULTILINE,
        ),
        r"\1 *",
    ),
    (re.compile(r"product_version=\"[^\"]*\""), 'product_version="*"'),
)
"""What no two runs, or no two machines, have alike."""


def answers() -> Iterator[dict[str, Any]]:
    """Give what a broker answers to every step, one of whose queues a client consumes."""
    with LocalAmqp(now_ms=NOW_MS) as broker, requests.Session() as session:
        for step in STEPS:
            yield told(broker, session, step)
        with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            channel.queue_declare("held", durable=True, arguments={"x-max-priority": 3})
            channel.basic_publish("", "held", b"1", pika.BasicProperties(delivery_mode=2))
            channel.basic_publish("", "held", b"22")
            channel.basic_publish("", "nowhere", b"3")
            channel.basic_qos(prefetch_count=1)
            channel.basic_consume("held", lambda *_: None, consumer_tag="tag")
            channel.basic_get("held")
            channel.basic_get("held")
            for step in MORE:
                yield told(broker, session, step)


def told(broker: LocalAmqp, session: requests.Session, step: Step) -> dict[str, Any]:
    """Make one request, and return its answer without what differs from run to run."""
    data = step.body if step.body is None or isinstance(step.body, str) else json.dumps(step.body)
    base = broker.http_url
    if step.path.startswith("/metrics"):
        base = base.removesuffix("/api")
    found = session.request(
        step.method, base + step.path, data=data, auth=step.user, timeout=LONG_SECONDS
    )
    text = found.text
    for pattern, instead in SCRUBBED:
        text = pattern.sub(instead, text)
    return {"step": f"{step.method} {step.path}", "status": found.status_code, "text": text}


@pytest.mark.slow
def test_answers_are_byte_for_byte_what_they_were() -> None:
    """A refactoring changes no member, no order of members, no line of a scrape."""
    recorded = json.loads(lzma.decompress(RECORDED.read_bytes()))
    wrong = [
        "\n".join([one["step"], *difflib.unified_diff(split(one["text"]), split(ours["text"]))])
        for one, ours in zip(recorded, answers(), strict=True)
        if one != ours
    ]
    assert wrong == []


def split(text: str) -> list[str]:
    """Return lines, those of JSON one for each member."""
    return re.split(r"\n|(?<=[,{\[])", text)


if __name__ == "__main__":
    RECORDED.write_bytes(lzma.compress(json.dumps(list(answers())).encode(), preset=9))
