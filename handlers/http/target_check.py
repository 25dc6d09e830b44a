"""Checks the target URL of a delivery when a user sets it.

Host names are resolved for each delivery, so only literal addresses can be refused here.
"""

from yarl import URL

from core.shared.call_policy import CallPolicy
from core.shared.errors import InvalidError
from handlers.http.guarded_resolver import ForbiddenDestinationError, check_destination


def origin_of(url: str) -> str:
    """Return scheme, host and port: the server that is shown the credentials."""
    target = URL(url)
    return f"{target.scheme}://{target.host}:{target.port}"


def check_target(url: str, policy: CallPolicy, field: str) -> None:
    """Check that deliveries can be sent to this URL.

    Raises:
        InvalidError: It is not an http or https URL, or the policy forbids it.
    """
    try:
        target = URL(url)
        host, port = target.host, target.port
    except ValueError:
        raise InvalidError(field, "a URL that begins with http:// or https://") from None
    if target.scheme not in {"http", "https"} or not host or not port:
        raise InvalidError(field, "a URL that begins with http:// or https://")
    try:
        check_destination(host, port, policy)
    except ForbiddenDestinationError as error:
        raise InvalidError(field, f"an address that may be called: {error}") from None
