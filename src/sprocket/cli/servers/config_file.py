"""A settings file of ours, in TOML, or one of RocketMQ's, told apart by name or content."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from sprocket.cli.terminal import output

if TYPE_CHECKING:
    from sprocket.node.host import Product

FileOption = Annotated[
    str | None,
    typer.Option(
        "-c",
        "--config",
        metavar="FILE",
        help="TOML with a table for each group, or RocketMQ's own file of settings.",
    ),
]

_TABLE = re.compile(r"^[ \t]*\[[^\]\n]+\][ \t]*(#.*)?$", re.MULTILINE)


@dataclass(frozen=True, kw_only=True, slots=True)
class GivenSettings:
    """What a settings file gives, for `base.settings.load`."""

    path: str = ""
    toml: str | None = None
    values: Sequence[tuple[str, object, str]] = ()
    folder: str | None = None
    """Of the store, if a broker.conf names it."""


def read(
    path: str | None, products: "Sequence[Product]", say: Callable[[str], None] = output.say
) -> GivenSettings:
    """Return what a file gives; people are told of settings of RocketMQ that we do not have.

    A file of RocketMQ's is read as the last product's.

    Raises:
        SettingsError, DiskFailed: It cannot be read, or a setting is wrong.
    """
    if path is None:
        return GivenSettings()
    from sprocket.base.disk import RealDisk, read_file

    content = read_file(RealDisk(), path)
    text = content.decode("utf-8", "replace")
    foreign = [one.foreign for one in products if one.foreign is not None]
    if not foreign or is_toml(path, text):
        return GivenSettings(path=path, toml=text)
    found = foreign[-1](content, path)
    if found.ignored:
        names = ", ".join(found.ignored)
        say(f"{path}: ignored, as there is no such setting here: {names}")
    return GivenSettings(path=path, values=found.values, folder=found.folder)


def is_toml(path: str, text: str) -> bool:
    """Tell TOML from Java properties: by the name, else by a line that begins a table."""
    if path.endswith((".toml", ".conf", ".properties")):
        return path.endswith(".toml")
    return _TABLE.search(text) is not None
