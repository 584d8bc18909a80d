"""A broker that wants TLS, a password (SCRAM) and an ACL for everything."""

from __future__ import annotations

import secrets
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.brokers.cluster import Cluster, Listener
from tests.brokers.jars import CannotStartError, require

ADMIN, USER = "admin", "streamnb"
MECHANISMS = ("SCRAM-SHA-512", "SCRAM-SHA-256")
BEARER = "OAUTHBEARER"
BEARER_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
LOGIN_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
BROKER = "CN=broker"  # the principal that the controller sees


@dataclass(frozen=True)
class Authority:
    """A certificate authority of our own: an elliptic key and a self-signed certificate, PEM."""

    certificate: Path
    key: Path

    @classmethod
    def create(cls, folder, name):
        authority = cls(folder / f"{name}.pem", folder / f"{name}.key")
        extension = "basicConstraints=critical,CA:TRUE"
        _certify(authority.certificate, authority.key, f"/CN={name}", extension)
        return authority

    def sign(self, path):
        """A certificate for this machine and its key, in one file as Kafka wants them."""
        certificate, key = self.signed(path)
        path.write_text(key.read_text() + certificate.read_text())

    def signed(self, path):
        """The two in files of their own."""
        certificate, key = path.with_suffix(".crt"), path.with_suffix(".key")
        names = "subjectAltName=IP:127.0.0.1,DNS:localhost"
        _certify(certificate, key, f"/{BROKER}", names, "-CA", self.certificate, "-CAkey", self.key)
        return certificate, key


def _certify(certificate, key, subject, extension, *signer):
    require("openssl", "it makes the certificates of the secured broker")
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
               "-days", "30", "-subj", subject, "-addext", extension, "-keyout", key, "-out", certificate,
               *signer]  # fmt: skip
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    if made.returncode:
        raise CannotStartError(f"openssl makes no certificate: {made.stderr}")


class SecuredBroker:
    """One node with no listener in the clear.

    Clients come over SASL_SSL, and so does the broker to itself; the controller's listener asks for a client
    certificate. "admin" may do everything, "streamnb" nothing but what it is granted; nobody is anonymous.
    """

    def __init__(self, folder):
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        authority, stranger = (Authority.create(folder, name) for name in ("ca", "other-ca"))
        authority.sign(folder / "broker.pem")
        self._sign = lambda: authority.signed(folder / "client")
        self.ca_path = authority.certificate
        self.wrong_ca_path = stranger.certificate  # it signed nothing
        self.passwords = {user: secrets.token_hex(16) for user in (ADMIN, USER)}
        self.cluster = Cluster(folder, listener=self._listener(folder / "broker.pem"))

    @property
    def address(self):
        return self.cluster.address

    @property
    def nodes(self):
        return self.cluster.nodes

    def start(self):
        self.cluster.start()
        return self

    def stop(self):
        self.cluster.stop()

    def kill(self):
        self.cluster.kill()

    def client(self, user=USER, password=None, mechanism=MECHANISMS[0]):
        """Settings of kafka-python; with the user's right password unless another is given."""
        return {"bootstrap_servers": self.address, **self._login(user, password, mechanism)}

    def client_certificate(self, password):
        """Files of a certificate, and of its key under a password."""
        certificate, key = self._sign()
        locked = key.with_name("locked.key")
        command = [
            "openssl",
            "pkcs8",
            "-topk8",
            "-v2",
            "aes-256-cbc",
            "-in",
            key,
            "-out",
            locked,
            "-passout",
            f"pass:{password}",
        ]
        subprocess.run(command, check=True, capture_output=True)
        return certificate, locked

    def grant(self, kind, name, *operations, user=USER, prefixed=False):
        """Allow operations on a resource: `grant("topic", "events", "read", "describe")`."""
        from kafka.admin import ACL, ACLPermissionType, ResourcePattern

        pattern = ResourcePattern(_resource(kind), name, _pattern("prefixed" if prefixed else "literal"))
        acls = [
            ACL(f"User:{user}", "*", _operation(operation), ACLPermissionType.ALLOW, pattern)
            for operation in operations
        ]
        with self._admin() as admin:
            result = admin.create_acls(acls)
        if result["failed"]:
            raise PermissionError(str(result["failed"]))

    def revoke_all(self, user=USER):
        """Take away everything that was granted."""
        from kafka.admin import ACLFilter, ACLPermissionType, ResourcePatternFilter

        anything = ResourcePatternFilter(_resource("any"), None, _pattern("any"))
        with self._admin() as admin:
            admin.delete_acls(
                [ACLFilter(f"User:{user}", None, _operation("any"), ACLPermissionType.ANY, anything)]
            )

    def _admin(self):
        from kafka import KafkaAdminClient

        return KafkaAdminClient(**self.client(ADMIN))

    def _login(self, user, password=None, mechanism=MECHANISMS[0]):
        return {
            "security_protocol": "SASL_SSL",
            "ssl_cafile": str(self.ca_path),
            "sasl_mechanism": mechanism,
            "sasl_plain_username": user,
            "sasl_plain_password": password or self.passwords[user],
        }

    def _listener(self, identity):
        settings = {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": identity,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self.ca_path,
            "listener.name.controller.ssl.client.auth": "required",
            "sasl.enabled.mechanisms": ",".join([*MECHANISMS, BEARER]),
            f"listener.name.client.{BEARER.lower()}.sasl.jaas.config": f"{BEARER_MODULE} required;",
            "listener.name.client.ssl.client.auth": "requested",
            "sasl.mechanism.inter.broker.protocol": MECHANISMS[0],
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "allow.everyone.if.no.acl.found": "false",
            "super.users": f"User:{ADMIN};User:{BROKER}",
        }
        login = f'{LOGIN_MODULE} required username="{ADMIN}" password="{self.passwords[ADMIN]}";'
        for mechanism in MECHANISMS:
            settings[f"listener.name.client.{mechanism.lower()}.sasl.jaas.config"] = login
        users = [
            f"--add-scram={mechanism}=[name={user},password={password}]"
            for user, password in self.passwords.items()
            for mechanism in MECHANISMS
        ]
        return Listener("SASL_SSL", "SSL", settings, tuple(users), self._login(ADMIN))


def _resource(name):
    from kafka.admin import ResourceType

    return ResourceType[name.upper()]


def _operation(name):
    from kafka.admin import ACLOperation

    return ACLOperation[name.upper()]


def _pattern(name):
    from kafka.admin import ACLResourcePatternType

    return ACLResourcePatternType[name.upper()]
