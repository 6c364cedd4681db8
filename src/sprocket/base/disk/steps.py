"""Work cut into steps, of which some may run on another thread.

The work is a generator that yields calls. The code between the yields runs where the owner of the
data is. A call that is yielded may run on any thread, and what it returns or raises comes back at
the yield. So work that has to wait for the disk reads in a straight line, whoever runs it: `run` in
a library, the event loop and its disk thread in a broker.

Invariants

1. One call of a generator is out at a time, so that steps see each other's effects in order.
2. A call touches nothing that the owner changes meanwhile: it is given what it needs.
3. A generator that is closed between two steps leaves its owner as if the rest had failed.
"""

from collections.abc import Callable, Generator
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")

Call: TypeAlias = Callable[[], Any]
"""A step that may wait for the disk."""

Steps: TypeAlias = Generator[Call, Any, None]
"""Work in steps; it gives calls, and is given what they returned."""

StepsTo: TypeAlias = Generator[Call, Any, T]
"""Work in steps that returns something. What comes back at a yield is of the type that the call
there returns, which is more than the type of a generator can say."""


def advance(
    steps: Generator[Call, Any, object], result: Any = None, error: BaseException | None = None
) -> Call | None:
    """Continue to the next call, given what the one before returned or raised; None: all is done.

    Raises:
        BaseException: Whatever the work raises, `error` if it did not catch that.
    """
    try:
        return steps.send(result) if error is None else steps.throw(error)
    except StopIteration:
        return None


def run(steps: StepsTo[T]) -> T:
    """Do all of the work here and now; return what it returns, and raise what it raises."""
    result, error = None, None
    while True:
        try:
            call = steps.send(result) if error is None else steps.throw(error)
        except StopIteration as end:
            returned: T = end.value
            return returned
        result, error = None, None
        try:
            result = call()
        except BaseException as caught:  # it goes on in the generator, and through it to the caller
            error = caught
