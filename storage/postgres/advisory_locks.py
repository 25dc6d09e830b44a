"""The numbers of our advisory locks, in one place so that no two parts share one by mistake."""

from enum import IntEnum, unique


@unique
class AdvisoryLock(IntEnum):
    """What holds the lock; the numbers are arbitrary but must not change between versions."""

    MIGRATE = 0x6D75_7374
    RELAY = 0x6D75_7375
    ROTATE_KEYS = 0x6D75_7376
    REGISTER_KEYS = 0x6D75_7377
