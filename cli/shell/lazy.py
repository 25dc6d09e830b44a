"""Commands that are imported when they are called, so that `muster --help` is quick."""

from dataclasses import dataclass
from importlib import import_module
from inspect import cleandoc
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

SETTINGS = {"help_option_names": ["-h", "--help"]}


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandEntry:
    """A command by name; `target` is `module:function`, or `module:app` for a group."""

    name: str
    target: str
    summary: str
    example: str
    panel: str

    def load(self) -> Any:
        """Import the command and build it."""
        module, _, attribute = self.target.partition(":")
        target = getattr(import_module(module), attribute)
        if isinstance(target, typer.Typer):
            built = get_command(target)
            built.name = self.name
            built.help = built.help or self.summary
        else:
            app = typer.Typer(add_completion=False, context_settings=SETTINGS)
            app.command(self.name, help=unwrap_text(target.__doc__))(target)
            built = get_command(app)
        built.epilog = example(self.example)
        return built


def command_panel(title: str, *rows: tuple[str, str, str, str]) -> tuple[CommandEntry, ...]:
    """Make the entries of one panel of the help, each of its name, target, summary and example."""
    return tuple(
        CommandEntry(name=name, target=target, summary=summary, example=line, panel=title)
        for name, target, summary, line in rows
    )


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


def command_group() -> typer.Typer:
    """Make a group of commands, whose help is the summary of its `CommandEntry`."""
    return typer.Typer(no_args_is_help=True, add_completion=False, context_settings=SETTINGS)


def unwrap_text(docstring: str | None) -> str:
    """Remove the line breaks of the source from paragraphs: the terminal has its own width."""
    paragraphs = cleandoc(docstring or "").split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


def example(*lines: str) -> str:
    """Write the end of a help page: command lines that work."""
    title = "Examples:" if len(lines) > 1 else "Example:"
    # Typer keeps a line break where it finds two; brackets would be taken for markup.
    return "\n\n".join([title, *(f"  {line}".replace("[", r"\[") for line in lines)])
