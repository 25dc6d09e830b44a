"""Which addresses Muster may call. Asked after names are resolved, for each address they led to."""

import ipaddress
from collections.abc import Iterable
from typing import TypeAlias

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

LOOPBACK = ("127.0.0.0/8", "::1/128")
# Prefixes that carry an IPv4 address inside: what counts is where that one leads.
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


class Destinations:
    """Public addresses, and whatever networks are allowed beside them."""

    def __init__(self, allowed: Iterable[str] = ()) -> None:
        self._allowed = tuple(ipaddress.ip_network(network) for network in allowed)

    def permits(self, address: str) -> bool:
        """Whether this address may be called; anything that is not one may not."""
        try:
            # A zone only says which interface a link-local address is behind.
            found = ipaddress.ip_address(address.partition("%")[0])
        except ValueError:
            return False
        inner = _inner(found)
        return self._is_allowed(inner) or (
            inner.is_global and not inner.is_multicast and not inner.is_reserved
        )

    def _is_allowed(self, address: Address) -> bool:
        return any(
            address.version == network.version and address in network for network in self._allowed
        )


def _inner(address: Address) -> Address:
    """The IPv4 address within an IPv6 one that stands for it."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    inner = address.ipv4_mapped or address.sixtofour
    if inner is None and address.teredo is not None:
        inner = address.teredo[1]
    if inner is None and address in _NAT64:
        inner = ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
    if inner is None and int(address) >> 32 == 0 and int(address) > 1:
        inner = ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)  # the old "compatible" form
    return inner or address


def parse_networks(text: str) -> tuple[str, ...]:
    """The networks of a setting: comma-separated, or the word `loopback`.

    Raises:
        ValueError: One of them is no network.
    """
    networks: list[str] = []
    for part in (part.strip() for part in text.split(",")):
        if part == "loopback":
            networks.extend(LOOPBACK)
        elif part:
            networks.append(str(ipaddress.ip_network(part)))
    return tuple(networks)
