"""History under another judge: stored traces judged again in a run of their own."""

from tracejudge.replay.run import ReplayReport, check_run_name, replay

__all__ = ["ReplayReport", "check_run_name", "replay"]
