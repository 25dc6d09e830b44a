"""Commands that are imported when they are called, so that `muster --help` is quick."""

from dataclasses import dataclass
from importlib import import_module
from inspect import cleandoc
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

SETTINGS = {"help_option_names": ["-h", "--help"]}


@dataclass(frozen=True, slots=True)
class CommandEntry:
    """A command by name; its module has a group called `app`, or a command of that name."""

    name: str
    module: str
    summary: str
    panel: str

    def load(self) -> Any:
        """Import the command and build it."""
        module = import_module(self.module)
        built: Any = get_command(getattr(module, "app", None) or getattr(module, self.name))
        built.name = self.name
        built.help = built.help or self.summary
        return built


def command_panel(title: str, *rows: tuple[str, str, str]) -> tuple[CommandEntry, ...]:
    """Make the entries of one panel of the help, each of its name, module and summary."""
    return tuple(CommandEntry(*row, panel=title) for row in rows)


class LazyCommand(TyperCommand):
    """Stands for a command in the list; becomes it when called."""

    def __init__(self, entry: CommandEntry) -> None:
        super().__init__(entry.name, help=entry.summary, rich_help_panel=entry.panel)
        self._entry = entry

    def make_context(self, *given: Any, **options: Any) -> Any:
        """Load the real command and let it take over."""
        return self._entry.load().make_context(*given, **options)


def lazy_group(
    entries: tuple[CommandEntry, ...], *, default: str | None = None
) -> type[TyperGroup]:
    """Make a Typer group class that offers `entries`; without a name `default` is meant."""

    class LazyGroup(TyperGroup):
        def __init__(self, **attributes: Any) -> None:
            super().__init__(**attributes)
            for entry in entries:
                self.add_command(LazyCommand(entry))

        def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
            is_named = args and not args[0].startswith("-")
            is_asked = ctx.resilient_parsing or set(args) & set(ctx.help_option_names)
            if default is not None and not is_named and not is_asked:
                args = [default, *args]
            return super().parse_args(ctx, args)

    return LazyGroup


def command_group(*examples: str, **details: Any) -> typer.Typer:
    """Make a group of commands, whose help is the summary of its `CommandEntry`."""
    return typer.Typer(
        **details,
        no_args_is_help=True,
        add_completion=False,
        context_settings=SETTINGS,
        epilog=example(*examples) if examples else None,
    )


def unwrap_text(docstring: str | None) -> str:
    """Remove the line breaks of the source from paragraphs: the terminal has its own width."""
    paragraphs = cleandoc(docstring or "").split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


def example(*lines: str) -> str:
    """Write the end of a help page: command lines that work."""
    title = "Examples:" if len(lines) > 1 else "Example:"
    # Typer keeps a line break where it finds two; brackets would be taken for markup.
    return "\n\n".join([title, *(f"  {line}".replace("[", r"\[") for line in lines)])
