"""The numbers of our advisory locks, in one place so that no two parts share one by mistake."""

from enum import IntEnum, unique


@unique
class AdvisoryLock(IntEnum):
    """What holds the lock; the numbers are arbitrary but must not change between versions."""

    MIGRATE = 0x6D75_7374
    RELAY = 0x6D75_7375
    ROTATE_KEYS = 0x6D75_7376
    REGISTER_KEYS = 0x6D75_7377
    CHANGE_RELAY = 0x6D75_7378
    CHANGE_EVENTS = 0x6D75_7379
    POOLS = 0x70_6F6F_6C73
