"""NameServers: what they keep by name and key, their settings, and which brokers may be written."""

from collections.abc import Mapping
from functools import partial

from sprocket.rocketmq.client.admin.reach import NAMES, Reach
from sprocket.rocketmq.client.network import granted, read
from sprocket.rocketmq.codec import bodies
from sprocket.rocketmq.codec.bodies import KeyValueTable
from sprocket.rocketmq.codec.codes import RequestCode, ResponseCode
from sprocket.rocketmq.codec.command import Command
from sprocket.rocketmq.codec.config import java_properties
from sprocket.rocketmq.codec.ext import Header
from sprocket.rocketmq.codec.headers import (
    AddAnswer,
    BrokerNameOnly,
    Key,
    KeyValue,
    Namespace,
    ValueAnswer,
    WipeAnswer,
)


class NameServerAdmin:
    """What can be done with NameServers; `admin.nameserver`. Changes go to every one of them."""

    def __init__(self, reach: Reach) -> None:
        self._reach = reach

    async def put(self, namespace: str, key: str, value: str) -> None:
        """Keep a value under a namespace and a key."""
        header = KeyValue(namespace=namespace, key=key, value=value)
        await self._reach.names_each(RequestCode.PUT_KV_CONFIG, header)

    async def get(self, namespace: str, key: str) -> str | None:
        """Return a value, or None if there is none."""
        header = Key(namespace=namespace, key=key)
        command = await self._find(RequestCode.GET_KV_CONFIG, header)
        return None if command is None else read(NAMES, partial(command.header, ValueAnswer)).value

    async def delete(self, namespace: str, key: str) -> None:
        """Drop a value; one that is not there is no error."""
        await self._reach.names_each(
            RequestCode.DELETE_KV_CONFIG, Key(namespace=namespace, key=key)
        )

    async def values(self, namespace: str) -> Mapping[str, str]:
        """Return all values of a namespace by key."""
        header = Namespace(namespace=namespace)
        command = await self._find(RequestCode.GET_KVLIST_BY_NAMESPACE, header)
        if command is None:
            return {}
        return read(NAMES, partial(bodies.decode, KeyValueTable, command.body)).table

    async def _find(self, code: RequestCode, header: Header) -> Command | None:
        """Ask the NameServers, of which one must answer; return None if they have nothing."""
        command = await self._reach.instance.names.request(code, header)
        is_found = granted(NAMES, code, command, (ResponseCode.QUERY_NOT_FOUND,))
        return command if is_found else None

    async def config(self) -> Mapping[str, Mapping[str, str]]:
        """Return the settings of each NameServer, under RocketMQ's names, by address."""
        addresses = sorted(self._reach.instance.names.addresses)
        found = await self._reach.names_each(RequestCode.GET_NAMESRV_CONFIG)
        return {
            address: dict(sorted(java_properties.read(command.body).items()))
            for address, command in zip(addresses, found, strict=True)
        }

    async def update_config(self, settings: Mapping[str, str]) -> None:
        """Change settings while they run, those that can be; RocketMQ ignores unknown ones."""
        body = java_properties.write(settings)
        await self._reach.names_each(RequestCode.UPDATE_NAMESRV_CONFIG, None, body)

    async def wipe_write_permission(self, broker: str) -> int:
        """Have producers stop sending to a broker, as before its maintenance.

        Returns:
            Its topics, of which each can now only be read.

        Raises:
            NoRoute: No broker has that name.
        """
        found = await self._permit(broker, RequestCode.WIPE_WRITE_PERM_OF_BROKER)
        return max(read(NAMES, partial(one.header, WipeAnswer)).wipe_topic_count for one in found)

    async def add_write_permission(self, broker: str) -> int:
        """Have producers send to a broker again.

        Returns:
            Its topics, of which each can now be written.

        Raises:
            NoRoute: No broker has that name.
        """
        found = await self._permit(broker, RequestCode.ADD_WRITE_PERM_OF_BROKER)
        return max(read(NAMES, partial(one.header, AddAnswer)).add_topic_count for one in found)

    async def _permit(self, broker: str, code: RequestCode) -> list[Command]:
        await self._reach.masters(broker=broker)
        return await self._reach.names_each(code, BrokerNameOnly(broker_name=broker))
