"""`muster event-types`: what kinds of events there are, and what each looks like."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from cli.dispatch.parsing import CursorOption, LimitOption, join_path
from cli.events.event_type_views import event_type_view, event_types_view
from cli.shell.context import CommandContext, command, out, print_json
from cli.shell.errors import InputError
from cli.shell.json_input import read_text
from cli.shell.lazy import SETTINGS, example
from cli.shell.tables import print_page
from core.events.event_type import SchemaType, TypeStatus, Validation

PATH = "/api/event-types"
EventTypeArgument = Annotated[
    str, typer.Argument(help="As in shop:orders:order:created, or the id.", metavar="CODE")
]
VersionArgument = Annotated[str, typer.Argument(help="As in 1.0.", metavar="VERSION")]
_KINDS = {".json": SchemaType.JSON_SCHEMA, ".xsd": SchemaType.XSD, ".proto": SchemaType.PROTO}

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    context_settings=SETTINGS,
    help="Register what kinds of events there are, and what each looks like.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EventTypeListOptions:
    """Which event types a listing shows."""

    application: Annotated[str | None, typer.Option(help="Only the first segment.")] = None
    subdomain: Annotated[str | None, typer.Option(help="Only the second segment.")] = None
    aggregate: Annotated[str | None, typer.Option(help="Only the third segment.")] = None
    status: Annotated[
        TypeStatus | None, typer.Option(help="Only those that stand so.", case_sensitive=False)
    ] = None
    limit: LimitOption = 100
    cursor: CursorOption = None

    def params(self) -> dict[str, str | int | float | None]:
        """The listing's query."""
        return {
            "application": self.application,
            "subdomain": self.subdomain,
            "aggregate": self.aggregate,
            "status": self.status.value if self.status else None,
            "limit": self.limit,
            "cursor": self.cursor,
        }


@app.command("list", epilog=example("muster event-types list --application shop"))
@command
async def list_(options: EventTypeListOptions, shell: CommandContext) -> None:
    """List event types by code, page by page."""
    async with shell.connect() as client:
        page = await client.get(PATH, options.params())
    print_page(page, event_types_view, shell)


@app.command("show", epilog=example("muster event-types show shop:orders:order:created"))
@command
async def show(
    code: EventTypeArgument,
    shell: CommandContext,
    schema: Annotated[
        str | None,
        typer.Option("--schema", help="Print the schema of this version.", metavar="VERSION"),
    ] = None,
) -> None:
    """Show one event type with its versions, or the schema of one of them."""
    path = join_path(PATH, code) if schema is None else join_path(PATH, code, "schemas", schema)
    async with shell.connect() as client:
        found = await client.get(path)
    if shell.as_json:
        print_json(found)
    elif schema is None:
        out.print(event_type_view(found))
    else:
        print(found["schema"])


@dataclass(frozen=True, slots=True, kw_only=True)
class EventTypeOptions:
    """What is said of a new event type."""

    name: Annotated[
        str | None, typer.Option(help="How people call it; made of the code if not given.")
    ] = None
    description: Annotated[str | None, typer.Option(help="What it is about.")] = None
    validation: Annotated[
        Validation | None,
        typer.Option(help="What becomes of events that do not fit; enforce if not given."),
    ] = None
    client_scoped: Annotated[
        bool, typer.Option("--client-scoped", help="Its events belong to one client each.")
    ] = False

    def body(self, code: str) -> dict[str, Any]:
        """The request."""
        given = {
            "code": code,
            "name": self.name or default_type_name(code),
            "description": self.description,
            "validation": self.validation.value if self.validation else None,
            "clientScoped": self.client_scoped or None,
        }
        return {name: value for name, value in given.items() if value is not None}


