"""Switches to the account of a PostgreSQL program, then becomes that program.

It runs as a script in a fresh interpreter with one thread, where changing accounts and namespaces
is safe, and so imports only the standard library.
"""

import ctypes
import json
import os
import stat
import sys
from typing import TypedDict

CAP_DAC_OVERRIDE = 1
CAP_DAC_READ_SEARCH = 2
_PR_SET_KEEPCAPS = 8
_PR_CAP_AMBIENT = 47
_PR_CAP_AMBIENT_RAISE = 2
_CAPABILITY_VERSION_3 = 0x20080522
_CLONE_NEWUSER = 0x10000000
CANNOT_LAUNCH = 126  # as shells do for a program that cannot be executed


class LaunchOrder(TypedDict):
    """What to run, and as which account."""

    program: list[str]
    account: str  # "same", "user" (become uid and gid) or "namespace" (look like uid and gid)
    uid: int
    gid: int
    detach: bool


class _Header(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _Sets(ctypes.Structure):
    _fields_ = (
        ("effective", ctypes.c_uint32),
        ("permitted", ctypes.c_uint32),
        ("inheritable", ctypes.c_uint32),
    )


def _call(function: str, *arguments: object) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, function)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{function}: {os.strerror(number)}")


def become_user(uid: int, gid: int, program: str) -> None:
    """Drop to `uid`, keeping the one capability that reaches data below a closed folder (/root)."""
    linux = sys.platform == "linux"
    capabilities = _wanted_capabilities(program)
    if linux:
        _call("prctl", _PR_SET_KEEPCAPS, 1, 0, 0, 0)
    os.setgroups([])
    os.setgid(gid)
    os.setuid(uid)
    if linux:
        _keep_first_capability(capabilities)


def _wanted_capabilities(program: str) -> list[int]:
    """List the smaller one first; Docker withholds READ_SEARCH, which cannot execute for others."""
    executable_by_others = os.stat(program).st_mode & stat.S_IXOTH
    return [CAP_DAC_READ_SEARCH] * bool(executable_by_others) + [CAP_DAC_OVERRIDE]


def _keep_first_capability(wanted: list[int]) -> None:
    """Keep one if possible; without any, the server needs open folders above its data."""
    for capability in wanted:
        sets = (_Sets * 2)(_Sets(*[1 << capability] * 3), _Sets(0, 0, 0))
        try:
            _call("capset", ctypes.byref(_Header(_CAPABILITY_VERSION_3, 0)), sets)
            _call("prctl", _PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE, capability, 0, 0)
        except PermissionError:
            continue
        return


def enter_namespace(uid: int, gid: int) -> None:
    """Appear as `uid` to ourselves; the kernel still sees the old user as owner of files."""
    outer_uid, outer_gid = os.geteuid(), os.getegid()
    _call("unshare", _CLONE_NEWUSER)
    for file, line in (
        ("setgroups", "deny"),
        ("uid_map", f"{uid} {outer_uid} 1"),
        ("gid_map", f"{gid} {outer_gid} 1"),
    ):
        with open(f"/proc/self/{file}", "w", encoding="ascii") as mapping:
            mapping.write(line)


def main(order: LaunchOrder) -> int:
    """Carry out `order`; return only if that failed."""
    if order["detach"] and os.fork() != 0:
        os._exit(0)  # init adopts the server, so that the caller gets no zombie
    program = order["program"]
    try:
        if order["account"] == "user":
            become_user(order["uid"], order["gid"], program[0])
        elif order["account"] == "namespace":
            enter_namespace(order["uid"], order["gid"])
        os.execv(program[0], program)  # noqa: S606  a list, never a shell
    except OSError as exc:
        sys.stderr.write(f"cannot launch {program[0]}: {exc}\n")
    return CANNOT_LAUNCH


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])))
