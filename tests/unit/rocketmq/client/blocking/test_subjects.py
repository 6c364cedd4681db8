"""Every method of an awaited subject has a blocking wrapper with the same arguments."""

import inspect

import pytest

from sprocket.rocketmq.client import admin as awaited
from sprocket.rocketmq.client import blocking
from sprocket.rocketmq.client.blocking.wrapper import Runner

SUBJECTS = ("topic", "group", "broker", "nameserver", "message", "offset")


def methods(subject: object) -> dict[str, inspect.Signature]:
    """Return the public methods of an object with their signatures."""
    found = inspect.getmembers(subject, inspect.ismethod)
    return {name: inspect.signature(one) for name, one in found if not name.startswith("_")}


@pytest.mark.parametrize("subject", SUBJECTS)
def test_wrappers_have_the_same_signatures(subject: str) -> None:
    """The same names, arguments, defaults and results."""
    here = getattr(blocking.Admin("127.0.0.1:9876"), subject)
    there = getattr(awaited.Admin("127.0.0.1:9876"), subject)
    assert methods(here) == methods(there)


def test_wrappers_do_what_they_say(names: str) -> None:
    """Each calls the method of its own name."""
    with blocking.Admin(names) as looking:
        runner = Runner("tester", awaited.Admin(names))
        runner.start()
        for subject in SUBJECTS:
            called: list[str] = []

            class Spy:
                def __getattr__(self, name: str) -> object:
                    async def note(*_: object, **__: object) -> None:
                        called.append(name)  # noqa: B023 - called before the loop goes on

                    return note

            mine = type(getattr(looking, subject))(runner, Spy())
            for name, signature in methods(mine).items():
                needed = [p for p in signature.parameters.values() if p.default is p.empty]
                getattr(mine, name)(*(None for _ in needed))
            assert called == list(methods(mine))
        runner.close()


def test_a_twin_reaches_the_cluster(names: str) -> None:
    """And gives what the awaited one gives."""
    with blocking.Admin(names) as looking:
        looking.topic.create("t", 2)
        assert looking.topic.names() == ["t"]
        assert len(looking.topic.queues("t")) == 2
