"""`sprocket ha`: the machines that have the same log, over the wire."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sprocket.base.errors import SettingsError
from sprocket.cli.options import Yes
from sprocket.cli.remote.wire import Remote, over_the_wire
from sprocket.cli.terminal import CommandAnswer, answer, output

if TYPE_CHECKING:
    from sprocket.rocketmq.codec.bodies import ReplicaStatus, SetReplicas
    from sprocket.rocketmq.model.route import BrokerData

app = typer.Typer(no_args_is_help=True, help="Machines that have the same log.")

_Broker = Annotated[str, typer.Argument(help="Name of the broker.")]


@app.callback()
def ha() -> None:
    """Machines that have the same log."""


@app.command("status")
@over_the_wire
def show_status(
    remote: Remote,
    broker: Annotated[
        str | None, typer.Argument(help="Name of the broker; all by default.")
    ] = None,
) -> CommandAnswer:
    """Show masters and slaves: where the log of each ends, and whether a slave keeps up.

    Of brokers with failover also who is in sync, the epoch, and the last switch.
    """
    admin = remote.admin()
    known = admin.cluster().brokers
    names = sorted(known) if broker is None else [broker]
    rows: list[dict[str, Any]] = []
    for name in names:
        views = admin.failover.views(name)
        rows += rows_of(name, admin.broker.replicas(name), known, views)
    members = [name for row in rows for name in row]
    whole = [{name: row.get(name, "") for name in members} for row in rows]
    return answer.table(whole, spare=("switched_why", "switched_at_ms", "phase"))


@app.command("init")
@over_the_wire
def begin(
    remote: Remote,
    broker: _Broker,
    members: Annotated[
        list[int],
        typer.Argument(help="Numbers of the members that have all messages; mostly one."),
    ],
) -> CommandAnswer:
    """Begin a set: say which members may become its master. Others follow, and then may, too.

    Give one that has the log. Give several only if all are new.
    """
    remote.admin().failover.begin(broker, members)
    text = f"the set of {broker} has begun with {', '.join(map(str, members))}"
    return answer.sentence([{"broker": broker, "members": sorted(members)}], text)


@app.command("hand-over")
@over_the_wire
def hand_over(remote: Remote, broker: _Broker) -> CommandAnswer:
    """Have a slave that has everything become master: before the master's machine is stopped."""
    admin = remote.admin()
    before = admin.failover.master(broker)
    admin.failover.hand_over(broker)
    epoch = 0 if before is None else before.master_epoch
    return _switched(broker, admin.failover.next_master(broker, epoch))


@app.command("promote")
@over_the_wire
def promote(
    remote: Remote,
    broker: _Broker,
    member: Annotated[int, typer.Argument(help="Number of the member that is to be master.")],
    unclean: Annotated[
        bool,
        typer.Option(
            "--unclean",
            help="Also if it lacks messages that were acknowledged: they are lost. For when all "
            "others are lost, too.",
        ),
    ] = False,
    yes: Yes = False,
) -> CommandAnswer:
    """Have one member become master: one that is in sync, or with --unclean any."""
    admin = remote.admin()
    master = admin.failover.master(broker)
    if master is not None and master.master_broker_id == member:
        return _switched(broker, master)
    if master is not None:
        if member not in {one.broker_id for one in master.in_sync}:
            raise SettingsError(f"member {member} is not in sync, and there is a master")
        admin.failover.hand_over(broker, member)
    elif not unclean:
        raise SettingsError(
            "nobody is master: a member in sync becomes it by itself; --unclean takes another one"
        )
    elif yes or output.confirmed(f"Lose what was acknowledged and member {member} lacks?"):
        admin.failover.designate(broker, member)
    else:
        return answer.sentence([], "nothing is changed")
    epoch = 0 if master is None else master.master_epoch
    return _switched(broker, admin.failover.next_master(broker, epoch))


def _switched(broker: str, now: "SetReplicas") -> CommandAnswer:
    told = {"broker": broker, "master": now.master_broker_id, "epoch": now.master_epoch}
    text = f"member {now.master_broker_id} is master of {broker}, in epoch {now.master_epoch}"
    return answer.sentence([told], text)


@app.command("rejoin")
@over_the_wire
def rejoin(
    remote: Remote,
    folder: Annotated[str, typer.Argument(metavar="DIR", help="The slave's folder.")],
    broker: Annotated[str, typer.Argument(help="Name of the broker.")],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only tell what would be cut off.")
    ] = False,
) -> CommandAnswer:
    """Make the log of a stopped slave a beginning of its master's again, if it is not.

    It is cut behind the last record that both have. What comes off is saved in the folder `cut`.
    """
    from sprocket.base.disk import RealDisk
    from sprocket.base.errors import ForeignStore
    from sprocket.rocketmq.model.offsets import PhysicalOffset
    from sprocket.rocketmq.replication import common_end
    from sprocket.rocketmq.store.cutting import log_cut
    from sprocket.rocketmq.store.store import Store

    disk = RealDisk()
    if not disk.is_folder(folder):
        raise ForeignStore(f"{folder}: no such folder")
    admin = remote.admin()
    first = admin.broker.status(broker).log_min_offset
    store = Store.open_read_only(disk, folder)
    try:
        end = int(store.written)
        at = common_end(
            store, first, lambda place, stored: admin.broker.record(broker, place) == bytes(stored)
        )
        if at is None:
            at = int(store.first)  # it begins anew
        records = sum(1 for _ in store.records(PhysicalOffset(at)))
    finally:
        store.close()
    saved = ""
    if at < end and not dry_run:
        saved = f"{folder}/cut/{log_cut.cut(disk, folder, at).folder}"
    row = {
        "broker": broker,
        "log_end": end,
        "cut_at": at,
        "bytes": end - at,
        "records": records,
        "saved": saved,
    }
    return answer.table([row])


def rows_of(
    broker: str,
    found: Mapping[int, "ReplicaStatus"],
    known: Mapping[str, "BrokerData"],
    views: Mapping[int, "SetReplicas"],
) -> Iterator[dict[str, Any]]:
    """Give what each machine of a broker says, the master first."""
    master_end = max((one.log_end for one in found.values() if one.is_master), default=None)
    for broker_id, status in sorted(found.items()):
        yield {
            "broker": broker,
            "broker_id": broker_id,
            "address": known[broker].addresses[broker_id],
            "role": "master" if status.is_master else "slave",
            "log_end": status.log_end,
            "lag_bytes": 0 if master_end is None else max(0, master_end - status.log_end),
            "slaves": len(status.slaves),
            "in_sync": keeps_up(status),
            **_of_set(views.get(broker_id)),
        }


def _of_set(view: "SetReplicas | None") -> dict[str, Any]:
    """Return what a member says of its set; nothing if there is none."""
    if view is None or view.answered_by is None:
        return {}
    me = view.answered_by
    return {
        "member": me.broker_id,
        "phase": me.phase.lower(),
        "epoch": view.master_epoch,
        "in_sync": any(one.broker_id == me.broker_id for one in view.in_sync),
        "in_sync_set": ",".join(str(one.broker_id) for one in view.in_sync),
        "switched_at_ms": me.switched_at_ms,
        "switched_why": me.switched_why,
    }


def keeps_up(status: "ReplicaStatus") -> bool:
    """Say whether a slave is connected, or all slaves of a master follow closely."""
    if not status.is_master:
        return bool(status.master.is_connected)
    return all(one.is_in_sync for one in status.slaves)
