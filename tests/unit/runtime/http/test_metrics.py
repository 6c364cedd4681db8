"""Metrics become Prometheus' text: sums with what is gone, series, labels with odd characters."""

import asyncio
from typing import NamedTuple

from sprocket.runtime.http import Family, Group, HttpResponse, MetricsText, labelled
from sprocket.runtime.slices import Slicer
from sprocket.runtime.turns import Turns
from sprocket.testing.clock import FakeClock


class Shelf(NamedTuple):
    """Something that is counted."""

    name: str
    room: str
    books: int
    weight: float | None = None


GROUP: Group[list[Shelf], Shelf] = Group(
    name="shelves",
    objects=list,
    labels=lambda one: labelled(name=one.name),
    past=lambda _: [Shelf("", "hall", 5)],
    sum_labels=lambda one: labelled(room=one.room),
    sums=(labelled(room="attic"),),
    families=(
        Family("books_total", "Books that were put", lambda one: one.books),
        Family("weight", "Weight in kg", lambda one: one.weight),
    ),
)
SHELVES = [Shelf("a", "hall", 2, 1.5), Shelf('b"\\\n', "hall", 3), Shelf("c", "den", 4, 2.0)]


def written(*, sums: bool) -> str:
    """Return the text of a scrape of the shelves."""

    async def write() -> HttpResponse:
        text = MetricsText(SHELVES, Slicer(Turns(asyncio.get_running_loop()), FakeClock()))
        await (GROUP.write_sums if sums else GROUP.write_series)(text, "house_")
        text.add("house_nothing", "Left out, since it has no line", [])
        text.add_one("house_info", "One line", 1, version="7")
        return text.response()

    answer = asyncio.run(write())
    assert answer.headers == {"content-type": "text/plain; version=0.0.4; charset=utf-8"}
    return b"".join(answer.body).decode()


INFO = '# TYPE house_info gauge\n# HELP house_info One line\nhouse_info{version="7"} 1\n'


def test_sums_are_by_their_labels_and_have_what_is_gone() -> None:
    """A sum that is always shown is 0 without objects; a value that is not known adds nothing."""
    assert written(sums=True) == (
        "# TYPE house_books_total counter\n# HELP house_books_total Books that were put\n"
        'house_books_total{room="attic"} 0\nhouse_books_total{room="hall"} 10\n'
        'house_books_total{room="den"} 4\n'
        "# TYPE house_weight gauge\n# HELP house_weight Weight in kg\n"
        'house_weight{room="attic"} 0\nhouse_weight{room="hall"} 1.5\n'
        'house_weight{room="den"} 2\n' + INFO
    )


def test_series_are_of_each_object_that_has_the_value() -> None:
    """Quotes, backslashes and line feeds in labels are escaped; what is gone has no series."""
    assert written(sums=False) == (
        "# TYPE house_books_total counter\n# HELP house_books_total Books that were put\n"
        'house_books_total{name="a"} 2\nhouse_books_total{name="b\\"\\\\\\n"} 3\n'
        'house_books_total{name="c"} 4\n'
        "# TYPE house_weight gauge\n# HELP house_weight Weight in kg\n"
        'house_weight{name="a"} 1.5\nhouse_weight{name="c"} 2\n' + INFO
    )
