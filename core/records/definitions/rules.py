"""Validates the definition of a collection as a whole, with all that is wrong at once."""

from collections.abc import Callable, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from itertools import islice

import msgspec

from core.expressions.compiler import CompilePattern
from core.expressions.costs import MAX_COST
from core.expressions.expression import CompiledExpression, total_cost
from core.expressions.tree import InvalidExpressionError
from core.records.collection import (
    MAX_DEFINITION_BYTES,
    CollectionDefinition,
    Collections,
    is_collection_name,
)
from core.records.definitions.field_rules import DefinitionFault, Place, check_field
from core.records.field import (
    MAX_FIELDS,
    MAX_FORMULAS,
    MAX_INDEXED,
    MAX_PATTERNS,
    MAX_ROLLUPS,
    FieldDefinition,
    FieldType,
    RollupFunction,
    RollupSummary,
)

MAX_FAULTS = 100
"""As many are reported."""
CompileFormula = Callable[[str], CompiledExpression]

_AT_MOST = {"formula": MAX_FORMULAS, "pattern": MAX_PATTERNS, "rollup": MAX_ROLLUPS}
_FORMULA_NAMES = frozenset({"now"})
_UNREADABLE = frozenset({FieldType.ENCRYPTED, FieldType.ROLLUP_SUMMARY})
"""A formula would store a secret in clear text, or what changes with other records."""
_NUMBERS = frozenset(
    {FieldType.INTEGER, FieldType.LONG, FieldType.DOUBLE, FieldType.CURRENCY, FieldType.PERCENT}
)
_ORDERED = _NUMBERS | {FieldType.DATE, FieldType.DATETIME}


def validate_definition(
    definition: CollectionDefinition,
    known: Collections,
    compile_formula: CompileFormula,
    compile_pattern: CompilePattern,
) -> list[DefinitionFault]:
    """Find what is wrong with a definition; `known` has the other collections it refers to."""
    crowded = list(_check_numbers(definition))
    if crowded:
        return crowded
    found = _faults(
        definition, {**known, definition.name: definition}, compile_formula, compile_pattern
    )
    return list(islice(found, MAX_FAULTS))


def broken_references(
    definition: CollectionDefinition, others: Collections
) -> list[DefinitionFault]:
    """Find what other collections need of this one and would no longer find."""
    known = {definition.name: definition}
    return [
        DefinitionFault(("fields",), f"are needed by {other.name}.{field.name}: {fault.problem}")
        for other in others.values()
        for field in other.fields
        if field.rollup is not None and field.rollup.collection == definition.name
        for fault in _check_rollup(field.rollup, other.name, known, ())
    ]


def _faults(
    definition: CollectionDefinition,
    known: Collections,
    compile_formula: CompileFormula,
    compile_pattern: CompilePattern,
) -> Iterator[DefinitionFault]:
    if not is_collection_name(definition.name):
        problem = "is lower-case letters, digits and hyphens, beginning with a letter, up to 100"
        yield DefinitionFault(("name",), problem)
    if not definition.fields:
        yield DefinitionFault(("fields",), "has at least one field")
    if len(msgspec.json.encode(definition)) > MAX_DEFINITION_BYTES:
        problem = f"is longer than {MAX_DEFINITION_BYTES // 1024} KB: split it into collections"
        yield DefinitionFault((), f"the definition {problem}")
    for index, field in enumerate(definition.fields):
        place: Place = ("fields", index)
        yield from check_field(field, place, compile_pattern)
        yield from _check_references(field, definition.name, known, place)
    yield from _check_names(definition)
    yield from _check_indexed(definition)
    yield from _check_formulas(definition, compile_formula)


def _check_numbers(definition: CollectionDefinition) -> Iterator[DefinitionFault]:
    """Find what there is too much of, before each of it is looked at."""
    if len(definition.fields) > MAX_FIELDS:
        yield DefinitionFault(("fields",), f"are {MAX_FIELDS} at most")
        return
    for setting, most in _AT_MOST.items():
        having = [i for i, field in enumerate(definition.fields) if getattr(field, setting)]
        for index in having[most : most + MAX_FAULTS]:
            problem = f"{most} fields of a collection have one at most"
            yield DefinitionFault(("fields", index, setting), problem)


