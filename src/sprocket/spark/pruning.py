"""Queries that read only what they use: `pruned` for DataFrames, `sql` for statements.

Spark tells a Python source neither columns nor, in a way that can be relied on, filters
(docs/decisions/0035-pruned-queries.md). Its optimized plan knows both. So a query is planned once,
what each table of ours is used for is read off that plan, and the query is planned again with
tables that give just that.

1. The rows and values of the result are those of the query as it was. A column is left out if the
   optimized plan, which gives the same whatever the table holds, does not refer to it. In its place
   stands an expression that fails if it is ever asked for.
2. A filter only tells the source which rows it need not send. Spark applies it again.
3. Where rows are only added up, and by columns of which a log has few values, those that are alike
   are sent once, with their number, and repeated in the JVM: there a row costs a tenth.
4. What is not understood is left as it is: a node of the plan that is not known here uses all
   columns of what lies below it, and a plan with cached parts is not touched.
"""

import functools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sprocket.base import log
from sprocket.spark.catalog_table import with_kept
from sprocket.spark.filters import (
    FEW_VALUES,
    FILTERS,
    ROW_COUNT,
    FilteredColumns,
    Limits,
    both,
    either,
    limits_of,
)
from sprocket.spark.mode import Mode

_log = log.get_logger(__name__)

_SCAN, _RELATION = "DataSourceV2ScanRelation", "DataSourceV2Relation"
_CACHED = "InMemoryRelation"
_CHOOSING = frozenset({"Project", "Aggregate"})
"""Nodes that use the columns they refer to, and no other."""
_PASSING = frozenset({"Filter", "GlobalLimit", "Join", "LocalLimit", "Sort"})
"""Nodes that hand on what is asked of them, and use what they refer to."""
_CHEAP = ("int", "bigint", "boolean", "timestamp")
"""Types of a column that stands for all where only the number of rows counts."""
_ADDS_UP = frozenset({"avg", "cast", "count", "max", "min", "sum"})
"""Functions of an aggregate that do not depend on the order of rows."""
_FUNCTION = re.compile(r"(\w+)\(")
_TOLERANT = frozenset(mode.value for mode in Mode) - {Mode.FAILFAST.value}
"""Modes in which it depends on the columns that are read which rows there are, and what is said of
them: a body that nobody reads is not known to be damaged."""
_ID = re.compile(r"#(\d+)")
"""Of an attribute, as Spark writes it after its name. A name that looks like one, as no column of
ours does, adds an id that is not used. To ask the JVM for each by itself would take ten times as
long."""
_ATTRIBUTE = re.compile(rf"(\w+){_ID.pattern}")


def pruned(query: Callable[..., Any]) -> Callable[..., Any]:
    """Return the same query, which reads only the columns and rows that it uses.

    It may be given where it is used, or decorate a function:

        log.transform(pruned(lambda messages: messages.groupBy("topic").count())).show()

    What it costs is to plan the query twice. The result is the query's own, row for row, of
    whatever the tables hold when it is read. Damage that the plain query would fail with is not met
    in columns that are not read; `verifyCrc=true` compares checksums anyway. With another `mode`
    than FAILFAST all columns are read.

    Args:
        query: Makes a DataFrame of others, or of nothing but a session.

    Returns:
        A function that takes what `query` takes, and returns a DataFrame. Streams, and DataFrames
        of Spark Connect, are returned as they are.
    """

    @functools.wraps(query)
    def asked(*given: Any, **named: Any) -> Any:
        return _pruned(query(*given, **named))

    return asked


def sql(text: str, *, spark: Any = None) -> Any:
    """Return what `spark.sql` does, as a query that reads only what it uses; see `pruned`.

    Args:
        text: The statement. Commands are run at once, as by `spark.sql`.
        spark: The SparkSession; the active one if none is given.
    """
    from pyspark.sql import SparkSession

    return _pruned((spark or SparkSession.active()).sql(text))


