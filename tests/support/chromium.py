"""The browser that tests of pages drive. `python -m tests.support.chromium` installs one."""

import os
import shutil
import subprocess
import sys

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
ADVICE = "install one by hand, on Debian by `apt-get install --no-install-recommends chromium`"
INSTALL_WITHIN = 900.0


def find_chromium() -> str | None:
    """Where a Chromium is, if there is one."""
    return next(filter(None, map(shutil.which, NAMES)), None)


def install_chromium() -> str | None:
    """Let apt install one, where this user may; why there is none, if so."""
    apt = shutil.which("apt-get")
    if apt is None:
        return "there is no apt-get"
    rights = _rights()
    if rights is None:
        return "that takes root, or sudo without a password"
    command = [*rights, "env", "DEBIAN_FRONTEND=noninteractive", apt, "--quiet"]
    for step in (["update"], ["install", "--yes", "--no-install-recommends", "chromium"]):
        try:
            done = subprocess.run(
                [*command, *step],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=INSTALL_WITHIN,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return f"`apt-get {step[0]}` did not end within {INSTALL_WITHIN:.0f} s"
        if done.returncode != 0:
            return f"`apt-get {step[0]}` failed: {done.stderr.strip() or done.stdout.strip()}"
    return None


def _rights() -> list[str] | None:
    """What to put before a command that needs root."""
    if os.geteuid() == 0:
        return []
    sudo = shutil.which("sudo")
    if sudo is None:
        return None
    asked = subprocess.run([sudo, "-n", "true"], capture_output=True, timeout=10, check=False)
    return [sudo, "-n"] if asked.returncode == 0 else None


def main() -> int:
    """Install a Chromium unless one is there; without it the tests that need one say so."""
    if find_chromium() is not None:
        return 0
    sys.stdout.write("Installing chromium for the tests of pages (about 100 MB, once)\n")
    sys.stdout.flush()
    complaint = install_chromium()
    if find_chromium() is None:
        reason = complaint or "apt-get installed none"
        sys.stdout.write(f"WARNING: no Chromium, so pages go untested: {reason}; {ADVICE}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
