"""Renders templates with the values that a record's data paths lead to."""

from collections.abc import Mapping
from typing import Any

from core.records.data_path import DataPath, parse_data_path
from core.records.path_batch import Root
from core.templates.rendering import TemplateRenderer, lookup_in, to_text
from core.templates.template import (
    DocumentTemplate,
    PlaceholderKind,
    compile_text,
    placeholders_of,
)
from services.records.data_path_resolver import DataPathResolver


class MergeFieldRenderer:
    """Renders texts and documents; all paths of one are resolved together."""

    def __init__(self, resolver: DataPathResolver) -> None:
        self._resolver = resolver

    async def render(self, tenant: int, root: str, template: str, record: Root) -> str:
        """Render `Hello {{customer_id.name}}`; what is null or missing becomes nothing.

        Raises:
            InvalidTemplateError: The text is no template.
            InvalidDataPathError: A path leads nowhere.
        """
        return to_text(await self.render_document(tenant, root, compile_text(template), record))

    async def render_document(
        self,
        tenant: int,
        root: str,
        template: DocumentTemplate,
        record: Root,
        scope: Mapping[str, Any] | None = None,
        *,
        strict: bool = False,
    ) -> Any:
        """Render a compiled document, with the `scope` of an execution for `@{…}`.

        Raises:
            InvalidDataPathError: A path leads nowhere.
            TemplateValueError: The result is too long; with `strict`, a value is missing.
        """
        paths = paths_of(template)
        found = await self._resolver.resolve_all(tenant, root, paths, record) if paths else {}
        # A path does not tell null from missing: with `strict`, both are errors.
        known = {name: value for name, value in found.items() if value is not None}
        return TemplateRenderer(lookup_in(known, scope or {}), strict=strict).render(template)


def paths_of(template: DocumentTemplate) -> list[DataPath]:
    """Return the data paths of a document, each once."""
    names = {
        one.name: None for one in placeholders_of(template) if one.kind is PlaceholderKind.PATH
    }
    return [parse_data_path(name) for name in names]
