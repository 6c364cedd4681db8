"""`sprocket up`, `broker` and `nameserver`: servers in the foreground until a signal comes."""

from typing import Annotated

import typer

from sprocket.base.errors import SettingsError
from sprocket.cli.options import expanded
from sprocket.cli.servers import serving
from sprocket.cli.servers.serving import Serving

Data = Annotated[
    str | None,
    typer.Option(
        "--data",
        metavar="DIR",
        help="Folder of the store; by default the file's storePathRootDir, or sprocket-data.",
    ),
]
Host = Annotated[str | None, typer.Option("--host", help="Address to listen on.")]
Port = Annotated[int | None, typer.Option("--port", help="0 is any free port.")]
Flush = Annotated[
    str | None,
    typer.Option("--flush", metavar="sync|async", help="When a message counts as stored."),
]
STORE = "sprocket-data"


@expanded
def up(
    data: Data = None,
    host: Host = None,
    nameserver_port: Annotated[
        int | None, typer.Option("--nameserver-port", help="0 is any free port.")
    ] = None,
    broker_port: Annotated[
        int | None, typer.Option("--broker-port", help="0 is any free port.")
    ] = None,
    grpc_port: Annotated[
        str | None,
        typer.Option(
            "--grpc-port",
            metavar="PORT|off",
            help="Of SDKs of RocketMQ 5 (gRPC); 0 is any free port, off serves none.",
        ),
    ] = None,
    amqp_port: Annotated[
        int | None, typer.Option("--amqp-port", help="0 is any free port.")
    ] = None,
    amqp_http_port: Annotated[
        str | None,
        typer.Option(
            "--amqp-http-port",
            metavar="PORT|off",
            help="Of RabbitMQ's HTTP API; 0 is any free port, off serves none.",
        ),
    ] = None,
    flush: Flush = None,
    no_amqp: Annotated[
        bool, typer.Option("--no-amqp", help="Serve RocketMQ's clients alone.")
    ] = False,
    no_rocketmq: Annotated[
        bool, typer.Option("--no-rocketmq", help="Serve AMQP's clients alone.")
    ] = False,
    *,
    options: Serving,
) -> None:
    """Run a NameServer, a broker and AMQP in the foreground. FILE may be RocketMQ's broker.conf."""
    if no_amqp and no_rocketmq:
        raise SettingsError("--no-amqp and --no-rocketmq were given: nothing would be served")
    left_alone = {"--amqp-port": amqp_port, "--amqp-http-port": amqp_http_port} if no_amqp else {}
    if no_rocketmq:
        left_alone = {
            "--nameserver-port": nameserver_port,
            "--broker-port": broker_port,
            "--grpc-port": grpc_port,
        }
    for name, given in left_alone.items():
        if given is not None:
            off = "--no-amqp" if no_amqp else "--no-rocketmq"
            raise SettingsError(f"{off} and {name} were given: nothing would be served there")
    from sprocket.node import products

    own = {
        "server.host": host,
        "server.nameserver_port": nameserver_port,
        "server.broker_port": broker_port,
        "grpc.port": grpc_port,
        "store.flush": flush,
        "amqp.port": amqp_port,
        "amqp_http.port": amqp_http_port,
        "amqp_durability.confirm": flush,
    }
    left_out = {*(["nameserver", "broker"] if no_rocketmq else []), *(["amqp"] if no_amqp else [])}
    served = [one for one in products.PRODUCTS if one.name not in left_out]
    serving.serve(served, options, own, data, STORE, known=products.PRODUCTS)


@expanded
def broker(
    data: Data = None,
    nameserver: Annotated[
        str | None,
        typer.Option(
            "--nameserver", "-n", metavar="HOST:PORT;…", help="NameServer to register with."
        ),
    ] = None,
    host: Host = None,
    port: Port = None,
    flush: Flush = None,
    *,
    options: Serving,
) -> None:
    """Run a broker in the foreground. FILE may be RocketMQ's broker.conf."""
    from sprocket.node.products import named

    own = {
        "server.host": host,
        "server.broker_port": port,
        "broker.nameservers": nameserver,
        "store.flush": flush,
    }
    serving.serve(named("broker"), options, own, data, STORE)


@expanded
def nameserver(
    host: Host = None,
    port: Port = None,
    data: Annotated[
        str,
        typer.Option("--data", metavar="DIR", help="Folder for what tools store in it."),
    ] = "sprocket-names",
    *,
    options: Serving,
) -> None:
    """Run a NameServer in the foreground. FILE may be RocketMQ's namesrv.conf."""
    from sprocket.node.products import named

    own = {"server.host": host, "server.nameserver_port": port}
    serving.serve(named("nameserver"), options, own, data, data, goodbye="stopped")
