"""Answers of two HTTP APIs, compared member by member and type by type."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import requests
from tests.management.requests import Step
from tests.waits import LONG_SECONDS

HEADERS = ("allow", "www-authenticate")
TIMEOUT_SECONDS = LONG_SECONDS


class Answer(NamedTuple):
    """What was answered to one request; status 0 if the connection was closed."""

    status: int
    headers: Mapping[str, str]
    body: Any


class Difference(NamedTuple):
    """Where two answers differ."""

    path: str
    """Members by their names, `[]` for the entries of a list; of the status `STATUS`."""
    theirs: object
    ours: object


ABSENT = "absent"

ERLANG = {
    "backing_queue_status",
    "consumer_capacity",
    "consumer_utilisation",
    "context_switches",
    "erlang_full_version",
    "erlang_version",
    "garbage_collection",
    "gc_bytes_reclaimed",
    "gc_num",
    "idle_since",
    "io_read_avg_time",
    "io_read_bytes",
    "io_read_count",
    "io_reopen_count",
    "io_seek_avg_time",
    "io_seek_count",
    "io_sync_avg_time",
    "io_sync_count",
    "io_write_avg_time",
    "io_write_bytes",
    "io_write_count",
    "memory",
    "message_bytes_paged_out",
    "message_bytes_ram",
    "metrics_gc_queue_length",
    "mnesia_disk_tx_count",
    "mnesia_ram_tx_count",
    "msg_store_read_count",
    "msg_store_write_count",
    "net_ticktime",
    "proc_total",
    "proc_used",
    "queue_index_read_count",
    "queue_index_write_count",
    "ra_open_file_metrics",
    "reductions",
    "run_queue",
    "disk_reads",
    "disk_writes",
    "user_who_performed_action",
}
"""Members that are about Erlang's processes, or that nobody here counts: left out."""

OWN = {
    "applications",
    "auth_mechanisms",
    "cluster_name",
    "cluster_state",
    "config_files",
    "contexts",
    "db_dir",
    "default_queue_type",
    "exchange_types",
    "listeners",
    "log_files",
    "node",
    "os_pid",
    "password_hash",
    "ports",
    "properties_key",
    "protocols",
    "sample_retention_policies",
}
"""Members whose values are each node's own; only their types are compared."""

UNORDERED = {
    f".{name}"
    for name in (
        *("bindings", "exchanges", "parameters", "permissions", "policies", "queues", "users"),
        *("topic_permissions", "vhosts"),
    )
}
"""The lists of definitions, which RabbitMQ gives in the order of a hash table."""

MEASURED = {
    "disk_free",
    "disk_free_limit",
    "fd_total",
    "fd_used",
    "mem_limit",
    "mem_used",
    "processors",
    "rate",
    "sockets_total",
    "sockets_used",
    "uptime",
}


class Known(NamedTuple):
    """Answers that differ on purpose."""

    request: str
    """Method and path, without a query; a regular expression."""
    members: str
    """Which members; a regular expression."""
    reason: str


KNOWN = [
    Known(
        "GET /(vhost-limits|parameters|definitions)",
        r"(\.parameters)?\[\].*",
        "limits that were cleared are gone; RabbitMQ keeps an empty entry",
    ),
    Known("PUT /permissions/.*", r"\.reason", "a text instead of lists of character codes"),
    Known(
        "POST /bindings/.*/z/.*|POST /queues/.*/get|GET /nodes/missing.*",
        "STATUS",
        "an error of the client, where RabbitMQ's handler crashes with 500",
    ),
    Known(
        "GET /(overview|nodes|vhosts)",
        r".*\.(message_stats|churn_rates)\..*|"
        r"\[\]\.(queue|channel|connection)_(declared|created|closed)",
        "RabbitMQ's are some seconds old, and count the API's own connections",
    ),
    Known("GET /overview", r"\.queue_totals\..*", "a column may be a part of the totals"),
    Known("GET /(nodes|cluster-name/?)", r".*\.name", "each has its own"),
    Known("GET /nodes", r".*\.cluster_links\[\]", "there is no cluster"),
    Known(
        "GET /(extensions|feature-flags|global-parameters)",
        r"\[\]",
        "there are no pages, no flags, and no inner parameters",
    ),
    Known(
        "GET /definitions",
        r"\.(exchanges\[\]\.internal|queues\[\]\.type|global_parameters\[\]"
        r"|vhosts\[\]\.(limits|metadata))",
        "members of the file that `rabbitmqctl export_definitions` writes",
    ),
    Known(
        "GET /definitions/.*",
        r"\.(exchanges\[\]\.internal|queues\[\]\.type"
        r"|(parameters|policies)\[\]\.vhost)",
        "as that, without the virtual host that the path names",
    ),
    Known("POST /definitions", r"\.reason", "another text about what is missing"),
    Known("GET /vhosts", r"\[\]\.messages.*", "totals are there at once, RabbitMQ's later"),
    Known(
        "GET /exchanges",
        r"\[\]\.message_stats",
        "RabbitMQ's come some seconds later",
    ),
    Known("GET /queues", r"\[\]\..*", "a queue that is new is told of with all members"),
]
"""What `docs/answers-rabbitmq.md` names."""


