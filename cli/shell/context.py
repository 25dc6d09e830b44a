"""What every command has: an instance to talk to, a way to print, a way to fail."""

import asyncio
import json
import os
import sys
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from cli.shell.client import Client, connect
from cli.shell.errors import CommandError
from cli.shell.instance import find_instance
from cli.shell.lazy import unwrap_text
from cli.shell.options import flatten_options

DATA_DIR = Path(".muster")
_PANEL = "Instance"

# Where no person looks on, a program may: it finds each row of a table on one line.
_PIPED_WIDTH = 240


def _width() -> int | None:
    """None leaves it to the terminal, or to COLUMNS."""
    return None if sys.stdout.isatty() or "COLUMNS" in os.environ else _PIPED_WIDTH


out = Console(highlight=False, width=_width())
err = Console(stderr=True, highlight=False)

JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]
DataDir = Annotated[
    Path,
    typer.Option(
        "--data-dir",
        envvar="MUSTER_DATA_DIR",
        help="Data folder of a local instance, where its address and admin key are found.",
        rich_help_panel=_PANEL,
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandContext:
    """The options of every command that talks to an instance."""

    url: Annotated[
        str | None,
        typer.Option(envvar="MUSTER_URL", help="Address of the instance.", rich_help_panel=_PANEL),
    ] = None
    key: Annotated[
        str | None,
        typer.Option(
            envvar="MUSTER_KEY",
            help="API key; the variable keeps it out of the process list.",
            rich_help_panel=_PANEL,
        ),
    ] = field(default=None, repr=False)
    data_dir: DataDir = DATA_DIR
    as_json: JsonFlag = False

    def connect(self) -> AbstractAsyncContextManager[Client]:
        """A client of the instance that the options lead to."""
        return connect(find_instance(self.url, self.key, self.data_dir))


def command(function: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Make an async function a Typer command: options spread, errors told in one sentence."""

    @wraps(function)
    def run(**given: Any) -> None:
        try:
            asyncio.run(function(**given))
        except CommandError as error:
            print_error(error.sentence)
            raise typer.Exit(error.exit_code) from None

    run.__doc__ = unwrap_text(function.__doc__)
    return flatten_options(run)


def print_error(sentence: str) -> None:
    """Say on the error stream what is wrong."""
    err.print(sentence, style="bold red", markup=False, soft_wrap=True)


def print_json(document: Any) -> None:
    """One document, for people and scripts."""
    print(json.dumps(document, indent=2, ensure_ascii=False), flush=True)


def print_json_line(document: Any) -> None:
    """One document of many, on a line of its own."""
    print(json.dumps(document, ensure_ascii=False), flush=True)
