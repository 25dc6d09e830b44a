"""The rules for migrations: no long lock beside traffic, nothing that breaks older code.

tests/contract/postgres/test_migrations.py holds all new ones to them.
"""

import re

import pytest

from storage.postgres.migration_files import LAST_RELEASE, Migration, known

NEW = [one for one in known() if one.name[:4] > LAST_RELEASE]

_TABLE = re.compile(r"create\s+(?:unlogged\s+)?table\s+(?:if\s+not\s+exists\s+)?(\w+)", re.I)
_INDEX = re.compile(r"create\s+(?:unique\s+)?index\s+(.*?)\s+on\s+(\w+)", re.I | re.S)
_FORBIDDEN = {
    "rewrites the table under a lock: add a column, and copy": (
        r"alter\s+column\s+\w+\s+(?:set\s+data\s+)?type"
    ),
    "breaks code that reads it: remove it in the release after next": (
        r"drop\s+column|drop\s+table|drop\s+type|drop\s+attribute"
    ),
    "breaks code that knows the old name: add a new one": r"\brename\s+(?:to|column|attribute)\b",
    "breaks code that writes all attributes of the type: make a new type": r"add\s+attribute",
    "reads the table under a lock: add it `not valid`, validate it apart": (
        r"add\s+(?:constraint\s+\w+\s+)?(?:check|foreign\s+key)(?![^;]*not\s+valid)|set\s+not\s+null"
    ),
    "rewrites the table: the default differs from row to row": (
        r"add\s+column[^;,]*default\s+(?:gen_random_uuid|random|clock_timestamp|nextval)"
    ),
    "empties a table": r"\btruncate\b",
}


def faults_in(migration: Migration) -> list[str]:
    """What is wrong with a migration, in words."""
    code = re.sub(r"--.*$", "", migration.sql, flags=re.M)
    own = {name.lower() for name in _TABLE.findall(code)}
    faults = [words for words, pattern in _FORBIDDEN.items() if re.search(pattern, code, re.I)]
    for how, table in _INDEX.findall(code):
        if table.lower() in own:
            continue
        if not how.lower().startswith("concurrently if not exists"):
            faults.append(f"holds up who writes {table}: create index concurrently if not exists")
        elif migration.is_transaction:
            faults.append("needs `-- transaction: none` among its first lines")
    if re.search(r"drop\s+index\s+(?!concurrently)", code, re.I):
        faults.append("waits for all who use the table: drop index concurrently if exists")
    return faults


@pytest.mark.parametrize(
    "sql",
    [
        "create index jobs_x on dispatch_jobs (x);",
        "create unique index concurrently jobs_x on dispatch_jobs (x);",
        "create index concurrently if not exists jobs_x on dispatch_jobs (x);",
        "-- transaction: none\ncreate index concurrently jobs_x on dispatch_jobs (x);",
        "drop index jobs_x;",
        "alter table events alter column size type bigint;",
        "alter table events alter column size set data type bigint;",
        "alter table events drop column size;",
        "alter table events rename column size to bytes;",
        "alter type log_line add attribute size int;",
        "alter table events add constraint positive check (size > 0);",
        "alter table events alter column size set not null;",
        "alter table events add column id uuid default gen_random_uuid();",
    ],
)
def test_what_breaks_the_rules_is_noticed(sql: str) -> None:
    assert faults_in(Migration("9999_bad", sql)) != []


@pytest.mark.parametrize(
    "sql",
    [
        "create table a (x int);\ncreate index a_x on a (x);",
        "-- transaction: none\ncreate index concurrently if not exists a_x on events (x);",
        "alter table events add column size bigint not null default 0;",
        "alter table events add constraint positive check (size > 0) not valid;",
        "-- transaction: none\ndrop index concurrently if exists events_x;",
    ],
)
def test_what_keeps_the_rules_passes(sql: str) -> None:
    assert faults_in(Migration("9999_good", sql)) == []


def test_what_the_first_lines_say_is_understood() -> None:
    plain = Migration("0100_a", "create table a (x int);")
    assert plain.is_transaction
    assert plain.compatible_from == LAST_RELEASE
    told = Migration(
        "0101_b",
        "-- transaction: none\n-- compatible-from: 0100\n-- It has; two.\n"
        "create index concurrently if not exists a_x on a (x);\n\nselect ';';\n",
    )
    assert not told.is_transaction
    assert told.compatible_from == "0100"
    assert told.statements == [
        "create index concurrently if not exists a_x on a (x)",
        "select ';'",
    ]
