"""Options that several commands share, besides those of `wire`."""

from typing import Annotated

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
