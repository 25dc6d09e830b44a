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


def as_sentence(error: object) -> str:
    """Write a text with a full stop, and a capital letter unless it begins with a name or an id."""
    text = str(error).rstrip(".")
    is_word = text.partition(" ")[0].rstrip(",:").isalpha()
    return f"{text[:1].upper()}{text[1:]}." if is_word else f"{text}."
