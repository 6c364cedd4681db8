"""Ids and addresses."""

from datetime import UTC, datetime

import pytest

from sprocket.base.errors import WireError
from sprocket.rocketmq.codec.record import UniqueIds, ids
from sprocket.testing.clock import FakeClock

NOVEMBER_AT_MS = int(datetime(2023, 11, 1, tzinfo=UTC).timestamp()) * 1000


@pytest.mark.parametrize(
    ("ip", "port", "text", "size"),
    [
        ("127.0.0.1", 10911, "127.0.0.1:10911", 8),
        ("0.0.0.0", 0, "0.0.0.0:0", 8),  # noqa: S104 - no socket is opened
        ("255.1.2.3", -1, "255.1.2.3:-1", 8),
        ("::1", 53090, "[0:0:0:0:0:0:0:1]:53090", 20),
        ("[2001:db8::10]", 1, "[2001:db8:0:0:0:0:0:10]:1", 20),
        ("fe80::1%eth0", 1, "[fe80:0:0:0:0:0:0:1]:1", 20),
    ],
)
def test_hosts_as_bytes_and_as_text(ip: str, port: int, text: str, size: int) -> None:
    """IPv4 in 8 bytes, IPv6 in 20 and written out in full, as RocketMQ prints it."""
    host = ids.host_bytes(ip, port)
    assert (size, text) == (len(host), ids.host_text(host))
    assert host == ids.parse_host(text)


def test_what_is_no_host_is_refused() -> None:
    """Names, wrong lengths and ports beyond 32 bits."""
    for ip, port in [("localhost", 1), ("1.2.3", 1), ("1.2.3.4", 1 << 31)]:
        with pytest.raises(WireError, match="not an address"):
            ids.host_bytes(ip, port)
    with pytest.raises(WireError, match="not 7"):
        ids.host_text(bytes(7))
    with pytest.raises(WireError):
        ids.host_text(b"")


def test_the_golden_offset_id() -> None:
    """Store host and offset in upper-case hex, and back."""
    host = ids.host_bytes("192.168.0.1", 10911)
    text = "C0A8000100002A9F0000000000000400"
    assert text == ids.offset_message_id(host, 1024)
    assert ids.split_offset_message_id(text) == (host, 1024)
    six = ids.host_bytes("::1", 1)
    long = ids.offset_message_id(six, -1)
    assert (len(long), ids.split_offset_message_id(long)) == (56, (six, -1))


@pytest.mark.parametrize("text", ["", "00", "zz" * 16, "00" * 15, "00" * 17, " " + "0" * 31])
def test_what_is_no_offset_id_is_refused(text: str) -> None:
    """Other lengths, other characters, blanks."""
    with pytest.raises(WireError):
        ids.split_offset_message_id(text)


def test_a_unique_key_spells_its_parts() -> None:
    """Address, process, number, milliseconds of the month, counter."""
    clock = FakeClock(NOVEMBER_AT_MS + 0x1234)
    unique = UniqueIds(clock, b"\xac\x11\0\1", process=0x1_0018, number=0xB4AAC22F)
    assert unique.next() == "AC1100010018B4AAC22F000012340000"
    assert unique.next() == "AC1100010018B4AAC22F000012340001"
    clock.advance(1)
    assert unique.next() == "AC1100010018B4AAC22F000012350002"
    assert len(UniqueIds(clock, bytes(16)).next()) == 56
    with pytest.raises(WireError):
        UniqueIds(clock, bytes(5))


def test_unique_keys_do_not_repeat_over_months_and_wraps() -> None:
    """The time starts again each month, the counter after 65,536; a clock may go back."""
    clock = FakeClock(int(datetime(2023, 12, 31, 23, 59, 59, tzinfo=UTC).timestamp()) * 1000)
    unique = UniqueIds(clock, number=1)
    assert unique.next()[20:28] == f"{31 * 86_400_000 - 1000:08X}"
    clock.advance(1000)
    assert unique.next()[20:28] == "00000000"
    clock.step_wall(-1000)
    assert unique.next()[20:28] == f"{31 * 86_400_000 - 1000:08X}"
    seen: set[str] = set()
    for _ in range(20):
        seen.update(unique.next() for _ in range(4000))
        clock.advance(1)
    assert len(seen) == 80_000
    assert UniqueIds(clock).next() != UniqueIds(clock).next()
