"""What `make release` does, in a copy: fragments become a section, and the package its version."""

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FRAGMENTS = {
    "pulls-are-quick.changed.md": "Pulls take a third less.\n",
    "a-lost-one.fixed.md": "Nothing is lost;\nsee [the guide](../docs/guides/store.md).\n",
}


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A folder as the repository is, with two fragments."""
    for name in ("CHANGELOG.md", "pyproject.toml", "src/sprocket/__init__.py"):
        tmp_path.joinpath(name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    changes = tmp_path / "changes"
    changes.mkdir()
    for name in ("README.md", "template.jinja"):
        shutil.copy(ROOT / "changes" / name, changes / name)
    for name, text in FRAGMENTS.items():
        (changes / name).write_text(text, encoding="utf-8")
    return tmp_path


def release(folder: Path, version: str) -> subprocess.CompletedProcess[str]:
    """Run what `make release` runs."""
    command = [sys.executable, str(ROOT / "make" / "release.py"), str(folder), version]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def version_of(folder: Path) -> str:
    """The version that the package of a folder names."""
    text = (folder / "src" / "sprocket" / "__init__.py").read_text(encoding="utf-8")
    return text.partition('__version__ = "')[2].partition('"')[0]


def test_fragments_become_the_newest_section(copy: Path) -> None:
    """Each under its type, with links from where it stands then; what was there stays."""
    before = (copy / "CHANGELOG.md").read_text(encoding="utf-8")
    ended = release(copy, "98.7.6")
    assert ended.returncode == 0, ended.stderr
    after = (copy / "CHANGELOG.md").read_text(encoding="utf-8")
    head, mark, old = before.partition("<!-- towncrier release notes start -->\n")
    assert after.startswith(head + mark)
    assert after.endswith(old.lstrip("\n"))
    section = after.removeprefix(head + mark).removesuffix(old.lstrip("\n"))
    assert re.sub(r"\d{4}-\d\d-\d\d", "DATE", section.strip()) == (
        "## 98.7.6 (DATE)\n\n"
        "### Changed\n\n- Pulls take a third less.\n\n"
        "### Fixed\n\n- Nothing is lost;\n  see [the guide](docs/guides/store.md)."
    )
    left = {path.name for path in (copy / "changes").iterdir()}
    assert left == {"README.md", "template.jinja"}
    assert version_of(copy) == "98.7.6"


def test_every_fragment_of_today_can_be_released(copy: Path) -> None:
    """Whole, and each link leads to a file."""
    shutil.copytree(ROOT / "changes", copy / "changes", dirs_exist_ok=True)
    texts = [path.read_text(encoding="utf-8") for path in (copy / "changes").glob("*.*.md")]
    ended = release(copy, "98.7.6")
    assert ended.returncode == 0, ended.stderr
    changelog = (copy / "CHANGELOG.md").read_text(encoding="utf-8")
    section = changelog.partition("\n## 98.7.6 ")[2].partition("\n## ")[0]
    plain = " ".join(section.split())
    fragments = [" ".join(text.replace("](../", "](").split()) for text in texts]
    assert [fragment for fragment in fragments if fragment not in plain] == []
    links = [link.partition("#")[0] for link in re.findall(r"\]\(([^)\s:]+)\)", section)]
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_what_cannot_be_a_release_changes_nothing(copy: Path) -> None:
    """A version with more than three numbers, one that was released, and one without a change."""
    asked = [("98.7.6.dev0", "not a release"), ("0.1.0", "has a section 0.1.0")]
    for version, reason in asked:
        refused = release(copy, version)
        assert (refused.returncode, reason in refused.stderr) == (1, True), refused
    assert set(FRAGMENTS) < {path.name for path in (copy / "changes").iterdir()}
    for name in FRAGMENTS:
        (copy / "changes" / name).unlink()
    nothing = release(copy, "98.7.6")
    assert (nothing.returncode, "has no fragment" in nothing.stderr) == (1, True), nothing
    assert version_of(copy) == version_of(ROOT)


def test_the_version_is_written_once() -> None:
    """The build takes it from the package."""
    written = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert "version" in written["project"]["dynamic"]
    assert written["tool"]["hatch"]["version"] == {"path": "src/sprocket/__init__.py"}
    assert version_of(ROOT)
