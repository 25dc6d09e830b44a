"""A tenant that works at its terminal, as `muster` serves it."""

import subprocess
from dataclasses import dataclass
from typing import Any

from standardwebhooks import Webhook, WebhookVerificationError

from tests.support.commands import read, refused
from tests.support.product import Product, run_cli, until
from tests.support.receiver import Delivery, Receiver, Target


@dataclass
class CliTenant:
    """A tenant at its terminal, and those it delivers to."""

    product: Product
    receiver: Receiver

    @property
    def env(self) -> dict[str, str]:
        """What leads the command to this tenant."""
        return {"MUSTER_URL": self.product.url, "MUSTER_KEY": self.product.key}

    def run(self, *words: str, check: bool = True) -> "subprocess.CompletedProcess[str]":
        """Run a command."""
        done = run_cli(*words, env=self.env)
        assert not check or done.returncode == 0, done.stdout + done.stderr
        return done

    def read(self, *words: str) -> Any:
        """What a script reads."""
        return read(self.run(*words, "--json"))

    def refused(self, *words: str, code: int = 1) -> str:
        """The one sentence of a command that fails."""
        return refused(self.run(*words, check=False), code)

    def post(self, target: Target | str, *words: str) -> str:
        """Post a job; its id."""
        url = target if isinstance(target, str) else target.url
        job: dict[str, Any] = self.read("jobs", "post", "ship", url, *words)
        return str(job["id"])

    def becomes(self, job_id: str, status: str) -> dict[str, Any]:
        """Wait until a job stands so."""

        def look() -> dict[str, Any] | None:
            job: dict[str, Any] = self.product.http.get(f"/api/dispatch-jobs/{job_id}").json()
            return job if job["status"] == status else None

        found: dict[str, Any] = until(f"{job_id} is {status}", look)
        return found


def is_verified(delivery: Delivery, secret: str) -> bool:
    """Whether the receivers' own library believes a delivery."""
    try:
        Webhook(secret).verify(delivery.body, delivery.headers)
    except WebhookVerificationError:
        return False
    return True
