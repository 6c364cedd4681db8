"""Addresses that rules name: what each text means, and what means nothing."""

from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sprocket.rocketmq.model.address_pattern import AddressPattern


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [
        ("10.0.0.7", ["10.0.0.7", "::ffff:10.0.0.7"], ["10.0.0.70", "10.0.0.8", "a.b", ""]),
        (" 10.0.0.7 , 10.0.0.9", ["10.0.0.7", "10.0.0.9"], ["10.0.0.8"]),
        ("10.0.0.{7,9}", ["10.0.0.7", "10.0.0.9"], ["10.0.0.8", "10.0.1.7"]),
        ("10.0.0.*", ["10.0.0.0", "10.0.0.255"], ["10.0.1.0", "::10.0.0.1"]),
        ("10.0.7-9.*", ["10.0.7.1", "10.0.9.255"], ["10.0.6.1", "10.0.10.1"]),
        ("10.*", ["10.1.2.3"], ["11.1.2.3", "10::"]),
        ("10.*.0.7", ["10.1.0.7"], ["10.1.0.8", "10.1.1.7"]),
        ("0-0.0.0.1", ["0.0.0.1"], ["1.0.0.1"]),
        ("fe80::1", ["fe80::1", "FE80:0:0:0:0:0:0:1"], ["fe80::2", "1.2.3.4"]),
        ("1:2::{3,4}", ["1:2::3", "1:2:0::4"], ["1:2::5"]),
        ("1:2:3:4:5:6:7:a-ff", ["1:2:3:4:5:6:7:a", "1:2:3:4:5:6:7:ff"], ["1:2:3:4:5:6:7:100"]),
        ("1:2:*", ["1:2:3:4:5:6:7:8"], ["1:3::"]),
        ("*", ["1.2.3.4", "::1"], []),
        ("*.*.*.*", ["1.2.3.4", "::1"], []),
        ("", [], ["1.2.3.4", "::1", ""]),
    ],
)
def test_what_a_text_means(text: str, inside: list[str], outside: list[str]) -> None:
    """Some addresses and no others; a blank one is none, and nothing else."""
    found = AddressPattern.parse(text)
    assert bool(found) is bool(inside)
    assert [one for one in inside if not found.matches(one)] == []
    assert [one for one in outside if found.matches(one)] == []


@pytest.mark.parametrize(
    "text",
    [
        "10.0.0",
        "10.0.0.7.1",
        "10.0.0.256",
        "10.0.0.9-7",
        "10.0.0.-7",
        "10.0.0.7-",
        "10.0.0.+7",
        "10.0.0.1_0",
        "10.0.0.{7,9",
        "10.0.0.7,",
        "{7,9}",
        "10.0.{7,9}",
        "1:2:3",
        "1:2:3:4:5:6:7:8:9",
        "fe80::10000",
        "host.example.org",
        ",",
    ],
)
def test_what_means_nothing_is_refused(text: str) -> None:
    """By a sentence with the text in it."""
    with pytest.raises(ValueError, match=r"has no list|is not an address"):
        AddressPattern.parse(text)


@given(st.ip_addresses(), st.ip_addresses())
def test_an_address_is_itself_and_no_other(
    one: IPv4Address | IPv6Address, other: IPv4Address | IPv6Address
) -> None:
    """However it is written."""
    for either in one, other:
        assume(getattr(either, "ipv4_mapped", None) is None)
    found = AddressPattern.parse(str(one))
    assert found.matches(str(one))
    assert found.matches(one.exploded)
    assert found.matches(str(other)) is (other == one)


@given(st.text(alphabet="0123456789abf.:*-{},", max_size=20))
def test_any_text_is_a_pattern_or_an_error(text: str) -> None:
    """And a pattern says of any address yes or no."""
    try:
        found = AddressPattern.parse(text)
    except ValueError:
        return
    assert found.matches("10.0.0.7") in (True, False)
    assert found.matches("fe80::7") in (True, False)
