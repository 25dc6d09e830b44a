"""Parameters of paths that name a row."""

from typing import Any

from fastapi import Path
from starlette.convertors import StringConvertor, register_url_convertor

from core.shared.tsid import ALPHABET, LENGTH

DIGITS, TSID = "digits", "tsid"


class _Digits(StringConvertor):
    """A number; endpoints check its size."""

    regex = "[0-9]{1,19}"


class _Tsid(StringConvertor):
    """An id of Muster; endpoints check whether it is valid."""

    regex = f"[{ALPHABET}]{{{LENGTH}}}"


register_url_convertor(DIGITS, _Digits())
register_url_convertor(TSID, _Tsid())


def id_or_code(pattern: str, example: str) -> Any:
    """Declare the parameter `id`, which may also be a code."""
    return Path(alias="id", pattern=pattern, description="The id or the code.", examples=[example])
