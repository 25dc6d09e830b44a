"""`muster templates`: texts with placeholders, tried before they are used."""

import json
from dataclasses import dataclass

from cli.records.sample_record import SampleOptions
from cli.shell.context import CommandContext, print_error, subcommand
from cli.shell.json_input import read_argument, read_document, read_object
from cli.shell.lazy import command_group
from cli.shell.options import argument, option, request_fields
from core.templates.template import TextFormat

app = command_group("""muster templates render 'Dear {{name}}' -d '{"name": "Jo"}'""")


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderOptions:
    format: TextFormat | None = option("How values are escaped in a text.")
    collection: str | None = option(
        "The collection of the record; paths over relationships need it.", api="collectionId"
    )
    scope: str | None = option("What @{…} reads: a JSON object, @file, or -.", convert=read_object)
    strict: bool = option("A value that is missing is an error.", "--strict", default=False)


@app.callback()
def _group() -> None:
    """Render texts with the values of a record."""  # a group of one command needs this


@subcommand(
    app,
    "render",
    """muster templates render 'Dear {{name}}' -d '{"name": "Jo"}'""",
    "muster templates render @mail.txt --collection orders --record o1 --format html",
    """muster templates render '{"to": "{{customer_id.email}}"}' --document --collection orders"""
    " --record o1",
)
async def render(
    sample: SampleOptions,
    options: RenderOptions,
    shell: CommandContext,
    template: str = argument("The template: a text, @file, or -.", metavar="TEMPLATE"),
    document: bool = option("The template is JSON with texts in it.", "--document", default=False),
) -> None:
    """Render a template with a record. Secrets stay placeholders."""
    text = read_document(template) if document else read_argument(template)
    body = {"template": text, **request_fields(sample, options)}
    found = await shell.call("post", "/control/templates/render", body=body)
    rendered = found["rendered"]
    is_text = isinstance(rendered, str)
    shell.print(found, rendered if is_text else json.dumps(rendered, indent=2, ensure_ascii=False))
    if found["missing"] and not shell.as_json:
        print_error(f"Without a value: {', '.join(found['missing'])}")
