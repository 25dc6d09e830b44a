"""Which IP addresses and ports Muster may call.

Host names are resolved first; each address that they resolve to is checked.
"""

import ipaddress
import re
from collections.abc import Iterable
from typing import TypeAlias

IpAddress: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
IpNetwork: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

PortRange: TypeAlias = tuple[int, int]
"""The first and the last port of a range."""

_PORT = re.compile(r"[0-9]{1,5}")

LOOPBACK = ("127.0.0.0/8", "::1/128")

# The special-purpose addresses of the IANA registries. Python's `is_global` misses some of them.
_SPECIAL_V4 = (
    "0.0.0.0/8",
    "10.0.0.0/8",
    "100.64.0.0/10",
    "127.0.0.0/8",
    "169.254.0.0/16",
    "172.16.0.0/12",
    "192.0.0.0/24",
    "192.0.2.0/24",
    "192.88.99.0/24",
    "192.168.0.0/16",
    "198.18.0.0/15",
    "198.51.100.0/24",
    "203.0.113.0/24",
    "224.0.0.0/4",
    "240.0.0.0/4",
)
# Of IPv6, only the allocated block is public, without protocol assignments (Teredo), documentation
# and 6to4.
_ALLOCATED_V6 = "2000::/3"
_SPECIAL_V6 = ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")


def _networks(texts: Iterable[str]) -> tuple[IpNetwork, ...]:
    return tuple(ipaddress.ip_network(text) for text in texts)


_PUBLIC = _networks(("0.0.0.0/0", _ALLOCATED_V6))
_SPECIAL = _networks((*_SPECIAL_V4, *_SPECIAL_V6))


class CallPolicy:
    """Permits public addresses and the `allowed` networks, at all ports or at the given ones."""

    def __init__(self, allowed: Iterable[str] = (), ports: Iterable[PortRange] = ()) -> None:
        self._allowed = _networks(allowed)
        self._ports = tuple(ports)

    def permits_port(self, port: int) -> bool:
        return not self._ports or any(first <= port <= last for first, last in self._ports)

    def permits(self, address: str) -> bool:
        """Return True if `address` is an IP address that may be called."""
        try:
            # A zone only names the interface of a link-local address.
            found = ipaddress.ip_address(address.partition("%")[0])
        except ValueError:
            return False
        if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is not None:
            found = found.ipv4_mapped  # the same address, written long
        if _is_in(found, self._allowed):
            return True
        return _is_in(found, _PUBLIC) and not _is_in(found, _SPECIAL)


def _is_in(address: IpAddress, networks: Iterable[IpNetwork]) -> bool:
    # An address of the other version is in no network.
    return any(address in network for network in networks)


def parse_networks(text: str) -> tuple[str, ...]:
    """Parse the comma-separated networks of a setting, or raise ValueError; `loopback` is one."""
    networks: list[str] = []
    for part in (part.strip() for part in text.split(",")):
        if part == "loopback":
            networks.extend(LOOPBACK)
        elif part:
            networks.append(str(ipaddress.ip_network(part)))
    return tuple(networks)


def parse_ports(text: str) -> tuple[PortRange, ...]:
    """Parse the comma-separated ports and ranges of a setting; an empty text is all ports."""
    return tuple(_range(part.strip()) for part in text.split(",") if part.strip())


def _range(text: str) -> PortRange:
    ends = text.split("-")
    if len(ends) <= 2 and all(_PORT.fullmatch(end) for end in ends):
        first, last = int(ends[0]), int(ends[-1])
        if 1 <= first <= last <= 65_535:
            return first, last
    raise ValueError(f"{text} is neither a port nor a range of ports such as 8000-8100")


_SUFFIX_WORDS = frozenset(
    {"ac", "co", "com", "edu", "gob", "gov", "gouv", "info", "mil", "name", "net", "org", "sch"}
)
"""Second labels of country registries that are longer than `_SHORT`."""
_COUNTRY = 2
_SHORT = 3


def registrable_domain(host: str) -> str:
    """Return the registered part of a host name: its last two labels, or three.

    Below a country's label, the second one often belongs to the registry too (co.uk, com.au), so
    that the owner's is the third. A wrong guess only makes the group of names smaller.
    """
    labels = host.lower().rstrip(".").split(".")
    if len(labels) > _COUNTRY and len(labels[-1]) == _COUNTRY:
        second = labels[-2]
        if len(second) <= _SHORT or second in _SUFFIX_WORDS:
            return ".".join(labels[-3:])
    return ".".join(labels[-2:])
