"""Settings of the RabbitMQ column. `VhostGeometry` fixes files; the rest may change.

Each group is a frozen dataclass; a component is given its group and nothing else.
"""

from dataclasses import dataclass, field
from typing import Annotated, Literal

from msgspec import Meta

from sprocket.base.units import KIB, MIB
from sprocket.runtime.settings import ClientLimits, EncryptionSettings, ListenSettings


@dataclass(frozen=True, kw_only=True, slots=True)
class VhostGeometry:
    """What is written into the folder of a virtual host when it is created, and never changes."""

    segment_entries: Annotated[int, Meta(ge=1, le=16384)] = 2048
    """Messages of a segment of a queue's index; queue_index_segment_entry_count. A segment is
    removed when the last of them is acknowledged. An existing folder keeps its own value."""

    @staticmethod
    def small() -> "VhostGeometry":
        """Return settings with which a few messages fill a segment."""
        return VhostGeometry(segment_entries=4)


@dataclass(frozen=True, kw_only=True, slots=True)
class VhostStoreSettings:
    """How the messages of durable queues are kept."""

    embed_bytes_below: Annotated[int, Meta(ge=0, le=16 * MIB)] = 4096
    """A message whose body and properties have fewer bytes lies in the index of each queue that
    has it, a larger one once in the message store; queue_index_embed_msgs_below. With 0 all are
    in the message store."""
    store_file_bytes: Annotated[int, Meta(ge=1)] = 16 * MIB
    """The size from which on the message store begins its next file; msg_store_file_size_limit."""
    journal_records_max: Annotated[int, Meta(ge=1)] = 32768
    """After this many publishes, deliveries and acknowledgements those of a queue are flushed into
    its segments; queue_index_max_journal_entries. They are kept in memory until then."""
    flush_idle_ms: Annotated[int, Meta(ge=1)] = 1000
    """They are also flushed, however few they are, when a queue was idle for this time."""
    journal_bytes_max: Annotated[int, Meta(ge=1)] = 64 * MIB
    """When such messages of all queues of a virtual host take more than this in memory, those of
    the fullest queues are flushed into segments at once."""
    log_bytes_max: Annotated[int, Meta(ge=1)] = 256 * MIB
    """When the write-ahead log of a virtual host is larger, the queues that need its oldest file
    are flushed. The start after a crash reads the whole log."""
    log_file_bytes: Annotated[int, Meta(ge=1)] = 16 * MIB
    """The size from which on that log begins its next file."""

    delayed_bytes_max: Annotated[int, Meta(ge=1)] = 8 * MIB
    """When messages that exchanges of type x-delayed-message keep take more than this in memory,
    they are written into a file."""

    @staticmethod
    def small() -> "VhostStoreSettings":
        """Return settings that make files tiny and everything happen often."""
        return VhostStoreSettings(
            embed_bytes_below=200,
            store_file_bytes=2 * KIB,
            journal_records_max=12,
            flush_idle_ms=1000,
            journal_bytes_max=4 * KIB,
            log_bytes_max=8 * KIB,
            log_file_bytes=2 * KIB,
            delayed_bytes_max=2 * KIB,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class AmqpSettings:
    """Where AMQP 0-9-1 is served, and what its clients are offered."""

    port: Annotated[int, Meta(ge=0, le=65535)] = 5672
    """Port, plain and encrypted; 0 is any free one."""
    cluster: Annotated[str, Meta(min_length=1, max_length=127)] = "sprocket"
    """The name of the cluster that clients are told, until `PUT /api/cluster-name` changes it."""
    loopback_users: tuple[str, ...] = ("guest",)
    """Users that may log in from this machine only; loopback_users. `guest` has a password that
    everybody knows."""
    external_login: bool = False
    """Let clients with a certificate that `tls.trust_path` has signed log in as the user that it
    names, without a password (EXTERNAL); RabbitMQ's plugin rabbitmq_auth_mechanism_ssl. Some
    clients choose it whenever it is offered."""
    external_login_from: Literal["distinguished_name", "common_name"] = "distinguished_name"
    """Which part of a certificate is the user's name: all of its subject, such as `CN=bob,O=shop`,
    or the common name in it, `bob`; ssl_cert_login_from."""
    channel_count_max: Annotated[int, Meta(ge=1, le=65535)] = 2047
    """Channels of one connection; channel_max."""
    client_frame_bytes_max: Annotated[int, Meta(ge=4096, le=16 * MIB)] = 128 * KIB
    """Largest frame; frame_max."""
    heartbeat_seconds: Annotated[int, Meta(ge=0, le=65535)] = 60
    """How often each side has to send something, unless the client wants another interval;
    heartbeat. 0 means never."""
    body_bytes_max: Annotated[int, Meta(ge=1, le=512 * MIB)] = 128 * MIB
    """Largest body; max_message_size."""
    ack_timeout_seconds: Annotated[int, Meta(ge=1, le=31_536_000)] = 1800
    """A channel that has a message for longer without an acknowledgement is closed;
    consumer_timeout."""
    disk_free_bytes_min: Annotated[int, Meta(ge=0)] = 50 * MIB
    """While less of the disk is free, connections that publish are not read
    (connection.blocked); disk_free_limit. 0 means never."""
    memory_used_ratio_max: Annotated[float, Meta(ge=0, le=1)] = 0.4
    """While the process takes a larger part of the machine's memory, or of what its container or
    service may take, connections that publish are not read (connection.blocked);
    vm_memory_high_watermark. 0 means never."""
    definitions_path: str = ""
    """A file of definitions, as `rabbitmqctl export_definitions` writes one, that is imported at
    each start; load_definitions. Users, permissions and policies become what it says, the rest is
    added."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AmqpHttpSettings:
    """Where RabbitMQ's HTTP API is served, and metrics for Prometheus."""

    port: Annotated[int, Meta(ge=0, le=65535)] | Literal["auto", "off"] = "auto"
    """Port of the API; management.tcp.port. `auto` is 15672 where AMQP is on its usual port, else
    any free one, as 0 is; `off` serves none."""
    metrics_port: Annotated[int, Meta(ge=0, le=65535)] | Literal["auto", "off"] = "auto"
    """Port of `/metrics`, which needs no login; prometheus.tcp.port. `auto` is 15692 in the same
    way. The port of the API has sums without a login, and the rest for the tag `monitoring`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AmqpDurabilitySettings:
    """When a message is confirmed, and how much may be in memory."""

    confirm: Literal["sync", "async"] = "sync"
    """When a persistent message is confirmed: `sync` when it is on the disk, `async` when the
    operating system has it (a power failure may lose the last half second)."""
    confirm_wait_ms_max: Annotated[float, Meta(ge=0, le=100)] = 1.0
    """How long the event loop waits for a sync at most; it does not wait at all while syncs take
    longer on average. 0 means never."""
    confirm_timeout_ms: Annotated[int, Meta(ge=100, le=600_000)] = 5000
    """A message that is not on the disk after this time is answered with basic.nack."""
    unconfirmed_bytes_max: Annotated[int, Meta(ge=1)] = 256 * MIB
    """When half of this waits for a slow disk, connections that publish much are not read until it
    has caught up."""
    connection_unconfirmed_bytes_max: Annotated[int, Meta(ge=1)] = 4 * MIB
    """How much a connection may publish in that case before it waits."""
    held_bytes_max: Annotated[int, Meta(ge=1)] = 64 * MIB
    """Bodies of messages on the disk that the queues of a virtual host hold in memory as well, so
    that they need not be read for consumers."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AmqpNodeSettings:
    """All settings of a node that serves AMQP."""

    server: ListenSettings = field(default_factory=ListenSettings)
    limits: ClientLimits = field(default_factory=ClientLimits)
    tls: EncryptionSettings = field(default_factory=EncryptionSettings)
    amqp: AmqpSettings = field(default_factory=AmqpSettings)
    amqp_http: AmqpHttpSettings = field(default_factory=AmqpHttpSettings)
    amqp_durability: AmqpDurabilitySettings = field(default_factory=AmqpDurabilitySettings)
    vhost_store: VhostStoreSettings = field(default_factory=VhostStoreSettings)
    vhost_geometry: VhostGeometry = field(default_factory=VhostGeometry)
