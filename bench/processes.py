"""What a bench asks of the operating system about a process, and how it gets the machine alone."""

import os
import platform
import signal
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")

REST_SECONDS = 0.3
"""Between load and reading the CPU: work put off (index, queue files) belongs to the messages."""


def cpu_seconds(pid: int) -> float:
    """Return user and system time of the whole process, all its threads, to 10 ms."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND


def family_cpu_seconds(pid: int) -> float:
    """Return the same for a process, its children, theirs and so on, those that ended included.

    One that ended counts as soon as its parent has taken note of that.
    """
    parents: dict[int, int] = {}
    seconds: dict[int, float] = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            text = (folder / "stat").read_text()
        except OSError:
            continue  # it ended meanwhile
        fields = text.rpartition(")")[2].split()
        parents[int(folder.name)] = int(fields[1])
        seconds[int(folder.name)] = sum(map(int, fields[11:15])) / TICKS_PER_SECOND
    family = {pid}
    while found := {one for one, parent in parents.items() if parent in family} - family:
        family |= found
    return sum(seconds.get(one, 0.0) for one in family)


def memory(pid: int) -> Mapping[str, float]:
    """Return MiB: what is resident, the peak of that, and the part of it that is not of files."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    said = {line.partition(":")[0]: line.split()[1] for line in lines if "kB" in line}
    return {
        "rss_mib": int(said["VmRSS"]) / 1024,
        "peak_rss_mib": int(said["VmHWM"]) / 1024,
        "anonymous_mib": int(said["RssAnon"]) / 1024,
    }


def find_package() -> None:
    """Let the Python processes of Spark find this folder, compiled as what is installed is.

    Each query starts one; without compiled files it would take half a second more.
    """
    os.environ["PYTHONPATH"] = os.pathsep.join([os.getcwd(), os.environ.get("PYTHONPATH", "")])
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


@contextmanager
def alone(pid: int, pids: Iterable[int]) -> Iterator[None]:
    """Stop every other process of `pids` meanwhile."""
    others = [other for other in pids if other != pid]
    for other in others:
        os.kill(other, signal.SIGSTOP)
    try:
        yield
    finally:
        for other in others:
            os.kill(other, signal.SIGCONT)
        time.sleep(REST_SECONDS)  # what they put off while stopped is not the next one's


def machine() -> dict[str, object]:
    """Return what a figure depends on."""
    java = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False)
    return {
        "cpus": os.cpu_count(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "java": (java.stderr.splitlines() or ["none"])[0],
    }
