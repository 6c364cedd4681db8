"""A broker that is a member of a set: in which role it is open, a decider says.

    Host ── serve ──► open as a slave ──► who is this? ──► SetMember, RoleKeeper
                                                              │  closes and opens: `OpenRole`
    the ports stay this process's; each role listens on them anew

Who this is, is known once the store is open: a file of it says so.
"""

import os
import secrets
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from sprocket.base import log
from sprocket.base.clock import since_boot
from sprocket.base.errors import SettingsError
from sprocket.base.place import Place
from sprocket.node.host import Site
from sprocket.rocketmq.settings import FailoverSettings, Settings
from sprocket.runtime.offload import DiskThread

if TYPE_CHECKING:
    from ssl import SSLContext

    from sprocket.rocketmq.failover import (
        Decider,
        LogState,
        Member,
        MemberAddresses,
        Needed,
        Role,
        SetMember,
    )
    from sprocket.rocketmq.failover.operator import OperatorDecider
    from sprocket.rocketmq.remoting import MakeRequest
    from sprocket.rocketmq.server.dispatch import Row
    from sprocket.rocketmq.server.nameservers import MasterAddresses
    from sprocket.rocketmq.store.epoch_file import EpochFile
    from sprocket.rocketmq.store.store import Store

_log = log.get_logger(__name__)

OPERATOR = "operator"
"""The value of `ha.decider` for a set whose master is chosen by an operator."""
PORTS = ("broker", "vip", "grpc", "slaves")
"""Those of the broker, as far as it has them."""


class OpenRole(Protocol):
    """A broker that lets clients in, in a role."""

    def state(self) -> "LogState":
        """Tell of its log."""

    def require(self, needed: "Needed") -> None:
        """Acknowledge nothing from now on that one of some members has not."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Seat:
    """What a broker of a set is opened with, beside its settings."""

    role: "Role"
    store_opened: Callable[[bool], None]
    """Told once the store is open, before all else: whether it was closed in order."""
    me: "Callable[[], Member]"
    """Who this is; after that."""
    master: "Callable[[], MasterAddresses | None]"
    """Whom a slave follows."""
    rows: "Callable[[], Sequence[Row]]"
    """Requests about the set."""
    needed: "Callable[[], Needed]"
    """Who must have a message."""
    may_acknowledge: Callable[[], bool]
    """Whether what these have may be acknowledged now."""
    takes_sends: Callable[[], bool]
    """Whether senders are served."""
    heard: "Callable[[Member, int, int], None]"
    """Told which slave has the log up to where, in the epoch of this role, and which version of the
    tables."""
    must_cut: Callable[[int], None]
    """Told where the log of a slave is to be cut so that it can follow its master."""
    outrun: Callable[[int], None]
    """Told of a later epoch that a slave knows of."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Joined:
    """What the open store of a broker in a set has beside others."""

    seat: Seat
    epochs: "EpochFile"


async def join(seat: Seat, place: Place, store: "Store") -> Joined:
    """See who a store is that was just opened, and which epochs its log has; see `open_epochs`."""
    from sprocket.rocketmq.server.set_roles import open_epochs

    seat.store_opened(store.report.clean)
    thread = DiskThread("sprocket-epochs")
    try:
        found = await thread.run(lambda: open_epochs(place.disk, place.folder, store, seat.role))
    finally:
        await thread.stop()
    return Joined(seat=seat, epochs=found)


Open = Callable[[Site, Settings, Seat], Awaitable[Callable[[], Awaitable[OpenRole]]]]
"""Opens the store, and returns what lets clients in."""


def check_settings(settings: Settings) -> None:
    """Refuse settings of a set that cannot be.

    Raises:
        SettingsError: It says which setting to change.
    """
    own, replication = settings.ha, settings.replication
    if own.decider == OPERATOR and not own.others:
        raise SettingsError("ha.others: where the brokers of the other members are")
    if own.others and own.decider != OPERATOR:
        raise SettingsError("ha.others: only where ha.decider is operator; etcd knows the others")
    if not own.member_id:
        raise SettingsError("ha.member_id: each member of a set has a number, from 1")
    if replication.role != "async_master" or replication.broker_id:
        raise SettingsError(
            "replication.role: with ha.decider the set says who is master; ha.member_id is the "
            "number of this member"
        )
    if replication.ack != "disk":
        raise SettingsError("replication.ack: in a set what is acknowledged is on the disk")
    if own.renewal_ms + own.timeout_ms > (own.ttl_seconds - 1) * 1000:
        raise SettingsError(
            "ha.renewal_ms: with ha.timeout_ms it must be less than ha.ttl_seconds minus 1 s"
        )
    if own.password and own.password_path:
        raise SettingsError("ha.password_path: the password is given by ha.password already")
    if bool(own.user) != bool(own.password or own.password_path):
        raise SettingsError("ha.user: a user of etcd has a password, ha.password_path")


