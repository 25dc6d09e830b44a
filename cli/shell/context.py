"""What every command has: an instance to talk to, a way to print, a way to fail."""

import asyncio
import json
import os
import sys
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import wraps
from inspect import iscoroutinefunction
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console, RenderableType

from cli.shell.client import Client, connect
from cli.shell.errors import CommandError, InputError, as_sentence
from cli.shell.instance import find_instance
from cli.shell.lazy import command_group, example, unwrap_text
from cli.shell.options import flatten_options, option
from cli.shell.problems import explain_not_found
from core.shared.errors import MusterError
from host.errors import HostError

DATA_DIR = Path(".muster")
_PANEL = "Instance"

# Output into a pipe is read by programs, which find each row of a table on one line.
_PIPED_WIDTH = 240

AsyncCommand = Callable[..., Coroutine[Any, Any, None]]
AnyCommand = AsyncCommand | Callable[..., None]


def _width() -> int | None:
    """Return None to leave the width to the terminal, or to COLUMNS."""
    return None if sys.stdout.isatty() or "COLUMNS" in os.environ else _PIPED_WIDTH


out = Console(highlight=False, width=_width())
err = Console(stderr=True, highlight=False)

YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]
DataDir = Annotated[
    Path,
    typer.Option(
        "--data-dir",
        envvar="MUSTER_DATA_DIR",
        help="Data folder of a local instance, which holds its address and admin key.",
        rich_help_panel=_PANEL,
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandContext:
    """The options of every command that talks to an instance."""

    url: str | None = option(
        "Address of the instance.", envvar="MUSTER_URL", rich_help_panel=_PANEL
    )
    key: str | None = option(
        "API key; the variable keeps it out of the process list.",
        secret=True,
        envvar="MUSTER_KEY",
        rich_help_panel=_PANEL,
    )
    data_dir: DataDir = DATA_DIR
    as_json: JsonFlag = False

    def connect(self) -> AbstractAsyncContextManager[Client]:
        """Open a client of the instance that the options name."""
        return connect(find_instance(self.url, self.key, self.data_dir))

    async def call(
        self, method: str, path: str, *, missing: str | None = None, **request: Any
    ) -> Any:
        """Make one request; `missing` is what to say where the server answers 404."""
        async with self.connect() as client:
            with explain_not_found(missing):
                return await getattr(client, method)(path, **request)

    def print(self, document: Any, shown: RenderableType) -> None:
        """Print the document for scripts, or what is shown of it to people."""
        print_result(document, shown, as_json=self.as_json)


def command(function: AnyCommand) -> Callable[..., None]:
    """Make a function a Typer command: options flattened, errors in one sentence."""

    @wraps(function)
    def run(**given: Any) -> None:
        try:
            if iscoroutinefunction(function):
                asyncio.run(function(**given))
            else:
                function(**given)
        except CommandError as error:
            print_error(error.sentence)
            raise typer.Exit(error.exit_code) from None
        except (MusterError, HostError) as error:
            print_error(as_sentence(error))
            raise typer.Exit(1) from None

    run.__doc__ = unwrap_text(function.__doc__)
    return flatten_options(run)


def subcommand(
    app: typer.Typer, name: str, *examples: str
) -> Callable[[AnyCommand], Callable[..., None]]:
    """Register a function as a command of a group, with examples below its help."""

    def register(function: AnyCommand) -> Callable[..., None]:
        return app.command(name, epilog=example(*examples))(command(function))

    return register


def single_command(*examples: str) -> Callable[[AnyCommand], typer.Typer]:
    """Make a function a command that belongs to no group, for a `CommandEntry`."""

    def register(function: AnyCommand) -> typer.Typer:
        app = command_group()
        subcommand(app, function.__name__, *examples)(function)
        return app

    return register


def confirm(question: str, *, yes: bool, asks_scripts: bool = True) -> None:
    """Go on only if the answer is yes; scripts have to give --yes if they are asked too."""
    if yes or not (asks_scripts or has_terminal()):
        return
    if not has_terminal():
        raise InputError(f"{question} Give --yes to confirm: there is no terminal to ask on.")
    if not typer.confirm(question, err=True):
        raise typer.Exit(1)


def has_terminal() -> bool:
    """Return whether a person can answer."""
    return sys.stdin.isatty()


def print_result(document: Any, shown: RenderableType, *, as_json: bool) -> None:
    """Print the document for scripts, or what is shown of it to people."""
    if as_json:
        print_json(document)
    elif isinstance(shown, str):
        out.print(shown, markup=False, soft_wrap=True)
    else:
        out.print(shown)


def print_error(sentence: str) -> None:
    """Print a sentence on the error stream, in red."""
    err.print(sentence, style="bold red", markup=False, soft_wrap=True)


def print_json(document: Any) -> None:
    print(json.dumps(document, indent=2, ensure_ascii=False), flush=True)


def print_json_line(document: Any) -> None:
    """Print one document of many, on a line of its own."""
    print(json.dumps(document, ensure_ascii=False), flush=True)
