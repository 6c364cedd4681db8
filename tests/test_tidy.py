"""Reads the source: what the style rules say and no linter knows.

Banned calls, docstrings, units in the names of settings, tests for each room, dead links in the
docs, and texts that must not be in the repository. It counts no lines.
"""

import ast
import functools
import re
import subprocess
import tomllib
from collections.abc import Iterator, Set
from pathlib import Path

import pytest
from tests import durations

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "sprocket"
UNIT_TESTS = ROOT / "tests" / "unit"

BANNED = {
    # call: the modules it may stand in
    "open": {"base/disk/disk.py"},
    "os.open": {"base/disk/disk.py", "base/disk/file_lock.py", "runtime/standard_streams.py"},
    "os.fsync": {"base/disk/disk.py"},
    "os.fdatasync": {"base/disk/disk.py"},
    "os.pwrite": {"base/disk/disk.py"},
    "os.pwritev": {"base/disk/disk.py"},
    "mmap.mmap": {"base/disk/disk.py"},
    "time.time": {"base/clock.py"},
    "time.time_ns": {"base/clock.py"},
    "time.monotonic": {"base/clock.py"},
    "time.sleep": {"base/disk/file_lock.py"},
    "datetime.now": set(),
    "datetime.datetime.now": set(),
    "asyncio.to_thread": {"runtime/offload.py"},
    "threading.Thread": {
        *("runtime/offload.py", "runtime/blocking.py", "runtime/standard_streams.py")
    },
    "asyncio.gather": set(),
    "asyncio.ensure_future": {"runtime/tasks.py"},
    "asyncio.create_task": {"runtime/tasks.py"},
}
BANNED_METHODS = {
    "run_in_executor": {"runtime/offload.py"},
    "create_task": {"runtime/tasks.py"},
}
BANNED_METHODS_OF_PATH = {"read_text", "write_text", "read_bytes", "write_bytes"}

UNITS = {
    *("bytes", "ms", "seconds", "minutes", "hours", "days", "ratio", "percent", "count", "port"),
    *("messages", "records", "queues", "units", "slots", "files", "retries", "tries", "level"),
    *("connections", "frames", "perm", "depth", "keys", "entries", "requests", "offset", "rows"),
    *("id", "times", "capacity", "reads", "groups"),
}

LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
# Spelled in pieces, or this file would name what it forbids.
FORBIDDEN = {
    "a path of one machine": re.compile(
        "|".join(["/wo" + "rk/", "/tm" + "p/(venv|sprocket)", "/ho" + "me/[a-z]+/", "/ro" + "ot/"])
    ),
    "the address of a package registry": re.compile(
        "|".join(["pypi" + r"\.org", "files" + r"\.pythonhosted", "--(extra-)?index" + "-url"])
        + "|repo1?"
        + r"\.maven\.(apache\.)?org|registry\.npmjs"
    ),
    "a folder outside of the repository": re.compile(r"\.\./sha" + "red"),
    "a person who is a man": re.compile(
        r"(?<![\w\"'/])h(" + "|".join(["e", "im", "is", "imself"]) + r")\b"
    ),
    "an idiom that many readers do not know": re.compile(
        "|".join(["to be h" + r"ad\b", r"\bon the way w" + "ith", r"\bask(s|ed|ing) ah" + "ead"])
    ),
    "a document that is not in the repository": re.compile(
        "|".join([r"\bDES" + r"IGN\b", r"\bST" + r"YLE\b", r"\bspe" + r"cs? of\b"])
        + "|"
        + "|".join([r"\b(The|the) sp" + r"ec\b", r"\bsp" + "ec/"])
    ),
}


@functools.cache
def tree_of(path: Path) -> ast.Module:
    """Return a module as it is parsed."""
    return ast.parse(path.read_text(encoding="utf-8"))


def modules() -> list[Path]:
    """Every module of the package."""
    return sorted(SOURCE.rglob("*.py"))


def name(path: Path) -> str:
    """The path from the package's folder, for messages."""
    return path.relative_to(SOURCE).as_posix()


