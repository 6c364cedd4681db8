"""Where the Python processes of Spark find PySpark: as it is installed, and not in an archive.

Spark puts `python/lib/pyspark.zip` of its home before all else that its Python processes import.
Nothing keeps byte code for what is in an archive, so each process that Spark starts compiles some
three hundred modules, three quarters of what it takes until it works. One is started for every new
stream, and one for each kind of work that a session has. In a home without the archive they find
the PySpark that is installed, the very one that makes the session, whose byte code is kept.
"""

import contextlib
import os
import sys
import sysconfig
from collections.abc import Iterator, MutableMapping
from pathlib import Path

VARIABLE = "SPARK_HOME"
_PYTHONS = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")
_WITHOUT = "python"
"""The folder that has the archives, of PySpark and of Py4J, and nothing that a session needs."""


@contextlib.contextmanager
def without_archives(env: MutableMapping[str, str], folder: str) -> Iterator[None]:
    """Let a JVM that is started meanwhile, on this machine, have such a home.

    Nothing changes where somebody has chosen a home, or another Python than this one, or where
    PySpark is not installed for this Python as packages are.

    Args:
        env: Variables, those of this process.
        folder: Where the home may be made; it must stay as long as the JVM.
    """
    home = _made(env, Path(folder) / "spark-home")
    if home is None:
        yield
        return
    env[VARIABLE] = str(home)
    try:
        yield
    finally:
        del env[VARIABLE]


def _made(env: MutableMapping[str, str], home: Path) -> Path | None:
    """Return a home of links to all but the archives; None if Spark is to have its own."""
    import pyspark

    installed = Path(pyspark.__file__).parent
    is_own = all(env.get(name, sys.executable) == sys.executable for name in _PYTHONS)
    is_found = installed.parent in {
        Path(sysconfig.get_path(kind)).resolve() for kind in ("purelib", "platlib")
    }
    if os.name != "posix" or VARIABLE in env or not is_own or not is_found:
        return None
    home.mkdir(parents=True, exist_ok=True)
    for part in installed.iterdir():
        if part.name != _WITHOUT and not (home / part.name).exists():
            (home / part.name).symlink_to(part)
    return home
