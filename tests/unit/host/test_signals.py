import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from typing import NoReturn

import pytest

from host import signals
from host.signals import SIGNALS, StopRequested, keeping_sigterm, stop_on_signals


def _never() -> NoReturn:
    raise AssertionError("nothing is to be killed here")


def _send(*numbers: signal.Signals) -> None:
    # To this thread: other tests' imports may have left threads that hold no signal back.
    for number in numbers:
        signal.pthread_kill(threading.get_ident(), number)


@pytest.mark.parametrize("number", SIGNALS)
def test_the_first_signal_asks_to_stop(number: signal.Signals) -> None:
    with pytest.raises(StopRequested) as stopped, stop_on_signals(_never):
        _send(number)
    assert stopped.value.signal is number


def test_signals_that_come_together_are_one_wish() -> None:
    with stop_on_signals(_never):
        with pytest.raises(StopRequested):
            _send(signal.SIGINT)
        _send(signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def test_a_second_ctrl_c_kills() -> None:
    code = """
import os, signal, time
from host import signals
signals.SAME_REQUEST = 0.0
with signals.stop_on_signals(lambda: print("killed", flush=True)) as held:
    held.begin_stop()
    time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGTERM)
    print("still stopping", flush=True)
    os.kill(os.getpid(), signal.SIGINT)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], check=False, capture_output=True, text=True, timeout=30
    )
    assert (done.returncode, done.stdout) == (130, "still stopping\nkilled\n")


def test_a_held_signal_is_heeded_when_the_block_is_done() -> None:
    steps = []
    with pytest.raises(StopRequested), stop_on_signals(_never) as held, held.defer():  # noqa: PT012
        _send(signal.SIGTERM)
        steps.append("done")
    assert steps == ["done"]


def test_a_wish_that_python_drops_is_repeated() -> None:
    class Deaf:
        def __del__(self) -> None:
            _send(signal.SIGTERM)  # raises here, where nothing can be raised

    with pytest.raises(StopRequested) as stopped, stop_on_signals(_never):  # noqa: PT012
        Deaf()
        time.sleep(30)
    assert stopped.value.signal is signal.SIGTERM


def test_what_python_drops_is_told_but_for_the_wish(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda dropped: told.append(dropped.exc_value))

    class Deaf:
        def __init__(self, error: BaseException) -> None:
            self.error = error

        def __del__(self) -> None:
            raise self.error

    trouble = ValueError("a fault of ours")
    with stop_on_signals(_never):
        Deaf(StopRequested(signal.SIGINT))
        Deaf(trouble)
    Deaf(StopRequested(signal.SIGINT))
    assert [type(error) for error in told] == [ValueError, StopRequested]


def test_a_wish_that_is_heard_is_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signals, "REPEAT_EVERY", 0.001)
    cleaned = []

    def interrupted() -> None:
        try:
            _send(signal.SIGTERM)
        finally:
            time.sleep(0.02)
            with suppress(ValueError):
                raise ValueError("a trouble on the way out")
            cleaned.append("to the end")

    with pytest.raises(StopRequested), stop_on_signals(_never):
        interrupted()
    assert cleaned == ["to the end"]


def test_what_fails_of_the_same_signal_is_not_told_as_a_fault() -> None:
    class Deaf:
        def __del__(self) -> None:
            _send(signal.SIGINT)

    with pytest.raises(StopRequested), stop_on_signals(_never):  # noqa: PT012
        Deaf()
        raise OSError("a child was interrupted")


def test_a_fault_of_the_stop_itself_is_told() -> None:
    def interrupted() -> None:
        try:
            _send(signal.SIGINT)
        finally:
            raise OSError("cannot be cleaned up")

    with pytest.raises(OSError, match="cannot be cleaned up"), stop_on_signals(_never):
        interrupted()


def test_an_interrupt_raised_by_a_library_is_told_by_its_signal() -> None:
    def interrupted() -> NoReturn:
        with suppress(StopRequested):
            _send(signal.SIGTERM)
        raise KeyboardInterrupt

    with pytest.raises(StopRequested) as stopped, stop_on_signals(_never):
        interrupted()
    assert stopped.value.signal is signal.SIGTERM


def test_sigterm_stays_ours_when_a_library_takes_it() -> None:
    with pytest.raises(StopRequested), stop_on_signals(_never), keeping_sigterm():  # noqa: PT012
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        _send(signal.SIGTERM)


def test_the_handlers_before_are_put_back() -> None:
    before = [signal.getsignal(number) for number in SIGNALS]
    with stop_on_signals(_never):
        pass
    assert [signal.getsignal(number) for number in SIGNALS] == before


def test_an_ignored_hangup_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stop_on_signals(_never):
            _send(signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)


def test_where_the_main_thread_cannot_hear_everything_is_ended_for_it() -> None:
    """As in a call to a Ray that the same Ctrl-C has ended: Python never gets to its handlers."""
    code = """
import ctypes, os, signal, threading
from host.signals import stop_on_signals
mutex = ctypes.create_string_buffer(128)
libc = ctypes.CDLL(None)
libc.pthread_mutex_lock(mutex)
with stop_on_signals(lambda: print("killed", flush=True), handled_within=0.1):
    threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
    libc.pthread_mutex_lock(mutex)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], check=False, capture_output=True, text=True, timeout=30
    )
    assert (done.returncode, done.stdout) == (130, "killed\n")


def test_a_signal_that_is_heard_is_not_insisted_on() -> None:
    with stop_on_signals(_never, handled_within=0.01) as held:
        with pytest.raises(StopRequested):
            _send(signal.SIGINT)
        held.begin_stop()
        time.sleep(0.1)
