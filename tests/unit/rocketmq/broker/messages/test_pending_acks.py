"""Everybody who waits is told, each what is theirs."""

from collections.abc import Sequence
from functools import partial

from msgspec.structs import replace

from sprocket.base.errors import DiskFull, StoreError
from sprocket.rocketmq.broker.messages import OutgoingAnswer, Release, pending_acks
from sprocket.rocketmq.broker.messages.pending_acks import PendingAcks
from sprocket.rocketmq.store.log import AppendedBatch
from sprocket.runtime.driver import Buffer

PLACES = AppendedBatch([1], [2], 3)


class Asker:
    """Notes what it is told, with one entry for each call."""

    def __init__(self) -> None:
        self.calls: list[list[bytes]] = []


def _said(
    asked: Sequence[tuple[Asker, bytes]],
    stored: AppendedBatch | None,
    error: StoreError | None,
) -> Release | None:
    ((asker, request),) = asked
    if request == b"bad":
        raise ValueError(request)
    if request == b"oneway":
        return None
    what = b"refused" if stored is None else b"stored"
    return partial(asker.calls.append, [request, what, str(error).encode()])


def _one(asker: Asker, request: bytes) -> PendingAcks[tuple[Asker, bytes]]:
    return PendingAcks(_said, [(asker, request)], PLACES, 1)


def test_the_first_has_waited_for_longest() -> None:
    """Nobody waits in the future, nor without others or records."""
    first = _one(Asker(), b"a")
    later = replace(first, stored=AppendedBatch([2], [3], 8))
    assert pending_acks.longest_ms([first, later], 10) == 7
    assert pending_acks.longest_ms([later], 5) == 0
    assert pending_acks.longest_ms([replace(later, stored=None), first], 10) == 0
    assert pending_acks.longest_ms([], 10) == 0


def test_each_asker_is_told_once_in_order() -> None:
    """When it is certain, not before."""
    first, second = Asker(), Asker()
    group = [_one(first, b"a"), _one(second, b"b"), _one(first, b"c")]
    releases = pending_acks.ready(group, None)
    assert first.calls == second.calls == []
    pending_acks.send(releases)
    assert first.calls == [[b"a", b"stored", b"None"], [b"c", b"stored", b"None"]]
    assert second.calls == [[b"b", b"stored", b"None"]]


def test_who_is_refused_hears_of_no_place() -> None:
    """Even if the record had one before."""
    asker = Asker()
    pending_acks.refuse([_one(asker, b"a")], DiskFull("full"))
    assert asker.calls == [[b"a", b"refused", b"full"]]


def test_an_answer_that_fails_keeps_nobody_waiting() -> None:
    """And who does not listen is not told."""
    first, second = Asker(), Asker()
    group = [_one(first, b"bad"), _one(first, b"oneway"), _one(second, b"b")]
    pending_acks.send(pending_acks.ready(group, None))
    assert first.calls == []
    assert len(second.calls) == 1


class Place:
    """Keeps what is sent to it, with one entry for each call."""

    def __init__(self) -> None:
        self.calls: list[list[Buffer]] = []

    def send(self, buffers: Sequence[Buffer]) -> None:
        """Keep it."""
        self.calls.append([*buffers])


def test_what_goes_to_one_place_goes_together() -> None:
    """In order, after what others are told; by itself where it is called by itself."""
    here, there, asker = Place(), Place(), Asker()
    releases: list[Release] = [
        OutgoingAnswer(here.send, [b"a", b"b"]),
        OutgoingAnswer(there.send, [b"c"]),
        partial(asker.calls.append, [b"told"]),
        OutgoingAnswer(here.send, [b"d"]),
    ]
    pending_acks.send(releases)
    assert (here.calls, there.calls) == ([[b"a", b"b", b"d"]], [[b"c"]])
    assert asker.calls == [[b"told"]]
    for release in releases:
        release()
    assert here.calls[1:] == [[b"a", b"b"], [b"d"]]
