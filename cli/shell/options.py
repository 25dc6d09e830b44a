"""Groups of options that several commands share, written once as a dataclass.

Typer reads a flat signature. `spread` gives it one: each parameter whose type is a dataclass is
replaced by the dataclass's fields, and put together again when the command is called.
"""

import inspect
from collections.abc import Callable
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import wraps
from typing import Any, TypeVar, get_type_hints

ReturnT = TypeVar("ReturnT")


def flatten_options(function: Callable[..., ReturnT]) -> Callable[..., ReturnT]:
    """The same function with the fields of its option groups as parameters of their own."""
    hints = get_type_hints(function, include_extras=True)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}

    @wraps(function)
    def flat(**given: Any) -> ReturnT:
        for name, group in groups.items():
            given[name] = group(**{part.name: given.pop(part.name) for part in fields(group)})
        return function(**given)

    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name in groups:
            parameters += _parameters_of(groups[parameter.name])
        else:
            hint = hints[parameter.name]
            kind = inspect.Parameter.KEYWORD_ONLY
            parameters.append(parameter.replace(kind=kind, annotation=hint))
    flat.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    flat.__annotations__ = {one.name: one.annotation for one in parameters}
    del flat.__dict__["__wrapped__"]  # else its signature is taken for ours
    return flat


def _parameters_of(group: Any) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [
        inspect.Parameter(
            part.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=_default_of(part),
            annotation=hints[part.name],
        )
        for part in fields(group)
    ]


def _default_of(part: "Field[Any]") -> Any:
    return inspect.Parameter.empty if part.default is MISSING else part.default
