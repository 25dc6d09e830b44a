"""What Muster may call. A list that lets one private address pass is no list."""

import ipaddress
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.shared.call_policy import LOOPBACK, CallPolicy, parse_networks, parse_ports

PUBLIC = CallPolicy()

PRIVATE_V4 = (
    "0.0.0.0/8",
    "10.0.0.0/8",
    "100.64.0.0/10",
    "127.0.0.0/8",
    "169.254.0.0/16",
    "172.16.0.0/12",
    "192.0.0.0/24",
    "192.168.0.0/16",
    "198.18.0.0/15",
    "224.0.0.0/4",
    "240.0.0.0/4",
)
PRIVATE_V6 = ("::/8", "fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8", "2001:db8::/32")
PUBLIC_V4 = ("1.1.1.0/24", "8.8.0.0/16", "93.184.0.0/16", "172.32.0.0/11", "203.0.114.0/24")
PUBLIC_V6 = ("2001:4860::/32", "2606:4700::/32", "2a00::/16")


def within(*networks: str) -> st.SearchStrategy[int]:
    """Any address of these networks, their first and last the most likely, as a number."""
    ranges = [ipaddress.ip_network(text) for text in networks]
    ends = [int(address) for one in ranges for address in (one[0], one[-1])]
    inside = [st.integers(int(one[0]), int(one[-1])) for one in ranges]
    return st.one_of(st.sampled_from(ends), *inside)


def v4(number: int) -> str:
    return str(ipaddress.IPv4Address(number))


def v6(number: int) -> str:
    return str(ipaddress.IPv6Address(number))


EMBEDDINGS: dict[str, Callable[[int], int]] = {
    "mapped": lambda inner: 0xFFFF << 32 | inner,
    "compatible": lambda inner: inner,
    "translated": lambda inner: 0xFFFF << 48 | inner,
    "6to4": lambda inner: 0x2002 << 112 | inner << 80 | 1,
    "Teredo server": lambda inner: 0x20010000 << 96 | inner << 64 | 0xF7F7F7F7,
    "Teredo client": lambda inner: 0x20010000 << 96 | 0x08080808 << 64 | inner ^ 0xFFFFFFFF,
    "NAT64": lambda inner: 0x64FF9B << 96 | inner,
    "NAT64 of one network": lambda inner: 0x64FF9B0001 << 80 | inner,
}


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "127.255.255.254",
        "0.0.0.0",
        "10.1.2.3",
        "172.16.0.1",
        "172.31.255.255",
        "192.168.1.1",
        "100.64.0.1",
        "100.100.100.200",
        "100.127.255.255",
        "169.254.169.254",
        "169.254.170.2",
        "192.0.0.192",
        "192.0.2.1",
        "198.18.0.1",
        "198.51.100.1",
        "203.0.113.1",
        "224.0.0.1",
        "239.255.255.255",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::7f00:1",
        "::127.0.0.1",
        "::ffff:127.0.0.1",
        "::ffff:a9fe:a9fe",
        "::ffff:0:127.0.0.1",
        "64:ff9b::127.0.0.1",
        "64:ff9b::169.254.169.254",
        "64:ff9b:1::10.0.0.1",
        "2002:7f00:1::",
        "2002:c0a8:101::1",
        "2001:0:4136:e378:8000:63bf:80ff:fffe",
        "2001:db8::1",
        "3fff::1",
        "100::1",
        "fc00::1",
        "fd00:ec2::254",
        "fe80::1",
        "fe80::1%eth0",
        "fe80::1%25eth0",
        "fec0::1",
        "ff02::1",
        "ff0e::1",
    ],
)
def test_what_is_not_public_is_not_called(address: str) -> None:
    assert not PUBLIC.permits(address)


@pytest.mark.parametrize(
    "address",
    [
        "1.1.1.1",
        "8.8.8.8",
        "100.63.255.255",
        "100.128.0.1",
        "172.15.255.255",
        "172.32.0.1",
        "192.0.1.1",
        "192.169.0.1",
        "198.20.0.1",
        "223.255.255.255",
        "::ffff:8.8.8.8",
        "2606:4700::1111",
        "2a00:1450:4001:800::200e",
    ],
)
def test_what_is_public_is_called(address: str) -> None:
    assert PUBLIC.permits(address)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "%",
        "localhost",
        "2130706433",
        "0x7f000001",
        "0x7f.1",
        "127.1",
        "017700000001",
        "0177.0.0.1",
        "127.0.0.1.",
        "127.0.0.1:80",
        "[::1]",
        " 8.8.8.8",
        "8.8.8.8 ",
        "8.8.8.8/32",
        "::ffff:127.1",
        "١٢٧.0.0.1",
    ],
)
def test_what_is_no_address_is_not_called(text: str) -> None:
    assert not PUBLIC.permits(text)


