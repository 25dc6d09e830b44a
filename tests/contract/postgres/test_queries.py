"""Every named query is one that the migrated schema can prepare, and hot ones use their index."""

import asyncpg
import pytest

from host.postgres.embedded import EmbeddedServer
from storage.postgres.queries import Q, load
from tests.contract.previous_release import all_queries
from tests.support.postgres import database_dsn


@pytest.fixture
def schema(postgres_server: EmbeddedServer, template_database: str) -> str:
    """A migrated database that nobody writes to: the one that all others are made of."""
    return database_dsn(postgres_server, template_database)


# The packages beside storage that keep SQL of their own.
ELSEWHERE = load("host.postgres") | load("tools.chaos")
QUERIES = all_queries() | ELSEWHERE


@pytest.mark.parametrize("name", sorted(QUERIES))
async def test_every_query_prepares(schema: str, name: str) -> None:
    conn = await asyncpg.connect(schema)
    try:
        await conn.prepare(QUERIES[name])
    finally:
        await conn.close()


@pytest.mark.parametrize(
    ("name", "arguments", "index"),
    [
        ("load_waits", ([b"k" * 16],), "execution_wait_states_pkey"),
        ("size_early", ([b"k" * 16], 512), "event_inbox_event"),
        ("load_early", ([b"k" * 16], 256, 4096), "event_inbox_event"),
        (
            "find_elsewhere",
            ([b"k" * 16], [1], [b"k" * 8 + b"\x00" * 8], [b"k" * 8 + b"\xff" * 8], 16),
            "execution_wait_states_pkey",
        ),
        (
            "near_misses",
            (b"k" * 16, b"k" * 8 + b"\x00" * 8, b"k" * 8 + b"\xff" * 8, 1, 500, 20),
            "event_inbox_event",
        ),
        ("due_waits", (0.0, 1.0, 0.0, b"", 10), "execution_wait_states_due"),
        ("list_waits", (1, *[None] * 6, 10, None), "execution_wait_states_recent"),
        ("list_waits", (1, "waiting", *[None] * 5, 10, 1.0), "execution_wait_states_recent"),
        ("look_back_at_waits", (1, 1.0, None, 9), "execution_wait_states_recent"),
        ("look_back_at_inbox", (1, 7, 9), "event_inbox_recent"),
        ("dead_letter_scan_back", (1, 7, 9), "dead_letters_recent"),
        ("read_log", (b"k" * 16, 0, 1), "wait_state_events_pkey"),
        ("list_inbox", (1, None, None, None, None, 10, 0), "event_inbox_recent"),
        ("list_dead_letters", (1, None, None, False, None, 10, 0), "dead_letters_recent"),
        ("dead_letter_scan_ahead", (1, 7, 9), "dead_letters_recent"),
        ("next_dead_letters", (1, None, None, 0, 10, 9), "dead_letters_recent"),
        ("count_next_dead_letters", (1, None, None, 0, 10), "dead_letters_recent"),
        ("find_resources", (1, ["resource-1"]), "resources_pkey"),
        ("list_resources", (1, "", 10), "resources_pkey"),
        ("read_resource", (1, "resource-1"), "resources_pkey"),
        ("open_gathers", (2.0, 10, 27.0), "execution_wait_states_settling"),
        ("open_gathers", (2.0, 10, 27.0), "wait_state_events_pkey"),
        ("known_events", ([1], ["0"], ["d"]), "events_once"),
        ("known_jobs", ([1], ["0"]), "dispatch_jobs_pkey"),
        ("look_back_at_events", (1, "~", "", 9), "events_pkey"),
        ("list_events", (1, "~", "", *[None] * 9, 10), "events_pkey"),
        ("list_events", (1, "~", "", "t", *[None] * 8, 10), "events_type"),
        ("forget_events", ("0", 10), "events_pkey"),
        ("forget_events", ("0", 10), "dispatch_jobs_event"),
    ],
)
async def test_hot_queries_use_their_index(
    schema: str, name: str, arguments: tuple[object, ...], index: str
) -> None:
    conn = await asyncpg.connect(schema)
    try:
        # On an empty table a scan costs nothing: ask what the planner can do, not what it likes.
        await conn.execute("set enable_seqscan = off; set enable_bitmapscan = off")
        plan = await conn.fetch(f"explain {Q[name]}", *arguments)
    finally:
        await conn.close()
    assert index in "\n".join(row[0] for row in plan)
