"""Schemas and payloads of the worst kind end in a refusal, and the process goes on."""

import asyncio
import json
import os
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest

from core.events.event_type import SchemaType
from core.shared.errors import OverloadedError, UnavailableError
from handlers.schemas import validator as module
from handlers.schemas.interface import MAX_SCHEMA_BYTES, CompiledSchema, InvalidSchema
from handlers.schemas.sandbox import CpuTimeExceededError, SandboxDiedError, SchemaSandbox
from handlers.schemas.sandbox_protocol import CompileTask
from handlers.schemas.validator import CHECK_SECONDS, SchemaValidator

JSON, XML = "application/json", "application/xml"
# Tests go on even where the machine has much else to do.
PATIENCE = 150.0
TOO_LONG = f"a payload that is checked within {CHECK_SECONDS:g} s"
PROTO_HEAD = """
syntax = "proto2"; import "google/protobuf/descriptor.proto";
message O { optional O o = 1; optional int32 x = 2; }
extend google.protobuf.FileOptions { optional O o = 50000; }
"""


def xsd(inner: str) -> str:
    return f'<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema">{inner}</xs:schema>'


def patterned(pattern: str) -> str:
    """A list of texts that fit a pattern."""
    text = f'<xs:restriction base="xs:string"><xs:pattern value="{pattern}"/></xs:restriction>'
    one = f'<xs:element name="t" maxOccurs="unbounded"><xs:simpleType>{text}</xs:simpleType>'
    inner = f"<xs:complexType><xs:sequence>{one}</xs:element></xs:sequence></xs:complexType>"
    return xsd(f'<xs:element name="a">{inner}</xs:element>')


def doubling_groups(steps: int) -> str:
    """Each group holds the next one twice."""
    groups = [
        f'<xs:group name="g{n}"><xs:sequence>'
        f'<xs:group ref="g{n + 1}"/><xs:group ref="g{n + 1}"/></xs:sequence></xs:group>'
        for n in range(steps)
    ]
    last = f'<xs:group name="g{steps}"><xs:sequence><xs:element name="b"/></xs:sequence></xs:group>'
    top = '<xs:element name="a"><xs:complexType><xs:group ref="g0"/></xs:complexType></xs:element>'
    return xsd("".join(groups) + last + top)


def doubling_definitions(steps: int) -> str:
    twice = {f"d{n}": {"allOf": [{"$ref": f"#/definitions/d{n + 1}"}] * 2} for n in range(steps)}
    last = {f"d{steps}": {"type": "integer"}}
    return json.dumps({"$ref": "#/definitions/d0", "definitions": twice | last})


EASY_XSD = xsd('<xs:element name="a" type="xs:int"/>')


