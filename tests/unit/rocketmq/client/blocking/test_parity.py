"""The blocking face is the asyncio client without `await`: nothing is missing, nothing differs.

Both are compared as they are, member by member. A difference that is meant stands in a table here,
with its reason; an entry that is needed no more fails as well.
"""

import asyncio
import inspect
from collections.abc import Iterator
from typing import Any, get_args, get_type_hints

import pytest

from sprocket.rocketmq import client as awaited
from sprocket.rocketmq.client import blocking
from sprocket.rocketmq.client.blocking.wrapper import OpenedWrapper, Runner, Wrapper

TWINS = [name for name in awaited.__all__ if hasattr(getattr(awaited, name), "__aenter__")]
SUBJECTS = ("topic", "group", "broker", "nameserver", "message", "offset")

SPELLED = {"__aenter__": "__enter__", "__aexit__": "__exit__", "__aiter__": "__iter__"}
"""How Python calls a member that is not awaited."""

ONE_SIDE_ONLY = {
    "Client.instance": "what awaited clients share; a wrapper shares the client that has it",
    "Puller.pull_slices_soon": "an event loop has tasks for what is not to be waited for",
}
"""Members that one side alone has, and why."""

OTHERWISE = {
    "where": "a wrapper shares a blocking `Client`, an awaited client an awaited one",
    "PushConsumer.__init__ listener": "a wrapper's may block and is never awaited",
    "Producer.send_soon returns": "a future that threads can wait for",
    "Producer.send_packed returns": "a future that threads can wait for",
    "LitePullConsumer.__iter__ returns": "an iterator that is not awaited",
    "PushConsumer.__iter__ returns": "an iterator that is not awaited",
    "TransactionProducer.__init__ check": "a wrapper's may block and is never awaited",
    "TransactionProducer.send work": "a wrapper's may block, and is given a blocking transaction",
    "TransactionProducer.begin returns": "a blocking transaction",
}
"""Parameters and results that are annotated differently, and why."""

BEGUN = {"pull_slices_soon": "pull_slices"}
"""Members of a wrapper that give a future of what the awaited one of another name returns."""

WAIT_FOR_ROOM = {("send_soon", "drain"), ("send_packed", "drain")}
"""Members of a wrapper that ask for more than the one of their name."""

IN_STEPS = {"TransactionProducer.send": "the work runs in the caller's thread, not in the loop's"}
"""Members of a wrapper that do by several calls what the awaited one does, and why."""

HANDLES = ("Transaction",)
"""What a client gives, and what has a wrapper as well."""

_OWN = ("self", "reach", "run", "awaited")
"""Parameters that users do not give."""


def made(module: Any, name: str) -> Any:
    """Return an object of a class, not started."""
    needs: dict[str, Any] = {"group": "g"} if "Consumer" in name else {}
    if "Transaction" in name:
        needs = {"group": "g", "check": print}
    return getattr(module, name)("127.0.0.1:9876", **needs)


def pairs() -> Iterator[tuple[str, Any, Any]]:
    """Name, awaited object and blocking object of every wrapper, the subjects of the admin too."""
    for name in TWINS:
        there, here = made(awaited, name), made(blocking, name)
        yield name, there, here
        if name == "Admin":
            for subject in SUBJECTS:
                yield f"Admin.{subject}", getattr(there, subject), getattr(here, subject)


def members(thing: Any) -> dict[str, Any]:
    """Return what a user finds in an object, by the name it has without `await`."""
    spelled = {"__init__", "__enter__", "__exit__", "__iter__", *SPELLED}
    found: dict[str, Any] = dict(vars(thing))
    for kind in reversed(type(thing).__mro__):
        if kind.__module__.startswith("sprocket."):
            found.update(vars(kind))
    return {
        SPELLED.get(name, name): member
        for name, member in found.items()
        if not name.startswith("_") or name in spelled
    }


def function(member: Any) -> Any:
    """Return the function that a method or property is made of; None for a plain attribute."""
    member = member.fget if isinstance(member, property) else member
    return member if inspect.isfunction(member) else None


def shape(member: Any) -> list[tuple[str, Any, Any]]:
    """Return name, kind and default of each parameter."""
    return [
        (one.name, one.kind, one.default)
        for one in inspect.signature(member).parameters.values()
        if one.name not in _OWN
    ]


