"""RocketMQ's controller mode without a controller: its file of epochs, its master and its slave."""

import subprocess
from pathlib import Path
from typing import Self

from tests.interop import peers


class AutoSwitch:
    """A Java process that does what it is told, an order a line; `AutoSwitch.java` lists them."""

    def __init__(self, jars: Path, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._log = (folder / "log").open("w")
        self._child = subprocess.Popen(
            [*peers.java(jars, home=folder), str(peers.SWITCH_SOURCE)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )
        self._folder = folder

    def ask(self, *words: object) -> str:
        """Give an order and return the answer."""
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        print(*words, file=self._child.stdin, flush=True)
        for line in self._child.stdout:
            if line.startswith("= "):
                return line[2:].strip()
        raise AssertionError((self._folder / "log").read_text()[-4000:])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._child.kill()
        self._child.communicate()
        self._log.close()
