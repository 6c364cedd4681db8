"""Keeps the broker of a member open in the role that its table of states says.

    SetMember.role ──► close what is open ──► open in the other role ──► SetMember.opened

A role is for as long as a store is open: whoever changes it closes the broker in order and opens it
anew, as after any stop. A fenced master is closed, too; may it go on, it is opened again.

While this goes on, the member renews its lease, so nothing here may hold the event loop for as long
as a renewal may wait.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from sprocket.base import log
from sprocket.base.errors import SprocketError
from sprocket.rocketmq.failover.mastership import Needed, Role, RoleKind
from sprocket.rocketmq.failover.set_member import SetMember
from sprocket.rocketmq.failover.values import LogState
from sprocket.runtime.tasks import Tasks, is_set_within

RETRY_SECONDS: Final = 2.0
"""After what a broker that could not be opened is tried again."""
LOOK_SECONDS: Final = 0.2
"""How often it is looked whether a broker must be opened anew."""
LEAVE_SECONDS: Final = 3.0
"""How long a master that is stopped tries to hand over."""

_log = log.get_logger(__name__)


class OpenBroker(Protocol):
    """A broker that is open in a role."""

    def progress(self) -> LogState:
        """Tell of its log."""

    def require(self, needed: Needed) -> None:
        """Acknowledge nothing from now on that one of some members has not."""

    @property
    def is_spent(self) -> bool:
        """Whether it must be closed and opened anew in the role that it has."""

    async def close(self) -> None:
        """Take leave, and close the store; what was answered is on the disk."""


Open = Callable[[Role], Awaitable[OpenBroker]]
"""Opens the broker in a role. As the master of an epoch it is open to senders when this returns,
and the epoch is in its log, on the disk. Raises SprocketError."""


class RoleKeeper:
    """See the head of the module.

    Args:
        open_broker: Opens it.

    Attributes:
        broker: What is open; None while nothing is.
        why: Why nothing is, for people; empty if something is, or is about to be.

    Threads: event loop only.
    """

    def __init__(self, open_broker: Open) -> None:
        self.broker: OpenBroker | None = None
        self.why = ""
        self._loop = asyncio.get_running_loop()
        self._open_broker = open_broker
        self._role: Role | None = None
        self._member: SetMember | None = None
        self._changed = asyncio.Event()
        self._is_leaving = self._is_stopped = False
        self._keeping: asyncio.Task[None] | None = None
        self._tasks = Tasks("role keeper")

    def progress(self) -> LogState | None:
        """Return what the log is like; None while it is not open."""
        return None if self.broker is None else self.broker.progress()

    def changed(self) -> None:
        """Look again at what the member is to be."""
        if self.broker is not None and self._member is not None:
            self.broker.require(self._member.mastership.needed)
        self._changed.set()

    async def open_first(self) -> OpenBroker:
        """Open the broker as a slave, before it is known who it is. Raises SprocketError."""
        role = Role(RoleKind.SLAVE)
        self.broker, self._role = await self._open_broker(role), role
        return self.broker

    def start(self, member: SetMember) -> None:
        """Begin to do as a member says."""
        self._member = member
        self._keeping = self._tasks.spawn(self._keep(member), "keep")

    async def stop(self) -> None:
        """Hand over if this is a master with a slave that has everything, then close."""
        member = self._member
        if member is not None and self._role is not None and self._role.kind is RoleKind.MASTER:
            self._is_leaving = True
            if not member.hand_over():
                await self._wait_until_led_by_another(member)
        self._is_stopped = True
        self._changed.set()
        if self._keeping is not None:  # what it has begun, opening or closing, it ends
            await asyncio.wait([self._keeping])
        await self._close()

    async def _wait_until_led_by_another(self, member: SetMember) -> None:
        """Wait, with the broker open: others may have to ask this one whether it has given up."""
        loop = asyncio.get_running_loop()
        until = loop.time() + LEAVE_SECONDS
        while not member.is_led_by_another and (left := until - loop.time()) > 0:
            self._changed.clear()
            await is_set_within(left, self._changed)

    async def _keep(self, member: SetMember) -> None:
        while not self._is_stopped:
            self._changed.clear()
            role = member.role
            if self._is_leaving and role.kind is not RoleKind.MASTER:
                await self._changed.wait()
                continue
            if role == self._role and not (self.broker is not None and self.broker.is_spent):
                await is_set_within(LOOK_SECONDS, self._changed)
                continue
            began = self._loop.time()
            await self._close()
            closed = self._loop.time()
            if role.kind is RoleKind.FENCED:
                self._role = role
            elif await self._opened(role):
                if role.kind is RoleKind.MASTER:
                    member.opened(role.epoch)
                _log.info(
                    "the broker is open in a role",
                    role=role.kind.name,
                    epoch=role.epoch,
                    closing_seconds=round(closed - began, 3),
                    opening_seconds=round(self._loop.time() - closed, 3),
                )
            else:
                await is_set_within(RETRY_SECONDS, self._changed)

    async def _opened(self, role: Role) -> bool:
        """Open the broker; return whether that went well."""
        assert self._member is not None, "it is told by the member what to open"
        try:
            broker = await self._open_broker(role)
        except SprocketError as error:
            self.why = str(error)
            _log.error("the broker cannot be opened", role=role.kind.name, why=self.why)
            return False
        broker.require(self._member.mastership.needed)
        self.broker, self._role, self.why = broker, role, ""
        return True

    async def _close(self) -> None:
        """Close what is open."""
        broker, self.broker, self._role = self.broker, None, None
        if broker is not None:
            try:
                await broker.close()
            except SprocketError as error:
                _log.error("the broker was not closed in order", why=str(error))
