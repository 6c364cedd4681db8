"""`sprocket user`: users of a broker, and what they may do, over RocketMQ's protocol."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sprocket.base.errors import SettingsError
from sprocket.cli.options import BrokerName, Yes
from sprocket.cli.remote.wire import Remote, over_the_wire
from sprocket.cli.terminal import CommandAnswer, answer, asked_password, output

if TYPE_CHECKING:
    from sprocket.rocketmq.model.rights import Acl, AclUser, PolicyEntry

app = typer.Typer(
    no_args_is_help=True,
    help="Users of a running broker that RocketMQ's clients sign as, and what they may do.",
)

UserPassword = Annotated[
    str | None,
    typer.Option(
        "--new-password",
        help="Their password; asked for if it is not given.",
        envvar="SPROCKET_NEW_PASSWORD",
    ),
]
UserName = Annotated[str, typer.Argument(help="Name of the user.")]
ResourceText = Annotated[
    str,
    typer.Argument(
        metavar="RESOURCE", help="Such as Topic:orders, Topic:orders*, Group:*, Cluster:*, or *."
    ),
]
IsDefault = Annotated[
    bool,
    typer.Option("--default", help="In the policy that counts where the other says nothing."),
]


@app.command("ls")
@over_the_wire
def list_users(
    remote: Remote,
    part: Annotated[str, typer.Argument(help="Only names with this text.")] = "",
    broker: BrokerName = None,
) -> CommandAnswer:
    """List the users of each broker."""
    found = remote.admin().rights.users(part, broker=broker)
    return answer.table([user_row(name, user) for name, users in found.items() for user in users])


@app.command("create")
@over_the_wire
def create_user(
    remote: Remote,
    name: UserName,
    new_password: UserPassword = None,
    is_super: Annotated[bool, typer.Option("--super", help="May do everything.")] = False,
    broker: BrokerName = None,
) -> CommandAnswer:
    """Create a user on every broker; one that is there already is refused."""
    secret = asked_password(name) if new_password is None else new_password
    admin = remote.admin()
    admin.rights.create_user(name, secret, is_super=is_super, broker=broker)
    more = "" if is_super else "; `sprocket user allow` lets them do something"
    found = admin.rights.users(name, broker=broker)
    return answer.sentence(of_user(found, name), f"user {name} is there{more}")


@app.command("passwd")
@over_the_wire
def change_password(
    remote: Remote, name: UserName, new_password: UserPassword = None, broker: BrokerName = None
) -> CommandAnswer:
    """Give a user another password; what is signed with the old one is refused from now on."""
    secret = asked_password(name) if new_password is None else new_password
    admin = remote.admin()
    admin.rights.update_user(name, password=secret, broker=broker)
    found = admin.rights.users(name, broker=broker)
    return answer.sentence(of_user(found, name), f"user {name} has another password")


@app.command("set")
@over_the_wire
def set_user(
    remote: Remote,
    name: UserName,
    is_super: Annotated[
        bool | None, typer.Option("--super/--normal", help="May do everything, or what is allowed.")
    ] = None,
    is_enabled: Annotated[
        bool | None, typer.Option("--enable/--disable", help="May log in, or not.")
    ] = None,
    broker: BrokerName = None,
) -> CommandAnswer:
    """Change what a user is."""
    if is_super is None and is_enabled is None:
        raise SettingsError("say --super, --normal, --enable or --disable")
    admin = remote.admin()
    admin.rights.update_user(name, is_super=is_super, is_enabled=is_enabled, broker=broker)
    found = admin.rights.users(name, broker=broker)
    return answer.sentence(of_user(found, name), f"user {name} is changed")


@app.command("delete")
@over_the_wire
def delete_user(
    remote: Remote, name: UserName, yes: Yes = False, broker: BrokerName = None
) -> CommandAnswer:
    """Delete a user and all that was allowed to them."""
    admin = remote.admin()
    if not of_user(admin.rights.users(name, broker=broker), name):
        raise SettingsError(f"there is no user {name}")
    deleted = yes or output.confirmed(f"Delete user {name} and their policies?")
    if deleted:
        admin.rights.delete_user(name, broker=broker)
    done = "deleted" if deleted else "kept"
    return answer.sentence([{"user": name, "deleted": deleted}], f"user {name} is {done}")


@app.command("rights")
@over_the_wire
def list_rights(
    remote: Remote,
    name: Annotated[str, typer.Argument(help="Only users with this text in their names.")] = "",
    resource: Annotated[str, typer.Option(help="Only resources with this text.")] = "",
    broker: BrokerName = None,
) -> CommandAnswer:
    """List what users may do, entry by entry."""
    found = remote.admin().rights.policies(name, resource, broker=broker)
    return answer.table(list(policy_rows(found)))


@app.command("allow")
@over_the_wire
def allow(
    remote: Remote,
    name: UserName,
    resource: ResourceText,
    action: Annotated[
        list[str],
        typer.Argument(help="All, or some of Pub, Sub, Create, Update, Delete, Get, List."),
    ],
    source: Annotated[
        list[str] | None,
        typer.Option(help="Only from this address or network; may be repeated."),
    ] = None,
    deny: Annotated[bool, typer.Option("--deny", help="Deny them instead.")] = False,
    is_default: IsDefault = False,
    broker: BrokerName = None,
) -> CommandAnswer:
    """Allow a user to do something; takes the place of what was said of the same resource."""
    entry = policy_entry(resource, action, source or (), deny=deny)
    admin = remote.admin()
    from sprocket.rocketmq.model.rights import PolicyType

    kind = PolicyType.DEFAULT if is_default else PolicyType.CUSTOM
    admin.rights.put_policy(name, [entry], kind=kind, broker=broker)
    found = admin.rights.policies(name, broker=broker)
    rows = [row for row in policy_rows(found) if row["user"] == name]
    return answer.sentence(rows, f"{name} has {len(rows)} entries now")


@app.command("forget")
@over_the_wire
def forget(
    remote: Remote,
    name: UserName,
    resource: Annotated[
        str | None, typer.Argument(help="Of which resource; without it everything.")
    ] = None,
    is_default: IsDefault = False,
    broker: BrokerName = None,
) -> CommandAnswer:
    """Delete what is allowed or denied to a user."""
    from sprocket.rocketmq.model.rights import PolicyType

    admin = remote.admin()
    kind = PolicyType.DEFAULT if is_default else PolicyType.CUSTOM
    admin.rights.delete_policy(name, resource, kind=kind, broker=broker)
    found = admin.rights.policies(name, broker=broker)
    rows = [row for row in policy_rows(found) if row["user"] == name]
    return answer.sentence(rows, f"{name} has {len(rows)} entries now")


def user_row(broker: str, user: "AclUser") -> dict[str, Any]:
    """Return what commands say of a user; never the password."""
    return {
        "broker": broker,
        "user": user.name,
        "type": user.type.value,
        "status": user.status.value,
    }


def of_user(found: "Mapping[str, Sequence[AclUser]]", name: str) -> list[dict[str, Any]]:
    """Return the rows of one user."""
    return [
        user_row(broker, user)
        for broker, users in found.items()
        for user in users
        if user.name == name
    ]


def policy_rows(found: "Mapping[str, Sequence[Acl]]") -> Iterator[dict[str, Any]]:
    """Yield a row for each entry of each policy."""
    for broker, acls in found.items():
        for acl in acls:
            for policy in acl.policies:
                for entry in policy.entries:
                    yield {
                        "broker": broker,
                        "user": acl.subject.partition(":")[2],
                        "policy": policy.type.value,
                        "decision": entry.decision.value,
                        "actions": ", ".join(action.value for action in entry.actions),
                        "resource": str(entry.resource),
                        "sources": ", ".join(entry.source_ips),
                    }


def policy_entry(
    resource: str, actions: Sequence[str], sources: Sequence[str], *, deny: bool
) -> "PolicyEntry":
    """Return an entry as options say it. Raises SettingsError."""
    from sprocket.rocketmq.model import rights
    from sprocket.rocketmq.model.rights import AclResource, Action, Decision, PolicyEntry

    found = AclResource.parse(resource)
    if found is None:
        raise SettingsError(f"{resource!r} is not a resource, such as Topic:orders or Group:*")
    wanted = []
    for name in actions:
        one = rights.named(Action, name)
        if one is None or one is Action.ANY:
            names = ", ".join(each.value for each in Action if each is not Action.ANY)
            raise SettingsError(f"{name!r} is not an action; there is {names}")
        wanted.append(one)
    for source in sources:
        if not rights.is_source(source):
            raise SettingsError(f"{source!r} is not an address or a network, such as 10.0.0.0/8")
    decision = Decision.DENY if deny else Decision.ALLOW
    return PolicyEntry(resource=found, actions=wanted, decision=decision, source_ips=tuple(sources))
