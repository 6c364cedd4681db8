"""The loader takes each source in turn, checks every value and names what it cannot place."""

from dataclasses import dataclass, field
from typing import Annotated, Literal

import msgspec
import pytest

from sprocket.base import settings
from sprocket.base.errors import SettingsError


@dataclass(frozen=True, kw_only=True)
class Disk:
    """How it is written."""

    flush: Literal["sync", "async"] = "sync"
    """When."""
    fill_bytes: Annotated[int, msgspec.Meta(ge=1, le=100)] = 10
    """How far."""
    name: str = "a"


@dataclass(frozen=True, kw_only=True)
class Net:
    """Where it listens."""

    port: Annotated[int, msgspec.Meta(ge=0)] = 9
    """Port."""
    is_open: bool = False
    """Open."""
    others: tuple[str, ...] = ()
    """Peers."""
    name: str = "b"
    ratio: Annotated[float, msgspec.Meta(gt=0)] = 0.5
    """R."""
    top: Annotated[int, msgspec.Meta(le=3)] = 1
    """T."""
    maybe: int | None = None
    """M."""


@dataclass(frozen=True, kw_only=True)
class Root:
    """Everything."""

    disk: Disk = field(default_factory=Disk)
    net: Net = field(default_factory=Net)


def test_defaults_come_from_the_declarations() -> None:
    """Without a source every value is the declared one and no origin is noted."""
    loaded = settings.load(Root)
    assert Root() == loaded.root
    assert loaded.origins == {}


def test_later_sources_win() -> None:
    """File, environment and command line override in this order, and origins say who did."""
    loaded = settings.load(
        Root,
        file_text='[disk]\nflush = "async"\nfill_bytes = 11\n[net]\nport = 1\nothers = ["x"]',
        file_name="s.toml",
        environment={"SPROCKET_DISK__FILL_BYTES": "12", "SPROCKET_NET__PORT": "2", "HOME": "/"},
        overrides=["net.port=3", "net.name=x"],
        options={"net.name": "y"},
    )
    assert Disk(flush="async", fill_bytes=12) == loaded.root.disk
    assert Net(port=3, others=("x",), name="y") == loaded.root.net
    assert loaded.origins == {
        "disk.flush": "s.toml",
        "disk.fill_bytes": "SPROCKET_DISK__FILL_BYTES",
        "net.port": "--set",
        "net.others": "s.toml",
        "net.name": "command line",
    }


def test_texts_become_typed_values() -> None:
    """Numbers, truth values and lists are read from the texts that shells pass."""
    loaded = settings.load(Root, overrides=["is_open=true", "others=a:1;b:2,", "port=7"])
    assert Net(is_open=True, others=("a:1", "b:2"), port=7) == loaded.root.net


@pytest.mark.parametrize(
    ("override", "text"),
    [
        ("fil_bytes=3", "--set: there is no setting fil_bytes; did you mean fill_bytes?"),
        ("dsk.flush=sync", "did you mean disk.flush?"),
        ("zzzzzz=1", "--set: there is no setting zzzzzz"),
        ("name=x", "name could be disk.name or net.name"),
        ("fill_bytes=0", "disk.fill_bytes = '0': expected a whole number, 1 to 100"),
        ("flush=maybe", "disk.flush = 'maybe': expected sync or async"),
        ("port", "--set port: expected NAME=VALUE"),
    ],
)
def test_wrong_overrides_are_named(override: str, text: str) -> None:
    """An unknown, ambiguous or impossible setting is one error that says which and why."""
    with pytest.raises(SettingsError) as caught:
        settings.load(Root, overrides=[override])
    assert text in str(caught.value)


@pytest.mark.parametrize(
    ("file_text", "text"),
    [
        ("[disk", "s.toml: "),
        ("flush = 1", "s.toml: disk.flush = 1"),
        ("[disk]\nflash = 1", "s.toml: there is no setting disk.flash; did you mean disk.flush?"),
    ],
)
def test_wrong_files_are_named(file_text: str, text: str) -> None:
    """What is wrong in a file is reported with the file's name."""
    with pytest.raises(SettingsError) as caught:
        settings.load(Root, file_text=file_text, file_name="s.toml")
    assert text in str(caught.value)


def test_an_unknown_variable_is_an_error() -> None:
    """A variable with our prefix that sets nothing is a mistake, not noise."""
    with pytest.raises(SettingsError, match="SPROCKET_DISK__FLUSHH: there is no setting"):
        settings.load(Root, environment={"SPROCKET_DISK__FLUSHH": "1", "SPROCKET_HOME": "x"})


@dataclass(frozen=True, kw_only=True)
class WiderNet(Net):
    """Where it listens, and more."""

    port: Annotated[int, msgspec.Meta(ge=0)] = 8
    """Another
    port."""
    more: int = 0
    """More."""


def test_a_text_is_that_under_the_field() -> None:
    """Of a derived group those of its bases count too, unless it says another; lines are joined."""
    told = settings.descriptions(WiderNet)
    assert told["port"] == "Another port."
    assert (told["more"], told["is_open"]) == ("More.", "Open.")
    assert "name" not in told


def test_the_page_lists_every_setting() -> None:
    """The generated page has a table for each group and a row for each field."""
    page = settings.markdown(Root)
    assert "## disk\n\nHow it is written." in page
    assert "| `flush` | `sync` or `async` | `sync` | – | When. |" in page
    assert "| `fill_bytes` | integer | `10` | 1 to 100 | How far. |" in page
    assert "| `is_open` | true or false | `false` | – | Open. |" in page
    assert "| `others` | list of text | – | – | Peers. |" in page
    assert "| `ratio` | number | `0.5` | above 0 | R. |" in page
    assert "| `top` | integer | `1` | to 3 | T. |" in page
    assert "| `maybe` | integer or nothing | `None` | – | M. |" in page


@dataclass(frozen=True, kw_only=True)
class Watch:
    """Types with a range that are a part of another."""

    port: Annotated[int, msgspec.Meta(ge=0)] | Literal["off"] = "off"
    """P."""
    hours: tuple[Annotated[int, msgspec.Meta(ge=0, le=23)], ...] = (4,)
    """H."""


@dataclass(frozen=True, kw_only=True)
class WatchRoot:
    """A root with it alone."""

    watch: Watch = field(default_factory=Watch)


def test_the_page_names_types_that_have_a_range_inside() -> None:
    """By the type, not by the word that gives it the range."""
    page = settings.markdown(WatchRoot)
    assert "| `port` | integer or `off` | `off` | – | P. |" in page
    assert "| `hours` | list of integer | `(4,)` | – | H. |" in page


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("disk.flush=never", "expected sync or async"),
        ("net.port=x", "expected a whole number, from 0"),
        ("disk.fill_bytes=101", "expected a whole number, 1 to 100"),
        ("net.is_open=perhaps", "expected true or false"),
        ("net.ratio=0", "expected a number, above 0"),
        ("net.maybe=x", "expected a whole number"),
    ],
)
def test_a_wrong_value_is_told_which_ones_are_right(given: str, expected: str) -> None:
    """The error names the choices, or the kind and the range; a bare refusal leads nowhere."""
    name, _, value = given.partition("=")
    with pytest.raises(SettingsError) as refused:
        settings.load(Root, overrides=[given])
    assert str(refused.value) == f"--set: {name} = {value!r}: {expected}"
