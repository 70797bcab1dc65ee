"""A certificate authority of a test's own, made with openssl.

    authority = Authority(directory)
    good = authority.issue("broker", hosts=["127.0.0.1"])
    old = authority.issue("old", hosts=["127.0.0.1"], expired=True)
"""

import subprocess
from dataclasses import dataclass
from pathlib import Path

_KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]


@dataclass(frozen=True)
class Certificate:
    certificate: Path  # PEM
    key: Path          # PEM, PKCS #8, without a passphrase

    def together(self):
        """Key and certificate as one text, as Kafka wants its key store."""
        return self.key.read_text() + self.certificate.read_text()


class Authority:
    """`certificate` is what clients have to trust."""

    def __init__(self, directory, name="authority"):
        self._directory = Path(directory) / name
        self._directory.mkdir()
        self.certificate = self._directory / "ca.pem"
        self._key = self._directory / "ca.key"
        _openssl("req", "-x509", *_KEY, "-keyout", self._key, "-out", self.certificate,
                 "-subj", f"/CN={name}", "-days", 2)

    def issue(self, name, hosts=("127.0.0.1", "localhost"), expired=False):
        """For these host names and addresses; an expired one ended a day ago."""
        made = Certificate(self._directory / f"{name}.pem", self._directory / f"{name}.key")
        request = self._directory / f"{name}.csr"
        names = ",".join(("IP:" if host[-1].isdigit() else "DNS:") + host for host in hosts)
        _openssl("req", *_KEY, "-keyout", made.key, "-out", request, "-subj", f"/CN={name}",
                 "-addext", f"subjectAltName={names}")
        _openssl("x509", "-req", "-in", request, "-CA", self.certificate, "-CAkey", self._key, "-CAcreateserial",
                 "-out", made.certificate, "-days", -1 if expired else 2, "-copy_extensions", "copy")
        return made


def _openssl(*arguments):
    done = subprocess.run(["openssl", *map(str, arguments)], text=True, capture_output=True, timeout=30)
    if done.returncode != 0:
        raise RuntimeError(f"openssl {arguments[0]} ended with {done.returncode}: {done.stderr}")
