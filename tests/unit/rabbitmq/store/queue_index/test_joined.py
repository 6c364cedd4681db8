"""What a segment and the journal above it say of a message, added up."""

from itertools import product

import numpy as np

from sprocket.rabbitmq.codec.index import MessageStates
from sprocket.rabbitmq.store.queue_index import joined

SAID = [None, *product((False, True), repeat=3)]
"""Nothing, or whether it was published, delivered and acknowledged."""


def states(of: dict[int, tuple[bool, ...]]) -> MessageStates:
    """Return what a file says of messages; their publish records lie at ten times their ids."""
    said = np.array(list(of.values()), np.bool_).reshape(len(of), 3)
    ids = np.array(list(of), np.int64)
    return MessageStates(ids, np.where(said[:, 0], 10 * ids, -1), said[:, 1], said[:, 2], ())


def test_what_either_says_holds() -> None:
    """Whatever both say of a message, and of one that only one of them knows."""
    pairs = list(product(SAID, SAID))
    for some in (pairs, [one for one in pairs if not one[0]], [one for one in pairs if not one[1]]):
        sides = [{n: pair[side] for n, pair in enumerate(some) if pair[side]} for side in (0, 1)]
        found = joined(*map(states, sides))
        nothing = False, False, False
        expected = {
            n: tuple(a or b for a, b in zip(one or nothing, other or nothing, strict=True))
            for n, (one, other) in enumerate(some)
            if one or other
        }
        assert found.ids.tolist() == list(expected)
        rows = zip(found.is_published, found.is_delivered, found.is_acked, strict=True)
        assert [tuple(map(bool, row)) for row in rows] == list(expected.values())
        first = [sides[0].get(n, nothing) for n in expected]
        assert found.was_delivered.tolist() == [one[1] for one in first]
        assert found.was_acked.tolist() == [one[2] for one in first]
        for at, side in ((found.in_segment, sides[0]), (found.in_journal, sides[1])):
            assert at.tolist() == [10 * n if side.get(n, nothing)[0] else -1 for n in expected]