def tracked() -> list[Path]:
    """Every text file that git would commit; every file if this is not a git checkout."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode == 0:
        paths = [ROOT / line for line in listed.stdout.splitlines()]
    else:
        paths = [
            p
            for part in ("src", "tests", "docs", "examples")
            for p in ROOT.joinpath(part).rglob("*")
        ]
    return sorted(p for p in paths if p.is_file() and not p.is_symlink())


def dotted(node: ast.expr) -> str:
    """`a.b.c` for such an expression, else an empty string."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        below = dotted(node.value)
        return f"{below}.{node.attr}" if below else ""
    return ""


def banned_calls(path: Path, tree: ast.AST) -> Iterator[str]:
    """Each call that has its one place elsewhere."""
    here = name(path)
    groups = task_groups(tree)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = dotted(node.func)
        last = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        allowed = BANNED.get(called, BANNED_METHODS.get(last))
        if allowed is not None and here not in allowed:
            is_grouped = last == "create_task" and called.partition(".")[0] in groups
            if not is_grouped and not is_anonymous_mapping(node, called):
                yield f"{here}:{node.lineno} {called or last}"
        elif last in BANNED_METHODS_OF_PATH:
            yield f"{here}:{node.lineno} {last}"


def task_groups(tree: ast.AST) -> set[str]:
    """Names that a module binds by `async with asyncio.TaskGroup() as name`."""
    return {
        item.optional_vars.id
        for node in ast.walk(tree)
        if isinstance(node, ast.AsyncWith)
        for item in node.items
        if isinstance(item.optional_vars, ast.Name)
        and isinstance(item.context_expr, ast.Call)
        and dotted(item.context_expr.func) == "asyncio.TaskGroup"
    }


def is_anonymous_mapping(node: ast.Call, called: str) -> bool:
    """Say whether a mapping is plain memory, without a file behind it."""
    return called == "mmap.mmap" and bool(node.args) and ast.unparse(node.args[0]) == "-1"


def test_calls_have_one_place() -> None:
    """Files, clocks, threads and tasks enter by their one module."""
    found = []
    for path in modules():
        found += list(banned_calls(path, tree_of(path)))
    assert found == []


YIELDERS = {
    "rocketmq/client/consumer/delivery/consume.py",  # a client runs in a loop of its user's
    "testing/local_process.py",  # moves the clock of a whole loop, whatever runs in it
}
"""Modules that yield to the loop itself."""


def test_long_work_takes_its_turns_in_one_way() -> None:
    """`runtime.turns` calls it, and `runtime.slices` cuts it; nobody else yields to the loop."""
    found = [
        f"{name(path)}:{node.lineno}"
        for path in modules()
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Call)
        and dotted(node.func) == "asyncio.sleep"
        and isinstance(node.args[0], ast.Constant)
        and node.args[0].value == 0
        and name(path) not in YIELDERS
    ]
    assert found == []


def test_public_things_have_docstrings() -> None:
    """Every module, public class and public function says what it promises."""
    missing = []
    for path in modules():
        tree = tree_of(path)
        if not ast.get_docstring(tree):
            missing.append(name(path))
        for node in tree.body:
            if not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            if not node.name.startswith("_") and not ast.get_docstring(node):
                missing.append(f"{name(path)}:{node.lineno} {node.name}")
    assert missing == []


def test_each_room_has_tests() -> None:
    """`src/sprocket/a/` with code in it has `tests/unit/a/` with tests in it."""
    missing = set()
    for path in modules():
        here = path.relative_to(SOURCE).parent
        code = tree_of(path).body
        if any(is_code(node) for node in code) and not any(UNIT_TESTS.glob(f"{here}/test_*.py")):
            missing.add(f"tests/unit/{here}/")
    assert missing == set()


def is_code(node: ast.stmt) -> bool:
    """Anything but a docstring, an import and an assignment to a dunder name."""
    if isinstance(node, ast.Expr | ast.Import | ast.ImportFrom):
        return False
    if isinstance(node, ast.Assign):
        return not all(isinstance(t, ast.Name) and t.id.startswith("__") for t in node.targets)
    return True


