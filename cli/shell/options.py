"""Groups of options that several commands share, written once as a dataclass.

Typer reads a flat signature, which `flatten_options` makes: each parameter whose type is a
dataclass is replaced by the dataclass's fields, and put together again when the command is called.
"""

import inspect
from collections.abc import Callable
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from enum import Enum
from functools import wraps
from typing import Any, TypeVar, get_type_hints

from cli.shell.errors import InputError

ReturnT = TypeVar("ReturnT")


@dataclass(frozen=True, slots=True)
class ApiField:
    """Names the API's field for an option, and turns what was typed into the field's value."""

    name: str
    convert: Callable[[Any], Any] = lambda value: value


def flatten_options(function: Callable[..., ReturnT]) -> Callable[..., ReturnT]:
    """Return the function with the fields of its option groups as parameters of their own."""
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


def request_fields(*groups: Any) -> dict[str, Any]:
    """Return what was given of some option groups, as the API names it.

    An option is the field of its name in camel case, unless an `ApiField` names another. Options
    that were not given are left out: None, an empty list, a flag that is not set.

    Raises:
        InputError: Two options stand for the same field.
    """
    found: dict[str, Any] = {}
    options: dict[str, str] = {}
    for group in groups:
        hints = get_type_hints(type(group), include_extras=True)
        for part in fields(group):
            value = getattr(group, part.name)
            if value is None or value == [] or (value is False and part.default is False):
                continue
            field = _api_field(part.name, hints[part.name])
            if field.name in found:
                raise InputError(f"Give --{options[field.name]} or --{part.name}, not both.")
            found[field.name] = field.convert(_plain(value))
            options[field.name] = part.name
    return found


def _api_field(name: str, hint: Any) -> ApiField:
    for part in getattr(hint, "__metadata__", ()):
        if isinstance(part, ApiField):
            return part
    first, *others = name.strip("_").split("_")
    return ApiField(first + "".join(word.capitalize() for word in others))


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return value.value if isinstance(value, Enum) else value


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
