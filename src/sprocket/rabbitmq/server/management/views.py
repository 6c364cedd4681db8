"""Values of the broker as JSON objects, member by member as RabbitMQ has them.

Members are left out that are about Erlang's processes (`reductions`, `garbage_collection`), and
those which nobody here counts.
"""

from base64 import urlsafe_b64encode
from collections.abc import Mapping
from hashlib import sha256
from typing import Final
from urllib.parse import quote_plus

from sprocket.rabbitmq.broker.channels import ChannelState
from sprocket.rabbitmq.broker.queues import BrokerQueue, QueueConsumer
from sprocket.rabbitmq.broker.vhost_broker import VhostBroker
from sprocket.rabbitmq.codec import entities
from sprocket.rabbitmq.codec.amqp import tables
from sprocket.rabbitmq.codec.definitions import arguments_to_json
from sprocket.rabbitmq.codec.entities import Output, Row
from sprocket.rabbitmq.model.binding import Binding
from sprocket.rabbitmq.model.declared_queue import DeclaredQueue
from sprocket.rabbitmq.model.exchange import Exchange
from sprocket.rabbitmq.model.resource import ResourceKind
from sprocket.rabbitmq.server.management import measures
from sprocket.rabbitmq.server.management.requests import Json
from sprocket.rabbitmq.server.management.samples import Rates
from sprocket.rabbitmq.server.management.services import OpenChannel, connection_name
from sprocket.rabbitmq.server.vhost_connection import VhostConnection

_DIGEST_BYTES: Final = 6
"""Of the hash of a binding's arguments; a multiple of 3, so that base 64 needs no filling."""


def totals(ready: int, unacked: int) -> dict[str, int]:
    """Return how many messages there are."""
    return dict(zip(measures.LENGTHS, measures.lengths(ready, unacked), strict=True))


def queue_declaration(declared: DeclaredQueue, node: str) -> Row:
    """Return what a queue was declared as."""
    own = {"node": node, "type": declared.type, "state": "running"}
    return entities.QUEUE.row(declared, Output.API) | own


def queue(
    vhost: VhostBroker, declared: DeclaredQueue, found: BrokerQueue, node: str, rates: Rates
) -> Row:
    """Return a queue."""
    in_force = vhost.topology.in_force(ResourceKind.QUEUE, declared.name)
    kept = found.storage_depth()
    ready, unacked = found.ready_count, found.unacked_count
    consumers = found.consumers
    active = found.single_active_consumer
    view = queue_declaration(declared, node)
    view |= rates.counters(measures.QUEUE_LENGTHS, measures.lengths(ready, unacked), found)
    view |= {
        "consumers": len(consumers),
        "effective_policy_definition": dict(in_force.definition),
        "exclusive_consumer_tag": next((one.tag for one in consumers if one.is_exclusive), None),
        "head_message_timestamp": None,
        "message_bytes_persistent": kept.durable_bytes,
        "message_bytes_ready": kept.ready_bytes,
        "messages_paged_out": ready - kept.held_count,
        "messages_persistent": kept.durable_count,
        "messages_ram": kept.held_count + unacked,
        "messages_ready_ram": kept.held_count,
        "messages_unacknowledged_ram": unacked,
        "operator_policy": in_force.operator_policy,
        "policy": in_force.policy,
        "recoverable_slaves": None,
        "single_active_consumer_tag": None if active is None else active.tag,
    }
    if kept.transient_bytes is not None:
        size = kept.durable_bytes + kept.transient_bytes
        view["message_bytes"] = size
        view["message_bytes_unacknowledged"] = max(size - kept.ready_bytes, 0)
    counts = (found.published_count, *measures.deliveries(found.counts))
    if any(counts):
        view["message_stats"] = rates.counters(measures.QUEUE_STATS, counts, found)
    return view


def exchange(vhost: VhostBroker, one: Exchange, rates: Rates) -> Row:
    """Return an exchange."""
    view = entities.EXCHANGE.row(one, Output.API)
    counts = vhost.topology.find_exchange_counts(one.name)
    if counts is not None:
        told = rates.counters(measures.EXCHANGE_STATS, measures.exchange_row(counts), counts)
        if not counts.published_out:
            told = {name: value for name, value in told.items() if "out" not in name}
        view["message_stats"] = told
    policy = vhost.topology.in_force(ResourceKind.EXCHANGE, one.name).policy
    if policy is not None:
        view["policy"] = policy
    return view


def binding(one: Binding) -> Row:
    """Return a binding."""
    return entities.BINDING.row(one, Output.API) | {"properties_key": properties_key(one)}


def properties_key(one: Binding) -> str:
    """Return what a binding is called in a path: its key, and a hash of its arguments."""
    if not len(one.arguments):
        return _key_part(one.key) if one.key else "~"
    digest = sha256(tables.encode_table(one.arguments)).digest()[:_DIGEST_BYTES]
    return f"{_key_part(one.key)}~{urlsafe_b64encode(digest).decode()}"


def location(destination: str, key: str) -> str:
    """Return where a binding is, as seen from the bindings between its ends."""
    return f"{_key_part(destination)}/{_key_part(key).replace('%7E', '~')}"