def annotations(member: Any) -> dict[str, Any]:
    """Return the annotation of each parameter, and of the result."""
    hints = get_type_hints(member)
    return {("returns" if name == "return" else name): hints[name] for name in hints}


TRIPLES = [pytest.param(*three, id=three[0]) for three in pairs()]


@pytest.mark.parametrize(("name", "there", "here"), TRIPLES)
def test_wrappers_have_the_same_members(name: str, there: Any, here: Any) -> None:
    """No method, property or attribute is there on one side alone, or is of another kind."""
    theirs, ours = members(there), members(here)
    assert not [one for one in theirs.keys() ^ ours.keys() if f"{name}.{one}" not in ONE_SIDE_ONLY]
    for one in theirs.keys() & ours.keys():
        assert isinstance(theirs[one], property) == isinstance(ours[one], property), one


@pytest.mark.parametrize(("name", "there", "here"), TRIPLES)
def test_wrappers_take_the_same_arguments(name: str, there: Any, here: Any) -> None:
    """The same names in the same order, given in the same way, with the same defaults."""
    theirs, ours = members(there), members(here)
    for one in theirs.keys() & ours.keys() - {"__exit__"}:
        if function(theirs[one]) is not None:
            assert shape(function(theirs[one])) == shape(function(ours[one])), f"{name}.{one}"


@pytest.mark.parametrize(("name", "there", "here"), TRIPLES)
def test_wrappers_are_annotated_alike(name: str, there: Any, here: Any) -> None:
    """Arguments and results, but for the differences that are meant."""
    assert not set(differences(name, there, here)) - OTHERWISE.keys()


def differences(name: str, there: Any, here: Any) -> Iterator[str]:
    """Name each parameter or result whose annotation is not the same."""
    theirs, ours = members(there), members(here)
    for one in sorted(theirs.keys() & ours.keys()):
        if function(theirs[one]) is None or one == "__exit__":
            continue
        left, right = (annotations(function(side[one])) for side in (theirs, ours))
        for argument in left.keys() | right.keys():
            if argument not in _OWN and left.get(argument) != right.get(argument):
                yield argument if argument == "where" else f"{name}.{one} {argument}"


@pytest.mark.parametrize(("name", "there", "here"), TRIPLES)
def test_nothing_of_a_twin_is_awaited(name: str, there: Any, here: Any) -> None:
    """What is `async` there is plain here; iterators are iterators."""
    for one, member in members(here).items():
        assert not inspect.iscoroutinefunction(function(member)), f"{name}.{one}"
        assert not inspect.isasyncgenfunction(function(member)), f"{name}.{one}"


@pytest.mark.parametrize(("name", "there", "here"), TRIPLES)
def test_wrappers_are_documented_alike(name: str, there: Any, here: Any) -> None:
    """`help` tells of each member, and what it tells of an awaited one it tells of its wrapper."""
    theirs, ours = members(there), members(here)
    for one in sorted(theirs.keys() & ours.keys()):
        if not one.startswith("__") and function(ours[one]) is not None:
            assert inspect.getdoc(ours[one]), f"{name}.{one}"
            is_made = hasattr(ours[one], "__wrapped__")
            assert not is_made or inspect.getdoc(ours[one]) == inspect.getdoc(theirs[one])


def test_both_packages_have_the_same_names() -> None:
    """One import serves; what has no wrapper is the same thing in both."""
    assert awaited.__all__ == blocking.__all__
    for name in awaited.__all__:
        is_twin = name in TWINS or name in HANDLES
        assert (getattr(awaited, name) is getattr(blocking, name)) is not is_twin, name


@pytest.mark.parametrize("name", HANDLES)
def test_handles_have_the_same_members(name: str) -> None:
    """The same names and arguments; what they do is tested with the client that gives them."""
    there, here = getattr(awaited, name), getattr(blocking, name)
    ours = {one for one in dir(here) if not one.startswith("_")}
    for one in ours:
        member = getattr(there, one, None)
        if inspect.isfunction(member):
            assert shape(member) == shape(function(getattr(here, one)))
    theirs = {one for one in dir(there) if not one.startswith("_")}
    assert ours == theirs | {"message", "sent", "state"}


def test_every_difference_that_is_meant_is_there() -> None:
    """The tables do not outlive what they excuse."""
    lone = {
        f"{name}.{one}"
        for name, there, here in pairs()
        for one in members(there).keys() ^ members(here).keys()
    }
    assert lone == ONE_SIDE_ONLY.keys()
    assert {one for three in pairs() for one in differences(*three)} == OTHERWISE.keys()


