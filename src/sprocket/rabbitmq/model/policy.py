"""Policies and other settings that can be changed while queues and exchanges are there."""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

QUEUES: Final = "queues"
EXCHANGES: Final = "exchanges"
ALL: Final = "all"
"""What a policy may be for."""


class Policy(Struct, frozen=True, kw_only=True):
    """Settings for all queues or exchanges whose names fit a pattern.

    Of the policies that fit, the one with the highest priority is in force, alone.
    """

    vhost: str
    name: str
    pattern: str
    definition: Mapping[str, object]
    """JSON values by the names of arguments, without their `x-`."""
    apply_to: str = ALL
    priority: int | float = 0
    is_operator: bool = False
    """Whether it is the operator's: in force beside the other one, the smaller value winning."""


class GlobalParameter(Struct, frozen=True, kw_only=True):
    """A setting of the whole node."""

    name: str
    value: object
    """Any JSON."""
