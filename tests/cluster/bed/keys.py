"""The certificates of a cluster: one authority, and a key pair for each who must prove who it is."""

from __future__ import annotations

import base64
import datetime
import ipaddress
import json
from dataclasses import dataclass, field
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from bed.place import API_ADDRESS, API_PORT, SERVICES, Place

A_WHILE = datetime.timedelta(days=3650)
BACKWARDS = datetime.timedelta(hours=1)


@dataclass(frozen=True)
class Identity:
    """Whom a certificate names."""

    name: str
    groups: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()  # host names and IP addresses; empty: a client's
    lifetime: datetime.timedelta = field(default=A_WHILE)


class Authority:
    """A certificate authority whose key and certificates are files of one folder."""

    def __init__(self, folder: Path, name: str = "ca") -> None:
        self.folder = folder
        self.name = name
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / f"{name}.crt").exists():
            self._make()
        self._key = serialization.load_pem_private_key((folder / f"{name}.key").read_bytes(), None)
        self.certificate = x509.load_pem_x509_certificate((folder / f"{name}.crt").read_bytes())

    @property
    def file(self) -> Path:
        return self.folder / f"{self.name}.crt"

    def _make(self) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"drawbridge-cluster-{self.name}")])
        now = datetime.datetime.utcnow()
        usage = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
        made = (
            x509.CertificateBuilder().subject_name(subject).issuer_name(subject).public_key(key.public_key())
            .serial_number(x509.random_serial_number()).not_valid_before(now - BACKWARDS).not_valid_after(now + A_WHILE)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .sign(key, hashes.SHA256()))  # fmt: skip
        write_key(self.folder / f"{self.name}.key", key)
        (self.folder / f"{self.name}.crt").write_bytes(made.public_bytes(serialization.Encoding.PEM))

    def issue(self, file: str, identity: Identity) -> tuple[Path, Path]:
        """Certificate and key for someone, made where they are missing."""
        certificate, key_file = self.folder / f"{file}.crt", self.folder / f"{file}.key"
        if certificate.exists() and key_file.exists():
            return certificate, key_file
        key = ec.generate_private_key(ec.SECP256R1())
        write_key(key_file, key)
        certificate.write_bytes(self._sign(key.public_key(), identity).public_bytes(serialization.Encoding.PEM))
        return certificate, key_file

    def _sign(self, public: ec.EllipticCurvePublicKey, identity: Identity) -> x509.Certificate:
        parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in identity.groups]
        subject = x509.Name([*parts, x509.NameAttribute(NameOID.COMMON_NAME, identity.name)])
        now = datetime.datetime.utcnow()
        # One that has expired begins before it ends, too.
        start = min(now, now + identity.lifetime) - BACKWARDS
        role = ExtendedKeyUsageOID.SERVER_AUTH if identity.addresses else ExtendedKeyUsageOID.CLIENT_AUTH
        builder = (
            x509.CertificateBuilder().subject_name(subject).issuer_name(self.certificate.subject).public_key(public)
            .serial_number(x509.random_serial_number()).not_valid_before(start).not_valid_after(now + identity.lifetime)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage([role]), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False))  # fmt: skip
        if identity.addresses:
            names = x509.SubjectAlternativeName([general_name(address) for address in identity.addresses])
            builder = builder.add_extension(names, critical=False)
        return builder.sign(self._key, hashes.SHA256())


def general_name(address: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(address))
    except ValueError:
        return x509.DNSName(address)


def write_key(file: Path, key) -> None:
    file.touch(mode=0o600)
    file.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))  # fmt: skip


def service_account_pair(place: Place) -> tuple[Path, Path]:
    """The key that signs the tokens of service accounts, and its public half."""
    private, public = place.keys / "service-accounts.key", place.keys / "service-accounts.pub"
    if not public.exists():
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        write_key(private, key)
        form = serialization.PublicFormat.SubjectPublicKeyInfo
        public.write_bytes(key.public_key().public_bytes(serialization.Encoding.PEM, form))
    return private, public


def api_server() -> Identity:
    """The API server by all its names; the second address is that of the Service `kubernetes`."""
    addresses = (API_ADDRESS, "127.0.0.1", f"{SERVICES}.0.1", "localhost", "kubernetes.default.svc")
    return Identity("kube-apiserver", addresses=addresses)


def node(name: str) -> Identity:
    """A kubelet as the Node authorizer and NodeRestriction know it."""
    return Identity(f"system:node:{name}", ("system:nodes",))


def kubeconfig(authority: Authority, file: Path, identity: Identity, server: str = "") -> Path:
    """A kubeconfig with everything inside, made where it is missing."""
    if file.exists():
        return file
    certificate, key = authority.issue("client-" + identity.name.replace(":", "-"), identity)
    user = {"client-certificate-data": encoded(certificate), "client-key-data": encoded(key)}
    return write_kubeconfig(authority, file, user, server)


def write_kubeconfig(authority: Authority, file: Path, user: dict, server: str = "", namespace: str = "") -> Path:
    """A kubeconfig for whoever `user` says; `server` defaults to the API server itself."""
    server = server or f"https://{API_ADDRESS}:{API_PORT}"
    cluster = {"server": server, "certificate-authority-data": encoded(authority.file)}
    context = {"cluster": "bed", "user": "bed"} | ({"namespace": namespace} if namespace else {})
    document = {
        "apiVersion": "v1", "kind": "Config", "current-context": "bed",
        "clusters": [{"name": "bed", "cluster": cluster}], "users": [{"name": "bed", "user": user}],
        "contexts": [{"name": "bed", "context": context}]}  # fmt: skip
    file.touch(mode=0o600)
    file.write_text(json.dumps(document, indent=1), encoding="utf-8")
    return file


def encoded(file: Path) -> str:
    return base64.b64encode(file.read_bytes()).decode()
