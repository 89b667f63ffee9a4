"""Files of traces judged here and now: what their lines mean, their verdicts, and where these are written."""
