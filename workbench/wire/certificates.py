"""A run's own TLS certificate, for listening beyond this machine; its actors and clients accept no other there.

The certificate is self-signed: actors and clients have it from the run directory, or from the bundle that an actor
gets, so no authority is needed. The key is an elliptic curve's (P-256) and stays in the run directory.
"""

from __future__ import annotations

import datetime
import os
import shutil

from workbench import imports
from workbench.errors import HomeNotWritable, MissingPackage
from workbench.rundir import RunDirectory, write_atomically
from workbench.wire.rpc import CERTIFICATE_NAME

_DAYS = 10 * 365


def ensure(run: RunDirectory) -> None:
    """Give the run a certificate and its key, unless it has them. Raises MissingPackage, HomeNotWritable."""
    if run.certificate.exists() and run.certificate_key.exists():
        return
    certificate, key = _self_signed(run.name)
    try:
        run.certificate.parent.mkdir(mode=0o700, exist_ok=True)
        write_atomically(run.certificate_key, key)
        write_atomically(run.certificate, certificate)
    except OSError as error:
        raise HomeNotWritable(f"cannot write {run.certificate.parent}: {error.strerror}.") from None


def remove(run: RunDirectory) -> None:
    """Delete the certificate, so that the run listens on this machine alone from its next start on."""
    for folder in (run.certificate.parent, run.endpoints):
        shutil.rmtree(folder, ignore_errors=True)


def _self_signed(run_name: str) -> tuple[bytes, bytes]:
    """A new self-signed certificate and its private key, as PEM."""
    try:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.x509.oid import NameOID
    except ImportError:
        raise MissingPackage(
            "a run that listens beyond this machine needs a certificate, which the package cryptography makes. Install "
            f"it alone, or with Ray: {imports.pip_install('ray')}."
        ) from None
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, run_name[:64]),
                         x509.NameAttribute(NameOID.ORGANIZATION_NAME, CERTIFICATE_NAME)])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(int.from_bytes(os.urandom(19)))
        .not_valid_before(now - datetime.timedelta(days=1))  # clocks of machines differ
        .not_valid_after(now + datetime.timedelta(days=_DAYS))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(CERTIFICATE_NAME)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    encoding = serialization.Encoding.PEM
    return certificate.public_bytes(encoding), key.private_bytes(
        encoding, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
