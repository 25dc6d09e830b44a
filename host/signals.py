"""Ctrl-C, SIGTERM and a closed terminal stop the host gracefully; a second Ctrl-C kills it."""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

# Launchers forward a Ctrl-C to a child that got it from the terminal too, so two signals within
# this many seconds are one request. Only a person presses again later.
SAME_REQUEST = 0.5

# Python drops what is raised in a destructor, a hook around `fork` or a callback of the garbage
# collector, where a signal may arrive: so the request is raised again until it is handled.
REPEAT_EVERY = 0.1

# Python runs signal handlers between two steps of the main thread. Inside a call that never
# returns, such as one to a Ray that the same Ctrl-C has ended, nothing is ever raised.
MAX_SIGNAL_DELAY = 15.0


class StopRequested(KeyboardInterrupt):
    """Raised in the main thread by the first signal, whatever the thread was doing."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.signal = signal.Signals(number)


class StopSignals:
    """Turns the first signal into `StopRequested` and a second Ctrl-C into a kill."""

    def __init__(self, kill: Callable[[], None], handled_within: float = MAX_SIGNAL_DELAY) -> None:
        self._kill = kill
        self._handled_within = handled_within
        self._handled = threading.Event()
        self._stopping_since: float | None = None
        self._deferred = False
        self.received: int | None = None

    def install(self) -> None:
        signal.signal(signal.SIGALRM, self._repeat)
        for number in SIGNALS:
            # `nohup` ignores SIGHUP, so that closing the terminal has no effect.
            if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._receive)

    @contextmanager
    def watchdog(self) -> Iterator[None]:
        """Kill everything from another thread if the main one does not react to a signal."""
        reader, writer = os.pipe()
        os.set_blocking(writer, False)  # Python insists
        threading.Thread(target=self._watch, args=(reader,), daemon=True).start()
        before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(before)
            os.close(writer)

    def _watch(self, reader: int) -> None:
        with open(reader, "rb", buffering=0) as numbers:
            while received := numbers.read(1):
                if received[0] in SIGNALS and not self._handled.wait(self._handled_within):
                    self._kill()
                    os._exit(128 + received[0])

    def begin_stop(self) -> None:
        """Note that the host is stopping, so that a Ctrl-C from now on kills it."""
        signal.setitimer(signal.ITIMER_REAL, 0)
        if self._stopping_since is None:
            self._stopping_since = time.monotonic()

    @contextmanager
    def defer(self) -> Iterator[None]:
        """Let a block that must not be interrupted finish before a signal takes effect."""
        self._deferred = True
        try:
            yield
        finally:
            self._deferred = False
        if self.received is not None:
            raise StopRequested(self.received)

    def _receive(self, number: int, _frame: FrameType | None) -> None:
        self._handled.set()
        now = time.monotonic()
        if self._stopping_since is not None:
            if number == signal.SIGINT and now - self._stopping_since > SAME_REQUEST:
                self._kill()
                os._exit(128 + number)
            return
        self._stopping_since = now
        self.received = number
        signal.setitimer(signal.ITIMER_REAL, REPEAT_EVERY, REPEAT_EVERY)
        if not self._deferred:
            raise StopRequested(number)

    def _repeat(self, _number: int, _frame: FrameType | None) -> None:
        if self.received is not None and not self._deferred and not _is_stopping(sys.exception()):
            raise StopRequested(self.received)


def _is_stopping(error: BaseException | None) -> bool:
    """Return True if a stop is being handled: this error is one, or was caused by one."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None


@contextmanager
def keeping_sigterm() -> Iterator[None]:
    """Undo that `ray.init` takes over SIGTERM; one that arrives meanwhile is delivered after."""
    if threading.current_thread() is not threading.main_thread():
        yield  # Ray changes signals in the main thread only
        return
    handler = signal.getsignal(signal.SIGTERM)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, handler)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})


@contextmanager
def _dropped_silently() -> Iterator[None]:
    """Print nothing when Python drops a StopRequested: it is raised again."""
    before = sys.unraisablehook

    def report(dropped: "sys.UnraisableHookArgs") -> None:
        if not isinstance(dropped.exc_value, StopRequested):
            before(dropped)

    sys.unraisablehook = report
    try:
        yield
    finally:
        sys.unraisablehook = before


@contextmanager
def stop_on_signals(
    kill: Callable[[], None], handled_within: float = MAX_SIGNAL_DELAY
) -> Iterator[StopSignals]:
    """Let signals stop the host; `kill` must end everything at once."""
    if threading.current_thread() is not threading.main_thread():
        raise RuntimeError("Signals are received in the main thread only.")
    before = {number: signal.getsignal(number) for number in (*SIGNALS, signal.SIGALRM)}
    signals = StopSignals(kill, handled_within)
    signals.install()
    try:
        with _dropped_silently(), signals.watchdog():
            yield signals
    except KeyboardInterrupt:
        # In a call to Ray, Ray raises a KeyboardInterrupt itself.
        raise StopRequested(signals.received or signal.SIGINT) from None
    except Exception as error:
        # A Ctrl-C reaches our children too, and one that has just started fails.
        if signals.received is None or _is_stopping(error):
            raise
        raise StopRequested(signals.received) from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in before.items():
            with suppress(TypeError):  # a handler that was not set from Python cannot be restored
                signal.signal(number, handler)
