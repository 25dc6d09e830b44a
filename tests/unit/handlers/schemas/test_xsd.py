"""XML Schema: nothing is fetched, nothing is expanded, and mismatches are told with their place."""

from pathlib import Path

import pytest

from handlers.schemas import xsd
from handlers.schemas.interface import MAX_MISMATCHES, CompiledSchema, InvalidSchema, Mismatch

XML = "application/xml"
ORDER = """
<xs:element name="order">
  <xs:complexType><xs:sequence>
    <xs:element name="amount" type="xs:decimal"/>
    <xs:element name="line" type="xs:int" minOccurs="0" maxOccurs="unbounded"/>
  </xs:sequence></xs:complexType>
</xs:element>
"""
BOMB = '<!DOCTYPE a [<!ENTITY x "ha"><!ENTITY y "&x;&x;&x;"><!ENTITY z "&y;&y;&y;">]>'


def schema(inner: str = ORDER, before: str = "") -> str:
    return f'{before}<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema">{inner}</xs:schema>'


def reason(text: str) -> str:
    outcome = xsd.compile(text)
    assert isinstance(outcome, InvalidSchema)
    return outcome.reason


def check(payload: str | bytes, text: str | None = None, kind: str = XML) -> list[Mismatch]:
    outcome = xsd.compile(text or schema())
    assert isinstance(outcome, CompiledSchema)
    assert outcome.weight is None  # never beside an event loop
    raw = payload if isinstance(payload, bytes) else payload.encode()
    return xsd.load(outcome.form)(raw, kind)


def test_a_payload_that_fits_has_no_mismatch() -> None:
    assert check("<order><amount>1.5</amount><line>1</line></order>") == []
    assert check("<order><amount>1</amount></order>", kind="application/order+xml; q=1") == []
    utf16 = '<?xml version="1.0" encoding="utf-16"?><order><amount>1</amount></order>'
    assert check(utf16.encode("utf-16")) == []


def test_each_mismatch_says_where_and_what_was_expected() -> None:
    amount, line = check("<order><amount>x</amount><line>y</line></order>")
    assert amount.path == "/order/amount"
    assert "not a valid value of the atomic type 'xs:decimal'" in amount.expected
    assert line.path == "/order/line"
    assert len(check("<order><amount>1</amount>" + "<line>y</line>" * 99 + "</order>")) == (
        MAX_MISMATCHES
    )


@pytest.mark.parametrize("word", ["include", "import", "redefine", "override"])
@pytest.mark.parametrize("place", ["file:///etc/passwd", "http://127.0.0.1:9/x.xsd", "x.xsd"])
def test_a_schema_fetches_nothing(word: str, place: str) -> None:
    told = reason(schema(f'\n<xs:{word} schemaLocation="{place}"/>'))
    assert told == f"line 2: xs:{word} is not allowed"


def test_an_import_without_a_place_is_refused_as_well() -> None:
    assert "xs:import is not allowed" in reason(schema('<xs:import namespace="urn:x"/>'))


@pytest.mark.parametrize(
    "doctype",
    [
        BOMB,
        "<!DOCTYPE schema>",
        '<!DOCTYPE schema SYSTEM "file:///etc/passwd">',
        '<!DOCTYPE s [<!ENTITY x SYSTEM "file:///etc/passwd">]>',
        '<!DOCTYPE s [<!ENTITY % x SYSTEM "http://127.0.0.1:9/x.dtd"> %x;]>',
    ],
)
def test_a_document_type_is_refused_in_schemas_and_payloads(doctype: str) -> None:
    assert "DOCTYPE" in reason(schema(before=doctype))
    (one,) = check(f"{doctype}<order><amount>1</amount></order>")
    assert "DOCTYPE" in one.expected


def test_another_files_text_never_comes_in(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("1234567")
    doctype = f'<!DOCTYPE order [<!ENTITY x SYSTEM "{secret.as_uri()}">]>'
    (one,) = check(f"{doctype}<order><amount>&x;</amount></order>")
    assert "1234567" not in one.expected
    assert "DOCTYPE" in one.expected


def test_where_a_payload_says_its_schema_is_does_not_count(tmp_path: Path) -> None:
    strict = tmp_path / "strict.xsd"
    strict.write_text(schema('<xs:element name="other" type="xs:int"/>'))
    hints = 'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" '
    hints += (
        f'xsi:noNamespaceSchemaLocation="{strict.as_uri()}" xsi:schemaLocation="urn:x {strict}"'
    )
    assert check(f"<order {hints}><amount>1</amount></order>") == []


def test_entities_in_attributes_are_not_blown_up() -> None:
    steps = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 12))
    bomb = f'<!DOCTYPE order [<!ENTITY e0 "haha">{steps}]><order a="&e11;"/>'
    (one,) = check(bomb)
    assert one.path == ""


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "not well-formed"),
        ("<xs:schema", "not well-formed"),
        ("<order/>", "The XML document 'in_memory_buffer' is not a schema document"),
        (schema('<xs:element name="a" type="xs:nothing"/>'), "line 1"),
        (schema('<xs:element name="a" type="missing"/>'), "missing"),
        (schema("<b>" * 300 + "</b>" * 300), "depth"),
        (
            schema('<xs:group name="g"><xs:sequence><xs:group ref="g"/></xs:sequence></xs:group>'),
            "Circular",
        ),
    ],
)
def test_what_cannot_be_a_schema_is_told_why(text: str, told: str) -> None:
    assert told in reason(text)


@pytest.mark.parametrize("payload", ["", "x", "<order>", "<a>" * 5000 + "</a>" * 5000, "\x00"])
def test_what_is_no_xml_does_not_fit(payload: str) -> None:
    (one,) = check(payload)
    assert one.expected.startswith("well-formed XML")


def test_a_payload_of_another_kind_does_not_fit() -> None:
    assert check("<order/>", kind="application/json") == [
        Mismatch("", "application/xml, not application/json")
    ]