def operator_of(
    settings: Settings, site: Site, make_request: "MakeRequest", tls: "SSLContext | None"
) -> "OperatorDecider":
    """Return what keeps an operator's word.

    Args:
        settings: All groups.
        site: Where this runs.
        make_request: Makes what other members are asked.
        tls: Encrypts that; None if it is plain.
    """
    from sprocket.rocketmq.failover import MemberId
    from sprocket.rocketmq.failover.operator import OperatorDecider
    from sprocket.rocketmq.server.other_members import OtherMembers
    from sprocket.rocketmq.store.layout import StoreLayout

    own, place = settings.ha, site.place
    others = OtherMembers(
        own.others, settings.broker.name, place.clock, own.timeout_ms / 1000, make_request, tls
    )
    site.parts.callback(others.close)
    return OperatorDecider(
        place.disk,
        StoreLayout(place.folder).set_word,
        MemberId(own.member_id),
        others.ask,
        seconds=own.renewal_ms / 1000,
    )


def decider_of(settings: Settings, site: Site) -> "Decider":
    """Return what decides. Raises SettingsError: it cannot be asked so."""
    from sprocket.base.disk import read_file
    from sprocket.base.errors import StoreError
    from sprocket.rocketmq.failover.etcd import (
        EtcdClient,
        EtcdCredentials,
        EtcdDecider,
        addresses_in,
    )

    own = settings.ha
    credentials = None
    if own.user:
        password = own.password
        if own.password_path:
            try:
                found = read_file(site.place.disk, own.password_path)
            except StoreError as error:
                raise SettingsError(f"ha.password_path: {error}") from error
            password = found.decode("utf-8", "replace").strip()
        credentials = EtcdCredentials(own.user, password)
    client = EtcdClient(
        addresses_in(own.decider),
        site.place.clock,
        seconds=own.timeout_ms / 1000,
        tls=_tls(own),
        credentials=credentials,
    )
    name = own.set_name or settings.broker.name
    return EtcdDecider(client, settings.broker.cluster, name, own.ttl_seconds)


def _tls(own: FailoverSettings) -> "SSLContext | None":
    from sprocket.runtime.tls_files import server_checking_context

    if not own.trust_path:
        if own.cert_path or own.key_path:
            raise SettingsError("ha.trust_path: needed to encrypt connections to etcd")
        return None
    return server_checking_context(own.trust_path, own.cert_path, own.key_path, own.key_password)


def of_role(settings: Settings, role: "Role") -> Settings:
    """Return the settings of a broker in a role."""
    from sprocket.rocketmq.failover import RoleKind

    own = settings.replication
    if role.kind is RoleKind.SLAVE:
        own = replace(own, role="slave", broker_id=settings.ha.member_id, master_address="")
    else:
        own = replace(own, role="sync_master", broker_id=0)
    return replace(settings, replication=own)


class _Opened:
    """A role that is open, and what ends it; a `failover.OpenBroker`."""

    def __init__(
        self, running: OpenRole, parts: AsyncExitStack, is_cut: Callable[[], bool]
    ) -> None:
        self._running = running
        self._parts = parts
        self._is_cut = is_cut

    def progress(self) -> "LogState":
        return self._running.state()

    def require(self, needed: "Needed") -> None:
        self._running.require(needed)

    @property
    def is_spent(self) -> bool:
        return self._is_cut()

    async def close(self) -> None:
        await self._parts.aclose()


