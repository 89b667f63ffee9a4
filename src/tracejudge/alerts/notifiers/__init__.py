"""The channels that come with the library."""

from tracejudge.alerts.notifiers.settings import NotifierSettings

__all__ = ["NotifierSettings"]
