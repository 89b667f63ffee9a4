"""A Kafka broker that lets in only who has a password, and speaks TLS with a certificate of its own."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from tests.support.kafka.distribution import KafkaUnavailableError
from tests.support.kafka_broker import KafkaBroker, free_ports

USER = "shop"
PASSWORD = "s3cret-of-the-shop"

_JAAS = "org.apache.kafka.common.security.plain.PlainLoginModule required"
_PROPERTIES = """
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port},\
SASL://127.0.0.1:{sasl_port},TLS://127.0.0.1:{tls_port}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL:SASL_PLAINTEXT,TLS:SASL_SSL
inter.broker.listener.name=PLAINTEXT
sasl.enabled.mechanisms=PLAIN
listener.name.sasl.plain.sasl.jaas.config={jaas} user_{user}="{password}";
listener.name.tls.plain.sasl.jaas.config={jaas} user_{user}="{password}";
listener.name.tls.ssl.keystore.type=PEM
listener.name.tls.ssl.keystore.location={keystore}
"""


class SecureKafkaBroker(KafkaBroker):
    """As KafkaBroker, whose plain listener stays for the readers of the tests; with one for SASL, one for SASL in TLS.

    Raises KafkaUnavailableError without openssl, which makes the certificate.
    """

    def __init__(self) -> None:
        super().__init__()
        self._openssl = shutil.which("openssl")
        if self._openssl is None:
            raise KafkaUnavailableError("openssl is not installed: it makes the broker's certificate")
        self._sasl_port, self._tls_port = free_ports()
        self._make_certificate()

    @property
    def sasl(self) -> str:
        """host:port where a password is asked for in plain text."""
        return f"127.0.0.1:{self._sasl_port}"

    @property
    def tls(self) -> str:
        """host:port where a password is asked for inside TLS."""
        return f"127.0.0.1:{self._tls_port}"

    @property
    def certificate(self) -> Path:
        """The certificate to trust."""
        return self._home / "certificate.pem"

    def _make_certificate(self) -> None:
        key = self._home / "key.pem"
        command = [str(self._openssl), "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
        command += ["-keyout", str(key), "-out", str(self.certificate), "-subj", "/CN=localhost"]
        command += ["-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"]
        subprocess.run(command, check=True, capture_output=True)
        self._keystore.write_text(key.read_text() + self.certificate.read_text())

    @property
    def _keystore(self) -> Path:
        return self._home / "keystore.pem"

    def _more_properties(self, *, controller_port: int) -> str:
        return _PROPERTIES.format(
            port=self._port,
            controller_port=controller_port,
            sasl_port=self._sasl_port,
            tls_port=self._tls_port,
            jaas=_JAAS,
            user=USER,
            password=PASSWORD,
            keystore=self._keystore,
        )
