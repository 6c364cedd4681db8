"""Lists as they are asked for: sorted, a page of them, some columns of each.

What a list is of is turned into JSON late: for a page, the names of all and the rest of a few.
Whatever is done with many is done some at a time, between which others are served.

Source: `rabbit_mgmt_util:reply_list_or_paginate`, `run_augmentation`.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import compress
from typing import Final, Generic, NamedTuple, TypeVar

from sprocket.rabbitmq.broker.patterns import Pattern, PatternInvalid
from sprocket.rabbitmq.server.management.requests.answers import (
    ApiError,
    Json,
    bad_request,
    json_pieces,
    json_response,
)
from sprocket.rabbitmq.server.management.requests.turns import in_order, json_array, made_of_each
from sprocket.runtime.http import HttpResponse
from sprocket.runtime.slices import Slicer

PAGE_SIZE: Final = 100
PAGE_SIZE_MAX: Final = 500

T = TypeVar("T")


class Listed(NamedTuple, Generic[T]):
    """What a list is made of."""

    items: Sequence[T]
    sort_key: Callable[[T], tuple[object, ...]]
    """What decides the order, unless the request says it."""
    name: Callable[[T], str]
    """What a page may be filtered by."""
    view: Callable[[T], Json | None]
    """Makes the JSON of one; None if it was deleted while others were listed."""


class _Page(NamedTuple):
    number: int
    size: int
    fits: Callable[[str], bool]


async def listed(what: Listed[T], query: Mapping[str, str], slicer: Slicer) -> HttpResponse:
    """Answer with a list, or a page of one, as a request's query asks for it.

    Raises:
        ApiError: 400.
    """
    columns = query_columns(query)
    page = _page(query)
    by = query.get("sort")
    items = what.items
    total = len(items)
    if page is not None:
        fits = await made_of_each(items, lambda one: page.fits(what.name(one)), slicer)
        items = list(compress(items, fits))
    items = await in_order(items, what.sort_key, slicer)
    if by is not None:
        items = await in_order(items, lambda one: _value(what.view(one), by), slicer)
    if query.get("sort_reverse") == "true":
        items.reverse()

    def view(one: T) -> Json | None:
        found = what.view(one)
        return None if found is None else chosen(found, columns)

    if page is None:
        return json_pieces(await json_array(items, view, slicer))
    pages = max(1, -(-len(items) // page.size))
    if page.number > pages:
        raise ApiError(
            400,
            "page_out_of_range",
            f"Page out of range, page: {page.number} page size: {page.size}, len: {len(items)}",
        )
    some = items[(page.number - 1) * page.size : page.number * page.size]
    views = [one for one in await made_of_each(some, view, slicer) if one is not None]
    return json_response(
        {
            "total_count": total,
            "item_count": len(views),
            "filtered_count": len(items),
            "page": page.number,
            "page_size": page.size,
            "page_count": pages,
            "items": views,
        }
    )


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


def shown(view: Json, query: Mapping[str, str]) -> HttpResponse:
    """Answer with one object, or the columns of it that a request's query wants."""
    return json_response(chosen(view, query_columns(query)))


_MISSING = object()


def query_columns(query: Mapping[str, str]) -> Sequence[Sequence[str]] | None:
    """Return the columns that a request wants; None for all."""
    given = query.get("columns")
    if not given:
        return None
    return [one.split(".") for one in given.split(",")]


def _value(view: Json | None, by: str) -> tuple[int, float, str]:
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