@app.command(
    "create",
    epilog=example("muster event-types create shop:orders:order:created --validation warn"),
)
@command
async def create(
    code: EventTypeArgument, description: EventTypeOptions, shell: CommandContext
) -> None:
    """Register an event type. Events are held against it once it has a version in force."""
    async with shell.connect() as client:
        made = await client.post(PATH, description.body(code))
    _print_result(made, f"Event type {code} is registered.", shell)


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaVersionOptions:
    """What a new version is made of, and whether it is in force at once."""

    kind: Annotated[
        SchemaType | None,
        typer.Option(
            help="What the schema is, if the file's name does not tell (.json, .xsd, .proto).",
            case_sensitive=False,
        ),
    ] = None
    mime_type: Annotated[
        str | None, typer.Option(help="Of the payloads; what goes with the schema if not given.")
    ] = None
    finalise: Annotated[
        bool, typer.Option("--finalise", help="Put it in force at once, for all to rely on.")
    ] = False

    def body(self, version: str, file: str) -> dict[str, Any]:
        """The request."""
        kind = self.kind or schema_type_of(file)
        body = {"version": version, "schema": read_text(file), "schemaType": kind.value}
        return body | ({"mimeType": self.mime_type} if self.mime_type else {})


@app.command(
    "add-version",
    epilog=example(
        "muster event-types add-version shop:orders:order:created 1.0 order.json --finalise",
        "muster event-types add-version shop:orders:order:created 2.0 - --kind XSD < order.xsd",
    ),
)
@command
async def add_version(
    code: EventTypeArgument,
    version: VersionArgument,
    file: Annotated[str, typer.Argument(help="The schema: a file, or -.", metavar="FILE")],
    options: SchemaVersionOptions,
    shell: CommandContext,
) -> None:
    """Add a version with its schema: JSON Schema, XSD or proto.

    A version can be changed while it is FINALISING; `finalise` puts it in force. A schema that
    cannot be used is refused, with the place that is wrong.
    """
    body = options.body(version, file)
    async with shell.connect() as client:
        made = await client.post(join_path(PATH, code, "schemas"), body)
        if options.finalise:
            made = await client.post(join_path(PATH, code, "schemas", version, "finalise"), {})
    state = "in force" if options.finalise else "FINALISING"
    _print_result(made, f"Version {version} of {made['code']} is {state}.", shell)


@app.command(
    "finalise", epilog=example("muster event-types finalise shop:orders:order:created 1.0")
)
@command
async def finalise(
    code: EventTypeArgument, version: VersionArgument, shell: CommandContext
) -> None:
    """Put a version in force: events are held against it from now on."""
    async with shell.connect() as client:
        made = await client.post(join_path(PATH, code, "schemas", version, "finalise"), {})
    _print_result(made, f"Version {version} of {made['code']} is in force.", shell)


@app.command(
    "deprecate", epilog=example("muster event-types deprecate shop:orders:order:created 1.0")
)
@command
async def deprecate(
    code: EventTypeArgument, version: VersionArgument, shell: CommandContext
) -> None:
    """Deprecate a version: only events that name it are still held against it."""
    async with shell.connect() as client:
        made = await client.post(join_path(PATH, code, "schemas", version, "deprecate"), {})
    _print_result(made, f"Version {version} of {made['code']} is deprecated.", shell)


@app.command("archive", epilog=example("muster event-types archive shop:orders:order:created"))
@command
async def archive(code: EventTypeArgument, shell: CommandContext) -> None:
    """Put an event type out of use: all of its versions are deprecated."""
    async with shell.connect() as client:
        made = await client.post(join_path(PATH, code, "archive"), {})
    _print_result(made, f"Event type {made['code']} is archived.", shell)


def schema_type_of(file: str) -> SchemaType:
    """What kind of schema a file holds, by its name."""
    suffix = Path(file).suffix.lower()
    if suffix not in _KINDS:
        names = ", ".join(kind.value for kind in SchemaType)
        raise InputError(f"{file} does not tell what it is: give --kind ({names}).")
    return _KINDS[suffix]


def default_type_name(code: str) -> str:
    """How people would call a type."""
    words = " ".join(code.split(":")[2:]) or code
    return words.replace("-", " ").capitalize()


def _print_result(made: Any, sentence: str, shell: CommandContext) -> None:
    print_json(made) if shell.as_json else out.print(sentence, markup=False, soft_wrap=True)
