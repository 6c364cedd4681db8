"""RocketMQ's own SQL92 filter says of each recorded expression and message what was recorded.

With SPROCKET_INTEROP_RECORD=1 the recording is written anew. The tests in
`tests/unit/rocketmq/filter` hold ours against it.
"""

import json
import os
import random
from pathlib import Path

import pytest
from tests import sql_cases, sql_expressions
from tests.interop import sql_filter
from tests.unit.rocketmq.filter.test_truth_table import row

pytestmark = [pytest.mark.interop, pytest.mark.slow]


def test_the_real_filter_says_what_was_recorded(jars: Path, tmp_path: Path) -> None:
    """Row by row, the bits of its Bloom filters too."""
    asked = json.loads(json.dumps(sql_cases.questions()))
    found = sql_cases.recorded(asked, sql_filter.ask(jars, tmp_path, asked))
    if "SPROCKET_INTEROP_RECORD" in os.environ:
        sql_cases.write(found)
    assert found == sql_cases.read()


def test_ours_says_of_random_expressions_what_the_real_filter_says(
    jars: Path, tmp_path: Path
) -> None:
    """Of 6,000, one in ten of which is none."""
    source = random.Random(20261129)
    messages = [sql_expressions.message(source) for _ in range(12)]
    expressions = [*{sql_expressions.anything(source): None for _ in range(6000)}]
    asked = {
        "blocks": [{"messages": messages, "expressions": expressions}],
        "names": [],
        "sizes": [],
    }
    (block,) = sql_cases.recorded(asked, sql_filter.ask(jars, tmp_path, asked)).blocks
    assert dict(block.truth) == {one: row(one, block) for one in expressions}
