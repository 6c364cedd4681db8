"""Make a release of a folder with this source: `make release VERSION=X.Y.Z`.

The fragments in `changes/` become the newest section of `CHANGELOG.md`, and the package gets the
version. Both stand in the folder afterwards, to be looked at and committed.
"""

import re
import subprocess
import sys
from pathlib import Path

PLAIN = re.compile(r"\d+\.\d+\.\d+")
ASSIGNED = re.compile(r'^__version__ = ".*"$', re.MULTILINE)


def refusal(folder: Path, version: str) -> str:
    """Say why this version cannot be made of the folder; an empty text if it can."""
    if not PLAIN.fullmatch(version):
        return f"VERSION={version} is not a release; expected three numbers, such as 0.2.0"
    changelog = (folder / "CHANGELOG.md").read_text(encoding="utf-8")
    if re.search(rf"^## {re.escape(version)} ", changelog, re.MULTILINE):
        return f"CHANGELOG.md has a section {version} already"
    if not list(folder.glob("changes/*.*.md")):
        return "changes/ has no fragment, so nothing has changed since the last release"
    return ""


def main(folder: Path, version: str) -> int:
    """Move the fragments into the changelog and set the version; return the exit code."""
    if refused := refusal(folder, version):
        print(f"release: {refused}", file=sys.stderr)
        return 1
    build = [sys.executable, "-m", "towncrier", "build", "--yes", "--version", version]
    subprocess.run([*build, "--dir", str(folder)], check=True)  # noqa: S603
    package = folder / "src" / "sprocket" / "__init__.py"
    text, count = ASSIGNED.subn(f'__version__ = "{version}"', package.read_text(encoding="utf-8"))
    if count != 1:
        raise ValueError(f"{package} assigns __version__ {count} times, not once")
    package.write_text(text, encoding="utf-8")
    print(f"release: CHANGELOG.md and the package are {version}; look at them, then commit")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2]))
