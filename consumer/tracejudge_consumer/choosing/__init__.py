"""What a command is about, out of what was typed: which judges, which run, which traces, and whether two compare."""
