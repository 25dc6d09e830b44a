"""A refused request in one sentence."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from cli.shell.errors import CommandError, as_sentence

_HINTS = {
    401: "Give a key with --key or MUSTER_KEY.",
    403: "Use a key that has this permission (`muster keys create --allow …`).",
}

# Other codes are refusals that no permission would change; a proxy sends no code.
_ABOUT_KEYS = {None, "unauthenticated", "forbidden"}


class ProblemResponseError(CommandError):
    """The server answered with a problem; `document` is its body."""

    def __init__(self, status: int, document: Mapping[str, Any]) -> None:
        super().__init__(problem_sentence(status, document))
        self.status = status
        self.document = dict(document)

    @property
    def code(self) -> str:
        """Return the problem's code, which is stable for scripts."""
        return str(self.document.get("code") or "")


@contextmanager
def explain_not_found(sentence: str | None) -> Iterator[None]:
    """Put this sentence, which says what to do, in the place of the server's 404."""
    try:
        yield
    except ProblemResponseError as problem:
        if problem.status != 404 or sentence is None:
            raise
        raise CommandError(sentence) from problem


def parse_problem(status: int, body: bytes, retry_after: str | None = None) -> ProblemResponseError:
    """Read an answer that is not a success, whether it is problem+json or not."""
    try:
        document = json.loads(body)
    except ValueError:
        document = None
    if not isinstance(document, dict):
        # Something in front of Muster answered: a proxy, or another program on the port.
        document = {"title": f"The server answered {status} without a reason"}
    if retry_after is not None:
        document.setdefault("retryAfter", retry_after)
    return ProblemResponseError(status, document)


def problem_sentence(status: int, document: Mapping[str, Any]) -> str:
    """Write the detail, the invalid fields, when to try again and what to do, as one sentence."""
    text = str(document.get("detail") or document.get("title") or f"status {status}").rstrip(".")
    faults = [fault for fault in document.get("errors") or () if isinstance(fault, Mapping)]
    if faults:
        # A detail that names the first of them would say it twice.
        first = f"{faults[0].get('field')}: {faults[0].get('expected')}"
        opening = text.partition(first)[0].rstrip(" :") if first in text else text
        if not opening or text.startswith(str(faults[0].get("field"))):
            opening = "not valid"
        text = f"{opening}: {'; '.join(_fault(fault) for fault in faults)}"
    if (wait := document.get("retryAfter")) is not None:
        text += f" (try again in {wait} s)"
    if status >= 500 and document.get("requestId"):
        text += f" (request {document['requestId']})"
    is_about_keys = status in _HINTS and document.get("code") in _ABOUT_KEYS
    hint = f" {_HINTS[status]}" if is_about_keys else ""
    return f"{as_sentence(text)}{hint}"


def _fault(fault: Mapping[str, Any]) -> str:
    got = f", got {json.dumps(fault['got'], ensure_ascii=False)}" if "got" in fault else ""
    return f"{fault.get('field', 'body')}: {fault.get('expected', 'not valid')}{got}"
