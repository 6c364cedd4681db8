"""The one loader of settings: turns declarations into checked values and says where each came from.

A *root* is a frozen dataclass whose fields are *groups*, frozen dataclasses themselves. Each field
of a group has a type, perhaps with a range (`Annotated[int, msgspec.Meta(ge=…)]`), a default, and a
text under it that says what it does. Sources, later ones win: the declared defaults, a TOML file,
the environment, the command line.
"""

import ast
import dataclasses
import inspect
import itertools
import textwrap
import tomllib
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec

from sprocket.base.errors import SettingsError
from sprocket.base.nearest import hint

ENVIRONMENT_PREFIX = "SPROCKET_"

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, kw_only=True, slots=True)
class Declared:
    """One field of one group, as declared."""

    group: str
    name: str
    default: Any
    kind: Any
    """The type without its annotations."""
    limits: str
    """The range in words, such as `1 to 65535`; empty when there is none."""

    @property
    def full_name(self) -> str:
        """The name with its group, `group.name`."""
        return f"{self.group}.{self.name}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Loaded(Generic[T_co]):
    """Settings with their origins."""

    root: T_co
    origins: Mapping[str, str]
    """Full name to source, for the fields that no default gave."""

    def of(self, root: type[T]) -> T:
        """Return a root of fewer groups: what one of those is to know that were `joined`.

        Groups that there are none of have their defaults.
        """
        known = _hints(type(self.root))
        return root(**{one: getattr(self.root, one) for one in _hints(root) if one in known})


@dataclass(frozen=True, kw_only=True, slots=True)
class ForeignSettings:
    """What a settings file of another program says."""

    values: Sequence[tuple[str, object, str]]
    """Our full name, the value, and where it was given, for `load`."""
    folder: str | None = None
    """Where the data lies, if it is named."""
    ignored: tuple[str, ...] = ()
    """Settings that we do not have, by name."""


def joined(roots: Iterable[type]) -> type:
    """Return a root with the groups of all; of one that several have, the kind with most fields."""
    groups: dict[str, type] = {}
    for root in roots:
        for name, kind in _hints(root).items():
            known = groups.get(name, kind)
            assert issubclass(kind, known) or issubclass(known, kind), f"{name} is two things"
            groups[name] = kind if issubclass(kind, known) else known
    fields = [(name, kind, dataclasses.field(default=kind())) for name, kind in groups.items()]
    return dataclasses.make_dataclass("Joined", fields, frozen=True, kw_only=True)


def declarations(root: type) -> list[Declared]:
    """Return every field of every group of `root`, in the order of declaration."""
    found = []
    for group, group_type in _hints(root).items():
        kinds = _hints(group_type)
        for field in dataclasses.fields(group_type):
            kind, limits = _kind_and_limits(kinds[field.name])
            default = field.default
            if default is dataclasses.MISSING and field.default_factory is not dataclasses.MISSING:
                default = field.default_factory()
            found.append(
                Declared(group=group, name=field.name, default=default, kind=kind, limits=limits)
            )
    return found


def load(
    root: type[T],
    *,
    file_text: str | None = None,
    file_name: str = "settings file",
    values: Iterable[tuple[str, object, str]] = (),
    environment: Mapping[str, str] | None = None,
    overrides: Iterable[str] = (),
    options: Mapping[str, Any] | None = None,
) -> Loaded[T]:
    """Return the settings that the sources give, checked against their declarations.

    Args:
        root: The dataclass of groups.
        file_text: TOML with one table for each group, or None.
        file_name: What errors call that file.
        values: Full name, value and source of what a file of another form gave; weighs as a file.
        environment: Variables; those named `SPROCKET_<GROUP>__<NAME>` count.
        overrides: `group.name=value` texts of the command line. The group may be left out where
            the name is the only one of its kind.
        options: Full name to value, for settings that have an option of their own on the command
            line; they win over everything.

    Raises:
        SettingsError: a source is unreadable, a name unknown (the text suggests the nearest) or a
            value out of its range (the text names setting and source).
    """
    declared = {one.full_name: one for one in declarations(root)}
    chosen: dict[str, dict[str, Any]] = {}
    origins: dict[str, str] = {}

    def put(full_name: str, value: Any, source: str) -> None:
        one = declared[full_name]
        chosen.setdefault(one.group, {})[one.name] = _checked(one, root, value, source)
        origins[full_name] = source

    for name, value in _from_file(file_text, file_name):
        put(_find(name, declared, file_name), value, file_name)
    for name, value, source in values:
        put(name, value, source)
    for variable, value in (environment or {}).items():
        if (wanted := _environment_name(variable)) is not None:
            put(_find(wanted, declared, variable), value, variable)
    for text in overrides:
        name, equals, value = text.partition("=")
        if not equals:
            raise SettingsError(f"--set {text}: expected NAME=VALUE")
        put(_find(name.strip(), declared, "--set"), value.strip(), "--set")
    for name, value in (options or {}).items():
        put(_find(name, declared, "command line"), value, "command line")

    groups = {name: kind(**chosen.get(name, {})) for name, kind in _hints(root).items()}
    return Loaded(root=root(**groups), origins=origins)