def test_settings_name_their_units() -> None:
    """Each number among the settings has its unit in its name."""
    unnamed = []
    for path in modules():
        if path.name != "settings.py":
            continue
        for node in ast.walk(tree_of(path)):
            if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
                continue
            annotation = ast.unparse(node.annotation)
            is_number = re.match(r"(Annotated\[)?(int|float|Positive|Natural)\b", annotation)
            if is_number and not UNITS & set(node.target.id.split("_")):
                unnamed.append(f"{name(path)}:{node.lineno} {node.target.id}")
    assert unnamed == []


def test_docs_have_no_dead_links() -> None:
    """Every relative link in a Markdown file leads to a file, every anchor to a heading."""
    dead = []
    for page in (p for p in tracked() if p.suffix == ".md"):
        for target in LINK.findall(page.read_text(encoding="utf-8")):
            if re.match(r"[a-z]+:", target):
                continue
            file, _, anchor = target.partition("#")
            goal = page.parent / file if file else page
            if not goal.exists():
                dead.append(f"{page.relative_to(ROOT)}: {target}")
            elif anchor and goal.suffix == ".md" and anchor not in anchors(goal):
                dead.append(f"{page.relative_to(ROOT)}: {target} (no such heading)")
    assert dead == []


DOCS_COLUMNS = 120


def test_prose_of_the_docs_wraps() -> None:
    """So that a change shows what it changes; tables and code (fenced, or indented) may be long."""
    long = []
    for page in sorted(ROOT.joinpath("docs").rglob("*.md")):
        is_fenced = False
        for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
            if line.lstrip().startswith("```"):
                is_fenced = not is_fenced
            is_prose = not is_fenced and not re.match(r"    | *\|", line)
            if is_prose and len(line) > DOCS_COLUMNS:
                long.append(f"{page.relative_to(ROOT)}:{number} has {len(line)} columns")
    assert long == []


def anchors(page: Path) -> set[str]:
    """The anchors that a Markdown page's headings make."""
    heads = re.findall(r"^#+ +(.+?)\s*$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("what", FORBIDDEN)
def test_repository_stands_alone(what: str) -> None:
    """No file names a path of one machine, a registry, or what lies outside of the repository.

    Readers and users are "they", in words that they know from school.
    """
    named = []
    for path in tracked():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue  # a binary sample
        for match in FORBIDDEN[what].finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            named.append(f"{path.relative_to(ROOT)}:{line} {match.group()}")
    assert named == []


MAY_NEED_NUMPY = (
    "cli.folder",
    "node.backup",
    "node.broker_role",
    "node.replicas",
    "rabbitmq.broker",
    "rabbitmq.codec.columns",
    "rabbitmq.codec.index",
    "rabbitmq.server.handlers",
    "rabbitmq.server.management",
    "rabbitmq.server.vhost_connection",
    "rabbitmq.store",
    "rocketmq.broker",
    "rocketmq.codec.columns",
    "rocketmq.codec.record.batch_rows",
    "rocketmq.replication",
    "rocketmq.server",
    "rocketmq.store",
    "spark",
    "testing",
)
"""A broker, who reads its folder, and Spark; the rest is what a client is made of."""


def test_a_client_does_without_numpy() -> None:
    """Only what is named above needs it, by itself, by a face or by another module."""
    imports = {
        ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__"): set(
            imported(path)
        )
        for path in modules()
    }
    found = {"numpy", "rocketmq.store"}
    while more := {one for one, names in imports.items() if names & found} - found:
        found |= more
    assert {one for one in found if not one.startswith(MAY_NEED_NUMPY)} == {"numpy"}


def imported(path: Path) -> Iterator[str]:
    """What a module cannot be imported without: not what it tries, nor what only types need."""
    for node in tree_of(path).body:
        if isinstance(node, ast.Import):
            yield from (one.name.split(".")[0] for one in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            parts = node.module.split(".")
            names = [".".join(parts[: n + 1]) for n in range(len(parts))]
            names += [f"{node.module}.{one.name}" for one in node.names]
            yield from (one.removeprefix("sprocket.") for one in names)


def test_src_prints_nothing() -> None:
    """Only the command line writes to the terminal, through rich or stdout's own writer."""
    found = []
    for path in modules():
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.Call) and dotted(node.func) == "print":
                found.append(f"{name(path)}:{node.lineno}")
    assert found == []


