"""Which host names belong to one owner, estimated without the list of public suffixes."""

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
