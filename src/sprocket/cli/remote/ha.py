"""`sprocket ha`: the machines that have the same log, over the wire."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sprocket.base.errors import SettingsError
from sprocket.cli.options import Yes
from sprocket.cli.remote.wire import Remote, over_the_wire
from sprocket.cli.terminal import CommandAnswer, answer, output

if TYPE_CHECKING:
    from sprocket.rocketmq.client.blocking import Admin
    from sprocket.rocketmq.codec.bodies import ReplicaStatus, SetReplicas, SlaveStatus
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
    check: Annotated[
        bool,
        typer.Option(
            "--check", help="Exit with 1 unless each broker has a slave, and all are in sync."
        ),
    ] = False,
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
    found = answer.table(whole, spare=("switched_why", "switched_at_ms", "phase"))
    return replace(found, code=1) if check and not are_in_sync(rows) else found


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
    """Have one member become master: one that is in sync, or with --unclean any.

    Where nobody decides but you, it is also how a master goes on without the others, and how one of
    these takes over from a master that does not answer.
    """
    admin = remote.admin()
    views = admin.failover.views(broker)
    if any(one.answered_by and one.answered_by.is_by_operator for one in views.values()):
        return _said(admin, broker, member, views, unclean=unclean, yes=yes)
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


def _said(
    admin: "Admin",
    broker: str,
    member: int,
    views: "Mapping[int, SetReplicas]",
    *,
    unclean: bool,
    yes: bool,
) -> CommandAnswer:
    """Do as an operator says where nobody else decides.

    Args:
        admin: The cluster.
        broker: Name of the broker.
        member: Who is to be master.
        views: What each member says that answers.
        unclean: See `promote`.
        yes: Whether nothing is to be confirmed.
    """
    own = {one.answered_by.broker_id: one for one in views.values() if one.answered_by}
    found = promotion(member, own, unclean=unclean)
    epoch = max(one.master_epoch for one in own.values())
    if found.is_done:
        return _switched(broker, own[member])
    if found.hands_over:
        admin.failover.hand_over(broker, member)
    elif yes or output.confirmed(found.question):
        admin.failover.designate(broker, member)
    else:
        return answer.sentence([], "nothing is changed")
    return _switched(broker, admin.failover.next_master(broker, epoch))


@dataclass(frozen=True, kw_only=True, slots=True)
class Promotion:
    """What it takes to have a member be master on an operator's word.

    Attributes:
        question: What the operator takes upon themselves.
        hands_over: There is a master that can give up by itself: nothing is to be confirmed.
        is_done: It is the master, and waits for nobody else.
    """

    question: str = ""
    hands_over: bool = False
    is_done: bool = False


def promotion(member: int, own: "Mapping[int, SetReplicas]", *, unclean: bool) -> Promotion:
    """Return what it takes to have a member be master.

    Args:
        member: Its number.
        own: What each member says that answers, by its number.
        unclean: Whether it may lack what was acknowledged.

    Raises:
        SettingsError: It cannot be, or not so.
    """
    if member not in own:
        raise SettingsError(f"member {member} does not answer")
    known = max(own.values(), key=lambda one: one.master_epoch)
    in_sync = {one.broker_id for one in known.in_sync}
    leads = {number for number, one in own.items() if _is_master(one)}
    if leads - {member} and member not in in_sync:
        raise SettingsError(f"member {member} is not in sync, and there is a master")
    if leads - {member}:
        return Promotion(hands_over=True)
    if member in leads and in_sync == {member}:
        return Promotion(is_done=True)
    if member in leads:
        return Promotion(
            question=f"Acknowledge what member {member} alone has, until others are in sync again?"
        )
    if member not in in_sync and not unclean:
        raise SettingsError(f"member {member} is not in sync; --unclean takes it all the same")
    if member not in in_sync:
        return Promotion(question=f"Lose what was acknowledged and member {member} lacks?")
    absent = ", ".join(str(one) for one in sorted(in_sync - own.keys()))
    if not absent:
        return Promotion(question=f"Have member {member} be master, alone in sync at first?")
    return Promotion(
        question=f"Member {absent} does not answer. What it has acknowledged alone, if it was told "
        "to go on without others, is lost. Go on?"
    )


def _is_master(view: "SetReplicas") -> bool:
    """Say whether the member that answered is master."""
    return view.answered_by is not None and view.answered_by.phase == "MASTER"


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
    slaves = [one for each in found.values() if each.is_master for one in each.slaves]
    for broker_id, status in sorted(found.items()):
        yield {
            "broker": broker,
            "broker_id": broker_id,
            "address": known[broker].addresses[broker_id],
            "role": "master" if status.is_master else "slave",
            "log_end": status.log_end,
            "lag_bytes": 0 if master_end is None else max(0, master_end - status.log_end),
            "lag_ms": None if status.is_master else lag_ms(slaves, broker_id),
            "slaves": len(status.slaves),
            "in_sync": keeps_up(status),
            **_of_set(views.get(broker_id)),
        }


def lag_ms(slaves: "Sequence[SlaveStatus]", broker_id: int) -> int | None:
    """Return for how long a slave has lacked what it lacks, as its master says; None if unknown.

    One that does not say who it is, is known where it is the only one.
    """
    for one in slaves:
        if one.broker_id == broker_id or (len(slaves) == 1 and not one.broker_id):
            return one.lag_ms
    return None


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


def are_in_sync(rows: Sequence[Mapping[str, Any]]) -> bool:
    """Say whether each broker of some rows has a slave, and all machines are in sync."""
    slaves = {row["broker"] for row in rows if row["role"] == "slave"}
    masters = {row["broker"] for row in rows if row["role"] == "master"}
    return bool(rows) and slaves == masters and all(row["in_sync"] for row in rows)


def keeps_up(status: "ReplicaStatus") -> bool:
    """Say whether a slave is connected, or all slaves of a master follow closely."""
    if not status.is_master:
        return bool(status.master.is_connected)
    return all(one.is_in_sync for one in status.slaves)
