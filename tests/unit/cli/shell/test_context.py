import sys

import pytest

from cli.shell import context


@pytest.mark.parametrize(
    ("is_terminal", "columns", "wide"),
    [(True, None, False), (False, "100", False), (False, None, True)],
)
def test_a_pipe_gets_each_row_on_one_line(
    monkeypatch: pytest.MonkeyPatch, columns: str | None, *, is_terminal: bool, wide: bool
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: is_terminal)
    if columns is None:
        monkeypatch.delenv("COLUMNS", raising=False)
    else:
        monkeypatch.setenv("COLUMNS", columns)
    assert (context._width() == context._PIPED_WIDTH) is wide
