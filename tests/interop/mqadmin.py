"""Runs commands of the real `mqadmin` 5.3.3 in one virtual machine, and makes texts comparable.

What is left out of a text is what no two brokers have alike: addresses, times, ids, rates, and the
order of rows; and what the real broker says by mistake (its group list of a topic holds the topic's
own name).
"""

import base64
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.interop import peers
from tests.waits import LONG_SECONDS

RUN_SECONDS_MAX = LONG_SECONDS

Command = Sequence[str]

TOOLS = "TOOLS_CONSUMER"
"""The group in which commands pull; it may be there while another one looks."""

_MASKS = (
    (re.compile(r"127\.0\.0\.1:\d+"), "ADDRESS"),
    (re.compile(r"\d{4}-\d\d-\d\d[ #]\d\d:\d\d:\d\d[,:.]?\d*"), "TIME"),
    (re.compile(r"[\d.]+@\d+#\d+"), "CLIENT"),
    (re.compile(r"\b1[67]\d{11}\b"), "MS"),
    (re.compile(r"\brt=\d+ms"), "rt=MS"),
    (re.compile(r"\b[0-9A-F]{32,56}\b"), "ID"),
    (re.compile(r"\d+\.\d+(E-?\d+)?"), "NUMBER"),
    (re.compile(r"[ \t]+"), " "),
)
_LEFT_OUT = re.compile(
    r"at .*\(|\.\.\. \d+ more|.*\|-|.*(See|please visit).*rocketmq\.apache\.org|$"
)
_NAMES_CONFIG = re.compile(r"orderMessageEnable ")
_NOT_OURS = re.compile(
    r'"(counter|order|cpuNum|traceOn|msgTraceTopicName|traceTopicEnable|slaveReadEnable|useTLS)":'
)
"""What an export tells of parts that Sprocket has not got (see docs/guides/mqadmin.md), and how
often tables changed."""
_CONFIG = re.compile(
    r"(brokerName|brokerClusterName|brokerId|brokerRole|autoCreateTopicEnable|deleteWhen|"
    r"fileReservedTime|maxMessageSize|defaultTopicQueueNums|channelExpiredTimeout) "
)


def run(
    jars: Path,
    folder: Path,
    nameserver: str,
    stages: Sequence[Sequence[Command]],
    credentials: tuple[str, str] | None = None,
) -> list[str]:
    """Run commands, those of a stage beside each other; return what each printed, in their order.

    Args:
        jars: RocketMQ's.
        folder: For the classes, and for what the tool writes.
        nameserver: Whom the commands ask.
        stages: The commands, a name with its arguments each.
        credentials: Name and password of whoever asks; without them requests are not signed.
    """
    orders = folder / "orders"
    lines = ["\n".join(map(_line, stage)) for stage in stages]
    orders.write_text("\n\n".join(lines) + "\n")
    classes = peers.compile_java(jars, folder, [peers.TOOLS_SOURCE])
    java = peers.java(jars, home=folder, classes=classes)
    command = [*java, "Mqadmin", nameserver, str(orders)]
    if credentials is not None:
        file = folder / "tools.yml"
        file.write_text("accessKey: {}\nsecretKey: {}\n".format(*credentials))
        command.append(str(file))
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS_MAX,
        check=False,
        cwd=folder,  # into which consumerStatus writes what it was told
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    printed = done.stdout.splitlines()[-sum(map(len, stages)) :]
    return [base64.b64decode(line).decode() for line in printed]


def exported(command: Command) -> str:
    """Return what an `export…` command wrote into the folder that `-f` names; "" of any other."""
    if not command[0].startswith("export"):
        return ""
    files = sorted(Path(command[command.index("-f") + 1]).iterdir())
    return "".join(f"\n{file.name}\n{file.read_text()}" for file in files)


def comparable(command: str, text: str) -> list[str]:
    """Return the lines of what a command printed, as two brokers should have them alike."""
    name = command.partition(" ")[0]
    for pattern, mask in _MASKS:
        text = pattern.sub(mask, text)
    stripped = [line.strip() for line in text.splitlines()]
    lines = [line for line in stripped if not _LEFT_OUT.match(line)]
    if name == "brokerStatus":
        lines = [_figure(line) for line in lines]
    elif name == "getBrokerConfig":
        lines = [line for line in lines if _CONFIG.match(line)]
    elif name == "statsAll":  # the last two numbers depend on when the broker sampled them
        rows = [line.split(" ")[:-2] for line in lines]
        lines = [" ".join(row) for row in rows if row[1] not in (row[0], TOOLS)]
    elif name == "topicList":
        rows = [line.split(" ") for line in lines]
        lines = [" ".join(row) for row in rows if len(row) < 3 or row[2] not in (row[1], TOOLS)]
    elif name.startswith("queryMsgBy"):
        lines = [line for line in lines if "MessageTrack" not in line]
    elif name == "getNamesrvConfig":
        lines = [line for line in lines if _NAMES_CONFIG.match(line)]
    elif name == "checkMsgSendRT":
        lines = [line if line.startswith("#") else line.rpartition(" ")[0] for line in lines]
    elif name == "consumerStatus":  # where the member was in its queues at that moment
        lines = [re.sub(r"(ProcessQueueInfo) \[.*", r"\1", line) for line in lines]
        lines = [line for line in lines if not line.startswith("PROP_CLIENT_VERSION")]
    elif name in ("wipeWritePerm", "addWritePerm"):  # how many topics, the system's too
        lines = [line.rpartition(" ")[0] for line in lines]
    elif name.startswith("export"):
        lines = [line.rstrip(",") for line in lines if not _NOT_OURS.match(line)]
    elif name == "clusterList":
        lines = [" ".join(line.split(" ")[:5]) for line in lines]
    return sorted({line for line in lines if line and "sprocket" not in line})


def _figure(line: str) -> str:
    name = line.partition(":")[0].strip()
    return re.sub(r"_/.*", "_FOLDER", name)


def _line(command: Command) -> str:
    return " ".join(base64.b64encode(word.encode()).decode() for word in command)
