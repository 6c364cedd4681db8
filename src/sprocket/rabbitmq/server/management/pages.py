"""Lists as they are asked for: sorted, a page of them, some columns of each.

What a list is of is turned into JSON late: for a page, the names of all and the rest of a few.
Whatever is made of many is made in slices, between which others are served.

Source: `rabbit_mgmt_util:reply_list_or_paginate`, `run_augmentation`.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Generic, NamedTuple, TypeVar

from sprocket.base.clock import Clock
from sprocket.rabbitmq.broker.patterns import Pattern, PatternInvalid
from sprocket.rabbitmq.server.management.answers import ApiError, Json, bad_request
from sprocket.runtime.slices import SLICE_SECONDS

PAGE_SIZE: Final = 100
PAGE_SIZE_MAX: Final = 500
_PIECE_ENTRIES = 32

T = TypeVar("T")
R = TypeVar("R")


class Listed(NamedTuple, Generic[T]):
    """What a list is made of."""

    items: Sequence[T]
    sort_key: Callable[[T], tuple[object, ...]]
    """What decides the order, unless the request says it."""
    name: Callable[[T], str]
    """What a page may be filtered by."""
    view: Callable[[T], Json]
    """Makes the JSON of one."""


class _Page(NamedTuple):
    number: int
    size: int
    fits: Callable[[str], bool]


async def listed(what: Listed[T], query: Mapping[str, str], clock: Clock) -> object:
    """Return a list, or a page of one, as a request's query asks for it.

    Raises:
        ApiError: 400.
    """
    columns = _columns(query)
    page = _page(query)
    items = sorted(what.items, key=what.sort_key)
    total = len(items)
    if page is not None:
        items = [one for one in items if page.fits(what.name(one))]
    by = query.get("sort")
    if by is not None:
        values = await in_slices(items, lambda one: _value(what.view(one), by), clock)
        order = sorted(range(len(items)), key=lambda at: values[at])
        items = [items[at] for at in order]
    if query.get("sort_reverse") == "true":
        items.reverse()
    if page is None:
        return await in_slices(items, lambda one: chosen(what.view(one), columns), clock)
    pages = max(1, -(-len(items) // page.size))
    if page.number > pages:
        raise ApiError(
            400,
            "page_out_of_range",
            f"Page out of range, page: {page.number} page size: {page.size}, len: {len(items)}",
        )
    some = items[(page.number - 1) * page.size : page.number * page.size]
    views = await in_slices(some, lambda one: chosen(what.view(one), columns), clock)
    return {
        "total_count": total,
        "item_count": len(views),
        "filtered_count": len(items),
        "page": page.number,
        "page_size": page.size,
        "page_count": pages,
        "items": views,
    }


async def in_slices(items: Iterable[T], make: Callable[[T], R], clock: Clock) -> list[R]:
    """Return what is made of each, letting others be served now and then."""
    found: list[R] = []
    until = clock.monotonic() + SLICE_SECONDS
    for number, one in enumerate(items, 1):
        found.append(make(one))
        if not number % _PIECE_ENTRIES and clock.monotonic() >= until:
            await asyncio.sleep(0)
            until = clock.monotonic() + SLICE_SECONDS
    return found


def chosen(value: Json, columns: Sequence[Sequence[str]] | None) -> Json:
    """Return some members of an object, `a.b` being a member of a member."""
    if columns is None:
        return value
    found: dict[str, object] = {}
    for path in columns:
        at: object = value
        for step in path:
            at = at.get(step, _MISSING) if isinstance(at, Mapping) else _MISSING
        if at is _MISSING:
            continue
        into = found
        for step in path[:-1]:
            deeper = into.setdefault(step, {})
            if not isinstance(deeper, dict):
                break
            into = deeper
        else:
            into[path[-1]] = at
    return found


def query_columns(query: Mapping[str, str]) -> Sequence[Sequence[str]] | None:
    """Return the columns that a request wants; None for all."""
    return _columns(query)


_MISSING = object()


def _columns(query: Mapping[str, str]) -> Sequence[Sequence[str]] | None:
    given = query.get("columns")
    if not given:
        return None
    return [one.split(".") for one in given.split(",")]


def _value(view: Json, by: str) -> tuple[int, float, str]:
    """Return what something is sorted by: numbers before texts, and those before the rest."""
    at: object = view
    for step in by.split("."):
        at = at.get(step) if isinstance(at, Mapping) else None
    match at:
        case bool() | int() | float():
            return 0, float(at), ""
        case str():
            return 1, 0.0, at
        case _:
            return 2, 0.0, ""


def _page(query: Mapping[str, str]) -> _Page | None:
    if "page" not in query:
        return None
    try:
        number = int(query["page"])
        size = int(query.get("page_size", PAGE_SIZE))
        fits = _filter(query)
    except (ValueError, PatternInvalid) as error:
        raise bad_request("Pagination parameters are invalid") from error
    if number < 1 or not 1 <= size <= PAGE_SIZE_MAX:
        told = query.get("page_size", "undefined")
        raise ApiError(
            400,
            "invalid_pagination_parameters",
            f"Invalid pagination parameters: page number {number}, page size {told}",
        )
    return _Page(number, size, fits)


def _filter(query: Mapping[str, str]) -> Callable[[str], bool]:
    wanted = query.get("name", "")
    if not wanted:
        return lambda _: True
    if query.get("use_regex") == "true":
        return Pattern(wanted).fits
    lowered = wanted.lower()
    return lambda name: lowered in name.lower()
