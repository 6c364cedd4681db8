"""What a command answers: text for people, or JSON for scripts."""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any

import typer

from sprocket.cli.options import AsJson
from sprocket.cli.terminal import output, tables


@dataclass(frozen=True, slots=True)
class CommandAnswer:
    """What a command has to say.

    Args:
        values: Objects for scripts, one a line; looked at only if these ask.
        show: Writes the same for people.
        comment: A line on stderr after either; empty for none.
        code: The command exits with it.
    """

    values: Iterable[Mapping[str, Any]]
    show: Callable[[], None]
    comment: str = ""
    code: int = 0

    def write(self, *, as_json: bool) -> None:
        """Write it for scripts or for people."""
        if as_json:
            for value in self.values:
                output.write_json(value)
        else:
            self.show()
        if self.comment:
            output.say(self.comment)
        if self.code:
            raise typer.Exit(self.code)


def table(rows: Sequence[Mapping[str, Any]], *, spare: Sequence[str] = ()) -> CommandAnswer:
    """Answer with rows that have the same members; `spare` is that of `tables.write_table`."""
    return CommandAnswer(rows, lambda: tables.write_table("", rows, spare=spare))


def sentence(values: Iterable[Mapping[str, Any]], text: str) -> CommandAnswer:
    """Answer people with a line on stderr."""
    return CommandAnswer(values, lambda: output.say(text))


def answering(command: Callable[..., CommandAnswer]) -> Callable[..., None]:
    """Give a command the option `--json`, and write its answer."""
    signature = inspect.signature(command)
    option = inspect.Parameter(
        "as_json", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=AsJson
    )

    @wraps(command)
    def run(*, as_json: bool, **given: Any) -> None:
        command(**given).write(as_json=as_json)

    run.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[*signature.parameters.values(), option]
    )
    return run
