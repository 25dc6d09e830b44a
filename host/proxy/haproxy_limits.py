"""How many requests HAProxy forwards to a replica at once, and how slowly they may arrive.

A replica's event loop accepts one connection a turn: in a flood thousands of requests wait in the
kernel's queue, where no limit of ours applies, and are answered after many seconds. So they queue
briefly in HAProxy, which then rejects them at no cost to the replica.

Only complete requests are forwarded: a slow one stays in HAProxy's buffer until its deadline. A
request that does not fit into the buffer does not count against the limit.
"""

import resource
from dataclasses import dataclass
from pathlib import Path

# With Ray's 4096, many idle streams would use up the connections, and HAProxy would silently accept
# no more. The replicas limit streams themselves and reject those beyond with an error.
MAX_CONNECTIONS = 16_384
_OTHER_FILES = 500  # listening sockets, health checks, spare connections

# As many as a busy replica answers in a fraction of a second; more would only slow each one down.
MAX_REQUESTS_PER_REPLICA = 128
# A caller may use half of these slots. Its requests beyond that go to the second backend, "crowd",
# with as many slots and a separate queue, so that light callers do not queue behind heavy ones.
CALLER_SHARE = MAX_REQUESTS_PER_REPLICA // 2
# All requests share the event loop, so each waits for those before it. If other callers have sent
# requests within the last seconds, a caller has only this many slots, and the crowd as many. That
# suffices to keep a replica busy.
CALLER_SHARE_BESIDE_OTHERS = 8
CALLERS_SECONDS = 10
QUEUE_MILLISECONDS = 500
# The kernel's buffer for a client that has stopped reading; the default is megabytes.
BUFFER_BYTES = 131_072
# Streams take no turn from other requests, and operators must be able to look at a busy instance.
# The OpenAPI document exceeds those buffers and needs no key, so a client that does not read
# it would occupy a slot.
_LINGERING = (
    "{ method GET } { path_end /stream }",
    "{ method GET } { path_beg /api/wait-states/ } { url_param(wait) -m found }",
    "{ method GET } { path_beg /actuator/ /metrics }",
    "{ method GET } { path /openapi.json }",
    "{ method POST } { path /aggregate/journals /journals /api/gathers }",
    "{ method POST } { path /api/sample/webhook/slow }",
    # More than HAProxy's buffer holds, so the rest is still to arrive. The replica counts the
    # bytes, sets a deadline, and gives no tenant more than half of its space.
    "!{ internal.htx.has_eom }",
)

# An event is stored whether or not its sender waits for the response. For these requests Serve need
# not watch the connection, which costs two tasks and a wait each, nor generate an id.
_EVENTS = (
    "{ method POST }"
    " { path_beg /api/internal/callbacks/ /api/internal/events/ /api/events /aggregate/callback }"
)
_UNHEARD = "http-request set-header x-request-disconnect-disabled ?1 if @events"
_NAMED = (
    "http-request set-header x-request-id %[uuid()] if @events !{ req.hdr(x-request-id) -m found }"
)

# When a replica dies, Serve's proxy returns a 500 without Retry-After. Our 500s are problem
# documents, so any other 500 becomes a 503.
_BARE = "{ status 500 } !{ res.hdr(content-type) -m sub problem+json }"

# The caller is the hash of its key or token, stored while its requests are in progress. A request
# without either is refused quickly.
_CALLERS = """\
    http-request track-sc0 req.hdr(authorization),xxh32 table callers \
if { req.hdr(authorization) -m found } !@lingers
    http-request track-sc0 req.hdr(x-callback-token),xxh32 table callers \
if { req.hdr(x-callback-token) -m found } !@lingers
    http-request track-sc0 url_param(token),xxh32 table callers \
if { url_param(token) -m found } !@lingers"""
_LINGERS = "{ var(req.lingers) -m bool }"
# Requests that the replica refuses at once in any case. HAProxy reads 32-bit numbers.
_TOO_LARGE = "{ req.hdr_val(content-length) gt @most } || { req.hdr(content-length),length gt 9 }"

# An IPv6 address counts as its whole network: one machine has 2^64 addresses.
_SOURCES = """\
    tcp-request connection track-sc1 src,ipmask(32,64) table sources
    tcp-request connection reject if { sc1_conn_cur(sources) gt @connections }@spared"""
# Proxies in front of us and commands on this machine are many clients with one address.
_SPARED = " !{ src 127.0.0.0/8 ::1 }"

