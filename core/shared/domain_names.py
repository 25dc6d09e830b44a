"""Which host names belong to one owner, estimated without the list of public suffixes."""

_SUFFIX_WORDS = frozenset(
    {"ac", "co", "com", "edu", "gob", "gov", "gouv", "info", "mil", "name", "net", "org", "sch"}
)
"""What registries of countries put before their own label, beside what is short anyway."""
_COUNTRY = 2
_SHORT = 3


def registrable_domain(host: str) -> str:
    """Return the registered part of a host name: its last two labels, or three.

    Under a country's label the second one is often the registry's too (co.uk, com.au, or.jp), so
    that the owner's is the third. Of a name that is wrongly given three, only names below the same
    one of its labels go together.
    """
    labels = host.lower().rstrip(".").split(".")
    if len(labels) > _COUNTRY and len(labels[-1]) == _COUNTRY:
        second = labels[-2]
        if len(second) <= _SHORT or second in _SUFFIX_WORDS:
            return ".".join(labels[-3:])
    return ".".join(labels[-2:])
