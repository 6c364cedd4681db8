"""The name that somebody probably meant when they wrote an unknown one."""

import difflib
import re
from collections.abc import Collection, Iterable, Sequence

_LIKENESS_MIN = 0.5
"""How alike two names must be, 0 to 1: a suggestion that is less alike only confuses."""
_MISSPELT_MIN = 0.75
"""Names that are as alike as this are a typing error: words in common do not matter then."""
_WORD = re.compile(r"[A-Z]?[a-z]{3,}|[A-Z]{4,}")
"""A word of a name such as `consumerGroup` or `orders-archive`, of four letters at least."""
_COMMON_MIN = 0.25
"""Of the letters of a name those that a word in common must have."""
_COMPARED_MAX = 20_000
"""Names that are compared at most, those of about the same length first; some 0.2 s of work."""


def nearest(name: str, names: Iterable[str], likely: Collection[str] = ()) -> str | None:
    """Return the one of `names` that was probably meant by `name`, or None.

    That is one that `name` is a misspelling of, else one that has words which `name` contains, as
    `consumerGroup` has for `groupId`, else the one most alike.

    Args:
        name: What somebody wrote.
        names: What there is.
        likely: Those that come first where others have as long words in common.
    """
    by_lower = {one.lower(): one for one in sorted(names, reverse=True)}
    wanted = name.lower()
    candidates = sorted(by_lower)
    if len(candidates) > _COMPARED_MAX:
        candidates.sort(key=lambda one: abs(len(one) - len(wanted)))
        candidates = candidates[:_COMPARED_MAX]
    found = (
        difflib.get_close_matches(wanted, candidates, n=1, cutoff=_MISSPELT_MIN)
        or _with_words_of(wanted, [by_lower[one] for one in candidates], likely)
        or difflib.get_close_matches(wanted, candidates, n=1, cutoff=_LIKENESS_MIN)
    )
    return by_lower[found[0]] if found else None


def _with_words_of(wanted: str, names: Sequence[str], likely: Collection[str]) -> list[str]:
    """Return, in small letters, the name whose words `wanted` contains, if there is one."""
    common = {
        name: sum(len(word) for word in _WORD.findall(name) if word.lower() in wanted)
        for name in names
    }
    most = max(common.values(), default=0)
    if most < max(_COMMON_MIN * len(wanted), 1):
        return []
    best = [name for name, letters in common.items() if letters == most]
    best = [name for name in best if name in likely] or best
    return difflib.get_close_matches(wanted, [name.lower() for name in best], n=1, cutoff=0)


def hint(name: str, names: Iterable[str], likely: Collection[str] = ()) -> str:
    """Return what an error about an unknown name ends with: `; did you mean …?`, or nothing."""
    found = nearest(name, names, likely)
    return "" if found is None else f"; did you mean {found}?"
