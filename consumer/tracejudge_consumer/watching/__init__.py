"""Who watches the watcher: health, metrics and logs of a process, and the heartbeat that others miss."""