def descriptions(group: type) -> dict[str, str]:
    """Return by name the texts under the fields of a group, read from its source."""
    found: dict[str, str] = {}
    for kind in reversed(group.__mro__[:-1]):
        (declared,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
        assert isinstance(declared, ast.ClassDef)
        for field, text in itertools.pairwise(declared.body):
            match field, text:
                case (
                    ast.AnnAssign(target=ast.Name(id=name)),
                    ast.Expr(value=ast.Constant(value=str(told))),
                ):
                    found[name] = " ".join(told.split())
    return found


def markdown(root: type) -> str:
    """Return the page that lists every setting of `root`: one table for each group."""
    lines: list[str] = []
    group = ""
    texts: Mapping[str, str] = {}
    for one in declarations(root):
        if one.group != group:
            group, group_type = one.group, _hints(root)[one.group]
            texts = descriptions(group_type)
            summary = (group_type.__doc__ or "").strip().splitlines()[0]
            lines += ["", f"## {group}", "", summary, ""]
            lines += ["| name | type | default | range | meaning |", "|---|---|---|---|---|"]
        kind = _kind_name(one.kind).replace("|", "\\|")
        default, limits, meaning = _default_text(one.default), one.limits, texts.get(one.name, "")
        lines.append(f"| `{one.name}` | {kind} | {default} | {limits or '–'} | {meaning} |")
    return "\n".join(lines).strip() + "\n"


def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind, include_extras=True)


def _kind_and_limits(annotated: Any) -> tuple[Any, str]:
    """Return the bare type of one annotation, and its limits in words."""
    if typing.get_origin(annotated) is not typing.Annotated:
        return annotated, ""
    kind, *marks = typing.get_args(annotated)
    meta = next((mark for mark in marks if isinstance(mark, msgspec.Meta)), msgspec.Meta())
    low = meta.ge if meta.ge is not None else meta.gt
    high = meta.le if meta.le is not None else meta.lt
    limits = ""
    if low is not None and high is not None:
        limits = f"{low} to {high}"
    elif low is not None:
        limits = f"from {low}" if meta.ge is not None else f"above {low}"
    elif high is not None:
        limits = f"to {high}"
    return kind, limits


def _from_file(text: str | None, name: str) -> Iterable[tuple[str, Any]]:
    if text is None:
        return
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{name}: {error}") from error
    for group, table in tables.items():
        if not isinstance(table, dict):
            yield group, table
            continue
        for key, value in table.items():
            yield f"{group}.{key}", value


def _environment_name(variable: str) -> str | None:
    """Return the full name that a variable sets, None when it is not one of ours."""
    if not variable.startswith(ENVIRONMENT_PREFIX) or "__" not in variable:
        return None
    group, _, name = variable.removeprefix(ENVIRONMENT_PREFIX).lower().partition("__")
    return f"{group}.{name}"


def _find(name: str, declared: Mapping[str, Declared], source: str) -> str:
    if name in declared:
        return name
    same = [full for full in declared if full.partition(".")[2] == name]
    if len(same) == 1:
        return same[0]
    if same:
        raise SettingsError(f"{source}: {name} could be {' or '.join(same)}")
    candidates = [*declared, *(one.name for one in declared.values())]
    raise SettingsError(f"{source}: there is no setting {name}{hint(name, candidates)}")


def _checked(one: Declared, root: type, value: Any, source: str) -> Any:
    """Return `value` converted to the declared type, or raise naming setting and source."""
    annotated = _hints(_hints(root)[one.group])[one.name]
    if typing.get_origin(one.kind) is tuple and isinstance(value, str):
        value = [part.strip() for part in value.replace(";", ",").split(",") if part.strip()]
    try:
        return msgspec.convert(value, annotated, strict=False)
    except msgspec.ValidationError as error:
        wanted = _expected(one) or str(error)
        raise SettingsError(f"{source}: {one.full_name} = {value!r}: {wanted}") from error


def _expected(one: Declared) -> str:
    """Return in words what a setting may be, its choices or its kind and range; "" for others."""
    kinds = typing.get_args(one.kind) if _is_union(one.kind) else (one.kind,)
    words: list[str] = []
    for kind in kinds:
        bare = typing.get_args(kind)[0] if typing.get_origin(kind) is typing.Annotated else kind
        if typing.get_origin(bare) is typing.Literal:
            words += map(str, typing.get_args(bare))
        elif bare in _WORDS:
            words.append(_WORDS[bare])
    if not words:
        return ""
    return f"expected {' or '.join(words)}" + (f", {one.limits}" if one.limits else "")


_WORDS: Mapping[type, str] = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
}


def _is_union(kind: Any) -> bool:
    return typing.get_origin(kind) in (typing.Union, types.UnionType)


def _kind_name(kind: Any) -> str:
    origin = typing.get_origin(kind)
    if origin is typing.Annotated:
        return _kind_name(typing.get_args(kind)[0])
    if origin is typing.Literal:
        return " or ".join(f"`{choice}`" for choice in typing.get_args(kind))
    if _is_union(kind):
        return " or ".join(_kind_name(part) for part in typing.get_args(kind))
    if origin is tuple:
        return f"list of {_kind_name(typing.get_args(kind)[0])}"
    names = {
        int: "integer",
        str: "text",
        bool: "true or false",
        float: "number",
        types.NoneType: "nothing",
    }
    return names.get(kind, getattr(kind, "__name__", str(kind)))


def _default_text(value: Any) -> str:
    if value == "" or value == ():
        return "–"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"
