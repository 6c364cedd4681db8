"""Sets of machines with the same log of which one is master: who is in sync, and who takes over."""

import asyncio
from collections.abc import Collection, Mapping
from contextlib import suppress

from sprocket.base.errors import ClientError, RequestTimeout
from sprocket.rocketmq.client.admin.reach import Reach
from sprocket.rocketmq.codec import bodies
from sprocket.rocketmq.codec.bodies import InSyncSet, SetReplicas, SetReplicasTable
from sprocket.rocketmq.codec.codes import RequestCode, ResponseCode
from sprocket.rocketmq.codec.headers import WHATEVER_IT_LACKS, AlterInSync, ElectMaster
from sprocket.rocketmq.errors import NoRoute
from sprocket.rocketmq.model.route import MASTER_ID, BrokerData

SWITCH_SECONDS = 15.0
"""How long a switch is waited for; one that is asked for takes about a second."""
LOOK_SECONDS = 0.2


class FailoverAdmin:
    """What can be done with the set of a broker, by its name; `admin.failover`."""

    def __init__(self, reach: Reach) -> None:
        self._reach = reach

    async def views(self, broker: str) -> dict[int, SetReplicas]:
        """Return what each member says of the set, by the number under which it is registered now.

        The result is empty if the broker is not in a set: settings say who is master.

        Raises:
            NoRoute: No broker has that name.
            ClientError: Nobody answers; members that do not are left out.
        """
        addresses = (await self._broker(broker)).addresses
        code, decode = RequestCode.CONTROLLER_GET_SYNC_STATE_DATA, bodies.decoder(SetReplicasTable)
        absent = (ResponseCode.REQUEST_CODE_NOT_SUPPORTED,)
        found = await self._reach.ask_each(addresses.values(), code, None, decode, absent=absent)
        return {
            number: found[address].sets[broker]
            for number, address in addresses.items()
            if address in found and broker in found[address].sets
        }

    async def begin(self, broker: str, members: Collection[int]) -> None:
        """Say who is in sync at first, by numbers. Raises BrokerRefused: it has begun already."""
        header = AlterInSync(broker_name=broker)
        body = bodies.encode(InSyncSet(members=sorted(members)))
        address = await self._member(broker)
        await self._reach.call(address, RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET, header, body)

    async def hand_over(self, broker: str, member: int | None = None) -> None:
        """Have the master give up as soon as its slaves in sync have everything.

        Args:
            broker: Its name.
            member: Who has to be in sync then; the decider takes any that is.

        Raises:
            BrokerRefused: None is in sync, or it is not master any more.
        """
        addresses = (await self._broker(broker)).addresses
        if MASTER_ID not in addresses:
            raise NoRoute(f"broker {broker!r} has no master now")
        header = ElectMaster(broker_name=broker, broker_id=member)
        await self._reach.call(addresses[MASTER_ID], RequestCode.CONTROLLER_ELECT_MASTER, header)

    async def designate(self, broker: str, member: int) -> None:
        """Have a member become master, whatever it lacks of what was acknowledged.

        Raises:
            BrokerRefused: There is a master, or the decider does not answer.
            NoRoute: That member is not there.
        """
        views: Mapping[int, SetReplicas] = {}
        with suppress(ClientError):
            views = await self.views(broker)
        addresses = (await self._broker(broker)).addresses
        for number, view in views.items():
            if view.answered_by is not None and view.answered_by.broker_id == member:
                header = AlterInSync(broker_name=broker, master_epoch=WHATEVER_IT_LACKS)
                body = bodies.encode(InSyncSet(members=[member]))
                code = RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET
                await self._reach.call(addresses[number], code, header, body)
                return
        raise NoRoute(f"broker {broker!r} has no member {member} now")

    async def master(self, broker: str) -> SetReplicas | None:
        """Return the newest view that has a master; None if nobody says that there is one."""
        found = [
            one for one in (await self.views(broker)).values() if one.master_broker_id is not None
        ]
        return max(found, key=lambda one: one.master_epoch, default=None)

    async def next_master(self, broker: str, epoch: int) -> SetReplicas:
        """Wait for a master of a later epoch, and return what is known then.

        Raises:
            RequestTimeout: Nobody became it within `SWITCH_SECONDS`.
        """
        for _ in range(int(SWITCH_SECONDS / LOOK_SECONDS)):
            with suppress(ClientError):  # nobody answers while brokers are opened in other roles
                found = await self.master(broker)
                if found is not None and found.master_epoch > epoch:
                    return found
            await asyncio.sleep(LOOK_SECONDS)
        raise RequestTimeout(f"nobody became master within {SWITCH_SECONDS:g} s")

    async def _broker(self, broker: str) -> BrokerData:
        data = (await self._reach.cluster()).brokers.get(broker)
        if data is None or not data.addresses:
            raise NoRoute(f"no NameServer knows a broker {broker!r}")
        return data

    async def _member(self, broker: str) -> str:
        """Return the address of any member. Raises NoRoute."""
        views, data = await self.views(broker), await self._broker(broker)
        if not views:
            raise NoRoute(f"broker {broker!r} is not in a set: see the setting ha.decider")
        return data.addresses[min(views)]
