class HostError(Exception):
    """The host cannot go on; the message is one sentence for the person at the terminal."""
