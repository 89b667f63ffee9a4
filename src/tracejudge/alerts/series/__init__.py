"""A series under a rule: what it has seen, when it changes its mind, and what is said then."""
