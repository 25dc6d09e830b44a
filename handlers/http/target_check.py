"""Addresses that deliveries go to, checked when somebody names them.

A name is looked up for each delivery, so only what stands there literally can be refused here.
"""

from yarl import URL

from core.shared.call_policy import CallPolicy
from core.shared.errors import InvalidError
from handlers.http.guarded_resolver import ForbiddenDestinationError, check_destination


def origin_of(url: str) -> str:
    """Scheme, host and port: whoever answers there is shown the credentials."""
    target = URL(url)
    return f"{target.scheme}://{target.host}:{target.port}"


def check_target(url: str, destinations: CallPolicy, field: str) -> None:
    """Let pass what deliveries can be sent to.

    Raises:
        InvalidError: It is no address at all, or one that may not be called.
    """
    try:
        target = URL(url)
        host, port = target.host, target.port
    except ValueError:
        raise InvalidError(field, "an http or https address") from None
    if target.scheme not in {"http", "https"} or not host or not port:
        raise InvalidError(field, "an http or https address")
    try:
        check_destination(host, port, destinations)
    except ForbiddenDestinationError as error:
        raise InvalidError(field, f"an address that may be called: {error}") from None
