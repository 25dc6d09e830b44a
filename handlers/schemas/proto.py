"""Protocol Buffers: a payload is the first message of the file, in binary or in JSON."""

import contextlib
import hashlib
import os
import re
import tempfile
from collections.abc import Callable, Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
from google.protobuf.message import DecodeError

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
from handlers.schemas.json_schema import read_json

BINARY_TYPES = frozenset({"application/protobuf", "application/x-protobuf"})
MAX_FORM_BYTES = 1 << 20
MAX_NESTING = 64

_FILE = "schema.proto"
# The JSON parser is written in Python and takes about a microsecond per byte.
_WEIGHT = 2_000
_FIELD = re.compile(r"Failed to parse (\w+) field: ")
_PLACE = re.compile(r'\s*\bat "?(\w[\w\[\].]*)"?$')
_COMPLAINT = re.compile(rf"^{re.escape(_FILE)}:(?:(\d+):(\d+):)?\s*(.*)$", re.MULTILINE)
# Odd values raise Python's errors in the JSON parser, besides its ParseError.
_ODD = (
    json_format.ParseError,
    AttributeError,
    ArithmeticError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)


def compile(text: str) -> CompileResult:
    """See `SchemaDialect.compile`. protoc may abort the process on malformed input."""
    code, complaints, form = _run_protoc(text)
    if code != 0:
        return invalid_schema(_own_messages(complaints) or "protoc could not read it")
    if len(form) > MAX_FORM_BYTES:
        return invalid_schema(f"its descriptors take more than {MAX_FORM_BYTES} bytes")
    if not _descriptors(form).file[-1].message_type:
        return invalid_schema("there is no message in it")
    try:
        load(form)
    except (TypeError, KeyError, DecodeError) as error:
        return invalid_schema(str(error))
    key = hashlib.sha256(b"proto" + form).digest()
    return CompiledSchema(SchemaType.PROTO, form, key, _WEIGHT)


def load(form: bytes) -> PayloadCheck:
    pool = descriptor_pool.DescriptorPool()
    described = _descriptors(form)
    for file in described.file:
        pool.AddSerializedFile(file.SerializeToString())
    last = described.file[-1]
    name = ".".join(filter(None, (last.package, last.message_type[0].name)))
    make: Callable[[], Any] = message_factory.GetMessageClass(pool.FindMessageTypeByName(name))

    def check(payload: bytes, content_type: str) -> list[Mismatch]:
        if media_type(content_type) in BINARY_TYPES:
            return _check_binary(make(), payload)
        return _check_json(make(), payload, content_type, pool)

    return check


def _run_protoc(text: str) -> tuple[int, str, bytes]:
    """Return protoc's exit code, its messages, and the descriptors.

    Imports are searched in an otherwise empty folder, and among the types that come with protoc.
    """
    from grpc_tools import protoc  # noqa: PLC0415  it is large, and only those who compile need it

    with tempfile.TemporaryDirectory(prefix="muster-proto-") as place:
        folder, complaints, made = Path(place, "in"), Path(place, "complaints"), Path(place, "made")
        folder.mkdir()
        (folder / _FILE).write_text(text, encoding="utf-8")
        own = str(files("grpc_tools") / "_proto")
        options = [f"-I{own}", "-I.", "--include_imports", f"-o{made}"]
        with contextlib.chdir(folder), _errors_to(complaints):
            code = protoc.main(["protoc", *options, _FILE])
        messages = complaints.read_text(encoding="utf-8", errors="replace")
        return code, messages, made.read_bytes() if code == 0 else b""


@contextlib.contextmanager
def _errors_to(path: Path) -> Iterator[None]:
    """Redirect what native code writes to stderr into a file."""
    kept = os.dup(2)
    with path.open("wb") as file:
        os.dup2(file.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)


def _own_messages(complaints: str) -> str:
    """Return protoc's messages about the file itself, with the place in words."""
    found = [
        f"line {line}, column {column}: {what}" if line else what
        for line, column, what in _COMPLAINT.findall(complaints)
    ]
    return "; ".join(found[:3])


def _descriptors(form: bytes) -> Any:
    return descriptor_pb2.FileDescriptorSet.FromString(form)


def _check_binary(message: Any, payload: bytes) -> list[Mismatch]:
    try:
        message.ParseFromString(payload)
    except DecodeError as error:
        return [mismatch("", str(error))]
    return _missing(message)


def _check_json(message: Any, payload: bytes, content_type: str, pool: Any) -> list[Mismatch]:
    document = read_json(payload, content_type)
    if isinstance(document, Mismatch):
        return [document]
    if not isinstance(document.value, dict):
        return [mismatch("", "an object")]
    try:
        json_format.ParseDict(
            document.value, message, descriptor_pool=pool, max_recursion_depth=MAX_NESTING
        )
    except _ODD as error:
        return [_located(str(error))]
    return _missing(message)


def _missing(message: Any) -> list[Mismatch]:
    missing = message.FindInitializationErrors()[:MAX_MISMATCHES]
    return [mismatch(path, "is required") for path in missing]


def _located(complaint: str) -> Mismatch:
    """Split the reader's message into the place it names and the rest."""
    complaint, _, _ = complaint.partition("Available Fields")
    fields = _FIELD.findall(complaint)
    rest = _FIELD.sub("", complaint).rstrip(" .\n")
    place = _PLACE.search(rest)
    if place is None:
        return mismatch(".".join(fields), rest)
    _, _, below = place[1].partition(".")
    return mismatch(below or ".".join(fields), rest[: place.start()])
