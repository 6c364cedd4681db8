"""A RocketMQ broker among machines with the same log: its slaves, or its master.

Each function makes one part out of settings; in a set a `Joined` says the epochs.
"""

from collections.abc import Callable, Sequence

from sprocket.base.clock import Clock
from sprocket.base.errors import SettingsError
from sprocket.node.broker_set import Joined
from sprocket.node.listening import inside
from sprocket.rocketmq.broker.broker import Broker
from sprocket.rocketmq.broker.delivery import ReplicaChoice
from sprocket.rocketmq.replication import (
    AcksByNumber,
    ClassicSpeech,
    EpochSpeech,
    FollowingLog,
    MasterLink,
    MemberLog,
    ReplicaLog,
    SlaveFrame,
    Slaves,
    TableVersions,
)
from sprocket.rocketmq.server.master import MasterPlaces
from sprocket.rocketmq.server.set_roles import HeardSpeech, SetAcks, replica_id
from sprocket.rocketmq.settings import ReplicationSettings, Settings
from sprocket.rocketmq.store.store import Store
from sprocket.runtime.cold_reads import Reads
from sprocket.runtime.driver import Peer
from sprocket.runtime.timers import Timers


def check_role(settings: Settings) -> None:
    """Refuse a number that does not fit the role, or a pair that cannot be.

    Raises:
        SettingsError: It says which setting to change.
    """
    own = settings.replication
    inside(own.networks, "replication.networks")
    if own.is_slave and not own.broker_id:
        raise SettingsError("replication.broker_id: 0 is the number of the master, not of a slave")
    if own.broker_id and not own.is_slave:
        raise SettingsError(
            f"replication.broker_id: {own.broker_id}: a master has 0 (replication.role)"
        )
    if own.acks_needed and not settings.lets_slaves_in:
        raise SettingsError(
            "replication.networks: where slaves may come from; without it none may come to a "
            "broker that has rights, as whoever is let in gets every message"
        )


def only_from(
    networks: Sequence[str], on_frame: Callable[[Peer, SlaveFrame], None]
) -> Callable[[Peer, SlaveFrame], None]:
    """Return what takes reports of slaves that come from some networks, or from anywhere."""
    if not networks:
        return on_frame
    is_inside = inside(networks, "replication.networks")

    def on_frame_from(peer: Peer, frame: SlaveFrame) -> None:
        if is_inside(peer.host):
            on_frame(peer, frame)
        else:
            peer.abort("a slave may not come from there, see replication.networks")

    return on_frame_from


def slaves_of(
    store: Store,
    reads: Reads,
    timers: Timers,
    clock: Clock,
    settings: ReplicationSettings,
    joined: Joined | None,
) -> Slaves:
    """Return what sends slaves the log; in a set it says and hears epochs."""
    if joined is None:
        counted = AcksByNumber(store, settings)
        return Slaves(store, reads, timers, clock, settings, ClassicSpeech(store), counted)
    seat = joined.seat
    spoken = EpochSpeech(store, joined.epochs.epochs, lambda: slaves.confirmed, seat.outrun)
    named = SetAcks(seat.needed(), seat.may_acknowledge)
    speech = HeardSpeech(spoken, seat.heard)
    slaves = Slaves(store, reads, timers, clock, settings, speech, named)
    if seat.needed().members:
        slaves.distrust()
    return slaves


def link_to_master(
    broker: Broker,
    settings: ReplicationSettings,
    joined: Joined | None,
    versions: TableVersions,
    master: MasterPlaces,
    retry_seconds: float,
) -> MasterLink:
    """Return what brings the log of the master."""
    return MasterLink(
        _replica(broker, settings, joined, versions),
        master.find,
        broker.place.clock,
        heartbeat_seconds=settings.heartbeat_seconds,
        silence_seconds=settings.silence_seconds,
        retry_seconds=retry_seconds,
    )


def _replica(
    broker: Broker, settings: ReplicationSettings, joined: Joined | None, versions: TableVersions
) -> FollowingLog:
    """Return the log of a slave, as it takes its master's; in a set it agrees by epochs."""
    store, append = broker.store, broker.durable.append_stored
    if joined is None:
        return ReplicaLog(store, append, to_disk=settings.ack == "disk")
    seat = joined.seat
    return MemberLog(
        store,
        append,
        joined.epochs,
        replica_id(seat.me()),
        to_disk=True,
        goes_on=lambda wanted: seat.must_cut(wanted.at),
        tables=versions,
    )


def choice_of(
    settings: ReplicationSettings, slaves: Slaves | None, link: MasterLink | None
) -> ReplicaChoice | None:
    """Return what says where consumers read on; None if nobody says so."""
    if not settings.slave_reads:
        return None
    if link is not None:
        return ReplicaChoice(is_slave=True, other_is_there=lambda: link.why is None)
    if slaves is not None:
        return ReplicaChoice(is_slave=False, other_is_there=lambda: slaves.count > 0)
    return None


def replica_rows(settings: Settings, address: str) -> Sequence[tuple[str, str]]:
    """Return what people are told of other machines with the same log.

    Args:
        settings: All groups.
        address: Where slaves may come to; empty if none may.
    """
    own = settings.replication
    if own.is_slave:
        where = own.master_address or "where the NameServers say that the master is"
        return [("slave", f"number {own.broker_id}, of {where}")]
    if not address:
        none = "none may come: with rights on, replication.networks says from where"
        return [("slaves", none)] if own.takes_slaves else []
    waits = f"{own.acks_needed} of them must have a message" if own.acks_needed else ""
    return [("slaves", f"may come to {address}{waits and '; '}{waits}")]
