"""`muster event-types`: the types of events, their versions and schemas."""

from dataclasses import dataclass
from pathlib import Path

from rich.console import RenderableType
from rich.text import Text

from cli.shell import formats as fmt
from cli.shell.client import Document
from cli.shell.context import CommandContext, print_json, subcommand
from cli.shell.errors import InputError
from cli.shell.json_input import read_text
from cli.shell.options import argument, option, request_fields
from cli.shell.output import columns, pairs, sections, table_or
from cli.shell.parsing import name_from_code
from cli.shell.resource import ApiResource
from core.events.event_type import SchemaType, TypeStatus, Validation, parse_code

PATH = "/api/event-types"
VERSION = argument("As in 1.0.", metavar="VERSION")
_KINDS = {".json": SchemaType.JSON_SCHEMA, ".xsd": SchemaType.XSD, ".proto": SchemaType.PROTO}
STATUS = fmt.styled({"CURRENT": "green", "ARCHIVED": "yellow"})
VERSION_STYLES = {"FINALISING": "cyan", "CURRENT": "green", "DEPRECATED": "yellow"}


def _versions(event_type: Document) -> Text:
    versions = event_type.get("specVersions") or ()
    return Text(" ").join(
        Text(str(one["version"]), VERSION_STYLES.get(str(one["status"]), "")) for one in versions
    )


event_types = ApiResource(
    "event type",
    "event-types",
    PATH,
    argument=argument("As in shop:orders:order:created.", metavar="CODE"),
    example="shop:orders:order:created",
    id_pattern="evt_[0-9A-Z]{13}",
    is_code=lambda text: parse_code(text) is not None,
    listing=columns(
        "code", "name", ("status", "status", STATUS), ("versions", _versions), "validation"
    ),
    details=columns(
        ("event type", "code"),
        "name",
        "description",
        ("status", "status", STATUS),
        "validation",
        ("scope", "clientScoped", lambda scoped: "one client per event" if scoped else ""),
        "id",
        *fmt.TIMES,
    ),
)
VERSIONS = columns(
    "version",
    ("status", "status", fmt.styled(VERSION_STYLES)),
    ("schema", "schemaType"),
    ("content type", "mimeType"),
    ("changed", "updatedAt", fmt.moment),
)
app = event_types.app


@dataclass(frozen=True, slots=True, kw_only=True)
class EventTypeFilters:
    application: str | None = option("Only types with this first segment.")
    subdomain: str | None = option("Only types with this second segment.")
    aggregate: str | None = option("Only types with this third segment.")
    status: TypeStatus | None = option("Only types of this status.", case_sensitive=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class EventTypeOptions:
    name: str | None = option("A name for people; made from the code if not given.")
    description: str | None = option("What the events are about.")
    validation: Validation | None = option(
        "What to do with events that do not match; enforce if not given."
    )
    client_scoped: bool = option(
        "Each event belongs to one client.", "--client-scoped", default=False
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaVersionOptions:
    kind: SchemaType | None = option(
        "Language of the schema, if the file is not .json, .xsd or .proto.",
        api="schemaType",
        case_sensitive=False,
    )
    mime_type: str | None = option("Content type of the events; chosen by the schema if not given.")


event_types.add_list(
    "List event types by code, page by page.",
    "muster event-types list --application shop",
    filters=EventTypeFilters,
)


@subcommand(app, "show", "muster event-types show shop:orders:order:created")
async def show(
    shell: CommandContext,
    code: str = event_types.argument,
    schema: str | None = option("Print the schema of this version.", "--schema", metavar="VERSION"),
) -> None:
    """Show one event type with its versions, or the schema of one version."""
    if schema is None:
        found = await event_types.call(shell, "get", code)
        shell.print(found, _view(found))
        return
    found = await shell.call("get", event_types.path_of(code, "schemas", schema))
    print_json(found) if shell.as_json else print(found["schema"])


@subcommand(app, "create", "muster event-types create shop:orders:order:created --validation warn")
async def create(
    options: EventTypeOptions, shell: CommandContext, code: str = event_types.argument
) -> None:
    """Create an event type. Events are validated once a version of it is in force."""
    body = {"code": code, "name": default_type_name(code), **request_fields(options)}
    created = await shell.call("post", PATH, body=body)
    shell.print(created, f"Event type {code} is created.")


@subcommand(
    app,
    "add-version",
    "muster event-types add-version shop:orders:order:created 1.0 order.json --finalise",
    "muster event-types add-version shop:orders:order:created 2.0 - --kind XSD < order.xsd",
)
async def add_version(
    options: SchemaVersionOptions,
    shell: CommandContext,
    code: str = event_types.argument,
    version: str = VERSION,
    file: str = argument("The schema: a file, or -.", metavar="FILE"),
    finalise: bool = option("Put the version in force at once.", "--finalise", default=False),
) -> None:
    """Add a version with its schema: JSON Schema, XSD or proto.

    A version can be changed while it is FINALISING; `finalise` puts it in force. A schema with an
    error is refused, and the message says where the error is.
    """
    kind = options.kind or schema_type_of(file)
    body = {"version": version, "schema": read_text(file), "schemaType": kind.value}
    async with shell.connect() as client:
        path = event_types.path_of(code, "schemas")
        changed = await client.post(path, body | request_fields(options))
        if finalise:
            changed = await client.post(f"{path}/{version}/finalise", {})
    state = "in force" if finalise else "FINALISING"
    shell.print(changed, f"Version {version} of {changed['code']} is {state}.")


def _add_version_verb(verb: str, summary: str, done: str) -> None:
    async def run(
        shell: CommandContext, code: str = event_types.argument, version: str = VERSION
    ) -> None:
        path = event_types.path_of(code, "schemas", version, verb)
        changed = await shell.call("post", path, body={})
        shell.print(changed, f"Version {version} of {changed['code']} is {done}.")

    run.__doc__ = summary
    subcommand(app, verb, f"muster event-types {verb} shop:orders:order:created 1.0")(run)


_add_version_verb(
    "finalise", "Put a version in force: events are validated by it from now on.", "in force"
)
_add_version_verb(
    "deprecate",
    "Deprecate a version: it validates only the events that name it.",
    "deprecated",
)
event_types.add_verb(
    "archive",
    "Archive an event type that is no longer used; deprecate all its versions first.",
    "Event type {code} is archived.",
)


def schema_type_of(file: str) -> SchemaType:
    """Find the language of a schema by the file's name."""
    suffix = Path(file).suffix.lower()
    if suffix not in _KINDS:
        names = ", ".join(kind.value for kind in SchemaType)
        raise InputError(
            f"The name {file} does not show the schema's language: give --kind ({names})."
        )
    return _KINDS[suffix]


def default_type_name(code: str) -> str:
    """Make a name for people of the last two segments."""
    return name_from_code(" ".join(code.split(":")[2:]) or code)


def _view(found: Document) -> RenderableType:
    versions = found.get("specVersions") or ()
    rest = table_or(VERSIONS, versions, "It has no version: any event matches.")
    return sections(pairs(event_types.details, found), rest)