# The file is read twice, because the rules precede the replicas that they count.
_AWK = r"""
BEGIN {
    mended = "    http-response return status 503 default-errorfiles if @bare"
    brief = "    timeout queue @queue\n" mended "\n    @unheard\n    @named"
}
NR == FNR {
    if (/^backend /) bounded = ($2 ~ /^http-/)
    if (bounded && /^    server / && $NF != "backup") replicas++
    next
}
/^global/ { $0 = $0 "\n    tune.sndbuf.client @buffer\n    tune.rcvbuf.server @buffer" }
/^frontend http_frontend/ { $0 = $0 "\n" sources; fronted = 1 }
/^    use_backend http-/ && !ruled++ {
    print "    http-request wait-for-body time @patience unless @too_large"
    print lingering
    print callers
    print "    use_backend lingering if @lingers"
    count = replicas ? replicas : 1
    beside = " { table_cnt(callers) gt 1 }"
    has_more = "{ sc0_conn_cur(callers) gt "
    print "    use_backend crowd_beside if " has_more share_beside * count " }" beside
    print "    use_backend crowd if " has_more share * count " }"
}
/^backend / { name = $2; bounded = ($2 ~ /^http-/) }
bounded && /^    server / {
    role = ($NF == "backup") ? " backup" : ""
    tracked = tracked "    server " $2 " " $3 " track " name "/" $2 role "\n"
    one = "    server " $2 " " $3 " track " name "/" $2 role " maxconn "
    crowd = crowd one "@at_once\n"
    crowd_beside = crowd_beside one share_beside "\n"
    $0 = $0 " maxconn @at_once"
}
{ print }
bounded && /^backend / { print brief }
END {
    table = "    stick-table size 50k store conn_cur expire "
    if (fronted) print "backend sources\n" table "1m type ipv6"
    if (ruled) {
        print "backend callers\n" table "@forget type integer"
        printf "backend crowd\n    http-reuse always\n%s\n%s", brief, crowd
        printf "backend crowd_beside\n    http-reuse always\n%s\n%s", brief, crowd_beside
        printf "backend lingering\n    http-reuse always\n%s\n%s", mended, tracked
    }
}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyLimits:
    """The limits that settings change."""

    body_seconds: float = 10.0
    """Seconds within which a body must arrive."""
    body_bytes: int = 1_048_576
    """The largest body in bytes."""
    source_connections: int | None = None
    """Connections of one address; None means half of all, and no limit on loopback."""


DEFAULT_LIMITS = ProxyLimits()


def max_connections() -> int:
    """Return how many clients HAProxy may accept: it needs five files for every two."""
    _, most_files = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most_files == resource.RLIM_INFINITY:
        return MAX_CONNECTIONS
    return max(256, min(MAX_CONNECTIONS, (most_files - _OTHER_FILES) * 2 // 5))


def write_limits(folder: Path, bounds: ProxyLimits) -> Path:
    """Write the awk program that adds the limits to HAProxy's configuration.

    It reads the configuration twice, so it is named twice: `awk -f PROGRAM FILE FILE`.
    """
    program = _AWK.lstrip()
    for name, value in (
        ("lingers", _LINGERS),
        ("bare", _BARE),
        ("unheard", _UNHEARD),
        ("named", _NAMED),
        ("events", _EVENTS),
        ("at_once", str(MAX_REQUESTS_PER_REPLICA)),
        ("queue", f"{QUEUE_MILLISECONDS}ms"),
        ("patience", f"{round(bounds.body_seconds * 1000)}ms"),
        ("too_large", _TOO_LARGE.replace("@most", str(bounds.body_bytes))),
        ("buffer", str(BUFFER_BYTES)),
        ("forget", f"{CALLERS_SECONDS}s"),
    ):
        program = program.replace(f"@{name}", value)
    file = folder / "bounds.awk"
    file.write_text(_constants(bounds) + program, encoding="ascii")
    return file


def _constants(bounds: ProxyLimits) -> str:
    given = bounds.source_connections
    sources = _SOURCES.replace("@connections", str(given or max_connections() // 2))
    sources = sources.replace("@spared", _SPARED if given is None else "")
    lingering = [f"    http-request set-var(req.lingers) bool(true) if {one}" for one in _LINGERING]
    texts = {
        "sources": sources,
        "lingering": "\n".join(lingering),
        "callers": _CALLERS.replace("@lingers", _LINGERS),
    }
    quoted = {name: text.replace("\n", "\\n") for name, text in texts.items()}
    lines = [f'    {name} = "{text}"\n' for name, text in quoted.items()]
    shares = f"    share = {CALLER_SHARE}\n    share_beside = {CALLER_SHARE_BESIDE_OTHERS}\n"
    return f"BEGIN {{\n{shares}{''.join(lines)}}}\n"
