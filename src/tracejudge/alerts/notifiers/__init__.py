"""The channels that come with the library: `terminal`, `webhook`."""

from tracejudge.alerts.notifiers.build import build_notifier, build_notifiers
from tracejudge.alerts.notifiers.settings import NotifierSettings
from tracejudge.alerts.notifiers.terminal import TerminalNotifier

__all__ = ["NotifierSettings", "TerminalNotifier", "build_notifier", "build_notifiers"]
