"""Asking before much is changed."""

import sys

import typer

from cli.shell.errors import InputError


def confirm(question: str, *, yes: bool) -> None:
    """Go on only if somebody says so; where nobody can be asked, --yes has to be there."""
    if yes:
        return
    if not is_asked():
        raise InputError(f"{question} Give --yes, as nobody can be asked here.")
    if not typer.confirm(question, err=True):
        raise typer.Exit(1)


def is_asked() -> bool:
    """Whether somebody is there to answer."""
    return sys.stdin.isatty()
