"""What a segment and the journal above it say of a message, added up."""

from itertools import product

import numpy as np

from sprocket.rabbitmq.codec.index import MessageStates
from sprocket.rabbitmq.store.queue_index import joined

Said = tuple[bool, ...]
"""Whether a message was published, delivered and acknowledged."""
NOTHING: Said = (False, False, False)
SAID: list[Said | None] = [None, *product((False, True), repeat=3)]


def states(of: dict[int, Said]) -> MessageStates:
    """Return what a file says of messages; their publish records lie at ten times their ids."""
    said = np.array(list(of.values()), np.bool_).reshape(len(of), 3)
    ids = np.array(list(of), np.int64)
    return MessageStates(ids, np.where(said[:, 0], 10 * ids, -1), said[:, 1], said[:, 2], ())


def test_what_either_says_holds() -> None:
    """Whatever both say of a message, and of one that only one of them knows."""
    pairs = list(product(SAID, SAID))
    for some in (pairs, [one for one in pairs if not one[0]], [one for one in pairs if not one[1]]):
        segment = {n: one for n, (one, _) in enumerate(some) if one is not None}
        journal = {n: other for n, (_, other) in enumerate(some) if other is not None}
        found = joined(states(segment), states(journal))
        expected = {
            n: tuple(a or b for a, b in zip(one or NOTHING, other or NOTHING, strict=True))
            for n, (one, other) in enumerate(some)
            if one or other
        }
        assert found.ids.tolist() == list(expected)
        rows = zip(found.is_published, found.is_delivered, found.is_acked, strict=True)
        assert [tuple(map(bool, row)) for row in rows] == list(expected.values())
        first = [segment.get(n, NOTHING) for n in expected]
        assert found.was_delivered.tolist() == [one[1] for one in first]
        assert found.was_acked.tolist() == [one[2] for one in first]
        for at, side in ((found.in_segment, segment), (found.in_journal, journal)):
            assert at.tolist() == [10 * n if side.get(n, NOTHING)[0] else -1 for n in expected]
