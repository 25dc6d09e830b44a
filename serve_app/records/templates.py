"""Templates over HTTP: rendered with a record, to see what comes of them."""

import uuid
from collections.abc import Mapping
from typing import Any

from core.access.permissions import Permission
from core.records.data_path import InvalidDataPathError
from core.shared.errors import InvalidError, NotFoundError
from core.shared.json_path import MISSING
from core.shared.timestamps import to_iso
from core.templates.rendering import (
    Lookup,
    TemplateRenderer,
    TemplateValueError,
    lookup_in,
)
from core.templates.template import (
    DocumentTemplate,
    InvalidTemplateError,
    Placeholder,
    compile_document,
    compile_text,
)
from serve_app.http.router import Context, HttpRouter
from serve_app.records.template_models import RenderedView, TemplateRequest
from services.records.merge_field_renderer import paths_of

router = HttpRouter("/control/templates", tag="templates", refuses=(404,))


@router.post("/render", needs=Permission.RECORDS_READ, logs=False)
async def render_template(body: TemplateRequest, context: Context) -> RenderedView:
    """Render a template with a record and sample values. Secrets stay placeholders."""
    try:
        template = (
            compile_text(body.template, body.format)
            if isinstance(body.template, str)
            else compile_document(body.template)
        )
    except InvalidTemplateError as error:
        raise InvalidError("template", str(error)) from None
    values = await _path_values(body, template, context)
    own = {"_now": to_iso(context.replica.client.clock.now()), "_uuid": str(uuid.uuid4())}
    missing: dict[str, None] = {}
    look = _noting(lookup_in(values, own | body.scope), missing)
    try:
        rendered = TemplateRenderer(look, strict=body.strict).render(template)
    except TemplateValueError as error:
        raise InvalidError("template", str(error)) from None
    return RenderedView(rendered=rendered, missing=list(missing))


async def _path_values(
    body: TemplateRequest, template: DocumentTemplate, context: Context
) -> Mapping[str, Any]:
    """Return what the template's data paths lead to, without those that lead to nothing."""
    paths = paths_of(template)
    if not paths:
        return {}
    if any(path.has_script for path in paths):
        raise InvalidError("template", "data paths without scripts: scripts run in workflows")
    record = body.root if body.root is not None else {}
    if body.collection_id is None:
        far = next((path for path in paths if path.relationships), None)
        if far is not None:
            raise InvalidError("collectionId", f"is required: {far} leads over a relationship")
        known = body.record or {}
        return {name: value for name, value in known.items() if value is not None}
    try:
        resolver = context.replica.paths.resolver
        found = await resolver.trace(context.tenant, body.collection_id, paths, record)
    except InvalidDataPathError as error:
        raise InvalidError("template", str(error)) from None
    if not found.is_root_found:
        raise NotFoundError(f"record {body.record_id} of {body.collection_id}")
    return {name: value for name, value in found.values.items() if value is not None}


def _noting(lookup: Lookup, missing: dict[str, None]) -> Lookup:
    """Look values up, and note the placeholders that have none."""

    def look(placeholder: Placeholder) -> Any:
        value = lookup(placeholder)
        if value is MISSING:
            missing[str(placeholder)] = None
        return value

    return look
