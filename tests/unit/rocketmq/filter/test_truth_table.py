"""Every expression means to ours what it means to RocketMQ's own filter, as it was recorded."""

from collections.abc import Mapping

import pytest
from tests import sql_cases

from sprocket.rocketmq.errors import ExpressionIllegal, Incomparable
from sprocket.rocketmq.filter import SqlFilter, compile_sql

LETTERS = {True: "T", False: "F", None: "N"}


def letter(found: SqlFilter, message: Mapping[str, str]) -> str:
    """Return what an expression says of a message, as the recording has it."""
    try:
        said = LETTERS[found.evaluate(message)]
    except Incomparable:
        said = "E"
    assert found.matches(message) is (said == "T")
    if found.is_tested or said == "T":
        assert all(test.matches(message) for test in found.tests) is (said == "T")
    return said


def row(expression: str, block: sql_cases.Block) -> str:
    """Return what an expression says of the messages of a block."""
    try:
        found = compile_sql(expression)
    except ExpressionIllegal:
        return "P"
    return "".join(letter(found, message) for message in block.messages)


@pytest.mark.parametrize("number", range(2))
def test_ours_says_what_the_real_filter_says(number: int) -> None:
    """Cell by cell: true, false, null, an error of the evaluation, or one of the expression."""
    block = sql_cases.read().blocks[number]
    assert dict(block.truth) == {one: row(one, block) for one in block.truth}


def test_the_recording_is_large_enough() -> None:
    """What was asked then is what would be asked now; all five answers come."""
    blocks = sql_cases.read().blocks
    asked = [[*block["expressions"]] for block in sql_cases.questions()["blocks"]]
    assert asked == [[*block.truth] for block in blocks]
    assert len(blocks[0].truth) >= 300
    assert len(blocks[0].messages) >= 12
    assert set("".join(blocks[0].truth.values())) == set("TFNEP")
