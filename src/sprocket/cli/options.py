"""Options that commands which talk to a broker share."""

from typing import Annotated

import typer

NameServer = Annotated[
    str,
    typer.Option("--nameserver", "-n", help="Address of the NameServer.", envvar="NAMESRV_ADDR"),
]
DEFAULT_NAMESERVER = "127.0.0.1:9876"
AsJson = Annotated[bool, typer.Option("--json", help="Write JSON instead of a table.")]
TopicName = Annotated[str, typer.Argument(help="Name of the topic.")]
Tags = Annotated[
    str, typer.Option("--tag", help="Only messages with these tags, `a || b`; * is any.")
]
GroupName = Annotated[str, typer.Argument(help="Name of the consumer group.")]
Cluster = Annotated[str | None, typer.Option(help="Only this cluster.")]
BrokerName = Annotated[str | None, typer.Option(help="Only this broker.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