REACHED_BY_STRANGERS = (
    *("runtime/driver/", "runtime/http/"),
    *("rocketmq/remoting/", "rocketmq/nameserver/", "rocketmq/server/dispatch.py"),
    *("rocketmq/server/handlers/", "rocketmq/server/nameservers/route_lookup.py"),
    *("rabbitmq/server/management/", "rabbitmq/server/connection.py"),
)


def test_what_strangers_cause_is_logged_with_a_limit() -> None:
    """Where anybody may come who reaches a port, the log has a line a kind and second."""
    unlimited = [
        f"{name(path)}:{node.lineno}"
        for path in modules()
        if name(path).startswith(REACHED_BY_STRANGERS)
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Call) and dotted(node.func) == "log.get_logger"
    ]
    assert unlimited == []


def test_commits_are_checked_as_make_lint_does() -> None:
    """The hooks of pre-commit and `make lint` are the same commands, in the same order."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    target = re.search(r"^lint: .*\n((?:\t.*\n)+)", makefile, re.MULTILINE)
    assert target is not None
    commands = [line.strip().lstrip("@") for line in target.group(1).splitlines()]
    hooks = (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    entries = re.findall(r"^ +entry: (.*)$", hooks, re.MULTILINE)
    assert [command.replace("$(BIN)", ".venv/bin") for command in commands] == entries


def test_users_are_not_offered_the_tools_of_developers() -> None:
    """What the tests and checks need is a dependency group; each extra is for users."""
    written = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert set(written["project"]["optional-dependencies"]) == {
        "broker",
        "client",
        "grpc",
        "java",
        "lz4",
        "rocksdb",
        "spark",
        "tls",
        "yaml",
    }
    assert any(wanted.startswith("pytest") for wanted in written["dependency-groups"]["dev"])


def test_constraints_pin_what_is_asked_for() -> None:
    """Each dependency that `pyproject.toml` names has its version in `constraints.txt`."""
    written = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pinned = {plain_name(line) for line in lines if "==" in line}
    asked = [*written["project"]["dependencies"], *written["dependency-groups"]["dev"]]
    for extra in written["project"]["optional-dependencies"].values():
        asked += extra
    assert {plain_name(one) for one in asked} - pinned == set()


def plain_name(requirement: str) -> str:
    """The name in a requirement, as package indexes compare it."""
    found = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert found is not None, requirement
    return re.sub(r"[-_.]+", "-", found.group()).lower()


def test_no_test_took_longer_than_a_test_may_twice() -> None:
    """One slow run may be a busy machine; after two the test repeats less, or goes to the night."""
    assert durations.too_slow(durations.read()) == []


def test_fragments_of_the_changelog_have_a_known_type() -> None:
    """Each file in `changes/` is `<name>.<type>.md` and says something; see `changes/README.md`."""
    written = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    known = {one["directory"] for one in written["tool"]["towncrier"]["type"]}
    wrong = []
    for path in (p for p in tracked() if p.parent.name == "changes"):
        if path.name in ("README.md", "template.jinja"):
            continue
        parts = path.name.split(".")
        if len(parts) != 3 or not parts[0] or parts[1] not in known or parts[2] != "md":
            wrong.append(f"{path.name} is not <name>.<type>.md with a type of {sorted(known)}")
        elif not path.read_text(encoding="utf-8").strip():
            wrong.append(f"{path.name} is empty")
    assert wrong == []


def rooms() -> set[str]:
    """Every package with a face: one whose `__init__` exports something."""
    faces = set()
    for path in SOURCE.rglob("__init__.py"):
        if "__all__" in path.read_text(encoding="utf-8"):
            faces.add(".".join(["sprocket", *path.relative_to(SOURCE).parent.parts]))
    return faces


def room_of(module: str, faces: Set[str]) -> str:
    """The innermost room that a module lies in; empty if in none."""
    parts = module.split(".")
    inner = (".".join(parts[:length]) for length in range(len(parts), 0, -1))
    return next((package for package in inner if package in faces), "")


def test_outsiders_import_a_room_by_its_face() -> None:
    """What lies in a room is imported from its `__init__` by everybody who is not in it."""
    faces, found = rooms(), []
    for path in modules():
        here = ".".join(["sprocket", *path.relative_to(SOURCE).with_suffix("").parts])
        inside = room_of(here.removesuffix(".__init__"), faces)
        for node in ast.walk(tree_of(path)):
            if not isinstance(node, ast.ImportFrom) or node.module is None:
                continue
            room = room_of(node.module, faces)
            if room and room != node.module and not (inside + ".").startswith(room + "."):
                found.append(f"{name(path)}:{node.lineno} {node.module}")
    assert found == []


def exported(face: str) -> dict[str, str]:
    """The module that each name comes from which a face imports."""
    path = SOURCE.joinpath(*face.split(".")[1:], "__init__.py")
    return {
        one.name: node.module or ""
        for node in tree_of(path).body
        if isinstance(node, ast.ImportFrom)
        for one in node.names
    }


def test_tests_import_from_a_face_what_it_exports() -> None:
    """So that what lies inside a room can move there without a change in a test."""
    exports, found = {face: exported(face) for face in rooms()}, []
    for path in (
        p for top in ("tests", "bench", "examples") for p in ROOT.joinpath(top).rglob("*.py")
    ):
        for node in ast.walk(tree_of(path)):
            if not isinstance(node, ast.ImportFrom) or node.module is None:
                continue
            face = exports.get(room_of(node.module, exports.keys()), {})
            names = [one.name for one in node.names if face.get(one.name) == node.module]
            if names and node.module not in exports:
                found.append(f"{path.relative_to(ROOT)}:{node.lineno} {node.module} {names}")
    assert found == []


IS_NO = re.compile(
    r"(?<!there )\b(is|are|was|were) no (?!(longer|more than|less than|fewer than) )[\w`'{]+",
    re.IGNORECASE,
)
"""Where "is not a" is meant."""


def test_what_a_thing_is_not_is_said_plainly() -> None:
    """A file "is not a store"; with "no" alone in that place readers stumble."""
    found = []
    for path in tracked():
        where = path.relative_to(ROOT).as_posix()
        if path.suffix not in (".py", ".md", ".mk", ".ipynb"):
            continue
        lines = path.read_text(encoding="utf-8").splitlines()
        prose = " ".join(line.strip().removeprefix("#").lstrip() for line in lines)
        found += [f"{where}: {match.group()}" for match in IS_NO.finditer(prose)]
    assert found == []


def test_the_glossary_names_what_is_there() -> None:
    """Each word stands where its row says: a module or a room of the package."""
    rows = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8").splitlines()
    cells = [row.split("|")[2] for row in rows if row.startswith("| ")]
    places = [SOURCE / place for cell in cells for place in re.findall(r"`([^`]+)`", cell)]
    assert len(places) > 20
    assert [one for one in places if not one.exists() and not Path(f"{one}.py").is_file()] == []


FLOORS = ("base", "runtime", "node")
OF_A_PRODUCT = (
    *("node/backup.py", "node/broker_role.py", "node/broker_set.py", "node/products.py"),
    *("node/rabbitmq.py", "node/replicas.py", "node/rocketmq.py"),
)
"""A file for each product, the table of them, and what does something with all that they keep."""
OF_ONE_PRODUCT = re.compile(
    r"(?<!sp)rocketmq|name ?server|consume ?queue|commit ?log|fastjson|netty"
    r"|(request|response)code|rabbitmq|amqp|erlang",
    re.IGNORECASE,
)


def test_floors_know_no_product() -> None:
    """What every product stands on, and the host, have no word of one, not even in a comment."""
    found = []
    for path in (p for floor in FLOORS for p in SOURCE.joinpath(floor).rglob("*.py")):
        if name(path) in OF_A_PRODUCT:
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if (word := OF_ONE_PRODUCT.search(line)) is not None:
                found.append(f"{name(path)}:{number} {word.group()}")
    assert found == []


def test_no_two_public_classes_share_a_name() -> None:
    """A word means one thing in the whole source."""
    places: dict[str, list[str]] = {}
    for path in modules():
        for node in tree_of(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(name(path))
    assert {found: where for found, where in places.items() if len(where) > 1} == {}


NOT_OURS = {"_asdict", "_exit", "_fields", "_getframe", "_jdf", "_jvm", "_make", "_replace"}
"""Public names of libraries that begin with an underscore."""


def test_tests_reach_into_nothing_private() -> None:
    """They look at an object from outside, so that a change inside changes no test."""
    found = []
    for path in sorted(ROOT.joinpath("tests").rglob("*.py")):
        for node in ast.walk(tree_of(path)):
            if not isinstance(node, ast.Attribute) or not re.match(r"_[a-zA-Z]", node.attr):
                continue
            if node.attr not in NOT_OURS and ast.unparse(node.value) not in OWN_SELF:
                found.append(f"{path.relative_to(ROOT)}:{node.lineno} {ast.unparse(node)}")
    assert found == []


OWN_SELF = {"self", "cls", "super()"}


LAYOUTS: dict[str, dict[object, str]] = {
    "rocketmq/codec/record_layout.py": {
        ">iI": "HEAD",
        ">iI4xi4xqq": "PLACE",
        0xDAA320A7: "MAGIC_V1",
        0xDAA320AB: "MAGIC_V2",
        0xCBD43194: "MAGIC_BLANK",
    },
    "rocketmq/store/queue/queue.py": {">qiq": "QUEUE_UNIT"},
    "rocketmq/store/queue/batch_queue.py": {">qiqqqhii": "BATCH_UNIT"},
    "rocketmq/store/index/index_file.py": {">qqqqii": "HEADER", ">iqii": "INDEX_UNIT"},
    "rocketmq/geometry.py": {46: "BATCH_UNIT_BYTES"},
    "rocketmq/model/internal.py": {"%RETRY%": "RETRY_PREFIX", "%DLQ%": "DEAD_LETTER_PREFIX"},
}
"""Which module alone spells a layout, a size or a prefix, and what others call it."""
SIZES = {"QUEUE_UNIT_BYTES": 20, "INDEX_UNIT_BYTES": 20, "INDEX_HEADER_BYTES": 40}
"""Sizes that may be other numbers as well, but not where units are read and written."""
READERS_OF_UNITS = ("rocketmq/store", "rocketmq/aliases.py", "rocketmq/geometry.py")
OTHER_NUMBERS: set[tuple[str, object]] = {
    ("rocketmq/codec/codes.py", 46),
    ("rocketmq/store/reput/log_follower.py", 40),
}
"""Those that are not sizes: a request's code, how many records are worth columns."""


