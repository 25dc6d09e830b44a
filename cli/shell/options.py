"""Groups of options that several commands share, written once as a dataclass.

Typer reads a flat signature, which `flatten_options` makes: each parameter whose type is a
dataclass is replaced by the dataclass's fields, and put together again when the command is called.
"""

import inspect
from collections.abc import Callable
from dataclasses import MISSING, Field, field, fields, is_dataclass
from enum import Enum
from functools import wraps
from typing import Annotated, Any, TypeVar, get_type_hints

import typer

from cli.shell.errors import InputError

ReturnT = TypeVar("ReturnT")


def option(
    summary: str,
    *flags: str,
    default: Any = None,
    required: bool = False,
    api: str | None = None,
    convert: Callable[[Any], Any] = lambda value: value,
    secret: bool = False,
    **details: Any,
) -> Any:
    """Declare an option, as a field of a dataclass or as a parameter of a command.

    Args:
        summary: What the help says.
        flags: The option's flags, if not the name with two dashes.
        default: The value if the option is not given.
        required: The option has no default.
        api: The API's field, if not the name in camel case.
        convert: Makes the field's value of the option's.
        secret: The value is not shown when the dataclass is printed.
        details: What else Typer is to know.
    """
    return field(
        default=MISSING if required else default,
        repr=not secret,
        metadata={
            "typer": typer.Option(*flags, help=summary, **details),
            "api": api,
            "convert": convert,
        },
    )


def argument(summary: str, *, default: Any = MISSING, **details: Any) -> Any:
    """Declare an argument of a command; without a default it has to be given."""
    return field(default=default, metadata={"typer": typer.Argument(help=summary, **details)})


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
    declared = inspect.signature(function).parameters
    # The options that every command has come last in its help.
    for name in sorted(declared, key=lambda name: name == "shell"):
        if name in groups:
            parts = get_type_hints(groups[name], include_extras=True)
            parameters += [
                _parameter(one.name, parts[one.name], one) for one in fields(groups[name])
            ]
        else:
            parameters.append(_parameter(name, hints[name], declared[name].default))
    flat.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    flat.__annotations__ = {one.name: one.annotation for one in parameters}
    del flat.__dict__["__wrapped__"]  # else its signature is taken for ours
    return flat


def request_fields(*groups: Any) -> dict[str, Any]:
    """Return what was given of some option groups, as the API names it.

    Options that were not given are left out: None, an empty list, a flag that is not set.

    Raises:
        InputError: Two options stand for the same field.
    """
    found: dict[str, Any] = {}
    options: dict[str, str] = {}
    for group in groups:
        for part in fields(group):
            value = getattr(group, part.name)
            if value is None or value == [] or (value is False and part.default is False):
                continue
            name = part.metadata.get("api") or _camel_case(part.name)
            if name in found:
                raise InputError(f"Give --{options[name]} or --{part.name}, not both.")
            convert = part.metadata.get("convert")
            found[name] = convert(_plain(value)) if convert else _plain(value)
            options[name] = part.name
    return found


def _parameter(name: str, hint: Any, default: Any) -> inspect.Parameter:
    if isinstance(default, Field):
        info = default.metadata.get("typer")
        hint = Annotated[hint, info] if info else hint
        default = inspect.Parameter.empty if default.default is MISSING else default.default
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint)


def _camel_case(name: str) -> str:
    first, *others = name.strip("_").split("_")
    return first + "".join(word.capitalize() for word in others)


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return value.value if isinstance(value, Enum) else value
