"""The name that somebody probably meant when they wrote an unknown one."""

import difflib
from collections.abc import Iterable

_LIKENESS_MIN = 0.5
"""Of two names, 0 to 1; below it a suggestion puzzles more than it helps."""
_COMPARED_MAX = 20_000
"""Names that are compared at most, those of about the same length first; some 0.2 s of work."""


def nearest(name: str, names: Iterable[str]) -> str | None:
    """Return the one of `names` that is most like `name`, or None if none is like it."""
    by_lower = {one.lower(): one for one in sorted(names, reverse=True)}
    wanted = name.lower()
    candidates = sorted(by_lower)
    if len(candidates) > _COMPARED_MAX:
        candidates.sort(key=lambda one: abs(len(one) - len(wanted)))
        candidates = candidates[:_COMPARED_MAX]
    found = difflib.get_close_matches(wanted, candidates, n=1, cutoff=_LIKENESS_MIN)
    return by_lower[found[0]] if found else None


def hint(name: str, names: Iterable[str]) -> str:
    """Return what an error about an unknown name ends with: `; did you mean …?`, or nothing."""
    found = nearest(name, names)
    return "" if found is None else f"; did you mean {found}?"
