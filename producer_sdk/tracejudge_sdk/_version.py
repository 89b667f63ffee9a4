"""The release, as a constant: asking the package metadata for it would cost more than the rest of the import."""

from __future__ import annotations

from typing import Final

__version__: Final = "0.1.0"
SDK_NAME: Final = f"tracejudge-python/{__version__}"
