"""`sprocket cluster`: brokers, what they are doing, and their settings, over the wire."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sprocket.base.errors import SettingsError
from sprocket.base.nearest import hint
from sprocket.cli.remote.wire import Remote, over_the_wire
from sprocket.cli.terminal import CommandAnswer, answer, output, tables

if TYPE_CHECKING:
    from sprocket.rocketmq.client.blocking import Admin

app = typer.Typer(no_args_is_help=True, help="Brokers of a running cluster, and their settings.")

_SPARE = (
    *("address", "version", "in_per_second", "out_per_second", "disk_used_percent"),
    *("in_today", "out_today", "booted_at_ms"),
)
"""What people can do without where a line is short; the last one goes first."""

Broker = Annotated[
    str | None, typer.Argument(help="Name of the broker; needed if there are several.")
]


@app.command("ls")
@over_the_wire
def list_brokers(remote: Remote) -> CommandAnswer:
    """List the brokers: address, version, messages a second and today, why one stores none."""
    admin = remote.admin()
    return answer.table([broker_row(admin, one) for one in masters(admin)], spare=_SPARE)


@app.command("status")
@over_the_wire
def show_status(remote: Remote, broker: Broker = None) -> CommandAnswer:
    """Show everything that a broker reports of itself."""
    admin = remote.admin()
    name = the_broker(admin, broker)
    return _values(name, dict(sorted(admin.broker.status(name).values.items())))


@app.command("config")
@over_the_wire
def show_config(
    remote: Remote,
    broker: Broker = None,
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Change one; may be repeated."),
    ] = None,
) -> CommandAnswer:
    """Show a broker's settings under RocketMQ's names, or change some while it runs."""
    admin = remote.admin()
    name = the_broker(admin, broker)
    wanted = output.pairs(changes or [], "setting")
    return _values(
        name, change_config(admin, name, wanted) if wanted else admin.broker.config(name)
    )


def _values(broker: str, values: Mapping[str, str]) -> CommandAnswer:
    """Answer with what a broker reports, by name."""
    return CommandAnswer(
        [{"broker": broker, **values}], lambda: tables.write_fields(broker, values)
    )


def change_config(admin: "Admin", broker: str, wanted: Mapping[str, str]) -> dict[str, str]:
    """Change settings of a broker; return them as they are then.

    Raises:
        SettingsError: There is no such setting, or the broker kept the value that it had.
    """
    known = admin.broker.config(broker)
    for name in wanted.keys() - known.keys():
        raise SettingsError(f"broker {broker} has no setting {name}{hint(name, known)}")
    admin.broker.update_config(broker, wanted)
    values = admin.broker.config(broker)
    for name, value in wanted.items():
        if values[name] != value:
            raise SettingsError(
                f"broker {broker} keeps {name}={values[name]}: it cannot be changed to {value} "
                "while it runs"
            )
    return {name: values[name] for name in wanted}


@dataclass(frozen=True, slots=True)
class MasterBroker:
    """Where a master is."""

    cluster: str
    name: str
    address: str


def masters(admin: "Admin") -> list[MasterBroker]:
    """Return every master, in the order of their names."""
    info = admin.cluster()
    clusters = {name: cluster for cluster, names in info.clusters.items() for name in names}
    return [
        MasterBroker(clusters.get(one.name, "–"), one.name, one.addresses[0])
        for one in sorted(info.brokers.values(), key=lambda one: one.name)
        if 0 in one.addresses
    ]


def the_broker(admin: "Admin", name: str | None) -> str:
    """Return the broker that is meant.

    Raises:
        SettingsError: None was named, and there is not exactly one.
    """
    if name is not None:
        return name
    names = [one.name for one in masters(admin)]
    if len(names) != 1:
        raise SettingsError(f"name one of the brokers {', '.join(names) or '(there are none)'}")
    return names[0]


def broker_row(admin: "Admin", broker: MasterBroker) -> dict[str, Any]:
    """What `ls` says of a broker."""
    status = admin.broker.status(broker.name)
    return {
        "cluster": broker.cluster,
        "broker": broker.name,
        "address": broker.address,
        "version": status.version,
        "in_per_second": round(status.put_tps[0], 1) if status.put_tps else 0.0,
        "out_per_second": round(status.get_tps[0], 1) if status.get_tps else 0.0,
        "in_today": status.put_today,
        "out_today": status.get_today,
        "disk_used_percent": round(100 * status.disk_used_ratio),
        "booted_at_ms": status.boot_at_ms,
        "refusal": status.refusal,
    }
