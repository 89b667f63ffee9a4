"""Work that no record of the queue asks for, done by one consumer at a time: traces judged again, parts swept."""
