"""How a command says that it cannot go on."""


class CommandError(Exception):
    """One sentence for the person at the terminal; the command ends with `exit_code`."""

    exit_code = 1

    def __init__(self, sentence: str) -> None:
        super().__init__(sentence)
        self.sentence = sentence


class InputError(CommandError):
    """What was typed cannot be right; nothing was sent."""

    exit_code = 2


def as_sentence(error: Exception) -> str:
    """Write an error's text with a capital letter and a full stop."""
    text = str(error)
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."
