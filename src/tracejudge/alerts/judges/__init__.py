"""Judges that are watched themselves: on frozen traces, and by their health in every application."""
