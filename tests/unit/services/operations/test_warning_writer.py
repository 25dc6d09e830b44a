"""Warnings on their way to Postgres."""

import asyncio

from structlog.testing import capture_logs

from services.operations.warning_writer import MAX_WARNINGS, WRITE_EVERY, WarningWriter
from storage.operations.warnings import NewWarning, Severity
from tests.simulation.clockwork import simulate


def warning(source: str, message: str = "look", tenant: int = 1) -> NewWarning:
    return NewWarning(
        tenant=tenant, category="TEST", severity=Severity.WARNING, source=source, message=message
    )


def test_each_is_written_once_a_moment_and_none_breaks_the_others() -> None:
    written: list[NewWarning] = []
    more = [warning("elsewhere")]

    async def write(one: NewWarning) -> None:
        if one.source == "bad":
            raise ConnectionRefusedError
        written.append(one)

    def drained() -> list[NewWarning]:
        found = more.copy()
        more.clear()
        return found

    async def run() -> None:
        book = WarningWriter(write, drained)
        running = asyncio.create_task(book.run_forever())
        for text in ("first", "last"):
            book.add(warning("bad"))
            book.add(warning("a", text))
        book.add(warning("a", tenant=2))
        await asyncio.sleep(WRITE_EVERY * 1.5)
        assert [(one.tenant, one.source, one.message) for one in written] == [
            (1, "a", "last"),
            (2, "a", "look"),
            (1, "elsewhere", "look"),
        ]
        for at in range(MAX_WARNINGS * 2):
            book.add(warning(str(at)))
        written.clear()
        await asyncio.sleep(WRITE_EVERY)
        assert len(written) == MAX_WARNINGS
        assert not running.done()

    with capture_logs():
        simulate(run())