@dataclass(slots=True)
class _Use:
    """What a query uses of a table, in all places where it has the table.

    Attributes:
        table: Spark's object of the table.
        columns: Names of the columns that are referred to.
        limits: What is known of all rows that are used.
        is_added_up: It is in one place, where the order of rows does not count.
    """

    table: Any
    columns: set[str]
    limits: Limits
    is_added_up: bool

    @property
    def is_repeated(self) -> bool:
        """Whether rows that are alike may come once, with their number."""
        few = FEW_VALUES.get(_format(self.table))
        return self.is_added_up and few is not None and self.columns <= few


def _pruned(frame: Any) -> Any:
    from py4j.protocol import Py4JError, Py4JJavaError

    if getattr(frame, "_jdf", None) is None:
        _tell_once(
            "Spark Connect does not show how a query is planned, so all columns are read:"
            " name those wanted by the option `columns`"
        )
        return frame
    if frame.isStreaming:
        return frame
    try:
        return _PlannedQuery(frame).again()
    except Py4JJavaError:
        raise
    except Py4JError as error:  # there is no such method: Spark's inner workings have changed
        _tell_once(f"plans of this Spark cannot be read, so all columns are: {error}")
        return frame


@functools.cache
def _tell_once(text: str) -> None:
    _log.warning(text)


class _PlannedQuery:
    """A query of a session of this process, which Spark has planned.

    Args:
        frame: Its DataFrame.
    """

    def __init__(self, frame: Any) -> None:
        self._frame = frame
        self._spark = frame.sparkSession
        self._analyzed = frame._jdf.queryExecution().analyzed()
        self._raised: dict[str, Any] = {}
        """By type, what stands for columns that are not read."""

    def again(self) -> Any:
        """Return the DataFrame of the query with tables of what it uses; itself if that is all."""
        relations = [one for one in _nodes(self._analyzed) if _is_ours(one)]
        uses = self._uses() if relations else []
        if not uses:
            return self._frame
        made: dict[int, Any] = {}
        replaced = self._catalyst.new_map()
        for relation in relations:
            number = _number_of(relation.table(), uses)
            if number is None:
                continue
            if number not in made:
                made[number] = self._read_again(relation, uses[number])
            if made[number] is not None:
                replaced.put(relation, self._in_place_of(relation, made[number], uses[number]))
        if not replaced:
            return self._frame
        from pyspark.sql import DataFrame

        plan = self._analyzed.transformUpWithSubqueries(self._catalyst.function(replaced))
        rows = self._catalyst.dataset.ofRows(self._frame._jdf.sparkSession(), plan)
        return DataFrame(rows, self._spark)

    def _uses(self) -> list[_Use]:
        """Return what the query uses of each of our tables; nothing if that is unknown."""
        uses: list[_Use] = []
        # What a filter says of the present is not said for the time when rows are read.
        is_lasting = not self._analyzed.containsPattern(self._catalyst.of_the_present)
        for scan in _scans(self._frame._jdf.queryExecution().optimizedPlan()):
            if scan is None:
                return []
            table = scan.relation.table()
            limits = self._limits(_format(table), scan.conditions) if is_lasting else {}
            number = _number_of(table, uses)
            if number is None:
                uses.append(_Use(table, set(scan.columns), limits, scan.is_added_up))
                continue
            use = uses[number]
            use.is_added_up = False
            use.columns |= scan.columns
            use.limits = either(use.limits, limits)
        return uses

    def _limits(self, source: str, conditions: Iterable[Any]) -> Limits:
        """Return what conditions, all of which hold, say of columns that a source filters."""
        translated = [self._catalyst.strategy.translateFilter(one, False) for one in conditions]
        return limits_of([one.get() for one in translated if one.isDefined()], FILTERS[source])

    def _read_again(self, relation: Any, use: _Use) -> Any:
        """Return the plan of a table with the columns used alone; None if that is all of it."""
        from pyspark.sql.types import IntegerType, StructField, StructType

        schema = _schema(relation)
        options = with_kept(schema, self._catalyst.texts(relation.options().asCaseSensitiveMap()))
        fields = [one for one in schema.fields if one.name in use.columns]
        is_tolerant = options.get("mode", "").upper() in _TOLERANT
        use.is_added_up &= not is_tolerant and ROW_COUNT not in schema.names
        if use.is_repeated:
            fields.append(StructField(ROW_COUNT, IntegerType()))
        elif not fields:
            fields = [min(schema.fields, key=_weight)]
        if is_tolerant:
            fields = schema.fields
        if len(fields) == len(schema.fields) and not use.limits:
            return None
        source = _format(relation.table())
        if use.limits:
            columns, given = FILTERS[source], options.get(FilteredColumns.OPTION, "{}")
            limits = both(columns.read(given), use.limits, columns)
            options[FilteredColumns.OPTION] = FilteredColumns.text(limits)
        reader = self._spark.read.format(source).options(**options)
        frame = reader.schema(StructType(fields)).load()
        if use.is_repeated:
            names = [one.name for one in fields[:-1]]
            frame = frame.selectExpr(*names, f"explode(sequence(1, {ROW_COUNT}))")
        return frame._jdf.queryExecution().analyzed()

    def _in_place_of(self, relation: Any, read: Any, use: _Use) -> Any:
        """Return what has the attributes of a relation, and takes those that are read from `read`.

        Each place of the relation in the query has attributes of its own.
        """
        is_read = {name for name, _ in _attributes(read.output())}
        fields = _schema(relation).fields
        every = list(zip(fields, _listed(relation.output()), strict=True))
        if use.is_repeated:
            names = [name for name, _ in _attributes(read.output())]
            found = dict(zip(names, _listed(read.output()), strict=True))
            output = [
                self._catalyst.alias(found[one.name], one.name, attribute.exprId())
                if one.name in is_read
                else self._left_out(one, attribute)
                for one, attribute in every
            ]
            return self._catalyst.project(self._catalyst.sequence(output), read)
        same = read.copy(
            read.table(),
            self._catalyst.sequence([attribute for one, attribute in every if one.name in is_read]),
            read.catalog(),
            read.identifier(),
            read.options(),
            read.timeTravelSpec(),
        )
        output = [
            attribute if one.name in is_read else self._left_out(one, attribute)
            for one, attribute in every
        ]
        return self._catalyst.project(self._catalyst.sequence(output), same)

    def _left_out(self, field: Any, attribute: Any) -> Any:
        """Return what stands for an attribute that is not read: it fails if it is asked for."""
        kind = field.dataType.simpleString()
        if kind not in self._raised:
            text = "a column was asked for that the query had not used when it was planned"
            raised = f"CAST(raise_error('{text}') AS {kind})"
            self._raised[kind] = self._parser.parseExpression(raised)
        return self._catalyst.alias(self._raised[kind], field.name, attribute.exprId())

    @functools.cached_property
    def _catalyst(self) -> "_Catalyst":
        return _Catalyst(self._spark._jvm)

    @functools.cached_property
    def _parser(self) -> Any:
        return self._frame._jdf.sparkSession().sessionState().sqlParser()


