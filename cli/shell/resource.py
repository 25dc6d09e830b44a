"""The commands that every resource of the API has: list, show, put, remove, and verbs."""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, fields, make_dataclass
from typing import Annotated, Any

import typer

from cli.shell.client import Client, Document
from cli.shell.context import CommandContext, YesOption, confirm, out, print_json, subcommand
from cli.shell.errors import InputError
from cli.shell.lazy import command_group, example
from cli.shell.options import option, request_fields
from cli.shell.output import Columns, pairs, table_or
from cli.shell.parsing import join_path, name_from_code
from cli.shell.problems import ProblemResponseError

CursorOption = Annotated[
    str | None, typer.Option(help="Continue after the page that printed this cursor.")
]


LimitOption = Annotated[int, typer.Option(min=1, max=500, help="Items on one page.")]
ResolveNames = Callable[[Client, dict[str, Any]], Awaitable[dict[str, Any]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class NoOptions:
    """Stands where a command has no options of its own."""


def page_options(limit: int, most: int) -> type[Any]:
    """Make the options of a listing that is printed page by page."""
    size = option("Items on one page.", default=limit, min=1, max=most)
    cursor = option("Continue after the page that printed this cursor.")
    return make_dataclass(
        "PageOptions", [("limit", int, size), ("cursor", str | None, cursor)], frozen=True
    )


@dataclass(frozen=True)
class ApiResource:
    """A noun of the API: its path, its columns, and the commands made of them."""

    noun: str
    command: str
    path: str
    _: KW_ONLY
    argument: Any = None
    """What names one resource: `argument("The pool's code or id.", metavar="POOL")`."""
    example: str = ""
    listing: Columns = ()
    details: Columns = ()
    id_type: type[Any] = str
    id_pattern: str | None = None
    """What an id looks like; without it any name is sent."""
    is_code: Callable[[str], bool] | None = None
    """Whether a text can be a code, if resources have codes beside their ids."""
    not_found: str = "There is no {noun} {name}: see `muster {command} list`."
    app: typer.Typer = field(default_factory=command_group)

    def path_of(self, name: Any, *rest: str) -> str:
        """Return the path of one resource.

        Raises:
            InputError: No resource can have this name.
        """
        is_id = self.id_pattern is None or re.fullmatch(self.id_pattern, name)
        if not is_id and not (self.is_code and self.is_code(name)):
            names = "code or id" if self.is_code else "id"
            raise InputError(
                f"'{name}' is not a valid {self.noun} {names}: see `muster {self.command} list`."
            )
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
        filters: type[Any] = NoOptions,
        resolve: ResolveNames | None = None,
        limit: int | None = 100,
        max_limit: int = 500,
    ) -> None:
        """Add `list`, with the options of `filters`.

        Args:
            summary: What the help says.
            examples: Command lines for the help; the first is also the example of the group.
            filters: The dataclass of the options.
            resolve: Replaces names in the filters by what the API takes.
            limit: Items on a page; None if the listing has no pages.
            max_limit: The most items that a page can have.
        """

        async def list_(filters: Any, page: Any, shell: CommandContext) -> None:
            params = request_fields(filters, page)
            async with shell.connect() as client:
                if resolve:
                    params = await resolve(client, params)
                found = await client.get(self.path, params)
            print_page(found, self.listing, f"No {self.noun}s.", shell)

        page = NoOptions if limit is None else page_options(limit, max_limit)
        list_.__annotations__ |= {"filters": filters, "page": page}
        examples = examples or (f"muster {self.command} list",)
        self.app.info.epilog = example(examples[0])
        self._add("list", summary, list_, examples)

    def add_show(
        self, summary: str, view: Callable[[Document], Any] | None = None, *examples: str
    ) -> None:
        """Add `show`, which prints the details' columns or what `view` makes of the document."""

        async def show(shell: CommandContext, name: Any = None) -> None:
            found = await self.call(shell, "get", name)
            shell.print(found, view(found) if view else pairs(self.details, found))

        self._add("show", summary, show, examples)

    def add_put(
        self, settings: type[Any], summary: str, *examples: str, describe: Callable[[Document], str]
    ) -> None:
        """Add `put`, which creates what has no such code yet, else changes the given settings."""

        async def put(settings: Any, shell: CommandContext, code: Any = self.argument) -> None:
            body, path = request_fields(settings), self.path_of(code)
            async with shell.connect() as client:
                try:
                    stored = await client.get(path)
                except ProblemResponseError as problem:
                    if problem.status != 404:
                        raise
                    new = {"code": code, "name": name_from_code(code), **body}
                    stored = await client.post(self.path, new)
                else:
                    if not body:
                        known = ", ".join(f"--{one.name}" for one in fields(settings)[:3])
                        raise InputError(f"Say what to change: {known}, …")
                    stored = await client.patch(path, body)
            shell.print(stored, f"{self.noun.capitalize()} {code}: {describe(stored)}.")

        put.__annotations__ |= {"settings": settings, "code": str}
        self._add("put", summary, put, examples)

    def add_verb(
        self,
        verb: str,
        summary: str,
        done: str | Callable[[Document], str],
        *examples: str,
        body: type[Any] = NoOptions,
        query: type[Any] = NoOptions,
    ) -> None:
        """Add a command that posts options to the verb's path.

        `done` is made of the answer's fields.
        """

        async def run(shell: CommandContext, body: Any, query: Any, name: Any = None) -> None:
            request = {"body": request_fields(body), "params": request_fields(query)}
            changed = await self.call(shell, "post", name, verb, **request)
            shell.print(changed, done(changed) if callable(done) else done.format_map(changed))

        run.__annotations__ |= {"body": body, "query": query}
        self._add(verb, summary, run, examples)

    def add_remove(self, verb: str, summary: str, key: str, done: str, *, note: str = "") -> None:
        """Add a command that deletes, after a question to the person at a terminal.

        Scripts are not asked, and get `{key: name, done: true}`.
        """

        async def remove(shell: CommandContext, yes: YesOption = False, name: Any = None) -> None:
            question = f"{summary.partition(' ')[0]} {self.noun} {name}?"
            confirm(question, yes=yes, asks_scripts=False)
            await self.call(shell, "delete", name)
            shell.print(
                {key: name, done: True}, f"{self.noun.capitalize()} {name} is {done}{note}."
            )

        self._add(verb, summary, remove)

    def _add(self, verb: str, summary: str, function: Any, examples: Sequence[str] = ()) -> None:
        if "name" in function.__annotations__:
            function.__annotations__["name"] = self.id_type
            function.__defaults__ = (*function.__defaults__[:-1], self.argument)
        function.__doc__ = summary
        default = f"muster {self.command} {verb} {self.example}"
        subcommand(self.app, verb, *(examples or (default,)))(function)


def print_page(page: Document, shown: Columns, nothing: str, shell: CommandContext) -> None:
    """Print one page of a listing, and how to get the next."""
    if shell.as_json:
        print_json(page)
        return
    out.print(table_or(shown, page["items"], nothing))
    print_cursor(page)


def print_cursor(page: Mapping[str, Any]) -> None:
    """Say how to get the next page, if there is one."""
    if page.get("nextCursor"):
        out.print(f"[dim]More: --cursor {page['nextCursor']}[/]", soft_wrap=True)
