"""What is typed for an option or an argument, as a value of its type.

Typer would let pydantic read it. Its import takes longer than most commands, and its messages
speak of inputs and integers.
"""

from enum import Enum
from pathlib import Path
from typing import Any, get_args

import typer
from typer.core import TyperArgument, TyperOption

_NUMBERS = {int: "a whole number", float: "a number"}


def read_values_without_pydantic() -> None:
    """Let all commands of this process read values by `read_value`."""
    for kind in (TyperArgument, TyperOption):
        kind.get_runtime_param = lambda param: _PlainValues()  # type: ignore[method-assign, assignment, return-value]


class _PlainValues:
    """Has the one method of Typer's `RuntimeParam` that commands need."""

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        is_multiple = param.multiple or param.nargs == -1
        if value is None:
            return () if is_multiple else None
        kind, details = param.type_descriptor.annotation, param.type_descriptor.parameter_info
        try:
            if is_multiple:
                return [read_value(one, get_args(kind)[0], details) for one in value]
            return read_value(value, kind, details)
        except ValueError as error:
            raise typer.BadParameter(str(error), ctx=ctx, param=param) from error


def read_value(given: Any, kind: type[Any], details: Any) -> Any:
    """Return the value of one text; a default that has the type already stays as it is.

    Raises:
        ValueError: The text is no such value.
    """
    if isinstance(given, kind):
        return given
    if issubclass(kind, Enum):
        return _choice(given, kind, ignores_case=not details.case_sensitive)
    if kind in _NUMBERS:
        return _number(given, kind, details.min, details.max)
    if kind is Path:
        return Path(given)
    raise TypeError(f"an option cannot be a {kind}")


def _choice(given: str, kind: type[Enum], *, ignores_case: bool) -> Enum:
    choices = {str(one.value).lower() if ignores_case else str(one.value): one for one in kind}
    found = choices.get(given.lower() if ignores_case else given)
    if found is None:
        raise ValueError(f"'{given}' is not one of {', '.join(choices)}.")
    return found


def _number(given: str, kind: type[Any], least: float | None, most: float | None) -> Any:
    try:
        number = kind(given)
    except ValueError:
        raise ValueError(f"'{given}' is not {_NUMBERS[kind]}.") from None
    if (least is not None and not number >= least) or (most is not None and not number <= most):
        parts = [f"at least {least}" if least is not None else ""]
        parts.append(f"at most {most}" if most is not None else "")
        raise ValueError(f"{given} is out of range: {' and '.join(filter(None, parts))}.")
    return number
