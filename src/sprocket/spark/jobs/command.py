"""A command of a job: options from its signature. `sprocket pipe` and `__main__` both have it."""

import inspect
from collections.abc import Callable
from typing import Annotated, Any, get_args

from sprocket.spark.jobs.job import JobOption, SparkJob, arguments, options


def command(
    job: SparkJob,
    run: Callable[..., None],
    own: tuple[inspect.Parameter, ...] = (),
) -> Callable[..., None]:
    """Return a function for typer that takes a job's options, and more.

    Args:
        job: The job.
        run: Gets the job, its options as a dict, and the values of `own` by name.
        own: Parameters beside the job's, for `run`.
    """

    def call(**given: Any) -> None:
        values = arguments(job, given)
        run(job, values, **given)

    shown = [_shown(parameter, option) for parameter, option in options(job)]
    call.__signature__ = inspect.Signature([*shown, *own])  # type: ignore[attr-defined]
    call.__annotations__ = {one.name: one.annotation for one in [*shown, *own]}
    return call


def _shown(parameter: inspect.Parameter, option: JobOption) -> inspect.Parameter:
    """Return a parameter as typer reads it."""
    import typer  # workers, which import jobs, do without

    kind = get_args(parameter.annotation)[0]
    if option.is_argument:
        info = typer.Argument(help=option.note, metavar=option.metavar, show_default=False)
    else:
        name = parameter.name.replace("_", "-")
        flags = [f"--{name}/--no-{name}" if parameter.default is True else f"--{name}"]
        flags += option.also.split()
        has_default = parameter.default not in ("", 0, (), False, inspect.Parameter.empty)
        info = typer.Option(
            *flags,
            help=option.note,
            metavar=option.metavar,
            show_default=has_default,
            min=0 if kind is int else None,  # all of them are counts and sizes
        )
    default = parameter.default
    if isinstance(default, tuple):
        default = list(default)
    return inspect.Parameter(
        parameter.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=default,
        annotation=Annotated[kind, info],
    )
