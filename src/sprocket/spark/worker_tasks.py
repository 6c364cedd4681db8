"""Work that is done inside of Spark's workers: a task for each item, small results as a table.

The bytes of a log need not enter the JVM where only counts come of them, or files. So the items,
such as parts of a log, go to the workers with the function, and what comes back is Arrow.
"""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

T = TypeVar("T")


@dataclasses.dataclass(frozen=True, slots=True)
class _Task(Generic[T]):
    """What a worker is sent: all items, of which the rows that it gets name one by its number."""

    items: tuple[T, ...]
    work: Callable[[T], Iterator[Any]]

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from self.work(self.items[number])


def spread(spark: Any, items: Sequence[T], work: Callable[[T], Iterator[Any]], schema: str) -> Any:
    """Return a DataFrame of what `work` gives for each item, every item in a task of its own.

    Args:
        spark: The SparkSession, local or of Spark Connect.
        items: What the tasks are for. All of them go to every task: a few hundred bytes each.
        work: Makes Arrow batches of one item, in a worker; it is pickled, and so a function of a
            module, or a `functools.partial` of one.
        schema: Of these batches, as Spark writes it.
    """
    if not items:
        return spark.createDataFrame([], schema)
    numbers = spark.range(0, len(items), 1, len(items))
    return numbers.mapInArrow(_Task(tuple(items), work), schema)
