"""A broker that lets nobody in who does not prove who they are: by password, by both, by TLS."""

import datetime
import ipaddress
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from core.shared.kafka_config import KafkaConfig
from host.kafka import apache
from host.kafka.apache import ApacheOptions
from host.kafka.broker import kill
from host.kafka.selection import Runtime
from host.ports import LOOPBACK, free_port
from tests.support.kafka import IN_TESTS, Kafka
from tests.support.process_logs import watched

USER, PASSWORD = "muster", "only-for-tests"
_PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"
_SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule required;"


@dataclass(frozen=True, slots=True)
class Certificates:
    """A certificate authority, and one certificate for broker and client alike."""

    ca: Path
    certificate: Path
    key: Path
    both: Path


@dataclass
class SecuredKafka(Kafka):
    """The open door is the administrator's; each other one asks in its own way."""

    certificates: Certificates
    ports: dict[str, int]

    def config(self, door: str, **changed: object) -> KafkaConfig:
        """A client for one of the doors `plain`, `scram` and `tls`."""
        given = {**self.credentials(door), **changed}
        return KafkaConfig(bootstrap=self.at(door), **given)  # type: ignore[arg-type]

    def at(self, door: str) -> str:
        """Where it is."""
        return f"{LOOPBACK}:{self.ports[door]}"

    def credentials(self, door: str) -> dict[str, str]:
        """How to pass it."""
        sasl = {"sasl_username": USER, "sasl_password": PASSWORD}
        trust = {"tls_ca": str(self.certificates.ca)}
        own = {
            "tls_certificate": str(self.certificates.certificate),
            "tls_key": str(self.certificates.key),
        }
        return {
            "plain": {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN", **sasl},
            "scram": {
                "security_protocol": "SASL_SSL", "sasl_mechanism": "SCRAM-SHA-512", **sasl, **trust
            },
            "tls": {"security_protocol": "SSL", **trust, **own},
        }[door]  # fmt: skip


@pytest.fixture(scope="module")
def secured_kafka(
    kafka_runtime: Runtime | str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SecuredKafka]:
    """One for all tests of a file; Apache Kafka only."""
    if not isinstance(kafka_runtime, Runtime):
        pytest.skip(f"needs Apache Kafka, but {kafka_runtime}")
    folder = tmp_path_factory.mktemp("secured")
    certificates = issue_certificates(folder)
    ports = {name: free_port() for name in ("open", "plain", "scram", "tls")}
    options = ApacheOptions(
        port=ports["open"],
        auto_create_topics=IN_TESTS.auto_create_topics,
        heap=IN_TESTS.heap,
        extra=_listener_settings(ports, certificates),
    )
    with watched(folder / "kafka"):
        broker = apache.start(folder / "kafka", options, kafka_runtime.java, kafka_runtime.jars)
        try:
            _add_scram_user(broker.bootstrap)
            yield SecuredKafka(broker, certificates, ports)
        finally:
            kill(broker)


def _listener_settings(ports: dict[str, int], certificates: Certificates) -> dict[str, str]:
    controller = free_port()
    doors = ",".join(
        f"{name}://{LOOPBACK}:{port}"
        for name, port in (
            ("PLAINTEXT", ports["open"]),
            ("PLAIN", ports["plain"]),
            ("SCRAM", ports["scram"]),
            ("TLS", ports["tls"]),
        )
    )
    return {
        "listeners": f"{doors},CONTROLLER://{LOOPBACK}:{controller}",
        "advertised.listeners": doors,
        "controller.quorum.voters": f"1@{LOOPBACK}:{controller}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,"
        "PLAIN:SASL_PLAINTEXT,SCRAM:SASL_SSL,TLS:SSL",
        "listener.name.plain.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.plain.plain.sasl.jaas.config": f'{_PLAIN_MODULE} user_{USER}="{PASSWORD}";',
        "listener.name.scram.sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "listener.name.scram.scram-sha-512.sasl.jaas.config": _SCRAM_MODULE,
        "listener.name.tls.ssl.client.auth": "required",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(certificates.both),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(certificates.ca),
    }


def _add_scram_user(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    how = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    wanted = UserScramCredentialUpsertion(USER, how, PASSWORD.encode())
    for done in admin.alter_user_scram_credentials([wanted]).values():
        done.result(timeout=30)


def issue_certificates(folder: Path) -> Certificates:
    """Made anew for each run; they are good for an hour."""
    ca_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    ca_name, name = _name("Muster tests"), _name("muster")
    ca = _certificate(ca_name, ca_name, ca_key, ca_key).add_extension(
        x509.BasicConstraints(ca=True, path_length=None), critical=True
    )
    address = x509.IPAddress(ipaddress.ip_address(LOOPBACK))
    own = _certificate(name, ca_name, key, ca_key).add_extension(
        x509.SubjectAlternativeName([address]), critical=False
    )
    pem = serialization.Encoding.PEM
    key_pem = key.private_bytes(
        pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    ca_pem = ca.sign(ca_key, hashes.SHA256()).public_bytes(pem)
    own_pem = own.sign(ca_key, hashes.SHA256()).public_bytes(pem)
    certificates = Certificates(
        *(folder / part for part in ("ca.pem", "own.pem", "own.key", "both.pem"))
    )
    certificates.ca.write_bytes(ca_pem)
    certificates.certificate.write_bytes(own_pem)
    certificates.key.write_bytes(key_pem)
    certificates.both.write_bytes(key_pem + own_pem + ca_pem)
    return certificates


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _certificate(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    issuer_key: ec.EllipticCurvePrivateKey,
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    issuer_id = x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key())
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(issuer_id, critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
