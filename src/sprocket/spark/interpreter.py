"""Which Python Spark's workers run: this one, so that they have what the driver has.

Spark starts workers with the `python3` of the PATH unless the variable PYSPARK_PYTHON names
another. If the environment is not activated that is another Python, which does not have Sprocket.
"""

import os
import sys
from typing import Any

_VARIABLE = "PYSPARK_PYTHON"
_SPARKS_CHOICE = "python3"
_SUBMITTED = "PYSPARK_GATEWAY_PORT"
"""Set by `spark-submit`, whose own settings say which Python runs where."""


def choose() -> None:
    """Let sessions that this process starts from now on run workers with this interpreter.

    A choice that was made already stays: that of the variable, or of `spark-submit`.
    """
    if _SUBMITTED not in os.environ:
        os.environ.setdefault(_VARIABLE, sys.executable)


def correct(spark: Any) -> None:
    """Do the same for a session that was started before, if it runs on this machine.

    What a cluster's machines have is not known here, so that is left as it is.

    Args:
        spark: The SparkSession; one of Spark Connect has its workers elsewhere.
    """
    context = getattr(spark, "_sc", None)
    if context is None or not context.master.startswith("local"):
        return
    if context.pythonExec == _SPARKS_CHOICE:
        context.pythonExec = sys.executable
