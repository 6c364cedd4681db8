"""One process that serves one product or several, in one event loop.

A `Product` says which settings it reads, which ports it takes and what opens it. Opening gives a
function that lets clients in:

    take all ports ── tell of health ── open each product ── let clients in, one by one ── ready
                                             stop: what each has left on `Site.parts`, backwards

Invariants

1. No client is let in before every product is open, except for questions about health.
2. What was begun ends in the reverse order, at a stop and if something later fails.
3. A start that is cancelled ends at the next step of an opening; the next start continues.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sprocket.base import log, settings
from sprocket.base.clock import Clock, SystemClock
from sprocket.base.disk import Disk, RealDisk
from sprocket.base.place import Place
from sprocket.base.progress import Step
from sprocket.base.settings import ForeignSettings, Loaded
from sprocket.runtime.settings import HostSettings

if TYPE_CHECKING:
    from sprocket.node.health import Health
    from sprocket.node.listening import Listening
    from sprocket.node.opening import C, OpeningWatch, Say
    from sprocket.runtime.certificates import CertificateFile
    from sprocket.runtime.driver import (
        Bound,
        Carried,
        ConnectionAdmission,
        E,
        OnEvent,
        PortPolicy,
    )
    from sprocket.runtime.http import HttpServer

HEALTH = "health"
"""What its port is called."""


def metrics_port(product: str) -> str:
    """Return what the port for a product's metrics is called, if it has one."""
    return f"{product}-metrics"


_log = log.get_logger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class Running:
    """A product that lets clients in."""

    ready: Mapping[str, str]
    """What scripts are told, such as where it can be reached, by name."""
    rows: Sequence[tuple[str, str]]
    """What people are told: name and text."""
    refusals: Callable[[], Mapping[str, str]] = dict
    """Gives why nothing is stored now, by what does not store; empty if all is."""
    metrics: "HttpServer | None" = None
    """What answers at the product's port for metrics, see `metrics_port`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Site:
    """What one product finds in the process that runs it."""

    place: Place
    """For its files alone; the folder may be missing, or have `other_folders`."""
    other_folders: frozenset[str]
    """Folders of other products in that one."""
    given: Loaded[object]
    """The settings; `given.of` gives a product its own."""
    parts: AsyncExitStack
    """Takes what must be ended when the process stops."""
    ports: Mapping[str, int]
    """Every port of the process by name, other products' too."""
    certificates: "Callable[[], Sequence[CertificateFile]]"
    """Gives the files with which connections are encrypted now; none if they have no files."""
    _bound: "Mapping[str, Bound]"
    _listening: "Listening"
    _watch: "OpeningWatch"

    async def open(self, do: "Callable[[Step], C]") -> "C":
        """Open something that may take long by `do`, on a thread, and close it at the end."""
        from sprocket.node.opening import on_a_thread

        found = await on_a_thread(self._watch, do)
        self.parts.callback(found.close)
        return found

    async def again(self, names: Sequence[str], parts: AsyncExitStack) -> "Site":
        """Return a site at which what was closed is opened once more.

        Args:
            names: The ports that it listens on, as far as there are such; they are taken anew.
            parts: Takes what must be ended before the next time.

        Raises:
            SettingsError: Somebody else has a port.
        """
        from sprocket.node.opening import OpeningWatch

        bound, watch = dict(self._bound), OpeningWatch(None, self.place.clock)
        for name in names:
            if name in bound:
                bound[name] = await self._listening.bind(self.ports[name])
                parts.callback(bound[name].close)
        return replace(self, parts=parts, _bound=bound, _watch=watch)

    async def listen(
        self,
        name: str,
        codec: "Callable[[], Carried[E]]",
        on_event: "OnEvent[E]",
        policy: "PortPolicy | None" = None,
    ) -> None:
        """Let clients in at one port.

        Args:
            name: The port.
            codec: Makes what each connection is read by.
            on_event: Handles everything that it reads.
            policy: How its clients are read; the default if None.

        Raises:
            SettingsError: Somebody else listens there since it was taken.
        """
        server = await self._listening.open(
            codec,
            on_event,
            self._bound[name],
            policy,
            name=name,
        )
        self.parts.push_async_callback(server.close)

    async def serve_http(self, name: str, http: "HttpServer") -> None:
        """Answer requests at one port; raises as `listen` does."""
        await _serve_http(self._listening, self._bound[name], name, http, self.parts)