@given(within(*PRIVATE_V4))
def test_no_private_address_of_version_4_passes(number: int) -> None:
    assert not PUBLIC.permits(v4(number))


@pytest.mark.parametrize("embed", EMBEDDINGS.values(), ids=EMBEDDINGS)
@given(number=within(*PRIVATE_V4))
def test_no_private_address_passes_within_another(embed: Callable[[int], int], number: int) -> None:
    long = v6(embed(number))
    assert not PUBLIC.permits(long)
    assert not PUBLIC.permits(f"{long}%1")


@given(within(*PRIVATE_V6))
def test_of_version_6_only_what_is_given_out_passes(number: int) -> None:
    # A mapped address is one of version 4, and that may be public.
    if number >> 32 != 0xFFFF:
        assert not PUBLIC.permits(v6(number))


@given(within(*PUBLIC_V4), within(*PUBLIC_V6))
def test_public_addresses_pass_however_they_are_written(four: int, six: int) -> None:
    assert PUBLIC.permits(v4(four))
    assert PUBLIC.permits(v6(EMBEDDINGS["mapped"](four)))
    assert PUBLIC.permits(v6(six))
    assert PUBLIC.permits(ipaddress.IPv6Address(six).exploded)


# Networks that are allowed beside them.


def test_an_allowed_network_is_called_and_its_neighbours_are_not() -> None:
    some = CallPolicy(["10.1.0.0/16", "fd12::/32"])
    assert some.permits("10.1.255.255")
    assert some.permits("::ffff:10.1.0.1")
    assert some.permits("fd12::1")
    assert not some.permits("10.2.0.1")
    assert not some.permits("fd13::1")
    assert not some.permits("127.0.0.1")
    assert some.permits("8.8.8.8")


def test_loopback_is_both_of_them_and_nothing_else() -> None:
    own = CallPolicy(LOOPBACK)
    assert own.permits("127.0.0.1")
    assert own.permits("127.8.8.8")
    assert own.permits("::1")
    assert own.permits("::ffff:127.0.0.1")
    for other in ("169.254.169.254", "10.0.0.1", "0.0.0.0", "::", "::2", "fe80::1"):
        assert not own.permits(other)


@given(within(*PRIVATE_V4))
def test_a_network_of_one_version_allows_nothing_of_the_other(number: int) -> None:
    assert not CallPolicy(["::/1"]).permits(v4(number))
    assert CallPolicy(["0.0.0.0/0"]).permits(v6(EMBEDDINGS["mapped"](number)))
    assert not CallPolicy(["0.0.0.0/0"]).permits(v6(EMBEDDINGS["NAT64"](number)))


# Ports.


def test_every_port_is_called_unless_some_are_named() -> None:
    assert all(PUBLIC.permits_port(port) for port in (1, 22, 443, 65_535))
    some = CallPolicy((), parse_ports("443, 8000-8100"))
    asked = (80, 443, 444, 7_999, 8_000, 8_100, 8_101)
    assert [port for port in asked if some.permits_port(port)] == [443, 8_000, 8_100]
    assert some.permits("8.8.8.8")
    assert not some.permits("10.0.0.1")


# The settings.


def test_ports_are_read_from_a_list() -> None:
    assert parse_ports(" 80 ,443,, 8000-8100") == ((80, 80), (443, 443), (8_000, 8_100))
    assert parse_ports("") == ()


@pytest.mark.parametrize(
    "text", ["0", "65536", "-80", "80-", "http", "8100-8000", "٨٠", "1-2-3", "080000"]
)
def test_what_is_no_port_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=f"{text} is neither a port"):
        parse_ports(f"443,{text}")


def test_networks_are_read_from_a_list() -> None:
    assert parse_networks(" 10.0.0.0/8 ,fd00::/8,, 192.168.1.7") == (
        "10.0.0.0/8",
        "fd00::/8",
        "192.168.1.7/32",
    )
    assert parse_networks("") == ()
    assert parse_networks("loopback,10.0.0.0/8") == (*LOOPBACK, "10.0.0.0/8")


@pytest.mark.parametrize("text", ["10.0.0.1/8", "10.0.0.0/33", "example.org", "all", "10.0.0.0/8;"])
def test_what_is_no_network_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=text.rstrip(";").partition("/")[0]):
        parse_networks(text)