@pytest.fixture
async def checks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> AsyncIterator[SchemaValidator]:
    """With a folder for temporary files that must be empty in the end."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    made = SchemaValidator(timeout=PATIENCE)
    yield made
    made.close()
    assert os.listdir(tmp_path) == []


async def compiled(checks: SchemaValidator, kind: SchemaType, text: str) -> CompiledSchema:
    outcome = await checks.compile(1, kind, text)
    assert isinstance(outcome, CompiledSchema), outcome
    return outcome


def processes_of_mine() -> set[int]:
    return {child.pid for child in psutil.Process().children() if child.status() != "zombie"}


async def test_each_family_compiles_and_checks(checks: SchemaValidator) -> None:
    schema = await compiled(checks, SchemaType.JSON_SCHEMA, '{"type":"object"}')
    assert await checks.check(1, schema, b"{}", JSON) == []
    assert len(await checks.check(1, schema, b"[]", JSON)) == 1
    easy = await compiled(checks, SchemaType.XSD, EASY_XSD)
    assert await checks.check(1, easy, b"<a>1</a>", XML) == []
    (one,) = await checks.check(1, easy, b"<a>x</a>", XML)
    assert one.path == "/a"
    message = await compiled(
        checks, SchemaType.PROTO, 'syntax = "proto3"; message M { int32 a = 1; }'
    )
    assert await checks.check(1, message, b'{"a":1}', JSON) == []
    assert await checks.check(1, message, b"\x08\x01", "application/protobuf") == []
    assert len(await checks.check(1, message, b'{"b":1}', JSON)) == 1


async def test_what_is_quick_needs_no_other_process(checks: SchemaValidator) -> None:
    schema = await compiled(checks, SchemaType.JSON_SCHEMA, '{"items":{"type":"integer"}}')
    before = processes_of_mine()
    for number in range(1000):
        assert await checks.check(1, schema, b"[%d]" % number, JSON) == []
    assert processes_of_mine() == before
    # The same schema and a payload that may take its time.
    payload = json.dumps(list(range(200_000))).encode()
    assert await checks.check(1, schema, payload, JSON) == []
    assert len(processes_of_mine() - before) == 1


@pytest.mark.parametrize(
    ("kind", "text", "told"),
    [
        (SchemaType.XSD, doubling_groups(30), ""),
        (SchemaType.PROTO, PROTO_HEAD + "option (o)" + ".o" * 20_000 + ".x = 1;", "compiler"),
        (
            SchemaType.PROTO,
            PROTO_HEAD + "option (o) = " + "{o:" * 20_000 + "}" * 20_000 + ";",
            "",
        ),
        (
            SchemaType.PROTO,
            "".join(PROTO_HEAD + "option (o)" + ".o" * n + ".x = 1;" for n in range(1, 600)),
            "",
        ),
        (
            SchemaType.PROTO,
            'syntax = "proto2"; message M {' + "optional group G = 1 {" * 9000 + "}" * 9001,
            "",
        ),
    ],
    ids=["groups", "option path", "option depth", "options", "nested groups"],
)
async def test_a_schema_that_would_never_end_is_refused_in_time(
    checks: SchemaValidator, kind: SchemaType, text: str, told: str
) -> None:
    began = time.process_time()
    outcome = await checks.compile(1, kind, text)
    assert isinstance(outcome, InvalidSchema)
    assert told in outcome.reason
    assert time.process_time() - began < 1  # whatever it took was taken elsewhere


@pytest.mark.parametrize("kind", SchemaType)
async def test_a_schema_of_ten_megabytes_is_not_even_looked_at(
    checks: SchemaValidator, kind: SchemaType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SchemaSandbox", None)
    outcome = await checks.compile(1, kind, "x" * 10_000_000)
    assert outcome == InvalidSchema(f"larger than {MAX_SCHEMA_BYTES} bytes")


async def test_a_check_that_would_take_years_ends_within_its_time(checks: SchemaValidator) -> None:
    schema = await compiled(checks, SchemaType.JSON_SCHEMA, doubling_definitions(60))
    (one,) = await checks.check(1, schema, b"1", JSON)
    assert one.expected == TOO_LONG
    easy = await compiled(checks, SchemaType.XSD, EASY_XSD)
    assert await checks.check(1, easy, b"<a>1</a>", XML) == []


async def test_a_pattern_that_explodes_is_given_up(checks: SchemaValidator) -> None:
    schema = await compiled(checks, SchemaType.XSD, patterned("(a|aa)+b"))
    payload = "<a>" + f"<t>{'a' * 60}</t>" * 1000 + "</a>"
    (one,) = await checks.check(1, schema, payload.encode(), XML)
    assert "too hard" in one.expected


async def test_a_schema_that_holds_itself_is_checked_apart(checks: SchemaValidator) -> None:
    tree = '{"properties":{"below":{"items":{"$ref":"#"}},"name":{"type":"string"}}}'
    schema = await compiled(checks, SchemaType.JSON_SCHEMA, tree)
    assert schema.weight is None
    assert await checks.check(1, schema, b'{"below":[{"name":"a"}]}', JSON) == []
    (one,) = await checks.check(1, schema, b'{"below":[{"name":1}]}', JSON)
    assert one.path == "below[0].name"


async def test_one_tenants_slow_schemas_do_not_hold_up_another(checks: SchemaValidator) -> None:
    slow = await compiled(checks, SchemaType.JSON_SCHEMA, doubling_definitions(60))
    easy = await compiled(checks, SchemaType.XSD, EASY_XSD)
    hostile = [asyncio.create_task(checks.check(1, slow, b"1", JSON)) for _ in range(3)]
    await asyncio.sleep(0)
    assert await checks.check(2, easy, b"<a>1</a>", XML) == []
    assert not all(task.done() for task in hostile)
    for task in hostile:
        (one,) = await task
        assert one.expected == TOO_LONG


async def test_a_process_that_dies_is_replaced_and_nobody_notices(checks: SchemaValidator) -> None:
    easy = await compiled(checks, SchemaType.XSD, EASY_XSD)
    before = processes_of_mine()
    assert await checks.check(1, easy, b"<a>1</a>", XML) == []
    (pid,) = processes_of_mine() - before
    os.kill(pid, 9)
    for _ in range(5):
        assert await checks.check(1, easy, b"<a>1</a>", XML) == []
    assert pid not in processes_of_mine()


async def test_many_checks_at_once_are_bounded(
    checks: SchemaValidator, monkeypatch: pytest.MonkeyPatch
) -> None:
    easy = await compiled(checks, SchemaType.XSD, EASY_XSD)
    monkeypatch.setattr(module, "WAITING_LIMIT", 3)
    found = await asyncio.gather(
        *(checks.check(n, easy, b"<a>1</a>", XML) for n in range(5)), return_exceptions=True
    )
    assert [one for one in found if one == []] == [[]] * 3
    assert sum(isinstance(one, OverloadedError) for one in found) == 2
    assert await checks.check(1, easy, b"<a>1</a>", XML) == []  # and it is over


async def test_no_tenant_takes_all_the_places(
    checks: SchemaValidator, monkeypatch: pytest.MonkeyPatch
) -> None:
    easy = await compiled(checks, SchemaType.XSD, EASY_XSD)
    monkeypatch.setattr(module, "TENANT_LIMIT", 2)
    found = await asyncio.gather(
        *(checks.check(tenant, easy, b"<a>1</a>", XML) for tenant in (1, 1, 1, 2)),
        return_exceptions=True,
    )
    assert [isinstance(one, OverloadedError) for one in found] == [False, False, True, False]


async def test_a_closed_one_answers_no_more(checks: SchemaValidator) -> None:
    easy = await compiled(checks, SchemaType.XSD, EASY_XSD)
    slow = await compiled(checks, SchemaType.JSON_SCHEMA, doubling_definitions(60))
    before = processes_of_mine()
    await checks.check(1, easy, b"<a>1</a>", XML)
    task = asyncio.create_task(checks.check(1, slow, b"1", JSON))
    await asyncio.sleep(0.1)
    checks.close()
    with pytest.raises((UnavailableError, asyncio.CancelledError)):
        await task
    assert processes_of_mine() <= before


def test_an_examiner_has_no_secrets_and_little_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUSTER_DATABASE_URL", "postgresql://secret")
    with SchemaSandbox() as examiner:
        examiner.run(CompileTask(SchemaType.JSON_SCHEMA, "{}"), 5, PATIENCE)
        environment = Path(f"/proc/{examiner.pid}/environ").read_bytes()
        limits = Path(f"/proc/{examiner.pid}/limits").read_text()
        files = {os.readlink(link) for link in Path(f"/proc/{examiner.pid}/fd").iterdir()}
    assert b"secret" not in environment
    assert "Max address space         536870912" in limits
    assert all(name.startswith(("socket:", "/dev/null")) for name in files)


def test_an_examiner_out_of_memory_is_told_from_one_out_of_time() -> None:
    patterns = {f"p{n}": {"pattern": f"[a-z]{{3000}}{n}"} for n in range(200)}
    task = CompileTask(SchemaType.JSON_SCHEMA, json.dumps({"properties": patterns}))
    with SchemaSandbox() as examiner:
        examiner.run(CompileTask(SchemaType.JSON_SCHEMA, "{}"), 5, PATIENCE)
        taken = psutil.Process(examiner.pid).memory_info().vms
        psutil.Process(examiner.pid).rlimit(psutil.RLIMIT_AS, (taken + (1 << 20),) * 2)
        with pytest.raises(SandboxDiedError):
            examiner.run(task, 5, PATIENCE)
    with SchemaSandbox() as examiner, pytest.raises(CpuTimeExceededError):
        examiner.run(task, 0.01, PATIENCE)
