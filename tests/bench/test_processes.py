"""What a bench asks of the operating system about processes."""

import os
import subprocess
import sys

from bench import processes

SPUN_SECONDS = 0.05
TICK_SECONDS = 1 / processes.TICKS_PER_SECOND
SPIN = f"import time\nwhile time.process_time() < {SPUN_SECONDS + 0.02}: pass\n"


def test_the_cpu_of_a_family() -> None:
    """A child counts while it runs and when it has ended; a process counts without its parent."""
    me = os.getpid()
    before = processes.family_cpu_seconds(me)
    command = [sys.executable, "-S", "-c", f"{SPIN}print(flush=True)\ninput()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        alone = processes.family_cpu_seconds(child.pid)
        while_it_runs = processes.family_cpu_seconds(me) - before
        child.communicate(b"\n")
    when_it_ended = processes.family_cpu_seconds(me) - before
    assert alone >= SPUN_SECONDS
    assert alone < min(while_it_runs, when_it_ended) + TICK_SECONDS, "differences are rounded"
