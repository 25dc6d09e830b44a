"""The commands that every resource of the API has: list, show, remove, and verbs."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Annotated, Any

import typer

from cli.shell import formats as fmt
from cli.shell.client import Document
from cli.shell.context import CommandContext, out, print_json, subcommand
from cli.shell.errors import InputError
from cli.shell.lazy import command_group
from cli.shell.options import request_fields
from cli.shell.output import Columns, pairs, table
from cli.shell.parsing import join_path
from core.dispatch.subscription import is_code

CursorOption = Annotated[
    str | None, typer.Option(help="Continue after the page that printed this cursor.")
]


def limit_option(most: int = 500) -> Any:
    """Make the option that says how many items a page has."""
    return Annotated[int, typer.Option(min=1, max=most, help="Items on one page.")]


LimitOption = Annotated[int, typer.Option(min=1, max=500, help="Items on one page.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class NoFilters:
    """A listing without filters."""


@dataclass(frozen=True)
class ApiResource:
    """A noun of the API: its path, its columns, and the commands made of them."""

    noun: str
    command: str
    path: str
    _: KW_ONLY
    argument: Any
    """What names one resource: `argument("The pool's code or id.", metavar="POOL")`."""
    example: str
    listing: Columns
    details: Columns = ()
    id_type: type[Any] = str
    id_pattern: str | None = None
    """What an id looks like, if a resource has a code beside its id."""
    not_found: str = "There is no {noun} {name}: see `muster {command} list`."
    app: typer.Typer = field(default_factory=command_group)

    def path_of(self, name: Any, *rest: str) -> str:
        """Return the path of one resource.

        Raises:
            InputError: No resource can have this name.
        """
        is_name = self.id_pattern is None or is_code(name) or re.fullmatch(self.id_pattern, name)
        if not is_name:
            raise InputError(f"'{name}' cannot be a {self.noun}: see `muster {self.command} list`.")
        return join_path(self.path, str(name), *rest)

    def missing(self, name: Any) -> str:
        """Return what to say where the server answers 404."""
        return self.not_found.format(noun=self.noun, name=name, command=self.command)

    async def call(
        self, shell: CommandContext, method: str, name: Any, *rest: str, **request: Any
    ) -> Any:
        """Make one request about one resource."""
        path = self.path_of(name, *rest)
        return await shell.call(method, path, missing=self.missing(name), **request)

    def add_list(
        self,
        summary: str,
        *examples: str,
        filters: type[Any] = NoFilters,
        limit: int = 100,
        max_limit: int = 500,
    ) -> None:
        """Add `list`, with the options of `filters` and pages."""

        async def list_(
            filters: Any, shell: CommandContext, limit: int = limit, cursor: CursorOption = None
        ) -> None:
            params = {**request_fields(filters), "limit": limit, "cursor": cursor}
            page = await shell.call("get", self.path, params=params)
            print_page(page, self.listing, f"No {self.noun}s.", shell)

        list_.__annotations__ |= {"filters": filters, "limit": limit_option(max_limit)}
        self._add("list", summary, list_, examples or (f"muster {self.command} list",))

    def add_show(
        self, summary: str, view: Callable[[Document], Any] | None = None, *examples: str
    ) -> None:
        """Add `show`, which prints the details' columns or what `view` makes of the document."""

        async def show(shell: CommandContext, name: Any = None) -> None:
            found = await self.call(shell, "get", name)
            shell.print(found, view(found) if view else pairs(self.details, found))

        self._add("show", summary, show, examples)

    def add_verb(self, verb: str, summary: str, done: str) -> None:
        """Add a command that posts to the verb's path; `done` may use the answer's fields."""

        async def run(shell: CommandContext, name: Any = None) -> None:
            changed = await self.call(shell, "post", name, verb, body={})
            shell.print(changed, done.format_map(changed))

        self._add(verb, summary, run)

    def add_remove(self, verb: str, summary: str, key: str, done: str, *, note: str = "") -> None:
        """Add a command that deletes; scripts get `{key: name, done: true}`."""

        async def remove(shell: CommandContext, name: Any = None) -> None:
            await self.call(shell, "delete", name)
            shell.print(
                {key: name, done: True}, f"{self.noun.capitalize()} {name} is {done}{note}."
            )

        self._add(verb, summary, remove)

    def _add(self, verb: str, summary: str, function: Any, examples: Sequence[str] = ()) -> None:
        if "name" in function.__annotations__:
            function.__annotations__["name"] = self.id_type
            function.__defaults__ = (self.argument,)
        function.__doc__ = summary
        default = f"muster {self.command} {verb} {self.example}"
        subcommand(self.app, verb, *(examples or (default,)))(function)


def page_items(page: Document) -> Sequence[Document]:
    """Return the items of one page of a listing."""
    items: Sequence[Document] = page["items"]
    return items


def print_page(page: Document, shown: Columns, nothing: str, shell: CommandContext) -> None:
    """Print one page of a listing, and how to get the next."""
    if shell.as_json:
        print_json(page)
        return
    items = page_items(page)
    out.print(table(shown, items) if items else fmt.dim(nothing))
    print_cursor(page)


def print_cursor(page: Mapping[str, Any]) -> None:
    """Say how to get the next page, if there is one."""
    if page.get("nextCursor"):
        out.print(f"[dim]More: --cursor {page['nextCursor']}[/]", soft_wrap=True)
