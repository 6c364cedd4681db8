"""What the code of an answer says."""

from collections.abc import Container

from sprocket.rocketmq.client.network.connections import refused
from sprocket.rocketmq.codec.codes import RequestCode, ResponseCode
from sprocket.rocketmq.codec.command import Command


def granted(source: str, code: RequestCode, command: Command, absent: Container[int] = ()) -> bool:
    """Say whether an answer is a success; False if it means that there is nothing.

    Args:
        source: Who answered.
        code: What was asked.
        command: The answer.
        absent: Codes of answers that mean "nothing of that here".

    Raises:
        BrokerRefused: It is neither.
    """
    if command.code != ResponseCode.SUCCESS and command.code not in absent:
        raise refused(source, code, command)
    return command.code == ResponseCode.SUCCESS
