"""The support code for encryption, users, rights and small disks: each lets in whom it should, and nobody else."""

import psycopg2
import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from support.certificates import Authority
from support.kafka import Kafka
from support.kafka_admin import KafkaAdmin
from support.kafka_listeners import ACCESS_CONTROL, proxied_listener, sasl_listener, tls_listener
from support.postgres import Postgres
from support.postgres_tls import demand_tls, show_certificate
from support.tmpfs import small_disk
from support.wait import eventually


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def guarded(authority):
    listeners = [sasl_listener({"reader": "first"}), tls_listener(authority.issue("broker")), proxied_listener()]
    with Kafka(settings=ACCESS_CONTROL, heap="256m", listeners=listeners) as kafka:
        yield kafka


@pytest.fixture(scope="module")
def admin(guarded):
    with KafkaAdmin(guarded) as admin:
        yield admin


def topics_seen(addresses, **properties):
    client = AdminClient({"bootstrap.servers": ",".join(addresses), "log_level": 0,
                          **{name.replace("__", "."): value for name, value in properties.items()}})
    return set(client.list_topics(timeout=5).topics)


def refused(addresses, **properties):
    with pytest.raises(KafkaException):
        topics_seen(addresses, **properties)


def as_user(user, password):
    return {"security__protocol": "SASL_PLAINTEXT", "sasl__mechanism": "PLAIN", "sasl__username": user,
            "sasl__password": password}


def test_a_user_sees_what_he_has_a_right_to_for_as_long_as_he_has_it(guarded, admin):
    guarded.create_topic("support-rights")
    guarded.create_topic("support-hidden")
    addresses = guarded.addresses("SASL")
    refused(addresses, **as_user("reader", "wrong"))
    assert topics_seen(addresses, **as_user("reader", "first")) == set()
    admin.allow_writing("reader", "support-rights")
    eventually(lambda: topics_seen(addresses, **as_user("reader", "first")) == {"support-rights"}, 10, "the right")
    admin.revoke_writing("reader", "support-rights")
    eventually(lambda: topics_seen(addresses, **as_user("reader", "first")) == set(), 10, "it is taken away")
    guarded.set_users("SASL", {"reader": "second"})
    guarded.restart()
    refused(addresses, **as_user("reader", "first"))
    topics_seen(addresses, **as_user("reader", "second"))


def test_tls_is_believed_of_the_right_authority_and_host_within_its_time(guarded, authority, tmp_path):
    addresses = guarded.addresses("TLS")
    trusting = {"security__protocol": "SSL", "ssl__ca__location": str(authority.certificate)}
    topics_seen(addresses, **trusting)
    refused(addresses, security__protocol="SSL", ssl__ca__location=str(Authority(tmp_path, "other").certificate))
    guarded.set_certificate("TLS", authority.issue("elsewhere", hosts=["elsewhere.test"]))
    guarded.restart()
    refused(addresses, **trusting, ssl__endpoint__identification__algorithm="https")
    topics_seen(addresses, **trusting, ssl__endpoint__identification__algorithm="none")
    guarded.set_certificate("TLS", authority.issue("old", expired=True))
    guarded.restart()
    refused(addresses, **trusting)


def test_a_proxied_listener_tells_its_clients_another_port(guarded):
    [broker] = guarded.brokers
    assert broker.ports["PROXIED"] != broker.advertised_ports["PROXIED"]
    client = AdminClient({"bootstrap.servers": f"127.0.0.1:{broker.ports['PROXIED']}", "log_level": 0})
    [seen] = client.list_topics(timeout=5).brokers.values()
    assert f"{seen.host}:{seen.port}" == guarded.addresses("PROXIED")[0]


def test_partitions_are_added(guarded, admin):
    guarded.create_topic("support-partitions", partitions=1)
    admin.set_partitions("support-partitions", 3)
    eventually(lambda: guarded.topics()["support-partitions"] == 3, 10, "three partitions")


def test_a_wrong_command_is_an_error(admin):
    with pytest.raises(RuntimeError, match="partitions"):
        admin.set_partitions("support-absent", 3)


def test_postgres_shows_the_certificate_it_was_last_given(authority, tmp_path):
    with Postgres() as pg:
        show_certificate(pg, authority.issue("postgres"))
        demand_tls(pg)
        trusting = {"tcp": True, "sslmode": "verify-full", "sslrootcert": str(authority.certificate)}
        pg.connect(**trusting).close()
        with pytest.raises(psycopg2.OperationalError):
            pg.connect(tcp=True, sslmode="disable")
        show_certificate(pg, authority.issue("old", expired=True))
        with pytest.raises(psycopg2.OperationalError, match="verify failed"):
            pg.connect(**trusting)
        show_certificate(pg, Authority(tmp_path, "other").issue("postgres"))
        with pytest.raises(psycopg2.OperationalError, match="verify failed"):
            pg.connect(**trusting)


def test_a_small_disk_is_full_until_it_grows(tmp_path):
    with small_disk(tmp_path / "disk", megabytes=1) as disk:
        disk.fill()
        with pytest.raises(OSError):
            (disk.path / "more").write_bytes(bytes(65536))
        disk.resize(2)
        (disk.path / "more").write_bytes(bytes(65536))
    assert not (tmp_path / "disk" / "more").exists()
