"""XML Schema 1.0, by libxml2. Includes and imports are refused, so nothing is ever fetched."""

import hashlib
from typing import Any

from lxml import etree

from core.events.event_type import SchemaType
from core.shared.media_types import media_type
from handlers.schemas.interface import (
    MAX_MISMATCHES,
    CompiledSchema,
    CompileResult,
    Mismatch,
    PayloadCheck,
    invalid_schema,
    mismatch,
)

XML_TYPES = frozenset({"application/xml", "text/xml"})
_XS = "{http://www.w3.org/2001/XMLSchema}"
_FETCHING = ("include", "import", "redefine", "override")
_XSI = "{http://www.w3.org/2001/XMLSchema-instance}"
_HINTS = (f"{_XSI}schemaLocation", f"{_XSI}noNamespaceSchemaLocation")
_NO_DTD = "a document without a document type definition (DOCTYPE)"


class _ForbiddenDoctypeError(Exception):
    """Document types are refused: their entities can expand without bound, or read files."""


def compile(text: str) -> CompileResult:
    form = text.encode()
    try:
        root = _parse(form, encoding="utf-8")
        fetching = next(root.iter(*(_XS + word for word in _FETCHING)), None)
        if fetching is not None:
            word = etree.QName(fetching).localname
            return invalid_schema(f"line {fetching.sourceline}: xs:{word} is not allowed")
        etree.XMLSchema(root)
    except _ForbiddenDoctypeError:
        return invalid_schema(_NO_DTD)
    except etree.XMLSyntaxError as error:
        return invalid_schema(f"not well-formed XML: {_located(error)}")
    except etree.XMLSchemaParseError as error:
        entry = error.error_log.last_error
        return invalid_schema(f"line {entry.line}: {entry.message}" if entry else str(error))
    key = hashlib.sha256(b"xsd" + form).digest()
    # The cost of a byte depends on patterns and content models that only libxml2 evaluates.
    return CompiledSchema(SchemaType.XSD, form, key, None)


def load(form: bytes) -> PayloadCheck:
    schema = etree.XMLSchema(_parse(form, encoding="utf-8"))

    def check(payload: bytes, content_type: str) -> list[Mismatch]:
        kind = media_type(content_type)
        if kind not in XML_TYPES and not kind.endswith("+xml"):
            return [mismatch("", f"application/xml, not {kind or 'nothing'}")]
        try:
            root = _parse(payload)
        except _ForbiddenDoctypeError:
            return [mismatch("", _NO_DTD)]
        except etree.XMLSyntaxError as error:
            return [mismatch("", f"well-formed XML: {_located(error)}")]
        for element in root.iter(etree.Element):
            for hint in _HINTS:
                element.attrib.pop(hint, None)
        try:
            if schema.validate(root):
                return []
        except etree.XMLSchemaValidateError:  # libxml2 gave up
            return [mismatch("", "a document that can be checked; the schema is too hard for it")]
        errors = [one for one, _ in zip(schema.error_log, range(MAX_MISMATCHES), strict=False)]
        return [mismatch(error.path or "", error.message) for error in errors]

    return check


def _parse(raw: bytes, encoding: str | None = None) -> Any:
    parser = etree.XMLParser(
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        huge_tree=False,
        remove_comments=True,
        remove_pis=True,
        encoding=encoding,
    )
    root = etree.fromstring(raw, parser)
    if root.getroottree().docinfo.internalDTD is not None:
        raise _ForbiddenDoctypeError
    return root


def _located(error: etree.XMLSyntaxError) -> str:
    return f"line {error.lineno}: {error.msg}"
