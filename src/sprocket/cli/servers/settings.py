"""`sprocket settings`: every setting, its value, and where the value came from."""

import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from sprocket.base import settings as loader
from sprocket.base.errors import SettingsError
from sprocket.base.settings import Loaded
from sprocket.cli.options import AsJson
from sprocket.cli.servers import config_file
from sprocket.cli.servers.config_file import FileOption, GivenSettings
from sprocket.cli.terminal import output, tables

if TYPE_CHECKING:
    from sprocket.node.host import Product

SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Set one setting; may be repeated."),
]
SECRET = "_password"  # noqa: S105 - a name, no password
"""How the names of settings end whose values nobody is shown."""

PAGE_HEAD = """# Settings

Generated from the declarations by `sprocket settings --markdown`; a test compares.

Sources, later ones win: the defaults below, a TOML file with one table for each group or RocketMQ's
broker.conf (`--config FILE` of `sprocket up`, `broker` and `settings`), the environment
(`SPROCKET_<GROUP>__<NAME>`, for example `SPROCKET_STORE__FLUSH=async`), the command line
(`--set group.name=value`; the group may be left out where the name is unique). `sprocket settings`
prints each value and where it came from.

The groups `log`, `queue` and `index` fix the files of a store. They are written into it when it is
made and compared at each open.

"""


def load(
    products: "Sequence[Product]",
    given: GivenSettings,
    overrides: list[str] | None,
    options: Mapping[str, object] | None = None,
) -> Loaded[object]:
    """Return the settings of some products from every source.

    `overrides` is what `--set` gave, and `options` has by full name what other options gave; None
    is not given.

    Raises:
        SettingsError: A setting is wrong.
    """
    from sprocket.node.host import settings_of

    return loader.load(
        settings_of(products),
        file_text=given.toml,
        file_name=given.path,
        values=given.values,
        environment=os.environ,
        overrides=overrides or (),
        options={name: value for name, value in (options or {}).items() if value is not None},
    )


def page() -> str:
    """Return `docs/settings.md`."""
    from sprocket.node.host import settings_of
    from sprocket.node.products import PRODUCTS

    return PAGE_HEAD + loader.markdown(settings_of(PRODUCTS))


def settings(
    config: FileOption = None,
    overrides: SetOption = None,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print all settings as a Markdown page instead.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show every setting, its value and where the value came from."""
    if markdown and as_json:
        raise SettingsError("--markdown and --json were given: ask for one of them")
    if markdown:
        sys.stdout.write(page())
        return
    from sprocket.node.products import PRODUCTS

    loaded = load(PRODUCTS, config_file.read(config, PRODUCTS), overrides)
    fields = {}
    for one in loader.declarations(type(loaded.root)):
        value = getattr(getattr(loaded.root, one.group), one.name)
        if value and one.name.endswith(SECRET):
            value = "(not shown)"
        origin = loaded.origins.get(one.full_name, "default")
        if as_json:
            shown = msgspec.to_builtins(value)
            output.write_json({"setting": one.full_name, "value": shown, "from": origin})
        else:
            fields[one.full_name] = f"{value}  ({origin})"
    if not as_json:
        tables.write_fields("", fields)
