"""What may be said about a thread, and what follows from it. Pure: no clock, no ids made, no input or output."""
