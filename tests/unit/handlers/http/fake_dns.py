"""A directory of names that tests fill."""

import socket
from dataclasses import dataclass, field

from core.shared.call_policy import CallPolicy

PUBLIC = CallPolicy()


@dataclass
class FakeDns:
    """A directory of names, which may answer differently each time it is asked."""

    answers: dict[str, list[list[str]]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    async def look(self, host: str) -> list[str]:
        self.asked.append(host)
        answers = self.answers.get(host)
        if answers is None:
            raise OSError(socket.EAI_NONAME, "unknown name")
        return answers.pop(0) if len(answers) > 1 else answers[0]
