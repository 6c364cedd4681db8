"""Lists of many: in order, a page of them, and never for long without letting others be served."""

import asyncio
import random
from collections.abc import Coroutine, Mapping
from typing import Any, cast

import msgspec
import pytest

from sprocket.rabbitmq.server.management import ApiError
from sprocket.rabbitmq.server.management.requests import (
    Listed,
    in_order,
    json_array,
    listed,
    made_of_each,
)
from sprocket.runtime.http import HttpResponse
from sprocket.runtime.slices import Slicer
from sprocket.testing.clock import FakeClock

COUNT = 10_000
AT_ONCE_MAX = 32
"""As many keys or views are made between two turns of the loop."""
PIECE_BYTES_MAX = 32_768
"""A page of 500 of these views is written at once."""


class SlowClock(FakeClock):
    """Each look at it takes so long that others should be served."""

    def monotonic(self) -> float:
        """Return the time, one second later than at the look before."""
        self.advance(1000)
        return super().monotonic()


class Yields:
    """Turns of a loop that is run by hand."""

    def count_time(self, seconds: float) -> None:
        """Count nothing."""

    async def pass_turn(self) -> None:
        """Wait for the next turn."""
        await asyncio.sleep(0)


def slicer() -> Slicer:
    """Return one that lets others be served wherever it may."""
    return Slicer(cast("Any", Yields()), SlowClock())


class Work:
    """Counts what is done between two turns of the loop."""

    def __init__(self) -> None:
        self.now = self.most = self.turns = 0

    def note(self) -> None:
        """Count one thing that was done."""
        self.now += 1
        self.most = max(self.most, self.now)

    def result(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Do some work, turn by turn, and return what came of it."""
        try:
            while True:
                work.send(None)
                self.now = 0
                self.turns += 1
        except StopIteration as end:
            return end.value


def names() -> list[str]:
    """Return many names, in no order."""
    found = [f"queue-{number:05}" for number in range(COUNT)]
    random.Random(1).shuffle(found)
    return found


def answer(query: Mapping[str, str], work: Work, items: list[str]) -> HttpResponse:
    """Return the answer about some names, with figures made of them."""

    def view(name: str) -> Mapping[str, object] | None:
        work.note()
        if name.endswith("gone"):
            return None
        return {"name": name, "digit": int(name[-1]), "depth": {"of": -int(name[-2:])}}

    def key(name: str) -> tuple[object, ...]:
        work.note()
        return (name,)

    def label(name: str) -> str:
        work.note()
        return name

    found = work.result(listed(Listed(items, key, label, view), query, slicer()))
    assert isinstance(found, HttpResponse)
    return found


def told(query: Mapping[str, str], items: list[str] | None = None) -> Any:
    """Return an answer as what its JSON says."""
    found = answer(query, Work(), names() if items is None else items)
    return msgspec.json.decode(b"".join(found.body))


@pytest.mark.parametrize(
    "query",
    [
        {},
        {"sort": "digit", "sort_reverse": "true", "columns": "name"},
        {"page": "3", "page_size": "500"},
        {"page": "1", "name": "^queue-.*7$", "use_regex": "true", "sort": "depth.of"},
    ],
)
def test_others_are_served_while_a_list_is_made(query: Mapping[str, str]) -> None:
    """Keys, names and views are made some at a time, and never written in one piece."""
    work = Work()
    found = answer(query, work, names())
    assert work.most <= AT_ONCE_MAX
    assert max(map(len, found.body)) <= PIECE_BYTES_MAX


@pytest.mark.parametrize("count", [0, 1, 511, 512, 513, 5_000])
def test_many_are_sorted_as_few_are(count: int) -> None:
    """Some at a time and then together; what is equal stays as it was."""
    items = [random.Random(at).randrange(100) for at in range(count)]
    numbered = list(enumerate(items))
    found = Work().result(in_order(numbered, lambda one: (one[1],), slicer()))
    assert found == sorted(numbered, key=lambda one: one[1])


@pytest.mark.parametrize("count", [0, 1, 31, 32, 33, 1_000])
def test_an_array_is_one_however_many_pieces_it_has(count: int) -> None:
    """What is there no more is left out, even if it was the first, or all."""
    everything = Work().result(json_array(range(count), lambda one: one, slicer()))
    assert msgspec.json.decode(b"".join(everything)) == list(range(count))
    late = Work().result(json_array(range(count), lambda one: one if one > 40 else None, slicer()))
    assert msgspec.json.decode(b"".join(late)) == list(range(41, count))


def test_each_is_made_once_and_in_order() -> None:
    """Over many turns of the loop."""
    work = Work()
    assert work.result(made_of_each(range(100), str, slicer())) == [str(n) for n in range(100)]
    assert work.turns >= 3


def test_pages_are_parts_of_the_sorted_list() -> None:
    """With RabbitMQ's figures about them; the last one is shorter."""
    page = told({"page": "3", "page_size": "100", "name": "99", "sort": "name"})
    items = page.pop("items")
    fitting = sorted(name for name in names() if "99" in name)
    assert page == {
        "total_count": COUNT,
        "item_count": len(fitting[200:300]),
        "filtered_count": len(fitting),
        "page": 3,
        "page_size": 100,
        "page_count": -(-len(fitting) // 100),
    }
    assert [one["name"] for one in items] == fitting[200:300]


def test_a_list_is_sorted_by_a_member_of_a_member() -> None:
    """And backwards; what is equal is in the usual order, which is turned, too."""
    some = [f"q-{number:03}" for number in range(150)]
    found = told({"sort": "depth.of", "sort_reverse": "true", "columns": "name"}, some)
    expected = sorted(sorted(some), key=lambda name: -int(name[-2:]))[::-1]
    assert found == [{"name": name} for name in expected]


def test_what_went_meanwhile_is_left_out() -> None:
    """It was there when the list was begun."""
    items = ["b-11", "a-gone", "c-12"]
    assert [one["name"] for one in told({}, items)] == ["b-11", "c-12"]
    assert told({"page": "1"}, items)["item_count"] == 2


def test_a_page_behind_the_last_is_refused() -> None:
    """With RabbitMQ's text."""
    with pytest.raises(ApiError, match="page: 101 page size: 100, len: 10000"):
        told({"page": "101"})
