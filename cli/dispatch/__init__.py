"""Events, those who want them, and the deliveries that bring them there."""
