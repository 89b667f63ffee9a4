"""A process from its beginning to its end: signals, threads that must not hold it up, and its garbage collector."""