@functools.lru_cache(maxsize=1)
class _Catalyst:
    """What plans are made of. Each part of a name costs a question, so they are asked once.

    Args:
        jvm: Where Spark runs.
    """

    def __init__(self, jvm: Any) -> None:
        catalyst = jvm.org.apache.spark.sql.catalyst
        self._utils = jvm.PythonUtils
        self._alias = catalyst.expressions.Alias
        self._rest = self.sequence([]), jvm.scala.Option.empty(), self.sequence([])
        """What else an alias has: a qualifier, metadata, and what is not inherited of it."""
        self.project = catalyst.plans.logical.Project
        self.new_map = jvm.java.util.HashMap
        self._mapper = jvm.com.fasterxml.jackson.databind.ObjectMapper()
        self.of_the_present = catalyst.trees.TreePattern.CURRENT_LIKE()
        sources = jvm.org.apache.spark.sql.execution.datasources
        self.strategy = getattr(getattr(sources, "DataSourceStrategy$"), "MODULE$")
        self.dataset = jvm.org.apache.spark.sql.classic.Dataset

    def sequence(self, values: list[Any]) -> Any:
        """Return a sequence of Scala's."""
        return self._utils.toSeq(values)

    def texts(self, values: Any) -> dict[str, str]:
        """Return a map of texts by one question; to iterate over it takes dozens."""
        given: dict[str, str] = json.loads(self._mapper.writeValueAsString(values))
        return given

    def function(self, values: Any) -> Any:
        """Return a map as one of Scala's, which is a partial function."""
        return self._utils.toScalaMap(values)

    def alias(self, expression: Any, name: str, number: Any) -> Any:
        """Return an expression with a name and the id of an attribute."""
        return self._alias(expression, name, number, *self._rest)


