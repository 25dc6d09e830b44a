"""Confirmation before much is changed."""

import sys

import typer

from cli.shell.errors import InputError


def confirm(question: str, *, yes: bool) -> None:
    """Go on only if the answer is yes; without a terminal --yes has to be given."""
    if yes:
        return
    if not is_asked():
        raise InputError(f"{question} Give --yes to confirm: there is no terminal to ask on.")
    if not typer.confirm(question, err=True):
        raise typer.Exit(1)


def is_asked() -> bool:
    """Return whether a person can answer."""
    return sys.stdin.isatty()
