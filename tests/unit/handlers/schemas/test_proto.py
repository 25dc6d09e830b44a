"""Protocol Buffers: the first message of a file, held against binary and JSON payloads."""

import pytest

from handlers.schemas import proto
from handlers.schemas.interface import CompiledSchema, InvalidSchema, Mismatch, PayloadCheck

JSON, BINARY = "application/json", "application/x-protobuf"
ORDER = """
syntax = "proto3";
package shop.v1;
import "google/protobuf/timestamp.proto";
import "google/protobuf/any.proto";
import "google/protobuf/struct.proto";
message Order {
  string id = 1;
  int32 amount = 2;
  repeated Line lines = 3;
  google.protobuf.Timestamp at = 4;
  google.protobuf.Any more = 5;
  google.protobuf.Struct free = 6;
  Order inner = 7;
  map<string, int32> counts = 8;
}
message Line { string sku = 1; }
"""


@pytest.fixture(autouse=True)
def _no_import_hooks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRPC_PYTHON_DISABLE_DYNAMIC_STUBS", "1")


def load(text: str) -> PayloadCheck:
    outcome = proto.compile(text)
    assert isinstance(outcome, CompiledSchema), outcome
    return proto.load(outcome.form)


def reason(text: str) -> str:
    outcome = proto.compile(text)
    assert isinstance(outcome, InvalidSchema)
    return outcome.reason


@pytest.fixture(scope="module")
def order() -> PayloadCheck:
    return load(ORDER)


def test_json_and_binary_payloads_of_the_first_message_fit(order: PayloadCheck) -> None:
    full = (
        b'{"id":"a","amount":2,"lines":[{"sku":"x"}],"at":"2026-01-01T00:00:00Z","free":{"a":[]}}'
    )
    assert order(full, JSON) == []
    assert order(b"{}", "application/vnd.order+json") == []
    assert order(b"\x0a\x01a\x10\x02", BINARY) == []
    assert order(b"", "application/protobuf") == []


@pytest.mark.parametrize(
    ("payload", "path", "told"),
    [
        (b'{"nothing":1}', "", 'no field named "nothing"'),
        (b'{"lines":[{"sku":"a"},{"nothing":1}]}', "lines[1]", 'no field named "nothing"'),
        (b'{"amount":"x"}', "amount", "invalid literal"),
        (b'{"amount":99999999999}', "amount", "out of range"),
        (b'{"lines":{}}', "lines", "must be in []"),
        (b'{"at":"yesterday"}', "at", "timestamp"),
        (b'{"counts":{"a":"b"}}', "counts", "invalid literal"),
        (b'{"more":{"@type":5}}', "", "int"),
        (b'{"more":{"@type":"type.googleapis.com/x.Y"}}', "more", "descriptor"),
        (b'{"free":[]}', "free", "must be in a dict"),
        (b"[]", "", "an object"),
        (b"5", "", "an object"),
        (b"{", "", "readable JSON"),
        (b'{"inner":' * 80 + b"{}" + b"}" * 80, "inner.inner", "too deep"),
    ],
)
def test_a_json_payload_that_does_not_fit_is_told_where(
    order: PayloadCheck, payload: bytes, path: str, told: str
) -> None:
    (one,) = order(payload, JSON)
    assert one.path.startswith(path)
    assert told in one.expected


@pytest.mark.parametrize("payload", [b"\xff", b"\x0a\xff\xff\xff\xff\x0f", b"\x0a\x01\xff"])
def test_a_binary_payload_that_does_not_fit_is_told_why(
    order: PayloadCheck, payload: bytes
) -> None:
    (one,) = order(payload, BINARY)
    assert one.path == ""
    assert "Error parsing message" in one.expected


def test_a_binary_payload_nested_too_deeply_does_not_fit(order: PayloadCheck) -> None:
    payload = b""
    for _ in range(60):
        payload = b"\x3a" + bytes([len(payload)]) + payload
    assert order(payload, BINARY) == []
    for _ in range(60):
        size = len(payload)
        payload = b"\x3a" + bytes([size & 127 | 128, size >> 7]) + payload
    (one,) = order(payload, BINARY)
    assert "MaxDepth" in one.expected


def test_fields_that_are_required_must_be_there() -> None:
    check = load('syntax = "proto2"; message M { required string id = 1; optional M m = 2; }')
    assert check(b'{"m":{}}', JSON) == [
        Mismatch("id", "is required"),
        Mismatch("m.id", "is required"),
    ]
    assert check(b"", BINARY) == [Mismatch("id", "is required")]


def test_a_payload_of_another_kind_does_not_fit(order: PayloadCheck) -> None:
    assert order(b"{}", "text/plain") == [Mismatch("", "application/json, not text/plain")]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "there is no message"),
        ('syntax = "proto3"; enum A { B = 0; }', "there is no message"),
        ("message M { int32 x = ; }", "line 1, column 23: Expected field number."),
        ('syntax = "proto3"; message M { required int32 x = 1; }', "line 1, column"),
        ('syntax = "proto3"; import "/etc/passwd"; message M {}', 'Import "/etc/passwd"'),
        ('syntax = "proto3"; import "../../etc/passwd"; message M {}', "was not found"),
        ('syntax = "proto3"; import "complaints"; message M {}', "line 1, column 20"),
        ('syntax = "proto3"; import "schema.proto"; message M {}', "recursively imports itself"),
        ('syntax = "proto3"; message M { Nothing n = 1; }', '"Nothing" is not defined'),
        ('syntax = "proto9"; message M {}', "proto9"),
        ("message " * 3 + "M{" * 500, "line 1, column"),
        ('syntax="proto3"; ' + "message M{" * 500 + "}" * 500, "maximum recursion limit"),
        ("/*" + "x" * 10_000, "End-of-file inside block comment"),
        ('syntax = "proto3"; message M {}\x00', "line 1, column"),
    ],
)
def test_what_cannot_be_a_schema_is_told_why(text: str, told: str) -> None:
    assert told in reason(text)


def test_a_message_may_hold_itself() -> None:
    check = load('syntax = "proto3"; message Tree { repeated Tree below = 1; }')
    assert check(b'{"below":[{"below":[]}]}', JSON) == []


def test_a_file_without_a_package_will_do() -> None:
    assert load('edition = "2023"; message M { int32 a = 1; }')(b'{"a":1}', JSON) == []
