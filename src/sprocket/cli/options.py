"""Options that several commands share, besides those of `wire`."""

import dataclasses
import inspect
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any

import typer

AsJson = Annotated[bool, typer.Option("--json", help="Write JSON, one object on each line.")]
WithInternal = Annotated[
    bool,
    typer.Option("--all", "-a", help="Also show internal ones: of the system, and of retries."),
]
TopicName = Annotated[str, typer.Argument(help="Name of the topic.")]
Tags = Annotated[
    str, typer.Option("--tag", help="Only messages with these tags, `a || b`; * is any.")
]
GroupName = Annotated[str, typer.Argument(help="Name of the consumer group.")]
Cluster = Annotated[str | None, typer.Option(help="Only this cluster.")]
BrokerName = Annotated[str | None, typer.Option(help="Only this broker.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def expanded(command: Callable[..., None]) -> Callable[..., None]:
    """Make an option of each field of a parameter that is a dataclass of options.

    The fields are annotated as parameters are, and stand after all others. The command gets the
    dataclass, made of what was given.
    """
    nouns: dict[str, type] = {}
    own: list[inspect.Parameter] = []
    shared: list[inspect.Parameter] = []
    for one in inspect.signature(command).parameters.values():
        kind = one.annotation
        if isinstance(kind, type) and dataclasses.is_dataclass(kind):
            nouns[one.name] = kind
            shared += inspect.signature(kind).parameters.values()
        else:
            own.append(one.replace(kind=inspect.Parameter.KEYWORD_ONLY))

    @wraps(command)
    def run(**given: Any) -> None:
        for name, kind in nouns.items():
            given[name] = kind(
                **{one: given.pop(one) for one in inspect.signature(kind).parameters}
            )
        command(**given)

    run.__signature__ = inspect.Signature([*own, *shared])  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in [*own, *shared]}
    return run
