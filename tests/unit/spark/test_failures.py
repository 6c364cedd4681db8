"""Errors of queries in one line."""

import pytest
from py4j.protocol import Py4JError

from sprocket.spark import failures

WORKER = """
  An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "a.py", line 31, in f
    raise FileMissing(text)
{last}
"""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            WORKER.format(last="sprocket.base.errors.CorruptRecord: store/0: at 120: broken"),
            "store/0: at 120: broken",
        ),
        (
            WORKER.format(last="sprocket.base.errors.SettingsError: unknown option 'x'")
            + "During handling of the above exception, another exception occurred:\n"
            + WORKER.format(last="UnboundLocalError: cannot access local variable 'reader'"),
            "unknown option 'x'",
        ),
        (
            WORKER.format(last="ZeroDivisionError: division by zero"),
            "ZeroDivisionError: division by zero",
        ),
        (
            "[TABLE_OR_VIEW_NOT_FOUND] The table or view `x` cannot be found.\nVerify it.",
            "The table or view `x` cannot be found.",
        ),
    ],
)
def test_the_last_line_of_a_worker_counts(text: str, said: str) -> None:
    """Ours without its name, another with it; what Spark itself says without its code."""
    assert failures.said(Exception(text)) == said


def test_an_error_of_java_is_what_java_says() -> None:
    """What Python says of it is which call failed."""

    class Failed(Exception):
        """As py4j has it."""

        class java_exception:  # noqa: N801
            """What the JVM has thrown."""

            @staticmethod
            def toString() -> str:  # noqa: N802
                """Say it as Java does."""
                return "org.apache.spark.SparkException: Could not parse Master URL: 'x'"

    said = failures.said(Failed("An error occurred while calling None.a.b.JavaSparkContext."))
    assert said == "Could not parse Master URL: 'x'"


def test_ctrl_c_stays_what_it_is() -> None:
    """Collecting rows, pyspark calls the JVM once more when it is interrupted, and that fails."""

    def interrupted() -> None:
        try:
            raise KeyboardInterrupt
        finally:
            raise Py4JError("An error occurred while calling o87.getResult")

    with pytest.raises(KeyboardInterrupt), failures.in_one_line():
        interrupted()


def test_an_error_without_text_has_its_name() -> None:
    """Which is better than nothing."""
    assert failures.said(ValueError()) == "ValueError"