class BrokerSet:
    """What a member of a set is made of in this process.

    Args:
        site: Where it runs.
        settings: All groups.
        open_role: Opens the broker in a role.
        decider: What decides.
        notice: What other members are told, where an operator decides.

    Threads: event loop only.
    """

    def __init__(
        self,
        site: Site,
        settings: Settings,
        open_role: Open,
        decider: "Decider",
        notice: Callable[[], str] | None = None,
    ) -> None:
        from sprocket.rocketmq.failover import RoleKeeper

        self._site = site
        self._settings = settings
        self._open_role = open_role
        self._decider = decider
        self._notice = notice
        self._is_first = True
        self._cut_at: int | None = None
        self.keeper = RoleKeeper(self._open)
        self._member: SetMember | None = None

    async def start(self) -> "SetMember":
        """Open the broker as a slave, see who this is, and begin to do as the decider says.

        Raises:
            SprocketError: The broker cannot be opened.
        """
        self._site.parts.push_async_callback(self._stop)
        await self.keeper.open_first()
        assert self._member is not None, "the store is open"
        self.keeper.start(self._member)
        self._member.start()
        return self._member

    async def _stop(self) -> None:
        """Hand over, close the broker, and ask nothing more."""
        await self.keeper.stop()
        if self._member is not None:
            await self._member.stop()
        else:
            await self._decider.close()

    async def _open(self, role: "Role") -> _Opened:
        """Open the broker in a role, on ports that it takes anew but for the first time."""
        async with AsyncExitStack() as parts:
            await self._cut()
            if self._is_first:
                site = replace(self._site, parts=parts)
                self._is_first = False
            else:
                site = await self._site.again(PORTS, parts)
            serve = await self._open_role(site, of_role(self._settings, role), self._seat(role))
            running = await serve()
            return _Opened(running, parts.pop_all(), lambda: self._cut_at is not None)
        raise AssertionError("unreachable")

    def _must_cut(self, at: int) -> None:
        """Have the broker closed, and its log cut, before it is opened again."""
        self._cut_at = at
        self.keeper.changed()

    async def _cut(self) -> None:
        """Cut the log of this store, which is closed, where a master has another one."""
        if self._cut_at is None:
            return
        from sprocket.rocketmq.store.cutting import log_cut

        place, at = self._site.place, self._cut_at
        thread = DiskThread("sprocket-cutting")
        try:
            cut = await thread.run(lambda: log_cut.cut(place.disk, place.folder, at))
        finally:
            await thread.stop()
        self._cut_at = None
        _log.warning(
            "the log is cut where the master has another one; what came off is saved",
            at=cut.at,
            bytes=cut.bytes,
            folder=cut.folder,
        )

    def _seat(self, role: "Role") -> Seat:
        return Seat(
            role=role,
            store_opened=self._store_opened,
            me=lambda: self.member.mastership.me,
            master=self._master,
            rows=self._rows,
            needed=lambda: self.member.mastership.needed,
            may_acknowledge=lambda: self.member.may_acknowledge,
            takes_sends=lambda: self.member.takes_sends,
            heard=lambda slave, end, tables: self.member.heard(slave, role.epoch, end, tables),
            must_cut=self._must_cut,
            outrun=lambda epoch: self.member.outrun(epoch),
        )

    def _master(self) -> "MasterAddresses | None":
        from sprocket.rocketmq.server.nameservers import MasterAddresses

        leader = self.member.mastership.master
        if leader is None:
            return None
        return MasterAddresses(broker=leader.addresses.broker, slaves=leader.addresses.slaves)

    def refusals(self) -> dict[str, str]:
        """Return why nothing is stored here now; a slave stores what its master does."""
        why = self.keeper.why
        return {f"broker {self._settings.broker.name}": why} if why else {}

    def _rows(self) -> "Sequence[Row]":
        from sprocket.rocketmq.server.handlers.admin import SetHandlers

        own = self._settings
        address = self.addresses.broker
        least = own.replication.in_sync_count_min
        return SetHandlers(self.member, own.broker.name, address, least, self._notice).rows()

    @property
    def member(self) -> "SetMember":
        """This member; there is one as soon as the store has been open."""
        assert self._member is not None, "who this is, is not known before the store is open"
        return self._member

    @property
    def addresses(self) -> "MemberAddresses":
        """Where this member is reached."""
        from sprocket.node.listening import advertised_host
        from sprocket.rocketmq.failover import MemberAddresses
        from sprocket.runtime.driver import address

        host, ports = advertised_host(self._settings.server), self._site.ports
        return MemberAddresses(
            broker=address(host, ports["broker"]), slaves=address(host, ports["slaves"])
        )

    def _store_opened(self, is_clean: bool) -> None:
        """See who this is, the first time that the store is open."""
        if self._member is not None:
            return
        from sprocket.rocketmq.failover import (
            Mastership,
            Member,
            MemberId,
            SetMember,
            Timing,
            incarnation_of,
        )
        from sprocket.rocketmq.store.layout import StoreLayout

        own, place = self._settings.ha, self._site.place
        is_late = self._settings.store.flush == "async"
        incarnation = incarnation_of(
            place.disk,
            StoreLayout(place.folder).incarnation,
            may_lack_acknowledged=is_late and not is_clean,
        )
        addresses = self.addresses
        table = Mastership(
            Member(MemberId(own.member_id), incarnation),
            addresses,
            f"{os.getpid()}.{secrets.token_hex(4)}",
            Timing(
                ttl=own.ttl_seconds,
                renewal=own.renewal_ms / 1000,
                silence=own.silence_ms_max / 1000,
            ),
            keeps_set=self._notice is not None,
        )
        self._member = SetMember(
            table,
            self._decider,
            addresses,
            self.keeper.progress,
            self.keeper.changed,
            place.clock,
            now=since_boot,
            report_seconds=own.renewal_ms / 1000,
        )