class Spied:
    """Stands for an awaited client, and notes what it is asked with which arguments.

    Args:
        real: The client, whose members it has.
    """

    def __init__(self, real: Any) -> None:
        self.real = real
        self.asked: list[tuple[str, dict[str, Any]]] = []

    def __getattr__(self, name: str) -> Any:
        member = getattr(type(self.real), name)
        if isinstance(member, property):
            return self._note(name, {})

        def plain(*args: Any, **kwargs: Any) -> Any:
            given = inspect.signature(member).bind(self, *args, **kwargs).arguments
            self._note(name, {one: given[one] for one in given if one != "self"})
            soon = "Future" in str(inspect.signature(member).return_annotation)
            return asyncio.get_running_loop().create_future() if soon else name

        async def coroutine(*args: Any, **kwargs: Any) -> Any:
            return plain(*args, **kwargs)

        return coroutine if inspect.iscoroutinefunction(member) else plain

    def _note(self, name: str, given: dict[str, Any]) -> str:
        self.asked.append((name, given))
        return name


def asked_of(spy: Spied, member: str, here: Any) -> tuple[Any, Any]:
    """Call a member of a wrapper with something of its own for each argument.

    Returns:
        What was asked of the spy, and what should have been.
    """
    args: dict[str, Any] = {}
    kwargs: dict[str, Any] = {}
    for argument, kind, _ in shape(function(getattr(type(here), member))):
        if kind is inspect.Parameter.VAR_POSITIONAL:
            args[argument] = (object(),)
        else:
            kwargs[argument] = object()
    spy.asked.clear()
    given = getattr(here, member)(*(one for several in args.values() for one in several), **kwargs)
    if member in BEGUN:
        given.result()
    return spy.asked, [(BEGUN.get(member, member), args | kwargs)]


@pytest.mark.parametrize(("name", "there", "here"), TRIPLES)
def test_wrappers_pass_on_what_they_are_given(name: str, there: Any, here: Any) -> None:
    """Each member asks for the one of its name, with every argument, each in its place."""
    spy = Spied(there)
    if "." in name:
        runner = Runner("tester", awaited.Admin("127.0.0.1:9876"))
        runner.start()
        Wrapper.__init__(here, runner, spy)
    else:
        OpenedWrapper.__init__(here, "tester", "127.0.0.1:9876", lambda _: spy)
        OpenedWrapper.start(here)
    wanted = {one for one in members(here) if not one.startswith("__")}
    for one in sorted(wanted - {"start", "close"}):
        spy.asked.clear()
        if isinstance(members(here)[one], property):
            assert getattr(here, one) == one
            assert spy.asked == [(one, {})]
        elif function(members(here)[one]) is not None and f"{name}.{one}" not in IN_STEPS:
            asked, expected = asked_of(spy, one, here)
            assert expected == [it for it in asked if (one, it[0]) not in WAIT_FOR_ROOM]
    if "close" in wanted:
        asked, expected = asked_of(spy, "close", here)
        assert expected == asked
    else:
        runner.close()


@pytest.mark.parametrize("name", TWINS)
def test_wrappers_are_made_with_what_they_are_given(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The awaited client in a wrapper gets every argument; a listener comes by a thread."""
    real, there = getattr(awaited, name), made(awaited, name)
    signature = inspect.signature(real)
    seen: dict[str, Any] = {}

    def make(self: Any, *args: Any, **kwargs: Any) -> None:
        seen.update(signature.bind(*args, **kwargs).arguments)
        vars(self).update(vars(there))

    monkeypatch.setattr(real, "__init__", make)
    arguments = {argument: object() for argument in signature.parameters if argument != "options"}
    options = {}
    if "options" in signature.parameters:
        (kind,) = get_args(signature.parameters["options"].annotation)
        options = {argument: object() for argument in get_type_hints(kind)}
    if "check" in arguments:
        arguments["settings"] = awaited.ProducerSettings()
    getattr(blocking, name)(**arguments, **options)
    for called in {"listener", "check"} & seen.keys():
        assert inspect.iscoroutinefunction(seen.pop(called))
        del arguments[called]
    assert seen.pop("options", {}) == options
    assert seen == arguments
