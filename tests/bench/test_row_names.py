"""Rows of a bench by words of their names."""

import pytest
from bench.row_names import is_wanted


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (None, True),
        ([], True),
        (["16"], True),
        (["32"], False),
        (["32", "16"], True),
        (["!committed"], False),
        (["!pull"], True),
        (["16", "!committed"], False),
    ],
)
def test_a_word_chooses_rows_and_one_after_an_exclamation_mark_leaves_them_out(
    words: list[str] | None, expected: bool
) -> None:
    """Several words are alternatives; what is left out is left out in any case."""
    assert is_wanted("16 × 1 committed", words) is expected
