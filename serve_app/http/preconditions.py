"""Optimistic locking by HTTP: a change names the version that it was made for in `If-Match`."""

import re
from typing import Annotated

from fastapi import Header

from core.shared.errors import InvalidError
from serve_app.http.models import View
from serve_app.http.problems import Problem, ProblemError

_TAG = re.compile(r'"([1-9][0-9]{0,8})"')
_ANY = "*"

IfMatch = Annotated[
    str | None,
    Header(
        alias="If-Match",
        description='The ETag of the version to change, such as "3"; * changes any version.',
    ),
]


class VersionedView(View):
    """A document with a version, which is its ETag."""

    version: int

    def response_headers(self) -> dict[str, str]:
        return {"ETag": f'"{self.version}"'}


def expected_version(if_match: str | None) -> int | None:
    """Return the version that a change expects; None for any.

    Raises:
        ProblemError: The header is missing.
        InvalidError: It is no ETag of a version.
    """
    if if_match is None:
        detail = 'say which version this changes: If-Match with its ETag, such as "3", or with *'
        raise ProblemError(Problem(status=428, code="precondition_required", detail=detail))
    if if_match.strip() == _ANY:
        return None
    tag = _TAG.fullmatch(if_match.strip())
    if tag is None:
        raise InvalidError("If-Match", 'the ETag of a version, such as "3", or *')
    return int(tag[1])
