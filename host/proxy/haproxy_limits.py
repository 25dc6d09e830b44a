"""How many requests HAProxy forwards to a replica at once, and how slowly they may arrive.

A replica's event loop accepts one connection a turn: in a flood thousands of requests stand in the
kernel's queue before it, where no limit of ours sees them, and are answered after many seconds.
So they queue in HAProxy instead, briefly, and are told to come back at no cost to the replica.

A place at a replica is for a request that is there as a whole: one that dribbles in is kept in
HAProxy's buffer until its deadline, and one that does not fit there takes no such place.
"""

import resource
from dataclasses import dataclass
from pathlib import Path

# With Ray's 4096 a crowd of idle streams would shut everybody out: HAProxy accepts no more, and
# says nothing. The replicas have bounds for them and a word for those beyond.
MAX_CONNECTIONS = 16_384
_OTHER_FILES = 500  # sockets of its own, checks, connections to spare

# As many as a busy replica answers in a fraction of a second; more of them only make each slower.
MAX_REQUESTS_PER_REPLICA = 128
# Of these places a caller has half. While it has more than that under way, its requests go by the
# crowd, with as many places and a queue of its own: who floods is served as ever, and whoever asks
# for little does not stand in line behind it.
CALLER_SHARE = MAX_REQUESTS_PER_REPLICA // 2
# The event loop is one for all: what stands in it before a request is what that request waits for.
# So, where others have asked within the last seconds, a caller has this many places, and the crowd
# as many. They are enough to keep a replica busy.
CALLER_SHARE_BESIDE_OTHERS = 8
CALLERS_SECONDS = 10
QUEUE_MILLISECONDS = 500
# What the kernel keeps for a client that has stopped reading; left to itself, that is megabytes.
BUFFER_BYTES = 131_072
# Answers that are held open take no turn from the others, and who looks after a busy instance must
# see that it is busy. The document is larger than those buffers and needs no key: whoever does not
# read it holds a place for nothing.
_LINGERING = (
    "{ method GET } { path_end /stream }",
    "{ method GET } { path_beg /api/wait-states/ } { url_param(wait) -m found }",
    "{ method GET } { path_beg /actuator/ /metrics }",
    "{ method GET } { path /openapi.json }",
    "{ method POST } { path /aggregate/journals /journals /api/gathers }",
    "{ method POST } { path /api/sample/webhook/slow }",
    # More than HAProxy's buffer holds, so that the rest is still to come. The replica counts what
    # has come, gives it a deadline, and no tenant more than half of its room.
    "!{ internal.htx.has_eom }",
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

# Whose places a request takes: those of its key or token, of which a hash is kept for as long as
# requests of it are under way. Without either it is refused, which takes no time.
_CALLERS = """\
    http-request track-sc0 req.hdr(authorization),xxh32 table callers \
if { req.hdr(authorization) -m found } !@lingers
    http-request track-sc0 req.hdr(x-callback-token),xxh32 table callers \
if { req.hdr(x-callback-token) -m found } !@lingers
    http-request track-sc0 url_param(token),xxh32 table callers \
if { url_param(token) -m found } !@lingers"""
_LINGERS = "{ var(req.lingers) -m bool }"
# Will be refused, whatever comes: the replica says so at once. HAProxy reads numbers of 32 bits.
_TOO_LARGE = "{ req.hdr_val(content-length) gt @most } || { req.hdr(content-length),length gt 9 }"

# An address stands for its whole IPv6 network: one machine has 2^64 of those.
_SOURCES = """\
    tcp-request connection track-sc1 src,ipmask(32,64) table sources
    tcp-request connection reject if { sc1_conn_cur(sources) gt @connections }@spared"""
# Proxies in front of us and commands on this machine are many clients at one address.
_SPARED = " !{ src 127.0.0.0/8 ::1 }"

# The file is read twice: the rules stand before the replicas that they count.
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
    if (tracked) {
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
    """How long a body may take to come."""
    body_bytes: int = 1_048_576
    """How large a body may be."""
    source_connections: int | None = None
    """How many connections one address may have; None: half of all, and any number on loopback."""


DEFAULT_LIMITS = ProxyLimits()


def max_connections() -> int:
    """Return how many clients HAProxy may hold: it needs five files for two of them."""
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
    lines = [f'    {name} = "{_quoted(text)}"\n' for name, text in texts.items()]
    shares = f"    share = {CALLER_SHARE}\n    share_beside = {CALLER_SHARE_BESIDE_OTHERS}\n"
    return f"BEGIN {{\n{shares}{''.join(lines)}}}\n"


def _quoted(text: str) -> str:
    return text.replace("\n", "\\n")