@dataclass(frozen=True, slots=True)
class _Scan:
    """A place of an optimized plan where a table of ours is read.

    Attributes:
        relation: What is read.
        columns: The names of the columns that are used there.
        conditions: What holds for each row that is used.
        is_added_up: The order of rows does not count.
    """

    relation: Any
    columns: set[str]
    conditions: Sequence[Any]
    is_added_up: bool


def _scans(
    plan: Any,
    wanted: set[str] | None = None,
    conditions: Sequence[Any] = (),
    *,
    is_added_up: bool = False,
) -> Iterator[_Scan | None]:
    """Give the places where tables of ours are read, None for what hides some.

    Args:
        plan: An optimized plan.
        wanted: The ids of the attributes that are used of it; None for all.
        conditions: What holds for the rows that are used of it.
        is_added_up: The order of its rows does not count.
    """
    kind = _kind(plan)
    if kind == _CACHED:
        yield None
    if kind == _SCAN and _is_ours(plan.relation()):
        output = _attributes(plan.output())
        used = {name for name, number in output if wanted is None or number in wanted}
        yield _Scan(plan.relation(), used, conditions, is_added_up)
    below = None
    if kind in _CHOOSING:
        below = _referred(plan)
    elif kind in _PASSING and wanted is not None:
        below = wanted | _referred(plan)
    held = [*conditions, *_parts(plan.condition())] if kind == "Filter" else ()
    if kind == "Aggregate":
        functions = _FUNCTION.findall(plan.aggregateExpressions().mkString(","))
        is_added_up = _ADDS_UP.issuperset(functions)
    elif kind not in ("Filter", "Project"):
        is_added_up = False
    for child in _listed(plan.children()):
        yield from _scans(child, below, held, is_added_up=is_added_up)
    for child in _listed(plan.subqueries()):
        yield from _scans(child)


def _nodes(plan: Any) -> Iterator[Any]:
    """Give a plan, and all below it and in its subqueries."""
    yield plan
    for child in (*_listed(plan.children()), *_listed(plan.subqueries())):
        yield from _nodes(child)


def _is_ours(plan: Any) -> bool:
    return (
        _kind(plan) == _RELATION
        and plan.table().getClass().getSimpleName() == "PythonTable"
        and _format(plan.table()) in FILTERS
    )


def _format(table: Any) -> str:
    """Return the name of the format that a table was read with."""
    name: str = table.name().lower()
    return name


def _schema(relation: Any) -> Any:
    """Return the columns of a relation as a StructType."""
    from pyspark.sql.types import StructType

    return StructType.fromJson(json.loads(relation.table().schema().json()))


def _kind(node: Any) -> str:
    name: str = node.nodeName()
    return name


def _referred(plan: Any) -> set[str]:
    """Return the ids of the attributes that a node itself refers to."""
    return set(_ID.findall(plan.references().toSeq().toString()))


def _attributes(sequence: Any) -> list[tuple[str, str]]:
    """Return names and ids of a sequence of attributes of a table of ours."""
    return _ATTRIBUTE.findall(sequence.toString())


def _parts(condition: Any) -> Iterator[Any]:
    """Give the conditions between which a condition has AND."""
    if _kind(condition) == "And":
        yield from _parts(condition.left())
        yield from _parts(condition.right())
    else:
        yield condition


def _listed(found: Any) -> list[Any]:
    """Return a sequence of Scala's as a list."""
    return [found.apply(number) for number in range(found.size())]


def _number_of(table: Any, uses: Sequence[_Use]) -> int | None:
    """Return the number of what is used of a table; None if that is not known."""
    return next((n for n, use in enumerate(uses) if use.table.equals(table)), None)


def _weight(column: Any) -> int:
    kind = column.dataType.simpleString()
    return _CHEAP.index(kind) if kind in _CHEAP else len(_CHEAP)
