"""The keys that encrypt stored secrets, for commands that work on the database."""

from dataclasses import dataclass
from pathlib import Path

from cli.shell.errors import CommandError
from host.paths import instance_paths
from settings.settings import Settings
from storage.encryption import cipher
from storage.encryption.cipher import SETTING, FileKeys, KeyRing


@dataclass(frozen=True, slots=True)
class SecretKeys:
    """The keys, and the file that holds them if there is one."""

    ring: KeyRing
    file: Path | None


def use_secret_keys(data_dir: Path) -> SecretKeys:
    """Let this process encrypt and decrypt as the instance of this data folder does."""
    given, file = Settings.load().secret_keys(), instance_paths(data_dir).secret_key
    if given:
        found = SecretKeys(KeyRing(lambda: given), None)
    elif file.exists():
        found = SecretKeys(KeyRing(FileKeys(str(file))), file)
    else:
        raise CommandError(
            f"No encryption key was found: set {SETTING}, or name the data folder of the instance "
            "with --data-dir."
        )
    cipher.install(found.ring)
    return found
