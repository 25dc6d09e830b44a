"""What HAProxy does for a replica: how much it lets through at once, and how long others wait.

A replica's event loop accepts one connection a turn: in a flood thousands of requests stand in the
kernel's queue before it, where no limit of ours sees them, and are answered after many seconds.
So they queue in HAProxy instead, briefly, and are told to come back at no cost to the replica.
"""

import resource
from pathlib import Path

# With Ray's 4096 a crowd of idle streams would shut everybody out: HAProxy accepts no more, and
# says nothing. The replicas have bounds for them and a word for those beyond.
MOST_CONNECTIONS = 16_384
_OTHER_FILES = 500  # sockets of its own, checks, connections to spare

# As many as a busy replica answers in a fraction of a second; more of them only make each slower.
AT_ONCE = 128
QUEUE_MILLISECONDS = 500
# What the kernel keeps for a client that has stopped reading; left to itself, that is megabytes.
BUFFER_BYTES = 131_072
# Answers that are held open take no turn from the others, and who looks after a busy instance must
# see that it is busy.
_LINGERING = (
    "{ path_end /stream } || { url_param(wait) -m found } || { path_beg /actuator/ /metrics }"
    " || { method POST } { path /aggregate/journals /journals /api/gathers }"
    " || { method POST } { path /api/sample/webhook/slow }"
)

# An event is stored whether or not its sender stays to hear so: for these, Serve need not keep an
# ear on the connection, which costs it two tasks and a wait for each request; nor make up an id.
_EVENTS = (
    "{ method POST }"
    " { path_beg /api/internal/callbacks/ /api/internal/events/ /api/events /aggregate/callback }"
)
_UNHEARD = "http-request set-header x-request-disconnect-disabled ?1 if @events"
_NAMED = (
    "http-request set-header x-request-id %[uuid()] if @events !{ req.hdr(x-request-id) -m found }"
)

# When a replica dies, Serve's own proxy tells its callers of an error of ours, without a word on
# whether to come back. Our own errors are problem documents; this one becomes what it is: a part
# that is away.
_BARE = "{ status 500 } !{ res.hdr(content-type) -m sub problem+json }"

_AWK = r"""
BEGIN { mended = "    http-response return status 503 default-errorfiles if @bare" }
/^global/ { $0 = $0 "\n    tune.sndbuf.client @buffer\n    tune.rcvbuf.server @buffer" }
/^    use_backend http-/ { print "    use_backend lingering if @lingering" }
/^backend / { name = $2; bounded = ($2 ~ /^http-/) }
bounded && /^    server / {
    role = ($NF == "backup") ? " backup" : ""
    tracked = tracked "    server " $2 " " $3 " track " name "/" $2 role "\n"
    $0 = $0 " maxconn @at_once"
}
{ print }
bounded && /^backend / {
    print "    timeout queue @queue"
    print mended
    print "    @unheard"
    print "    @named"
}
END { if (tracked) printf "backend lingering\n    http-reuse always\n%s\n%s", mended, tracked }
"""


def connections() -> int:
    """How many clients HAProxy may hold: it wants five files for two of them, or does not start."""
    _, most_files = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most_files == resource.RLIM_INFINITY:
        return MOST_CONNECTIONS
    return max(256, min(MOST_CONNECTIONS, (most_files - _OTHER_FILES) * 2 // 5))


def write_bounds(folder: Path) -> Path:
    """Write the program for awk that puts the bounds into HAProxy's configuration."""
    program = _AWK.lstrip().replace("@lingering", _LINGERING).replace("@bare", _BARE)
    program = program.replace("@unheard", _UNHEARD).replace("@named", _NAMED)
    program = program.replace("@events", _EVENTS)
    program = program.replace("@at_once", str(AT_ONCE)).replace("@queue", f"{QUEUE_MILLISECONDS}ms")
    program = program.replace("@buffer", str(BUFFER_BYTES))
    file = folder / "bounds.awk"
    file.write_text(program, encoding="ascii")
    return file