def is_known(step: Step, found: Difference) -> bool:
    """Say whether an answer differs on purpose."""
    request = f"{step.method} {step.path.partition('?')[0]}"
    return any(
        re.fullmatch(one.request, request) and re.fullmatch(one.members, found.path)
        for one in KNOWN
    )


def ask(session: requests.Session, base: str, step: Step, *, tries: int = 1) -> Answer:
    """Make one request; again if the connection broke, which the last of `tries` says by status 0.

    RabbitMQ refuses a login before it has read the body, and resets the connection: the client may
    see that and no answer. It has done nothing then.
    """
    data = step.body if step.body is None or isinstance(step.body, str) else json.dumps(step.body)
    for _ in range(tries):
        try:
            found = session.request(
                step.method,
                base + step.path,
                data=data,
                headers={} if data is None else {"content-type": "application/json"},
                auth=step.user,
                timeout=TIMEOUT_SECONDS,
            )
        except requests.ConnectionError:
            continue
        try:
            body = found.json()
        except ValueError:
            body = found.text
        headers = {name.lower(): value for name, value in found.headers.items()}
        return Answer(found.status_code, headers, body)
    return Answer(0, {}, "")


def differences(theirs: Answer, ours: Answer) -> Iterator[Difference]:
    """Give where two answers differ, but for what is each one's own."""
    if theirs.status != ours.status:
        yield Difference("STATUS", theirs.status, ours.status)
        return
    for name in HEADERS:
        if theirs.headers.get(name) != ours.headers.get(name):
            yield Difference(name, theirs.headers.get(name), ours.headers.get(name))
    yield from _differences(theirs.body, ours.body, "")


def _differences(theirs: Any, ours: Any, path: str) -> Iterator[Difference]:
    if _kind(theirs) != _kind(ours):
        yield Difference(path, theirs, ours)
    elif isinstance(theirs, dict):
        for name in sorted({*theirs, *ours}):
            bare = name.removesuffix("_details")
            if bare in ERLANG:
                continue
            if name not in theirs or name not in ours:
                there = theirs.get(name, ABSENT), ours.get(name, ABSENT)
                yield Difference(f"{path}.{name}", *there)
            elif name in OWN or bare in MEASURED:
                if _kind(theirs[name]) != _kind(ours[name]):
                    yield Difference(f"{path}.{name}", theirs[name], ours[name])
            else:
                yield from _differences(theirs[name], ours[name], f"{path}.{name}")
    elif isinstance(theirs, list):
        if path in UNORDERED:
            theirs, ours = (sorted(found, key=_order) for found in (theirs, ours))
        if len(theirs) != len(ours):
            yield Difference(f"{path}[]", len(theirs), len(ours))
        for one, other in zip(theirs, ours, strict=False):
            yield from _differences(one, other, f"{path}[]")
    elif theirs != ours:
        yield Difference(path, theirs, ours)


def _order(one: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what something is known by."""
    names = ("user", "component", "vhost", "source", "destination", "routing_key", "name")
    return tuple(str(one.get(name)) for name in names)


def _kind(value: object) -> str:
    if isinstance(value, bool):
        return "bool"
    return "number" if isinstance(value, int | float) else type(value).__name__


def recorded(found: Sequence[Mapping[str, Any]]) -> list[Answer]:
    """Return recorded answers."""
    return [Answer(one["status"], one["headers"], one["body"]) for one in found]
