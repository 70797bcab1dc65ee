"""A password that is rotated on the broker and in its file is picked up without a restart (row 66)."""

import os

import pytest

from support.kafka import Kafka
from support.outbox import Outbox
from support.ports import free_port


class PasswordKafka(Kafka):
    """One broker with a second listener that wants a password; tests use the other one."""

    def __init__(self, password):
        super().__init__()
        self.sasl_port = free_port()
        self.set_password(password)

    def set_password(self, password):
        """For the next start."""
        [broker] = self.brokers
        listeners = f"PLAINTEXT://{broker.address},SASL_PLAINTEXT://127.0.0.1:{self.sasl_port}"
        broker.write_properties(f"{broker.node_id}@127.0.0.1:{broker.controller_port}", 1, {
            "listeners": f"{listeners},CONTROLLER://127.0.0.1:{broker.controller_port}",
            "advertised.listeners": listeners,
            "listener.security.protocol.map":
                "PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config":
                "org.apache.kafka.common.security.plain.PlainLoginModule required"
                f' user_relay="{password}";',
        })


@pytest.fixture
def password_kafka():
    with PasswordKafka("first-secret") as kafka:
        yield kafka


def test_a_rotated_password_is_read_from_its_file_without_a_restart(postgres, password_kafka, tmp_path):
    secret = tmp_path / "password"
    secret.write_text("first-secret\n")
    secret.chmod(0o600)
    outbox = Outbox(postgres, "rotated_password", password_kafka)
    with outbox.relay(sink__kafka={"brokers": [f"127.0.0.1:{password_kafka.sasl_port}"],
                                   "properties": {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN",
                                                  "sasl.username": "relay",
                                                  "sasl.password_file": str(secret)}}) as relay:
        relay.wait_streaming()
        events = outbox.insert("a", "b")
        outbox.wait_confirmed(relay)

        password_kafka.stop()
        password_kafka.set_password("second-secret")
        password_kafka.start()
        events += outbox.insert("a", "b")
        relay.wait_log("_AUTHENTICATION", 60)
        confirmed = outbox.confirmed()
        assert relay.metric("outbox_relay_kafka_producer_rebuilds_total", reason="credentials") == 0

        replacement = tmp_path / "password.new"
        replacement.write_text("second-secret\n")
        replacement.chmod(0o600)
        os.replace(replacement, secret)
        outbox.wait_confirmed(relay, deadline_s=60)
        assert outbox.confirmed() > confirmed
        assert relay.metric("outbox_relay_kafka_producer_rebuilds_total", reason="credentials") == 1
        assert relay.metric("outbox_relay_halts_total") == 0
        assert relay.terminate() == 0
        assert "-secret" not in relay.stderr()
    assert outbox.ids_in_kafka() == events