def constants(path: Path) -> Iterator[ast.Constant]:
    """Every constant of a module but docstrings."""
    tree = tree_of(path)
    texts = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and id(node) not in texts:
            yield node


def test_a_layout_or_prefix_is_spelt_in_one_place() -> None:
    """Heads of records, units of queues and index, what retry topics begin with."""
    home = {value: where for where, values in LAYOUTS.items() for value in values}
    found = []
    for path in modules():
        where = name(path)
        for node in constants(path):
            parts = str(node.value).split("%") if isinstance(node.value, str) else []
            for value in (node.value, *(f"%{part}%" for part in parts)):
                place = home.get(value, where)
                if place != where and (where, value) not in OTHER_NUMBERS:
                    found.append(f"{where}:{node.lineno} spells {LAYOUTS[place][value]} of {place}")
    assert found == []


def test_sizes_of_units_are_spelt_once_where_units_are_read() -> None:
    """Whoever writes a 20 or 40 there means a size, and has it from `rocketmq/geometry.py`."""
    found = {
        (name(path), node.value)
        for path in modules()
        for node in constants(path)
        if name(path).startswith(READERS_OF_UNITS) and node.value in SIZES.values()
    }
    assert found - OTHER_NUMBERS == {("rocketmq/geometry.py", size) for size in SIZES.values()}
