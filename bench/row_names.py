"""Which rows of a table are to be measured."""

from collections.abc import Sequence

WORDS_HELP = "only rows whose name holds one of these words; a word after ! leaves rows out"


def is_wanted(name: str, words: Sequence[str] | None) -> bool:
    """Say whether a row is wanted; all are without words."""
    without = [word[1:] for word in words or () if word.startswith("!")]
    with_one = [word for word in words or () if not word.startswith("!")]
    if any(word in name for word in without):
        return False
    return not with_one or any(word in name for word in with_one)