def _key_part(key: str) -> str:
    return quote_plus(key, safe="-._", errors="surrogateescape").replace("~", "%7E")


def connection(connection: VhostConnection, node: str, rates: Rates) -> Row:
    """Return a connection."""
    session = connection.session
    peer = session.peer
    name = connection_name(connection)
    host, _, port = peer.local_address.rpartition(":")
    given = session.name
    view: Row = {
        "name": name,
        "node": node,
        "vhost": connection.vhost.name,
        "user": connection.user.name,
        "user_who_performed_action": connection.user.name,
        "auth_mechanism": session.mechanism,
        "channel_max": session.channel_max,
        "frame_max": session.frame_bytes_max,
        "timeout": session.heartbeat_seconds,
        "channels": connection.channel_count,
        "client_properties": arguments_to_json(session.client),
        "connected_at": connection.entered_at_ms,
        "host": host.strip("[]"),
        "port": int(port),
        "peer_host": peer.host,
        "peer_port": _port(peer.address),
        "protocol": "AMQP 0-9-1",
        "type": "network",
        "state": "blocked" if session.is_blocked else "running",
        "ssl": peer.is_encrypted,
        "recv_cnt": peer.read_count,
        "send_cnt": peer.written_count,
        "send_pend": peer.pending_bytes,
        **rates.counters(
            measures.CONNECTION_BYTES, measures.connection_row(connection), connection
        ),
        **dict.fromkeys(
            (
                "peer_cert_issuer",
                "peer_cert_subject",
                "peer_cert_validity",
                "ssl_cipher",
                "ssl_hash",
                "ssl_key_exchange",
                "ssl_protocol",
            )
        ),
    }
    if given:
        view["user_provided_name"] = given
    if peer.proxy_address:
        view["peer_claimed_by"] = peer.proxy_address
    return view


def tracked_connection(connection: VhostConnection, node: str) -> Json:
    """Return the short view of the connections of a user."""
    return {
        "name": connection_name(connection),
        "vhost": connection.vhost.name,
        "user": connection.user.name,
        "node": node,
    }


def channel(one: OpenChannel, node: str, rates: Rates) -> Row:
    """Return a channel."""
    state: ChannelState = one.channel.state()
    connection = one.connection
    view: Row = {
        "name": one.name,
        "number": one.number,
        "node": node,
        "vhost": connection.vhost.name,
        "user": connection.user.name,
        "user_who_performed_action": connection.user.name,
        "connection_details": connection_details(connection),
        "confirm": state.is_confirming,
        "transactional": state.is_transactional,
        "consumer_count": state.consumer_count,
        "prefetch_count": state.consumer_prefetch,
        "global_prefetch_count": state.channel_prefetch,
        "messages_unacknowledged": state.unacked_count,
        "messages_unconfirmed": state.unconfirmed_count,
        "messages_uncommitted": state.uncommitted_count,
        "acks_uncommitted": state.uncommitted_ack_count,
        "pending_raft_commands": 0,
        "state": "running",
    }
    published = measures.publishes(one.channel.published_counts)
    delivered = measures.deliveries(one.channel.delivery_counts)
    stats: Row = {}
    if any(published):
        stats |= rates.counters(measures.CHANNEL_PUBLISHES, published, one.channel)
    if any(delivered):
        stats |= rates.counters(measures.CHANNEL_DELIVERIES, delivered, one.channel)
    if stats:
        view["message_stats"] = stats
    return view


def connection_details(connection: VhostConnection) -> Json:
    """Return which connection something is of."""
    peer = connection.session.peer
    return {
        "name": connection_name(connection),
        "peer_host": peer.host,
        "peer_port": _port(peer.address),
    }


def consumer(one: QueueConsumer, of: OpenChannel | None, found: BrokerQueue, node: str) -> Row:
    """Return a consumer; one of the API itself has no channel."""
    active = found.single_active_consumer
    is_active = active is None or active is one
    return {
        "arguments": arguments_to_json(one.arguments),
        "ack_required": not one.no_ack,
        "active": is_active,
        "activity_status": "up" if active is None else "single_active" if is_active else "waiting",
        "channel_details": {} if of is None else _channel_details(of, node),
        "consumer_tag": one.tag,
        "exclusive": one.is_exclusive,
        "prefetch_count": one.prefetch,
        "queue": {"name": found.label, "vhost": found.name.vhost},
    }


def _channel_details(one: OpenChannel, node: str) -> Json:
    peer = one.connection.session.peer
    return {
        "connection_name": connection_name(one.connection),
        "name": one.name,
        "node": node,
        "number": one.number,
        "peer_host": peer.host,
        "peer_port": _port(peer.address),
        "user": one.connection.user.name,
    }


def without_nothing(view: Mapping[str, object]) -> Json:
    """Return an object as RabbitMQ shows a single connection: with empty texts for nothing."""
    return {name: "" if value is None else value for name, value in view.items()}


def _port(address: str) -> int:
    return int(address.rpartition(":")[2])
