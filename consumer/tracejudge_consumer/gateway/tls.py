"""TLS for the gateway's own port, where no proxy in front of it does that."""

from __future__ import annotations

import ssl

from tracejudge.errors import SettingsError


def server_context(cert_file: str | None, key_file: str | None) -> ssl.SSLContext | None:
    """The certificate chain and key as a server's context; None for none. Raises SettingsError naming what is wrong."""
    if cert_file is None or key_file is None:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(cert_file, key_file)
    except (OSError, ssl.SSLError) as error:
        fault = (
            f"gateway.tls_cert_file, gateway.tls_key_file: {cert_file}, {key_file}: {error}; give matching PEM files"
        )
        raise SettingsError([fault]) from error
    return context
