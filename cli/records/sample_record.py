"""The record that a command tries something with: a stored one, or one on the command line."""

from dataclasses import dataclass

from cli.shell.json_input import read_object
from cli.shell.options import option


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleOptions:
    record: str | None = option("Id of a stored record.", api="recordId", metavar="ID")
    data: str | None = option(
        "A record instead of a stored one: a JSON object, @file, or -.",
        "--data",
        "-d",
        api="record",
        convert=read_object,
    )
