"""More ways into a broker than the plain one: TLS, SASL, and an address where a proxy stands in front.

    kafka = Kafka(settings=ACCESS_CONTROL, listeners=[sasl_listener({"relay": "secret"})])
    kafka.addresses("SASL")

The brokers and the tests themselves go on using the plain listener.
"""

from dataclasses import dataclass, field

# Whoever comes without a name, through the plain listener, may do everything; everyone else what an ACL allows.
ACCESS_CONTROL = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "allow.everyone.if.no.acl.found": "false",
}


@dataclass
class Listener:
    name: str
    protocol: str = "PLAINTEXT"
    settings: dict = field(default_factory=dict)  # Server properties, without "listener.name.<name>."
    advertised_host: str = "127.0.0.1"
    proxied: bool = False                         # Advertises another port than the one that it listens on.
    stores: dict = field(default_factory=dict)    # A file name beside server.properties to its contents.

    def properties(self, directory):
        prefix = f"listener.name.{self.name.lower()}."
        return {prefix + name: str(value).replace("{directory}", str(directory))
                for name, value in self.settings.items()}


def proxied_listener(name="PROXIED"):
    """Clients are told Broker.advertised_ports[name]: have a proxy listen there and pass on to Broker.ports[name]."""
    return Listener(name, proxied=True)


def named_listener(host, name="NAMED"):
    """Clients are told this host name."""
    return Listener(name, advertised_host=host)


def sasl_listener(users, name="SASL"):
    """User name and password, without encryption; Kafka.set_users changes them for the next start.

    PLAIN, since SCRAM in librdkafka before 2.6.1 is refused by Kafka 4: it sends its own nonce twice.
    """
    return Listener(name, "SASL_PLAINTEXT", {
        "sasl.enabled.mechanisms": "PLAIN",
        "plain.sasl.jaas.config": plain_users(users),
    })


def plain_users(users):
    known = " ".join(f'user_{user}="{password}"' for user, password in users.items())
    return f"org.apache.kafka.common.security.plain.PlainLoginModule required {known};"


def tls_listener(certificate, name="TLS"):
    """Kafka.set_certificate changes it for the next start."""
    return Listener(name, "SSL", {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": "{directory}/" + f"{name}.pem",
    }, stores={f"{name}.pem": certificate.together()})
