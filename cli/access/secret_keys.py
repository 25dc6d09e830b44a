"""The keys that encrypt stored secrets, for commands that work on the database."""

from dataclasses import dataclass
from pathlib import Path

from cli.shell.errors import CommandError, as_sentence
from core.shared.errors import MusterError
from host.paths import instance_paths
from settings.settings import Settings
from storage.encryption import cipher
from storage.encryption.cipher import SETTING, FileKeys, FixedKeys, KeyRing


@dataclass(frozen=True, slots=True)
class SecretKeys:
    """The keys, and the file that holds them if there is one."""

    ring: KeyRing
    file: Path | None


def use_secret_keys(data_dir: Path) -> SecretKeys:
    """Let this process encrypt and decrypt as the instance of this data folder does."""
    try:
        found = _find(data_dir)
    except MusterError as error:
        raise CommandError(as_sentence(error)) from error
    cipher.install(found.ring)
    return found


def _find(data_dir: Path) -> SecretKeys:
    given = Settings.load().secret_keys()
    if given:
        return SecretKeys(KeyRing(FixedKeys(given)), None)
    file = instance_paths(data_dir).secret_key
    if not file.exists():
        raise CommandError(
            f"No encryption key was found: set {SETTING}, or name the data folder of the instance "
            "with --data-dir."
        )
    return SecretKeys(KeyRing(FileKeys(str(file))), file)
