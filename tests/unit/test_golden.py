"""What users read changes only on purpose: `python -m tests.golden` writes the files anew."""

from tests import golden


def test_the_openapi_document_is_the_one_on_file() -> None:
    assert golden.openapi_text() == golden.OPENAPI.read_text(encoding="utf-8")


def test_the_help_of_every_command_is_the_one_on_file() -> None:
    assert golden.help_text() == golden.HELP.read_text(encoding="utf-8")
