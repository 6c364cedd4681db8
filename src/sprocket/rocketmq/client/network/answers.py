"""What an answer says: its code, and what follows it."""

from collections.abc import Callable, Container
from typing import TypeVar

from sprocket.base.errors import BrokerRefused, WireError
from sprocket.rocketmq.codec.codes import RequestCode, ResponseCode
from sprocket.rocketmq.codec.command import Command

T = TypeVar("T")


def granted(source: str, code: RequestCode, command: Command, absent: Container[int] = ()) -> bool:
    """Say whether an answer is a success; False if its code is one of those that mean "nothing".

    Raises:
        BrokerRefused: It is neither; the text names `source`, which answered.
    """
    if command.code != ResponseCode.SUCCESS and command.code not in absent:
        raise refused(source, code, command)
    return command.code == ResponseCode.SUCCESS


def refused(address: str, code: RequestCode, command: Command) -> BrokerRefused:
    """Return the error for an answer that is not one of those expected."""
    remark = command.remark or "no reason given"
    return BrokerRefused(command.code, f"{address} refused {code.name}: {remark}")


def read(source: str, decode: Callable[[], T]) -> T:
    """Return what `decode` makes of an answer.

    Raises:
        BrokerRefused: It cannot be read; the text names `source`.
    """
    try:
        return decode()
    except WireError as wrong:
        raise BrokerRefused(
            ResponseCode.SYSTEM_ERROR, f"unreadable answer of {source}: {wrong}"
        ) from wrong