Serve = Callable[[], Awaitable[Running]]
"""Lets clients in."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Product:
    """One kind of server."""

    name: str
    settings: type
    """The root of the groups that it reads, see `base.settings`."""
    ports: Callable[[Loaded[object]], Mapping[str, int]]
    """Gives the ports that it takes by name; 0 is any free one."""
    open: Callable[[Site], Awaitable[Serve]]
    """Opens what it keeps, and returns what lets clients in."""
    folder: str = ""
    """Where its files lie in a folder that it shares with other products."""
    keeps_folder: bool = False
    """Whether they lie there, too, if it runs alone."""
    port_hint: str = ""
    """What people are told to do about a port that is taken."""
    foreign: Callable[[bytes, str], ForeignSettings] | None = None
    """Reads a settings file of the program that it is made after."""


class Host:
    """Products that run; made by `start`.

    Threads: event loop only.
    """

    def __init__(
        self, running: Mapping[str, Running], parts: AsyncExitStack, health: "Health"
    ) -> None:
        self.running = running
        """By the name of the product, and `health` if that has a port."""
        self._parts = parts
        self._health = health
        health.begin(self.refusals)

    @classmethod
    async def start(
        cls,
        products: Sequence[Product],
        given: Loaded[object],
        folder: str,
        *,
        disk: Disk | None = None,
        clock: Clock | None = None,
        say: "Say | None" = None,
    ) -> "Host":
        """Take the ports, open everything, let clients in.

        Args:
            products: What to run; a later one may need an earlier one's port.
            given: The settings, with the groups of `settings_of(products)`.
            folder: For their files; a product that is alone has it for itself.
            disk: Where it lies; the machine's by default.
            clock: The machine's by default.
            say: Takes lines that tell people how far a long opening is.

        Raises:
            StoreError: A folder is another's, locked or damaged.
            SettingsError: A port is in use, or an address is not this machine's.
        """
        from sprocket.node.encryption import NodeEncryption
        from sprocket.node.health import PATH, Health
        from sprocket.node.listening import Listening, reachable_host
        from sprocket.node.opening import OpeningWatch
        from sprocket.runtime.driver import ConnectionAdmission, address

        disk, clock = disk or RealDisk(), clock or SystemClock()
        own = given.of(HostSettings)
        tls = None if own.tls.mode == "off" else NodeEncryption(own.tls, disk, clock)
        ports = [(one, *port) for one in products for port in one.ports(given).items()]
        asked = 0 if own.health.port == "off" else 1
        admission = ConnectionAdmission.of_process(len(ports) + asked, own.server.handshake_seconds)
        listening = Listening(own.server, own.limits, admission, tls)
        bound: dict[str, Bound] = {}
        health = Health()
        async with AsyncExitStack() as parts:
            if own.health.port != "off":
                from sprocket.runtime.http import HttpServer

                hint = "health: --health-port takes another"
                bound[HEALTH] = taken = await listening.bind(own.health.port, hint)
                parts.callback(taken.close)
                http = HttpServer(health.handle, lambda _: 0, lambda *_: False, clock)
                await _serve_http(listening, taken, HEALTH, http, parts)
            for product, name, number in ports:
                bound[name] = await listening.bind(number, product.port_hint)
                parts.callback(bound[name].close)
            served: dict[str, Serve] = {}
            for product in products:
                inside = product.folder if len(products) > 1 or product.keeps_folder else ""
                site = Site(
                    place=Place(disk, f"{folder}/{inside}" if inside else folder, clock),
                    other_folders=frozenset(one.folder for one in products if one.folder != inside),
                    given=given,
                    parts=parts,
                    ports={name: one.port for name, one in bound.items()},
                    certificates=tuple if tls is None else tls.certificates,
                    _bound=bound,
                    _listening=listening,
                    _watch=OpeningWatch(say, clock),
                )
                served[product.name] = await product.open(site)
            running = {name: await serve() for name, serve in served.items()}
            for name, one in running.items():
                if one.metrics is not None:
                    port = metrics_port(name)
                    await _serve_http(listening, bound[port], port, one.metrics, parts)
            if HEALTH in bound:
                told = address(reachable_host(own.server), bound[HEALTH].port)
                rows = [("health", f"{told}{PATH}")]
                running[HEALTH] = Running(ready={HEALTH: told}, rows=rows)
            _tell_limit(admission, own.limits.connections_max)
            return cls(running, parts.pop_all(), health)
        raise AssertionError("unreachable")

    async def stop(self) -> None:
        """Take leave, answer what waits, close everything; what was answered is on the disk."""
        self._health.end()
        await self._parts.aclose()

    def refusals(self) -> list[str]:
        """Return why nothing is stored now, by each that does not store; empty if all do."""
        return [
            f"{what}: {why}"
            for one in self.running.values()
            for what, why in one.refusals().items()
        ]


async def _serve_http(
    listening: "Listening", bound: "Bound", name: str, http: "HttpServer", parts: AsyncExitStack
) -> None:
    """Answer requests at a port from now on."""
    from sprocket.runtime.driver import PortPolicy

    parts.push_async_callback(http.stop)
    server = await listening.open(
        http.connection, http.on_event, bound, PortPolicy(knows_by_event=False), name=name
    )
    parts.push_async_callback(server.close)


def _tell_limit(admission: "ConnectionAdmission", wanted: int) -> None:
    """Say so if there can be fewer connections than the settings allow."""
    most = admission.connections_max
    if most is not None and most < wanted:
        _log.warning(
            "the process may have fewer connections open than the settings allow; see ulimit -n",
            connections_max=most,
            wanted=wanted,
        )


def settings_of(products: Iterable[Product]) -> type:
    """Return the root with every group that a host with these products reads."""
    return settings.joined([HostSettings, *(one.settings for one in products)])
