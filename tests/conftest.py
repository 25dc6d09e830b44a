import signal

from storage.encryption.cipher import KeyRing, install

pytest_plugins = [
    "tests.support.command_line",
    "tests.support.command_server",
    "tests.support.process_logs",
    "tests.support.kafka",
    "tests.support.postgres",
    "tests.support.secured_kafka",
    "tests.support.instances",  # after what it imports, so that pytest explains failures there
]

# A shell ignores interrupts for what it runs in the background, and `nohup` hang-ups. Programs that
# tests start would inherit that, and could not be stopped as people stop them.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# What storage encrypts in this process, it encrypts under this.
KEYS = (b"key of the tests, and of no other"[:32],)
install(KeyRing(lambda: KEYS))
