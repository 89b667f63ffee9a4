"""How events reach people: what goes into one message, over which channel, in which form."""
