"""Settings of the clients, each with its unit, its range and its cost.

Intervals and limits follow RocketMQ's `ClientConfig`, `DefaultMQProducer` and
`DefaultMQPushConsumer` where the field says nothing else.
"""

import os
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from msgspec import Meta

from sprocket.base.disk import RealDisk, read_file
from sprocket.base.errors import SettingsError, StoreError
from sprocket.base.units import KIB, MIB
from sprocket.rocketmq.model.internal import TRACE_TOPIC
from sprocket.rocketmq.model.rights import SessionCredentials
from sprocket.runtime.tls_files import client_context

Positive = Annotated[int, Meta(ge=1)]
Natural = Annotated[int, Meta(ge=0)]

PULL_MESSAGES = 1024
"""Messages asked for at once by who reads on and on: more than a broker gives, unless small."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ClientSettings:
    """What producers, consumers and admins share: connections, routes, heartbeats."""

    tls: ssl.SSLContext | None = None
    """Encrypts connections; None: they are not encrypted. `tls_context` makes one from files."""
    credentials: SessionCredentials | None = None
    """Who signs every request; None: nobody does. `credentials_if_given` reads some."""

    request_timeout_ms: Positive = 3_000
    """Wait this long for an answer if no other setting says how long."""
    connect_timeout_ms: Positive = 3_000
    """Give up a TCP connection attempt after this time."""
    reconnect_ms: Positive = 50
    """First pause before connecting again; doubles up to `reconnect_ms_max`."""
    reconnect_ms_max: Positive = 1_000
    """Longest pause between two attempts to connect."""
    route_refresh_ms: Positive = 30_000
    """Ask for the routes of all topics in use this often."""
    heartbeat_ms: Annotated[int, Meta(ge=1, le=60_000)] = 30_000
    """Send every broker a heartbeat this often; brokers forget clients after 120 s."""
    unit_name: Annotated[str, Meta(pattern=r"^[a-zA-Z0-9_-]*$")] = ""
    """Name of the unit, a part of an installation, that this client belongs to; becomes part of its
    id, so that operators can tell units apart."""


ACCESS_KEY, SECRET_KEY = "SPROCKET_ACCESS_KEY", "SPROCKET_SECRET_KEY"
SECURITY_TOKEN = "SPROCKET_SECURITY_TOKEN"  # noqa: S105 - the name of a variable
"""Variables of the environment that have credentials."""

_FILE_NAMES = ("accessKey", "secretKey", "securityToken")
_LINE = re.compile(r"""\s*([A-Za-z]+)\s*:\s*(?:"([^"]*)"|'([^']*)'|([^\s#'"][^#]*?))?\s*(?:#.*)?""")
"""`name: value`, the value perhaps in quotes."""


def credentials_if_given(
    access_key: str = "",
    secret_key: str = "",
    *,
    security_token: str = "",
    path: str = "",
    environment: Mapping[str, str] | None = None,
) -> SessionCredentials | None:
    """Return `ClientSettings.credentials` as options say them, or a file, or the environment.

    Args:
        access_key: The name of a user.
        secret_key: Its password.
        security_token: Sent with them, for servers that want one.
        path: A file with lines `accessKey: …` and `secretKey: …`, such as RocketMQ's `tools.yml`.
        environment: Looked at last: `SPROCKET_ACCESS_KEY`, `SPROCKET_SECRET_KEY` and
            `SPROCKET_SECURITY_TOKEN`; by default this process's.

    Raises:
        SettingsError: One of the two is missing, or the file cannot be read.
    """
    found: tuple[str, ...] = (access_key, secret_key, security_token)
    source = "the options"
    if not any(found) and path:
        found, source = _from_file(path), path
    if not any(found):
        given = os.environ if environment is None else environment
        found = tuple(given.get(name, "") for name in (ACCESS_KEY, SECRET_KEY, SECURITY_TOKEN))
        source = "the environment"
    name, secret, token = found
    if not any(found):
        return None
    if not name or not secret:
        raise SettingsError(f"{source}: an access key and a secret key go together")
    return SessionCredentials(name, secret, token or None)


def _from_file(path: str) -> tuple[str, ...]:
    try:
        lines = read_file(RealDisk(), os.path.expanduser(path)).decode().splitlines()
    except (StoreError, ValueError) as error:
        raise SettingsError(f"{path}: credentials cannot be read: {error}") from error
    found = dict.fromkeys(_FILE_NAMES, "")
    for line in lines:
        match = _LINE.fullmatch(line)
        if match is not None and match[1] in found:
            found[match[1]] = match[2] or match[3] or match[4] or ""
    if not found["accessKey"] or not found["secretKey"]:
        # The lines are not told: they have a secret.
        raise SettingsError(f"{path}: expected lines `accessKey: …` and `secretKey: …`")
    return tuple(found.values())


def tls_if_asked(
    tls: bool = False,
    *,
    trust_path: str = "",
    cert_path: str = "",
    key_path: str = "",
    key_password: str = "",
) -> ssl.SSLContext | None:
    """Return `ClientSettings.tls` as options say it: None where nothing asks for encryption.

    Args:
        tls: Encrypt; so does each of the files.
        trust_path: See `tls_context`, as for the others.
        cert_path: The client's own certificate.
        key_path: Its key.
        key_password: Of the key; alone it asks for nothing.

    Raises:
        SettingsError: A file cannot be used.
    """
    if not (tls or trust_path or cert_path or key_path):
        return None
    return client_context(
        trust_path=trust_path, cert_path=cert_path, key_path=key_path, key_password=key_password
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class ProducerSettings:
    """How messages are sent."""

    timeout_ms: Positive = 10_000
    """Deadline of a whole send with all its tries, unless the call has its own; set it longer than
    a broker may take to restart."""
    try_timeout_ms: Positive = 3_000
    """Longest wait for the answer to one try; then it is repeated."""
    tries_when_refused: Positive = 3
    """How often a message is tried that a broker refuses with a code that may be temporary, as it
    does while its disk is full; for lost connections, missing answers and busy brokers only
    `timeout_ms` counts."""
    unanswered_messages_max: Positive = 10_000
    """Messages accepted and not yet answered; beyond it senders wait."""
    unanswered_bytes_max: Positive = 64 * MIB
    """Bytes of bodies accepted and not yet answered; beyond it senders wait."""
    body_bytes_max: Positive = 4 * MIB
    """Refuse a longer body before sending; the broker has a limit too."""
    delay_level_max: Natural = 18
    """Refuse a higher delay level before sending, as a broker would use its highest instead. Set it
    higher for brokers whose `store.delay_levels` have more than 18."""
    compress_bytes_min: Positive = 4 * KIB
    """Bodies of this size or more are compressed."""
    compress_method: Literal["zlib", "lz4", "zstd"] = "zlib"
    """How they are compressed; consumers older than RocketMQ 5.0 know zlib only."""
    compress_level: Annotated[int, Meta(ge=1, le=9)] = 5
    """A higher level makes them smaller, and takes longer."""
    retry_when_not_ok: bool = False
    """Send again a message that a broker has stored, but without the flush or the replica it should
    have, to another broker if there is one; it may then be stored twice. Not for messages with a
    key."""
    avoid_slow_brokers: bool = False
    """For a while, send to a broker that was slow or did not answer only if there is no other: 2 s
    after an answer of 550 ms, up to 30 s after one of 15 s. Messages with a key always go to their
    queue."""
    probe_brokers: bool = False
    """With `avoid_slow_brokers`, ask a broker that failed whether it is back before it is used
    again."""
    probe_timeout_ms: Positive = 200
    """Longest wait for the answer to such a question."""
    probe_ms: Positive = 2_000
    """Ask a broker that did not answer again after this time."""
    batch_bytes_max: Positive = 128 * KIB
    """Sends to one ordered queue that wait for the one before them are sent together, in one
    request of at most this size."""
    topic_queues: Positive = 4
    """Queues of a topic that the broker creates at this client's first send."""
    trace: bool = False
    """Note what became of each message in `trace_topic`, where `sprocket msg trace` finds it; adds
    about 300 bytes to the log for each message, and no wait to a send."""
    trace_topic: str = TRACE_TOPIC
    """Where traces go."""
    telemetry: bool = True
    """Make a span of each send, in a program that has set a tracer provider of OpenTelemetry."""
    check_count_max: Annotated[int, Meta(ge=1, le=1000)] = 16
    """Calls of a `TransactionProducer`'s check that run at the same time."""
    check_timeout_ms: Positive = 15_000
    """Longest such call; then it is cancelled, and the broker is left to ask again."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ConsumerSettings:
    """How messages are pulled, handed to the listener, and marked as done."""

    batch_messages_max: Annotated[int, Meta(ge=1, le=1024)] = 32
    """Most messages in one call of the listener."""
    call_count_max: Annotated[int, Meta(ge=1, le=1000)] = 20
    """Calls of an `async` listener that run at the same time; an orderly consumer has one for each
    queue instead."""
    pull_messages_max: Annotated[int, Meta(ge=1, le=8192)] = PULL_MESSAGES
    """Most messages asked for at once; brokers may return fewer: RocketMQ's return 32, Sprocket's
    up to a MiB of them."""
    hold_ms: Annotated[int, Meta(ge=0, le=60_000)] = 15_000
    """How long the broker may hold a pull when it has nothing new."""
    pull_retry_ms: Positive = 1_000
    """Pause after a pull that failed."""
    cached_messages_max: Positive = 1_000
    """Stop pulling a queue with more messages than this not yet done."""
    cached_bytes_max: Positive = 100 * MIB
    """Stop pulling a queue with more bytes than this not yet done."""
    all_cached_messages_max: Positive | None = None
    """Limit for all queues of the consumer together: each queue may have an equal share of it, at
    least one message, if that is less than `cached_messages_max`."""
    all_cached_bytes_max: Positive | None = None
    """The same in bytes, for `cached_bytes_max`."""
    span_messages_max: Positive = 2_000
    """Stop pulling a queue whose oldest message not yet done is this many offsets back; limits what
    is delivered twice after a crash."""
    commit_ms: Positive = 5_000
    """Commit offsets this often; after a crash at most the messages of this time come again."""
    rebalance_ms: Positive = 20_000
    """Divide the queues again at least this often."""
    redeliver_ms: Positive = 5_000
    """Pause before the listener gets failed messages again, if the broker does not take them
    back."""
    retries_max: Natural | None = None
    """How often a message is delivered again before it is a dead letter; by default 16 times, and
    for an orderly consumer without end."""
    consume_timeout_ms: Annotated[int, Meta(ge=1_000)] = 900_000
    """Give messages back that the listener has had for so long, so that another consumer gets them;
    not done by orderly consumers, nor when broadcasting."""
    suspend_ms: Annotated[int, Meta(ge=10, le=30_000)] = 1_000
    """Pause of a queue of an orderly consumer after its listener failed."""
    lock_ms: Annotated[int, Meta(ge=1, le=29_000)] = 20_000
    """Renew the locks of an orderly consumer's queues this often; a lock that was not renewed for
    30 s is not trusted."""
    close_wait_ms: Natural = 10_000
    """At close, wait this long for listeners that are running."""
    trace: bool = False
    """Note when the listener got each message, how long it took and how it ended, in `trace_topic`;
    what is polled ends when the next messages are asked for."""
    trace_topic: str = TRACE_TOPIC
    """Where traces go."""
    telemetry: bool = True
    """Make a span of each call of the listener, in a program that has set a tracer provider of
    OpenTelemetry."""
    broadcast_folder: Annotated[str, Meta(min_length=1)] = "~/.rocketmq_offsets"
    """Where broadcasting consumers keep their offsets, each in a folder of its own; `~` is the
    user's home. Java's clients keep theirs there too."""
