"""The migrations of this version: numbered files, with directives in their first lines."""

import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

# The newest migration of the last release. The code of that release runs on every later schema,
# unless a migration says otherwise: see tests/contract/postgres/test_previous_release.py.
LAST_RELEASE = "0014"

_OUTSIDE = re.compile(r"^-- transaction: none\s*$", re.MULTILINE)
_COMPATIBLE = re.compile(r"^-- compatible-from: (\d{4})\s*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Migration:
    name: str
    sql: str

    @property
    def is_transaction(self) -> bool:
        """Return False if its statements run one by one, as concurrent indexes require."""
        return _OUTSIDE.search(self.sql) is None

    @property
    def compatible_from(self) -> str:
        """Return the number of the oldest schema whose code also runs on this one."""
        said = _COMPATIBLE.search(self.sql)
        return said.group(1) if said else LAST_RELEASE

    @property
    def statements(self) -> list[str]:
        """Return the statements of a migration without a transaction; each ends with its line."""
        code = re.sub(r"^\s*--.*$", "", self.sql, flags=re.MULTILINE)
        return [one.strip() for one in re.split(r";\s*$", code, flags=re.MULTILINE) if one.strip()]


@cache
def known() -> tuple[Migration, ...]:
    """Read the migrations of this version, in order."""
    folder = files("storage").joinpath("migrations")
    found = [f for f in folder.iterdir() if f.name.endswith(".sql")]
    return tuple(
        Migration(f.name.removesuffix(".sql"), f.read_text(encoding="utf-8"))
        for f in sorted(found, key=lambda f: f.name)
    )
