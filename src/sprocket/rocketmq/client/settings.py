"""Settings of the clients, each with its unit, its range and its cost.

Intervals and limits follow RocketMQ's `ClientConfig`, `DefaultMQProducer` and
`DefaultMQPushConsumer` where the field says nothing else.
"""

import ssl
from dataclasses import dataclass
from typing import Annotated, Literal

from msgspec import Meta

from sprocket.base.units import KIB, MIB

PULL_MESSAGES = 1024
"""Messages asked for at once by who reads on and on: more than a broker gives, unless small."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ClientSettings:
    """What producers, consumers and admins share: connections, routes, heartbeats."""

    tls: Annotated[
        ssl.SSLContext | None,
        Meta(
            description="Encrypts connections; None: they are not encrypted. `tls_context` makes "
            "one from files."
        ),
    ] = None

    request_timeout_ms: Annotated[
        int,
        Meta(ge=1, description="Wait this long for an answer if no other setting says how long."),
    ] = 3_000
    connect_timeout_ms: Annotated[
        int, Meta(ge=1, description="Give up a TCP connection attempt after this time.")
    ] = 3_000
    reconnect_ms: Annotated[
        int,
        Meta(
            ge=1,
            description="First pause before connecting again; doubles up to `reconnect_ms_max`.",
        ),
    ] = 50
    reconnect_ms_max: Annotated[
        int, Meta(ge=1, description="Longest pause between two attempts to connect.")
    ] = 1_000
    route_refresh_ms: Annotated[
        int,
        Meta(ge=1, description="Ask for the routes of all topics in use this often."),
    ] = 30_000
    heartbeat_ms: Annotated[
        int,
        Meta(
            ge=1,
            le=60_000,
            description="Send every broker a heartbeat this often; brokers forget clients after "
            "120 s.",
        ),
    ] = 30_000
    unit_name: Annotated[
        str,
        Meta(
            pattern=r"^[a-zA-Z0-9_-]*$",
            description="Name of the unit, a part of an installation, that this client belongs to;"
            " becomes part of its id, so that operators can tell units apart.",
        ),
    ] = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class ProducerSettings:
    """How messages are sent."""

    timeout_ms: Annotated[
        int,
        Meta(
            ge=1,
            description="Deadline of a whole send with all its tries, unless the call has its "
            "own; set it longer than a broker may take to restart.",
        ),
    ] = 10_000
    try_timeout_ms: Annotated[
        int, Meta(ge=1, description="Longest wait for the answer to one try; then it is repeated.")
    ] = 3_000
    tries_when_refused: Annotated[
        int,
        Meta(
            ge=1,
            description="How often a message is tried that a broker refuses with a code that may "
            "be temporary; for lost connections, missing answers and busy brokers "
            "only `timeout_ms` counts.",
        ),
    ] = 3
    unanswered_messages_max: Annotated[
        int,
        Meta(ge=1, description="Messages accepted and not yet answered; beyond it senders wait."),
    ] = 10_000
    unanswered_bytes_max: Annotated[
        int,
        Meta(
            ge=1,
            description="Bytes of bodies accepted and not yet answered; beyond it senders wait.",
        ),
    ] = 64 * MIB
    body_bytes_max: Annotated[
        int,
        Meta(ge=1, description="Refuse a longer body before sending; the broker has a limit too."),
    ] = 4 * MIB
    delay_level_max: Annotated[
        int,
        Meta(
            ge=0,
            description="Refuse a higher delay level before sending, as a broker would use its "
            "highest instead. Set it higher for brokers whose `store.delay_levels` "
            "have more than 18.",
        ),
    ] = 18
    compress_bytes_min: Annotated[
        int, Meta(ge=1, description="Bodies of this size or more are compressed.")
    ] = 4 * KIB
    compress_method: Annotated[
        Literal["zlib", "lz4", "zstd"],
        Meta(
            description="How they are compressed; consumers older than RocketMQ 5.0 know zlib "
            "only.",
        ),
    ] = "zlib"
    compress_level: Annotated[
        int, Meta(ge=1, le=9, description="A higher level makes them smaller, and takes longer.")
    ] = 5
    retry_when_not_ok: Annotated[
        bool,
        Meta(
            description="Send again a message that a broker has stored, but without the flush or"
            " the replica it should have, to another broker if there is one; it may then be stored"
            " twice. Not for messages with a key.",
        ),
    ] = False
    avoid_slow_brokers: Annotated[
        bool,
        Meta(
            description="For a while, send to a broker that was slow or did not answer only if "
            "there is no other: 2 s after an answer of 550 ms, up to 30 s after one "
            "of 15 s. Messages with a key always go to their queue.",
        ),
    ] = False
    probe_brokers: Annotated[
        bool,
        Meta(
            description="With `avoid_slow_brokers`, ask a broker that failed whether it is back"
            " before it is used again.",
        ),
    ] = False
    probe_timeout_ms: Annotated[
        int, Meta(ge=1, description="Longest wait for the answer to such a question.")
    ] = 200
    probe_ms: Annotated[
        int, Meta(ge=1, description="Ask a broker that did not answer again after this time.")
    ] = 2_000
    batch_bytes_max: Annotated[
        int,
        Meta(
            ge=1,
            description="Sends to one ordered queue that wait for the one before them are sent "
            "together, in one request of at most this size.",
        ),
    ] = 128 * KIB
    topic_queues: Annotated[
        int,
        Meta(
            ge=1,
            description="Queues of a topic that the broker creates at this client's first send.",
        ),
    ] = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class ConsumerSettings:
    """How messages are pulled, handed to the listener, and marked as done."""

    batch_messages_max: Annotated[
        int,
        Meta(ge=1, le=1024, description="Most messages in one call of the listener."),
    ] = 32
    call_count_max: Annotated[
        int,
        Meta(
            ge=1,
            le=1000,
            description="Calls of an `async` listener that run at the same time; an orderly "
            "consumer has one for each queue instead.",
        ),
    ] = 20
    pull_messages_max: Annotated[
        int,
        Meta(
            ge=1,
            le=8192,
            description="Most messages asked for at once; brokers may return fewer: RocketMQ's "
            "return 32, Sprocket's up to a MiB of them.",
        ),
    ] = PULL_MESSAGES
    hold_ms: Annotated[
        int,
        Meta(
            ge=0,
            le=60_000,
            description="How long the broker may hold a pull when it has nothing new.",
        ),
    ] = 15_000
    pull_retry_ms: Annotated[int, Meta(ge=1, description="Pause after a pull that failed.")] = 1_000
    cached_messages_max: Annotated[
        int,
        Meta(ge=1, description="Stop pulling a queue with more messages than this not yet done."),
    ] = 1_000
    cached_bytes_max: Annotated[
        int, Meta(ge=1, description="Stop pulling a queue with more bytes than this not yet done.")
    ] = 100 * MIB
    all_cached_messages_max: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Meta(
            description="Limit for all queues of the consumer together: each queue may have an "
            "equal share of it, at least one message, if that is less than "
            "`cached_messages_max`.",
        ),
    ] = None
    all_cached_bytes_max: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Meta(description="The same in bytes, for `cached_bytes_max`."),
    ] = None
    span_messages_max: Annotated[
        int,
        Meta(
            ge=1,
            description="Stop pulling a queue whose oldest message not yet done is this many "
            "offsets back; limits what is delivered twice after a crash.",
        ),
    ] = 2_000
    commit_ms: Annotated[
        int,
        Meta(
            ge=1,
            description="Commit offsets this often; after a crash at most the messages of this "
            "time come again.",
        ),
    ] = 5_000
    rebalance_ms: Annotated[
        int, Meta(ge=1, description="Divide the queues again at least this often.")
    ] = 20_000
    redeliver_ms: Annotated[
        int,
        Meta(
            ge=1,
            description="Pause before the listener gets failed messages again, if the broker does "
            "not take them back.",
        ),
    ] = 5_000
    retries_max: Annotated[
        Annotated[int, Meta(ge=0)] | None,
        Meta(
            description="How often a message is delivered again before it is a dead letter; by "
            "default 16 times, and for an orderly consumer without end.",
        ),
    ] = None
    consume_timeout_ms: Annotated[
        int,
        Meta(
            ge=1_000,
            description="Give messages back that the listener has had for so long, so that "
            "another consumer gets them; not done by orderly consumers, nor when "
            "broadcasting.",
        ),
    ] = 900_000
    suspend_ms: Annotated[
        int,
        Meta(
            ge=10,
            le=30_000,
            description="Pause of a queue of an orderly consumer after its listener failed.",
        ),
    ] = 1_000
    lock_ms: Annotated[
        int,
        Meta(
            ge=1,
            le=29_000,
            description="Renew the locks of an orderly consumer's queues this often; a lock that"
            " was not renewed for 30 s is not trusted.",
        ),
    ] = 20_000
    close_wait_ms: Annotated[
        int,
        Meta(ge=0, description="At close, wait this long for listeners that are running."),
    ] = 10_000
    broadcast_folder: Annotated[
        str,
        Meta(
            min_length=1,
            description="Where broadcasting consumers keep their offsets, each in a folder of its "
            "own; `~` is the user's home. Java's clients keep theirs there too.",
        ),
    ] = "~/.rocketmq_offsets"
