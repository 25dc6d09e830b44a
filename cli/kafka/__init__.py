"""`muster kafka`: what is read, how far, what failed, and a way to send something."""
