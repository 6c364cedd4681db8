"""`sprocket rabbit users`, `permissions` and `vhosts`: who may do what, and where."""

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sprocket.base.errors import SettingsError
from sprocket.cli.options import Yes
from sprocket.cli.remote.rabbit.broker import RabbitRemote
from sprocket.cli.remote.rabbit.failures import NOT_FOUND, NoSuchResource, no_such
from sprocket.cli.remote.rabbit.queues import vhosts_named
from sprocket.cli.remote.rabbit.shared import (
    DEFAULT_VHOST,
    NO_ADMINISTRATOR,
    AnyVhost,
    Vhost,
    count,
    family,
    figure,
)
from sprocket.cli.remote.wire import over_the_wire
from sprocket.cli.terminal import CommandAnswer, NewPassword, answer, asked_password, output

if TYPE_CHECKING:
    from sprocket.cli.remote.rabbit.management import Management

users = family("Users of a running broker.")
permissions = family("What users may do in which virtual host.")
vhosts = family("Virtual hosts of a running broker.")

UserName = Annotated[str, typer.Argument(help="Name of the user.")]
VhostName = Annotated[str, typer.Argument(help="Name of the virtual host.")]
ADMINISTRATOR = "administrator"
NOTHING = ""
"""As a permission: no name fits it."""


@users.command("ls")
@over_the_wire
def list_users(remote: RabbitRemote) -> CommandAnswer:
    """List the users and their tags."""
    rows = [user_row(one) for one in remote.api().rows("users")]
    return answer.table(rows)


@users.command("create")
@over_the_wire
def create_user(
    remote: RabbitRemote,
    name: UserName,
    new_password: NewPassword = None,
    tag: Annotated[
        list[str] | None,
        typer.Option(
            help="administrator, monitoring, policymaker, management or your own; may be repeated."
        ),
    ] = None,
) -> CommandAnswer:
    """Create a user; one that exists keeps their password and tags, see `passwd`."""
    secret = asked_password(name) if new_password is None else new_password
    api = remote.api()
    try:
        api.row("users", name)
    except NoSuchResource:
        pass
    else:
        raise SettingsError(f"user {name} is there already; `users passwd` changes the password")
    api.put("users", name, body={"password": secret, "tags": ",".join(tag or [])})
    row = user_row(api.row("users", name))
    more = "`sprocket rabbit permissions set` lets them into a virtual host"
    return answer.sentence([row], f"user {name} is there; {more}")


@users.command("passwd")
@over_the_wire
def change_password(
    remote: RabbitRemote, name: UserName, new_password: NewPassword = None
) -> CommandAnswer:
    """Give a user another password; tags and permissions stay."""
    secret = asked_password(name) if new_password is None else new_password
    api = remote.api()
    tags = user_row(user_of(api, name))["tags"]
    api.put("users", name, body={"password": secret, "tags": ",".join(tags)})
    row = user_row(api.row("users", name))
    return answer.sentence([row], f"user {name} has another password")


@users.command("delete")
@over_the_wire
def delete_user(remote: RabbitRemote, name: UserName, yes: Yes = False) -> CommandAnswer:
    """Delete a user and their permissions; their connections are closed."""
    api = remote.api()
    is_last = False
    if ADMINISTRATOR in user_row(user_of(api, name))["tags"]:
        others = (user_row(one) for one in api.rows("users") if one["name"] != name)
        is_last = not any(ADMINISTRATOR in one["tags"] for one in others)
    if is_last and not yes:
        raise SettingsError(f"user {name} is the last administrator; --yes deletes it anyway")
    deleted = yes or output.confirmed(f"Delete user {name}?")
    if deleted:
        api.delete("users", name, query=NO_ADMINISTRATOR if is_last else None)
    done = "deleted" if deleted else "kept"
    return answer.sentence([{"user": name, "deleted": deleted}], f"user {name} is {done}")


@permissions.command("ls")
@over_the_wire
def list_permissions(
    remote: RabbitRemote,
    vhost: AnyVhost = None,
    user: Annotated[str | None, typer.Option(help="Only of this user.")] = None,
) -> CommandAnswer:
    """List who may configure, write and read what: regular expressions for names."""
    api = remote.api()
    if user is not None:
        user_of(api, user)
    if vhost is not None:
        vhosts_named(api, vhost)
    rows = [
        row
        for row in map(permission_row, api.rows("permissions"))
        if vhost in (None, row["vhost"]) and user in (None, row["user"])
    ]
    return answer.table(rows)


