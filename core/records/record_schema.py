"""Collections as writes use them: formulas and patterns compiled, columns of indexed fields."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from graphlib import TopologicalSorter
from typing import Any, NamedTuple

from core.expressions.compiler import CompilePattern
from core.expressions.expression import CompiledExpression
from core.expressions.semantics import Comparison, EvaluationError
from core.records.collection import CollectionDefinition
from core.records.comparison import indexed_text, unique_hash
from core.records.field import FieldType
from core.records.json_values import InvalidValueError, check_json
from core.records.messages import FieldProblem
from core.records.values import COMPUTED, Matches

CompileExpression = Callable[[str], CompiledExpression]


class UniqueKey(NamedTuple):
    """A value that no other record of the collection may have."""

    field: str
    value_hash: bytes


@dataclass(frozen=True, slots=True)
class RecordSchema:
    """What the records of one version of a collection must be."""

    collection_no: int
    definition: CollectionDefinition
    formulas: Mapping[str, CompiledExpression]
    """By field, each after those that it reads."""
    patterns: Mapping[str, Matches]
    unique: tuple[str, ...]
    """The fields whose values no two records share."""
    required: tuple[str, ...]
    """The fields that a record must have; those that are computed are none of them."""
    defaults: Mapping[str, Any]

    @property
    def version(self) -> int:
        return self.definition.version

    @property
    def encrypted(self) -> frozenset[str]:
        return frozenset(
            field.name for field in self.definition.fields if field.type is FieldType.ENCRYPTED
        )

    def indexed_columns(self, data: Mapping[str, Any]) -> tuple[str | None, str | None, str | None]:
        """Return what stands in the columns of indexed fields."""
        by_name = self.definition.by_name
        first, second, third = (
            None if name is None else indexed_text(by_name[name], data.get(name))
            for name in self.definition.slots
        )
        return first, second, third

    def unique_keys(self, data: Mapping[str, Any]) -> set[UniqueKey]:
        return {UniqueKey(name, unique_hash(data[name])) for name in self.unique if name in data}

    def compute(
        self, data: Mapping[str, Any], scope: Mapping[str, Any]
    ) -> tuple[dict[str, Any], list[FieldProblem]]:
        """Return the document with its formulas computed, and those that have no value.

        A formula without a value, such as a division by zero, is a problem; null is a value. All
        formulas together may compare what one expression may.
        """
        computed, problems = dict(data), []
        names, comparison = {**scope, "record": computed}, Comparison()
        for name, expression in self.formulas.items():
            computed.pop(name, None)
            try:
                value = expression.evaluate(computed.get, names, comparison)
                check_json(value)
            except (EvaluationError, InvalidValueError) as error:
                formula = self.definition.by_name[name].formula
                reason = error if isinstance(error, EvaluationError) else error.expected
                problems.append(FieldProblem(name, f"a value of its formula {formula}: {reason}"))
                continue
            if value is not None:
                computed[name] = value
        return computed, problems


def compile_collection(
    collection_no: int,
    definition: CollectionDefinition,
    compile_expression: CompileExpression,
    compile_pattern: CompilePattern,
) -> RecordSchema:
    """Compile a definition that was valid when it was saved."""
    compiled = {
        field.name: compile_expression(field.formula)
        for field in definition.fields
        if field.formula is not None
    }
    reads = {name: expression.fields & compiled.keys() for name, expression in compiled.items()}
    return RecordSchema(
        collection_no,
        definition,
        {name: compiled[name] for name in TopologicalSorter(reads).static_order()},
        {
            field.name: compile_pattern(field.pattern)
            for field in definition.fields
            if field.pattern is not None
        },
        tuple(field.name for field in definition.fields if field.unique),
        tuple(
            field.name
            for field in definition.fields
            if field.required and field.type not in COMPUTED
        ),
        {
            field.name: field.default
            for field in definition.fields
            if field.default is not None and field.type is not FieldType.ENCRYPTED
        },
    )
