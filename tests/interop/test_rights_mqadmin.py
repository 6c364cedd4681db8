"""mqadmin's commands for users and policies print the same of our broker as of the real one.

`tests/data/rocketmq-5.3.3/mqadmin-rights.json` has what they printed of the real one, made
comparable. With SPROCKET_INTEROP_BROKER=rocketmq these texts are compared with the real broker
again; with SPROCKET_INTEROP_RECORD=1 beside it they are written anew.
"""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from tests.interop import guarded_brokers, mqadmin

pytestmark = [
    pytest.mark.interop,
    pytest.mark.slow,
    pytest.mark.xdist_group("mqadmin-rights"),  # one worker, or each would run all commands
]

RECORDED = Path(__file__).parents[1] / "data/rocketmq-5.3.3/mqadmin-rights.json"

STAGES: Mapping[str, Sequence[str]] = {
    "warm": ("listUser -b BROKER", "listAcl -c DefaultCluster", "getUser -b BROKER -u nobody"),
    "create": (
        "createUser -b BROKER -u alice -p alice-pass",
        "createUser -b BROKER -u boss -p boss-pass -t Super",
        "createUser -c DefaultCluster -u carol -p carol-pass -t Normal",
        "createUser -b BROKER -u odd -p odd-pass -t Strange",
    ),
    "allow": (
        "createAcl -b BROKER -s User:alice -r Topic:a*,Group:g -a Pub -d Allow -i 10.0.0.0/8",
        "createAcl -c DefaultCluster -s User:carol -r Topic:orders -a All -d Deny",
        "createAcl -b BROKER -s User:odd -r *,Cluster:* -a Get,List,Create,Update,Delete -d Allow",
    ),
    "refused": (
        "createUser -b BROKER -u alice -p other",
        "updateUser -b BROKER -u nobody -p x",
        "deleteUser -b BROKER -u nobody",
        "getUser -b BROKER -u nobody",
        "getUser -b BROKER",
        "listUser -b BROKER -f nobody",
        "createAcl -b BROKER -s User:nobody -r Topic:a -a Pub -d Allow",
        "createAcl -b BROKER -s alice -r Topic:a -a Pub -d Allow",
        "createAcl -b BROKER -s User:alice -r Topics:a -a Pub -d Allow",
        "createAcl -b BROKER -s User:alice -r Topic:a -a Publish -d Allow",
        "createAcl -b BROKER -s User:alice -r Topic:a -a Any -d Allow",
        "createAcl -b BROKER -s User:alice -r Topic:a -a Pub -d Perhaps",
        "createAcl -b BROKER -s User:alice -r Topic:a -a Pub -d Allow -i 10.0.0.300",
        "updateAcl -b BROKER -s User:nobody -r Topic:a -a Pub -d Allow",
        "deleteAcl -b BROKER -s User:nobody",
        "deleteAcl -b BROKER -s User:boss",
        "getAcl -b BROKER -s User:nobody",
        "getAcl -b BROKER -s User:boss",
        "getAcl -b BROKER",
        "listAcl -b BROKER -s nobody",
    ),
    "look": (
        "listUser -b BROKER",
        "listUser -c DefaultCluster",
        "listUser -c nowhere",
        "listUser -b BROKER -f a",
        "getUser -b BROKER -u alice",
        "getUser -c DefaultCluster -u boss",
        "listAcl -b BROKER",
        "listAcl -c DefaultCluster",
        "listAcl -b BROKER -s ali",
        "listAcl -b BROKER -r Group",
        "getAcl -b BROKER -s User:alice",
        "getAcl -c DefaultCluster -s User:carol",
        "copyUser -f BROKER -t BROKER -u alice,nobody",
        "copyAcl -f BROKER -t BROKER -s User:alice",
    ),
    "change": (
        "updateUser -b BROKER -u carol -s disable",
        "updateUser -c DefaultCluster -u alice -p newer",
        "updateUser -b BROKER -u boss -t Normal",
        "updateAcl -b BROKER -s User:alice -r Topic:a* -a Sub -d Deny",
        "updateAcl -c DefaultCluster -s User:carol -r Topic:other -a Pub -d Allow -i 10.1.2.3",
    ),
    "look again": ("listUser -b BROKER", "listAcl -b BROKER"),
    "delete": (
        "deleteAcl -b BROKER -s User:alice -r Group:g",
        "deleteAcl -c DefaultCluster -s User:carol",
        "deleteUser -c DefaultCluster -u boss",
        "deleteUser -b BROKER -u odd",
    ),
    "look at last": ("listUser -b BROKER", "listAcl -b BROKER", "getUser -b BROKER -u boss"),
}
"""Commands that change the same things are in different stages. The first ones only look, and so
may be repeated: the first answers of a broker may come too late for the others."""

OTHERS: Mapping[str, Sequence[str]] = {
    "not allowed": (
        "createUser -b BROKER -u mine -p mine",
        "updateUser -b BROKER -u alice -t Super",
        "updateUser -b BROKER -u root -p mine",
        "deleteUser -b BROKER -u root",
        "listUser -b BROKER",
        "getUser -b BROKER -u root",
        "createAcl -b BROKER -s User:alice -r * -a All -d Allow",
        "updateAcl -b BROKER -s User:alice -r * -a All -d Allow",
        "deleteAcl -b BROKER -s User:alice",
        "listAcl -b BROKER",
        "getAcl -b BROKER -s User:alice",
    ),
}
"""What somebody asks for who may not."""

UNSIGNED: Mapping[str, Sequence[str]] = {"unsigned": OTHERS["not allowed"]}

RUNS = ((STAGES, guarded_brokers.ROOT), (OTHERS, ("alice", "newer")), (UNSIGNED, None))
COMMANDS = [
    f"{stage}: {command}"
    for stages, _ in RUNS
    for stage, commands in stages.items()
    for command in commands
]

OWN_WORDS = {
    "refused: createAcl -b BROKER -s alice -r Topic:a -a Pub -d Allow",
    "refused: getAcl -b BROKER",
}
"""What RocketMQ refuses with the text of a Java exception; ours says what was expected."""


@pytest.fixture(scope="module")
def said(jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, list[str]]:
    """Run all commands against a broker with rights; return what they printed."""
    folder = tmp_path_factory.mktemp("mqadmin")
    texts: list[str] = []
    with guarded_brokers.either(folder) as broker:
        for stages, credentials in RUNS:
            filled = [
                [command.replace("BROKER", broker.address).split(" ") for command in commands]
                for commands in stages.values()
            ]
            texts += mqadmin.run(jars, folder, broker.nameserver, filled, credentials)
    found = {
        label: mqadmin.comparable(label.partition(": ")[2], text)
        for label, text in zip(COMMANDS, texts, strict=True)
    }
    if os.environ.get("SPROCKET_INTEROP_RECORD"):
        assert os.environ["SPROCKET_INTEROP_BROKER"] == "rocketmq", "record the real one"
        RECORDED.write_text(json.dumps(found, indent=1) + "\n")
    return found


@pytest.mark.parametrize("command", COMMANDS)
def test_the_same_is_printed(said: Mapping[str, list[str]], command: str) -> None:
    """Line for line, but for what differs between any two brokers."""
    recorded = json.loads(RECORDED.read_text())[command]
    if command in OWN_WORDS:
        assert [without_text(line) for line in said[command]] == [
            without_text(line) for line in recorded
        ]
    else:
        assert said[command] == recorded


def without_text(line: str) -> str:
    """Return a line of a refusal up to its code."""
    return line.partition(" DESC: ")[0]
