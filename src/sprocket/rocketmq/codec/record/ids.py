"""Ids of messages and the host addresses they are made of.

An *offset message id* is the store host and the physical offset in upper-case hex: 32 digits with
an IPv4 host, 56 with an IPv6 one. A *unique key* is made by the producer, has the same lengths,
and is what users call the message id.
"""

import ipaddress
import os
import secrets
from datetime import UTC, datetime
from functools import lru_cache

from sprocket.base.clock import Clock
from sprocket.base.errors import WireError
from sprocket.rocketmq.model.offsets import PhysicalOffset

_PORT_BYTES = 4
_OFFSET_BYTES = 8
_ADDRESS_SIZES = (4, 16)


@lru_cache(maxsize=4096)
def host_bytes(ip: str, port: int) -> bytes:
    """Return an address as records hold it: 4 or 16 address bytes, then the port as i32.

    Raises:
        WireError: `ip` is not an IP address, or `port` is not a 32-bit number.
    """
    try:
        packed = ipaddress.ip_address(ip.strip("[]").partition("%")[0]).packed
        return packed + port.to_bytes(_PORT_BYTES, "big", signed=True)
    except (ValueError, OverflowError) as error:
        raise WireError(f"{ip!r} and {port} are not an address and a port") from error


@lru_cache(maxsize=1 << 16)  # each message needs its sender's
def parse_host(address: str) -> bytes:
    """Return `ip:port` or `[ip]:port` as records hold it; errors as for `host_bytes`."""
    ip, _, port = address.rpartition(":")
    return host_bytes(ip, int(port))


@lru_cache(maxsize=4096)
def host_text(host: bytes) -> str:
    """Return `ip:port`; an IPv6 address stands in brackets, its eight groups written out.

    Raises:
        WireError: `host` has neither 8 nor 20 bytes.
    """
    address, port = host[:-_PORT_BYTES], int.from_bytes(host[-_PORT_BYTES:], "big", signed=True)
    if len(address) not in _ADDRESS_SIZES:
        raise WireError(f"a host has 8 or 20 bytes, not {len(host)}")
    if len(address) == 4:
        return f"{address[0]}.{address[1]}.{address[2]}.{address[3]}:{port}"
    groups = [f"{int.from_bytes(address[at : at + 2], 'big'):x}" for at in range(0, 16, 2)]
    return f"[{':'.join(groups)}]:{port}"


def offset_message_id(store_host: bytes, offset: PhysicalOffset | int) -> str:
    """Return the id that leads to the record at `offset` of the broker at `store_host`."""
    return f"{_hex(store_host)}{offset & 0xFFFF_FFFF_FFFF_FFFF:016X}"


@lru_cache(maxsize=4096)
def _hex(host: bytes) -> str:
    return host.hex().upper()


def split_offset_message_id(text: str) -> tuple[bytes, PhysicalOffset]:
    """Return store host bytes and physical offset of an offset message id.

    Raises:
        WireError: `text` has neither 32 nor 56 hex digits.
    """
    try:
        data = bytes.fromhex(text)
    except ValueError as error:
        raise WireError(f"message id {text!r} is not hex") from error
    if 2 * len(data) != len(text) or len(data) - _PORT_BYTES - _OFFSET_BYTES not in _ADDRESS_SIZES:
        raise WireError(f"message id {text!r} has neither 32 nor 56 digits")
    offset = int.from_bytes(data[-_OFFSET_BYTES:], "big", signed=True)
    return data[:-_OFFSET_BYTES], PhysicalOffset(offset)


class UniqueIds:
    """Makes unique keys: address, process, a number of this object, time, counter.

    Two objects in one process do not collide because each has a number of its own where Java has
    the hash of its class loader.

    Args:
        clock: Gives the milliseconds since the first of the month (of UTC; Java takes the local
            zone, and nobody reads them back).
        address: 4 or 16 address bytes of this machine.
        process: The process id; only its low 16 bits go in.
        number: 32 bits that tell this object from others; random by default.
    """

    def __init__(
        self,
        clock: Clock,
        address: bytes = b"\x7f\0\0\1",
        *,
        process: int | None = None,
        number: int | None = None,
    ) -> None:
        if len(address) not in _ADDRESS_SIZES:
            raise WireError(f"an address has 4 or 16 bytes, not {len(address)}")
        process = os.getpid() if process is None else process
        number = secrets.randbits(32) if number is None else number
        self._clock = clock
        self._prefix = f"{address.hex()}{process & 0xFFFF:04x}{number & 0xFFFF_FFFF:08x}".upper()
        self._month_at_ms = 0
        self._next_month_at_ms = 0
        self._counter = 0

    def next(self) -> str:
        """Return an id that this object has not given before.

        It holds for 65,536 ids a millisecond, far more than Python can make.
        """
        now_ms = self._clock.now_ms()
        if not self._month_at_ms <= now_ms < self._next_month_at_ms:
            self._enter_month(now_ms)
        counter = self._counter
        self._counter = (counter + 1) & 0xFFFF
        return f"{self._prefix}{now_ms - self._month_at_ms:08X}{counter:04X}"

    def _enter_month(self, now_ms: int) -> None:
        now = datetime.fromtimestamp(now_ms / 1000, UTC)
        first = datetime(now.year, now.month, 1, tzinfo=UTC)
        after = datetime(now.year + now.month // 12, now.month % 12 + 1, 1, tzinfo=UTC)
        self._month_at_ms = int(first.timestamp()) * 1000
        self._next_month_at_ms = int(after.timestamp()) * 1000
