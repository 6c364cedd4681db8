"""What went wrong in a query, in one line: Spark's own text is a page with two stack traces.

A worker's error crosses the JVM as text. Of that text its last line counts: the name of the error
and what it says.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sprocket.base.errors import SprocketError

_OF_A_WORKER = re.compile(r"^(?:\w+\.)*(\w+(?:Error|Exception)|[A-Z]\w+): (.+)$", re.MULTILINE)
_OURS = re.compile(r"^sprocket\.(?:\w+\.)+(\w+): (.+)$", re.MULTILINE)
_OF_JAVA = re.compile(r"^(?:\w+\.)+\w+: ")
_OF_SPARK = re.compile(r"^\[[A-Z_.0-9]+\] ")


class QueryFailed(SprocketError):
    """A query or a job of Spark ended with an error; the text is the error's own line."""


@contextmanager
def in_one_line() -> Iterator[None]:
    """Turn errors of Spark into one of ours.

    Raises:
        QueryFailed: The block ended with an error of Spark, or with one that a worker met.
        KeyboardInterrupt: So did Ctrl-C end it, after which a call of py4j's may fail as well.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as error:
        if _is_interrupted(error):
            raise KeyboardInterrupt from error
        raise QueryFailed(said(error)) from error


def said(error: BaseException) -> str:
    """Return what an error of Spark says, without stack traces.

    Of several errors that are ours, which a worker met one after the other, the last one counts.
    """
    text = _text(error)
    ours = _OURS.findall(text)
    if ours:
        return str(ours[-1][1])
    if "Traceback (most recent call last)" in text:
        found = _OF_A_WORKER.findall(text.partition("Traceback (most recent call last)")[2])
        if found:
            return f"{found[-1][0]}: {found[-1][1]}"
    java = getattr(error, "java_exception", None)
    if java is not None:  # its own text says only which call failed
        text = _OF_JAVA.sub("", java.toString())
    first = next((line for line in text.splitlines() if line.strip()), type(error).__name__)
    return _OF_SPARK.sub("", first.strip())


def _is_interrupted(error: BaseException | None) -> bool:
    """Tell whether an error came while Ctrl-C was being handled."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None


def _text(error: Any) -> str:
    java = getattr(error, "java_exception", None)
    text = str(error)
    return f"{text}\n{java.toString()}" if java is not None else text
