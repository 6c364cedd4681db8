"""How slaves keep up, and how this one follows its master: request 907."""

from sprocket.rocketmq.codec.bodies import MasterStatus, ReplicaStatus, SlaveStatus
from sprocket.rocketmq.replication import MasterLink, Slaves
from sprocket.rocketmq.store.store import Store


def replica_status(store: Store, slaves: Slaves | None, link: MasterLink | None) -> ReplicaStatus:
    """Return how the machines with the same log are doing, as far as this one knows.

    Args:
        store: Of this broker.
        slaves: Those of a master that takes some.
        link: A slave's.
    """
    if link is not None:
        return ReplicaStatus(
            log_end=store.written,
            is_master=False,
            master=MasterStatus(
                address=link.master,
                log_end=store.written,
                heard_at_ms=link.heard_at_ms,
                reported_at_ms=link.reported_at_ms,
                is_connected=link.why is None,
            ),
        )
    if slaves is None:
        return ReplicaStatus(log_end=store.end, is_master=True)
    in_sync = slaves.in_sync()
    return ReplicaStatus(
        log_end=store.written,
        is_master=True,
        slaves=[
            SlaveStatus(
                address=one.address,
                acknowledged_offset=one.acknowledged,
                lag_bytes=store.written - one.acknowledged,
                is_in_sync=one in in_sync,
                transfer_offset=one.place,
                lag_ms=slaves.lag_ms(one),
                broker_id=0 if one.replica_id is None else one.replica_id.broker_id,
            )
            for one in slaves.all
        ],
    )
