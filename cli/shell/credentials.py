"""Headers and credentials for those who are called, as they are typed."""

from cli.shell.errors import InputError
from cli.shell.json_input import read_secret


def parse_headers(given: list[str]) -> dict[str, str]:
    """Headers as they were typed."""
    headers: dict[str, str] = {}
    for text in given:
        name, sign, value = text.partition("=")
        if not sign or not name:
            raise InputError(f"'{text}' is not a header: write NAME=VALUE.")
        headers[name] = value
    return headers


def parse_auth(bearer: str | None, basic: str | None) -> dict[str, str] | None:
    """What is shown there, as the API names it; None if nothing is."""
    if bearer is not None and basic is not None:
        raise InputError("--bearer and --basic do not go together.")
    if bearer is not None:
        return {"type": "bearer", "token": read_secret(bearer)}
    if basic is None:
        return None
    username, colon, password = read_secret(basic).partition(":")
    if not colon:
        raise InputError("--basic is USER:PASSWORD.")
    return {"type": "basic", "username": username, "password": password}
