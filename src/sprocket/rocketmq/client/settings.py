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
        Meta(description="Encrypts connections; None: none are. `tls_context` makes it of files."),
    ] = None

    request_timeout_ms: Annotated[
        int, Meta(ge=1, description="Wait this long for an answer that no other setting governs.")
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
            description="Tell every broker this often who we are; brokers forget us after 120 s.",
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
            description="Deadline of a whole send with all its tries, unless the call says another;"
            " set it longer than a broker may take to restart.",
        ),
    ] = 10_000
    try_timeout_ms: Annotated[
        int, Meta(ge=1, description="Longest wait for the answer to one try, then it is repeated.")
    ] = 3_000
    tries_when_refused: Annotated[
        int,
        Meta(
            ge=1,
            description="How often a message is tried that a broker refuses with a code that may"
            " pass; lost connections, missing answers and busy brokers count only towards"
            " `timeout_ms`.",
        ),
    ] = 3
    unanswered_messages_max: Annotated[
        int,
        Meta(ge=1, description="Messages accepted and not yet answered; beyond it senders wait."),
    ] = 10_000
    unanswered_bytes_max: Annotated[
        int, Meta(ge=1, description="Bytes of bodies accepted and not yet answered, likewise.")
    ] = 64 * MIB
    body_bytes_max: Annotated[
        int,
        Meta(ge=1, description="Refuse a longer body before sending; the broker has a limit too."),
    ] = 4 * MIB
    delay_level_max: Annotated[
        int,
        Meta(
            ge=0,
            description="Refuse a higher delay level before sending: a broker would take it for"
            " its highest. More for brokers whose `store.delay_levels` have more than 18.",
        ),
    ] = 18
    compress_bytes_min: Annotated[
        int, Meta(ge=1, description="Bodies from this size on are packed.")
    ] = 4 * KIB
    compress_method: Annotated[
        Literal["zlib", "lz4", "zstd"],
        Meta(
            description="How they are packed; consumers older than RocketMQ 5.0 know zlib only.",
        ),
    ] = "zlib"
    compress_level: Annotated[
        int, Meta(ge=1, le=9, description="Higher packs smaller and slower.")
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
            description="Send to brokers that answer late, or not at all, for a while only where"
            " there is no other: 2 s after an answer of 550 ms, up to 30 s after one of 15 s."
            " Messages with a key go where they belong all the same.",
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
            description="Sends to one ordered queue that wait for the one before them go on"
            " together in one request of at most this size.",
        ),
    ] = 128 * KIB
    topic_queues: Annotated[
        int,
        Meta(ge=1, description="Queues of a topic that the broker creates by our first send."),
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
            description="Calls of an `async` listener under way at once; an orderly consumer has"
            " one for each queue instead.",
        ),
    ] = 20
    pull_messages_max: Annotated[
        int,
        Meta(
            ge=1,
            le=8192,
            description="Most messages asked for at once; brokers may give less: RocketMQ's give"
            " 32, Sprocket's a MiB of them.",
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
            description="Share of each queue in so many messages, at least one, where that is less"
            " than `cached_messages_max`; bounds what the consumer has of all its queues.",
        ),
    ] = None
    all_cached_bytes_max: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Meta(description="The same in bytes, beside `cached_bytes_max`."),
    ] = None
    span_messages_max: Annotated[
        int,
        Meta(
            ge=1,
            description="Stop pulling a queue whose oldest message not yet done lies this many"
            " offsets back; bounds what is delivered twice after a crash.",
        ),
    ] = 2_000
    commit_ms: Annotated[
        int,
        Meta(ge=1, description="Store offsets this often; a crash repeats at most that much."),
    ] = 5_000
    rebalance_ms: Annotated[
        int, Meta(ge=1, description="Share out the queues anew at least this often.")
    ] = 20_000
    redeliver_ms: Annotated[
        int,
        Meta(
            ge=1,
            description="Pause before messages whose listener failed are handed out again, where"
            " the broker does not take them back.",
        ),
    ] = 5_000
    retries_max: Annotated[
        Annotated[int, Meta(ge=0)] | None,
        Meta(
            description="How often a message is delivered again before it goes to the dead"
            " letters; by default 16 times, and by an orderly consumer without end.",
        ),
    ] = None
    consume_timeout_ms: Annotated[
        int,
        Meta(
            ge=1_000,
            description="Give messages back that the listener has had for so long, for delivery"
            " to another; not done by orderly consumers, nor when broadcasting.",
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
        Meta(ge=0, description="At close, wait this long for listeners that are at work."),
    ] = 10_000
    broadcast_folder: Annotated[
        str,
        Meta(
            min_length=1,
            description="Where consumers that broadcast keep their offsets, each in a folder of"
            " its own; `~` is the user's home. Java's clients have theirs there too.",
        ),
    ] = "~/.rocketmq_offsets"