def _check_names(definition: CollectionDefinition) -> Iterator[DefinitionFault]:
    first: dict[str, int] = {}
    for index, field in enumerate(definition.fields):
        if first.setdefault(field.name, index) != index:
            problem = f"is the name of field {first[field.name]}, too: each name once"
            yield DefinitionFault(("fields", index, "name"), problem)


def _check_indexed(definition: CollectionDefinition) -> Iterator[DefinitionFault]:
    indexed = [index for index, field in enumerate(definition.fields) if field.is_indexed]
    for index in indexed[MAX_INDEXED:]:
        problem = f"{MAX_INDEXED} fields are indexed at most, and a MASTER_DETAIL always is"
        yield DefinitionFault(("fields", index, "indexed"), problem)


def _check_references(
    field: FieldDefinition, name: str, known: Collections, place: Place
) -> Iterator[DefinitionFault]:
    if field.target is not None and field.target not in known:
        problem = f"there is no active collection {field.target[:100]}"
        yield DefinitionFault((*place, "target"), problem)
    if field.rollup is not None:
        yield from _check_rollup(field.rollup, name, known, (*place, "rollup"))


def _check_rollup(
    rollup: RollupSummary, name: str, known: Collections, place: Place
) -> Iterator[DefinitionFault]:
    details = known.get(rollup.collection)
    if details is None:
        problem = f"there is no active collection {rollup.collection[:100]}"
        yield DefinitionFault((*place, "collection"), problem)
        return
    leading = details.by_name.get(rollup.relationship)
    if leading is None or leading.target != name or not leading.is_indexed:
        problem = f"is an indexed relationship of {details.name} that leads to {name}"
        yield DefinitionFault((*place, "relationship"), problem)
    is_count = rollup.function is RollupFunction.COUNT
    if is_count != (rollup.field is None):
        problem = "is left out for COUNT" if is_count else f"is needed for {rollup.function}"
        yield DefinitionFault((*place, "field"), problem)
    elif rollup.field is not None:
        summed = details.by_name.get(rollup.field)
        is_ordered = rollup.function in {RollupFunction.MIN, RollupFunction.MAX}
        if summed is None or summed.type not in (_ORDERED if is_ordered else _NUMBERS):
            kinds = "a number, DATE or DATETIME" if is_ordered else "a number"
            problem = f"is a field of {details.name} that holds {kinds}"
            yield DefinitionFault((*place, "field"), problem)


def _check_formulas(
    definition: CollectionDefinition, compile_formula: CompileFormula
) -> Iterator[DefinitionFault]:
    formulas = [
        (index, field) for index, field in enumerate(definition.fields) if field.formula is not None
    ]
    reads: dict[str, frozenset[str]] = {}
    places: dict[str, Place] = {}
    affordable: list[CompiledExpression] = []
    for index, field in formulas:
        place: Place = ("fields", index, "formula")
        try:
            compiled = compile_formula(str(field.formula))
        except InvalidExpressionError as error:
            yield DefinitionFault(place, str(error))
            continue
        reads[field.name], places[field.name] = compiled.fields, place
        for problem in _unreadable(compiled, definition.by_name):
            yield DefinitionFault(place, problem)
        if total_cost([*affordable, compiled]) <= MAX_COST:
            affordable.append(compiled)
        else:
            problem = (
                "could take too long together with the formulas before it: use fewer functions "
                "that read texts, smaller patterns, or fewer parts within all and exists"
            )
            yield DefinitionFault(place, problem)
    yield from _check_cycles(reads, places)


def _unreadable(
    compiled: CompiledExpression, fields: Mapping[str, FieldDefinition]
) -> Iterator[str]:
    for name in sorted(compiled.names - _FORMULA_NAMES):
        yield f"{name} has no value here: a formula reads the fields of its record, and now"
    for name in sorted(compiled.fields):
        field = fields.get(name)
        if field is None:
            yield f"there is no field {name[:100]}"
        elif field.type in _UNREADABLE:
            yield f"a formula cannot read {name}, which is of type {field.type}"


def _check_cycles(
    reads: Mapping[str, frozenset[str]], places: Mapping[str, Place]
) -> Iterator[DefinitionFault]:
    try:
        TopologicalSorter({name: read & reads.keys() for name, read in reads.items()}).prepare()
    except CycleError as error:
        way = " → ".join(reversed(error.args[1]))
        yield DefinitionFault(places[error.args[1][0]], f"the formulas read each other: {way}")
