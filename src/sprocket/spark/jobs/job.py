"""What a job is: a plain function of a session and options, which returns a report.

    def job(spark, *, store: Annotated[str, JobOption("the store's folder")], …) -> JobReport

Its options are its parameters; commands are made of the signature. A job that takes long has the
parameter `progress`, which is called with its progress. It asks the session for nothing before it
has checked what can be checked without: a command starts Spark when the session is first asked.
"""

import dataclasses
import inspect
from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Any, TypeAlias, get_args

import msgspec

from sprocket.base.errors import SettingsError, SprocketError
from sprocket.base.nearest import hint
from sprocket.spark.mode import Mode
from sprocket.spark.rocketmq.folder import DamagedRange

GIVEN = ("spark", "progress")
"""Parameters that are not options: the code that runs a job gives them."""


class JobReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a job has done or found.

    Its members are numbers, texts and lists of rows; a row is a mapping, or another struct.
    """

    def complaint(self) -> str:
        """Return why a command that ran the job must fail, though it did its work; or nothing."""
        return ""

    def frame(self, spark: Any, name: str) -> Any:
        """Return one of the lists of rows as a DataFrame, for SQL and for joins.

        Args:
            spark: The SparkSession.
            name: The member, such as `counts`.

        Raises:
            SettingsError: There is no such list, or it has no rows, and so no columns.
        """
        import pyarrow as pa

        members = msgspec.structs.asdict(self)
        lists = [one for one, value in members.items() if isinstance(value, list)]
        if name not in lists:
            meant = hint(name, lists) or f"; there are {', '.join(lists)}"
            raise SettingsError(f"the report has no rows {name!r}{meant}")
        if not members[name]:
            raise SettingsError(f"{name!r} has no rows")
        return spark.createDataFrame(pa.Table.from_pylist(msgspec.to_builtins(members[name])))


class JobComplaint(SprocketError):
    """A job did its work and found something that its command must fail for."""


SparkJob: TypeAlias = Callable[..., JobReport]
"""A job as it is called: with the session, and its options by their names."""


@dataclasses.dataclass(frozen=True, slots=True)
class JobOption:
    """How an option is shown to those who type it; stands in the annotation of a parameter.

    Args:
        note: What it does and costs.
        metavar: Stands for its value.
        is_argument: Whether it is given without its name.
        also: Other names, such as `-t`, blanks between.
    """

    note: str
    metavar: str | None = None
    is_argument: bool = False
    also: str = ""


PartitionBytes = Annotated[
    int, JobOption("Bytes of the log for one task; 0 for 64 to 256 MiB.", "BYTES")
]
"""Of a job that reads a log; `by_size` says it to the format `rocketmq`."""


def by_size(partition_bytes: int) -> dict[str, str]:
    """Return the option of the format `rocketmq` that cuts a log into tasks of this many bytes."""
    return {"maxPartitionBytes": str(partition_bytes)} if partition_bytes else {}


SkipDamaged = Annotated[
    bool, JobOption("Leave out, and report, what is damaged or lost; else it is an error.")
]
"""Of a job that reads what people have stored."""
Verify = Annotated[bool, JobOption("Compare every record with its checksums.")]
"""Of the same; `reading` says both to the format `rocketmq`."""


def reading(*, skip_damaged: bool, verify: bool) -> dict[str, str]:
    """Return the options of the format `rocketmq` that say what is done about damage."""
    mode = Mode.DROPMALFORMED if skip_damaged else Mode.FAILFAST
    return {"mode": mode.value, "verifyCrc": "true" if verify else "false"}


def damage_rows(damage: Iterable[DamagedRange]) -> list[dict[str, Any]]:
    """Return damage as reports show it, in the order of the log.

    A row has `file`, `position` in it, `start` (the physical offset), `bytes` and `why`.
    """
    rows = []
    for one in damage:
        name = one.where.rpartition("/")[2]
        position = one.start - int(name) if name.isdecimal() else 0
        rows.append(
            {
                "file": one.where,
                "position": position,
                "start": one.start,
                "bytes": one.size,
                "why": one.why,
            }
        )
    return sorted(rows, key=lambda row: row["start"])


def options(job: Callable[..., Any]) -> Iterator[tuple[inspect.Parameter, JobOption]]:
    """Give the options of a job: parameters, and what is declared of them.

    Of a parameter that is a dataclass of options each field is one.
    """
    for parameter in _parameters(job):
        fields = _parameters(parameter.annotation) if _is_shared(parameter) else [parameter]
        for one in fields:
            notes = [note for note in get_args(one.annotation) if isinstance(note, JobOption)]
            assert notes, f"{job} does not say what {one.name} is"
            yield one, notes[0]


def arguments(job: Callable[..., Any], given: dict[str, Any]) -> dict[str, Any]:
    """Return what a job is called with; takes the values of its options, by name, from `given`."""
    found: dict[str, Any] = {}
    for parameter in _parameters(job):
        kind = parameter.annotation
        if _is_shared(parameter):
            found[parameter.name] = kind(
                **{one.name: given.pop(one.name) for one in _parameters(kind)}
            )
        else:
            found[parameter.name] = given.pop(parameter.name)
    return found


def _parameters(called: Callable[..., Any]) -> list[inspect.Parameter]:
    return [one for one in inspect.signature(called).parameters.values() if one.name not in GIVEN]


def _is_shared(parameter: inspect.Parameter) -> bool:
    return dataclasses.is_dataclass(parameter.annotation)


def summary(job: Callable[..., Any]) -> str:
    """Return the first paragraph of a job's docstring, which is its help."""
    return inspect.cleandoc(job.__doc__ or "").partition("\n\n")[0]