@permissions.command("set")
@over_the_wire
def set_permission(
    remote: RabbitRemote,
    user: UserName,
    vhost: Vhost = DEFAULT_VHOST,
    configure: Annotated[str, typer.Option(help="What they may declare and delete.")] = NOTHING,
    write: Annotated[str, typer.Option(help="What they may publish to.")] = NOTHING,
    read: Annotated[str, typer.Option(help="What they may consume from.")] = NOTHING,
) -> CommandAnswer:
    """Let a user into a virtual host; regular expressions say what they may do there.

    What is left out is nothing: `.*` is everything.
    """
    api = remote.api()
    user_of(api, user)
    vhosts_named(api, vhost)
    body = {"configure": configure, "write": write, "read": read}
    api.put("permissions", vhost, user, body=body)
    row = permission_row(api.row("permissions", vhost, user))
    given = ", ".join(f"{one} {row[one] or 'nothing'}" for one in body)
    return answer.sentence([row], f"user {user} may enter {vhost}: {given}")


@permissions.command("delete")
@over_the_wire
def delete_permission(
    remote: RabbitRemote, user: UserName, vhost: Vhost = DEFAULT_VHOST
) -> CommandAnswer:
    """Take a user's permissions in a virtual host away; they may not enter it any more."""
    api = remote.api()
    user_of(api, user)
    vhosts_named(api, vhost)
    try:
        api.row("permissions", vhost, user)
    except NoSuchResource:
        raise NoSuchResource(NOT_FOUND, f"user {user} has no permissions in {vhost}") from None
    api.delete("permissions", vhost, user)
    row = {"vhost": vhost, "user": user, "deleted": True}
    return answer.sentence([row], f"user {user} may not enter {vhost} any more")


@vhosts.command("ls")
@over_the_wire
def list_vhosts(remote: RabbitRemote) -> CommandAnswer:
    """List the virtual hosts and what waits in their queues."""
    rows = [vhost_row(one) for one in remote.api().rows("vhosts")]
    shown = [{**row, **{one: figure(row[one]) for one in ("messages", "ready")}} for row in rows]
    return replace(answer.table(shown, spare=("tracing",)), values=rows)


@vhosts.command("create")
@over_the_wire
def create_vhost(remote: RabbitRemote, name: VhostName) -> CommandAnswer:
    """Create a virtual host."""
    api = remote.api()
    api.put("vhosts", name, body={})
    row = vhost_row(api.row("vhosts", name))
    more = "; `sprocket rabbit permissions set` lets users in"
    return answer.sentence([row], f"virtual host {name} is there{more}")


@vhosts.command("delete")
@over_the_wire
def delete_vhost(remote: RabbitRemote, name: VhostName, yes: Yes = False) -> CommandAnswer:
    """Delete a virtual host with everything in it."""
    api = remote.api()
    vhosts_named(api, name)
    deleted = yes or output.confirmed(
        f"Delete virtual host {name} with all its queues and their messages?"
    )
    if deleted:
        api.delete("vhosts", name)
    done = "deleted" if deleted else "kept"
    return answer.sentence([{"vhost": name, "deleted": deleted}], f"virtual host {name} is {done}")


def user_of(api: "Management", name: str) -> dict[str, Any]:
    """Return what the broker says of a user.

    Raises:
        NoSuchResource: There is none of that name; the text suggests the nearest.
    """
    try:
        return api.row("users", name)
    except NoSuchResource:
        raise no_such("user", name, api.rows("users")) from None


def user_row(found: dict[str, Any]) -> dict[str, Any]:
    """Return what commands say of a user; old brokers give tags as one text."""
    tags = found.get("tags") or []
    if isinstance(tags, str):
        tags = [one.strip() for one in tags.split(",") if one.strip()]
    return {"user": found["name"], "tags": tags, "password": bool(found.get("password_hash"))}


def permission_row(found: dict[str, Any]) -> dict[str, Any]:
    """Return what commands say of a permission."""
    return {name: found[name] for name in ("vhost", "user", "configure", "write", "read")}


def vhost_row(found: dict[str, Any]) -> dict[str, Any]:
    """Return what commands say of a virtual host; a figure is None if it was not counted yet."""
    return {
        "vhost": found["name"],
        "messages": count(found.get("messages")),
        "ready": count(found.get("messages_ready")),
        "tracing": bool(found.get("tracing")),
    }
