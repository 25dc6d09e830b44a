"""Whatever a payload is made of, a check ends in an answer."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.events.event_type import SchemaType
from handlers.schemas.dialects import dialect_of
from handlers.schemas.interface import CompiledSchema, Mismatch, PayloadCheck

PROTO = """
syntax = "proto3";
import "google/protobuf/any.proto";
import "google/protobuf/duration.proto";
import "google/protobuf/field_mask.proto";
import "google/protobuf/struct.proto";
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
message M {
  string a = 1; int64 b = 2; double c = 3; bytes d = 4; bool e = 5; E f = 6; M g = 7;
  repeated M h = 8; map<int32, M> i = 9; map<bool, string> j = 10;
  google.protobuf.Any k = 11; google.protobuf.Duration l = 12; google.protobuf.FieldMask m = 13;
  google.protobuf.Struct n = 14; google.protobuf.Timestamp o = 15; google.protobuf.Value p = 16;
  google.protobuf.Int32Value q = 17; google.protobuf.ListValue r = 18; float s = 19;
  oneof t { string u = 20; uint32 v = 21; }
}
enum E { NONE = 0; }
"""
NAMES = st.sampled_from([*"abcdefghijklmnopqrsuv", "@type", "value"])
TEXTS = st.one_of(
    st.text(max_size=8),
    st.sampled_from(
        ["1e400", "-1.5s", "2026-01-01T00:00:00Z", "NaN", "a_b", "type.googleapis.com/M", "NONE"]
    ),
)
DOCUMENTS = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(NAMES, inner, max_size=4)),
    max_leaves=12,
)


def ready(kind: SchemaType, text: str) -> PayloadCheck:
    outcome = dialect_of(kind).compile(text)
    assert isinstance(outcome, CompiledSchema)
    return dialect_of(kind).load(outcome.form)


@pytest.fixture(scope="module")
def proto_check() -> PayloadCheck:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRPC_PYTHON_DISABLE_DYNAMIC_STUBS", "1")
        return ready(SchemaType.PROTO, PROTO)


@given(document=st.dictionaries(NAMES, DOCUMENTS, max_size=5))
def test_any_json_for_a_message(proto_check: PayloadCheck, document: dict[str, Any]) -> None:
    found = proto_check(json.dumps(document).encode(), "application/json")
    assert all(isinstance(one, Mismatch) for one in found)


@given(raw=st.binary(max_size=64))
def test_any_bytes_for_a_message(proto_check: PayloadCheck, raw: bytes) -> None:
    found = proto_check(raw, "application/protobuf")
    assert all(isinstance(one, Mismatch) for one in found)


@given(raw=st.one_of(st.binary(max_size=64), DOCUMENTS.map(lambda d: json.dumps(d).encode())))
def test_any_bytes_for_a_json_schema(raw: bytes) -> None:
    schema = {"type": "object", "additionalProperties": {"oneOf": [{"type": "string"}, {}]}}
    found = ready(SchemaType.JSON_SCHEMA, json.dumps(schema))(raw, "application/json")
    assert all(isinstance(one, Mismatch) for one in found)


@given(document=DOCUMENTS)
def test_any_json_as_a_json_schema(document: Any) -> None:
    text = json.dumps({"properties": document, "allOf": [document], "enum": document})
    dialect_of(SchemaType.JSON_SCHEMA).compile(text)


@given(raw=st.one_of(st.binary(max_size=64), st.text(alphabet="<a>/&;!=\"' []", max_size=40)))
def test_any_bytes_for_an_xml_schema(raw: bytes | str) -> None:
    text = (
        '<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema"><xs:element name="a"/></xs:schema>'
    )
    payload = raw.encode() if isinstance(raw, str) else raw
    found = ready(SchemaType.XSD, text)(payload, "text/xml")
    assert all(isinstance(one, Mismatch) for one in found)
