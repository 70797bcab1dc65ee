"""The systemd unit: it is valid, hardened, and the relay keeps what it promises to systemd."""

import re
import socket
import subprocess
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.ports import free_port
from support.shaped_outbox import ShapedOutbox
from support.wait import eventually

UNIT = Path(__file__).resolve().parents[1] / "systemd/outbox-relay.service"


def setting(name):
    [value] = re.findall(rf"^{name}=(.*)$", UNIT.read_text(), re.MULTILINE)
    return value


@pytest.fixture
def installed_unit(tmp_path, binary):
    """A copy that names the program of this build, where the unit names the packaged one."""
    assert setting("ExecStart") == "/usr/bin/outbox-relay run --config /etc/outbox-relay/relay.yaml"
    copy = tmp_path / UNIT.name
    copy.write_text(UNIT.read_text().replace("/usr/bin/outbox-relay", str(binary)))
    return copy


def test_systemd_finds_nothing_wrong_with_the_unit(installed_unit):
    done = subprocess.run(["systemd-analyze", "verify", installed_unit], text=True, capture_output=True, timeout=60)
    assert (done.returncode, done.stderr.strip()) == (0, "")


def test_the_unit_is_hardened(installed_unit):
    """The threshold is ten times the exposure: 1.5 of 10."""
    done = subprocess.run(["systemd-analyze", "security", "--no-pager", "--offline=true", "--threshold=15",
                           installed_unit], text=True, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stdout


def test_systemd_waits_longer_than_the_relay_takes_to_stop():
    example = (UNIT.parents[1] / "config/outbox-relay.example.yaml").read_text()
    grace = int(re.search(r"^  grace: (\d+)s$", example, re.MULTILINE)[1])
    # Beyond the grace the relay may wait 5 s for its last confirmation to be visible.
    assert int(setting("TimeoutStopSec")) >= grace + 10


def test_the_password_comes_as_a_credential():
    assert re.search(r"^#LoadCredential=pg:/", UNIT.read_text(), re.MULTILINE)
    assert setting("DynamicUser") == "yes" and "User=" not in UNIT.read_text().replace("DynamicUser=", "").replace(
        "PrivateUsers=", "")


class Systemd:
    """What systemd hears: the other end of NOTIFY_SOCKET."""

    def __init__(self, path):
        self.path = path
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self._socket.bind(str(path))
        self._messages = []

    def messages(self):
        try:
            while True:
                self._messages.append(self._socket.recv(65536).decode())
        except BlockingIOError:
            return self._messages

    def count(self, text):
        return sum(text == message for message in self.messages())

    def close(self):
        self._socket.close()


@pytest.fixture
def systemd(tmp_path):
    systemd = Systemd(tmp_path / "notify")
    yield systemd
    systemd.close()


def environment(systemd, watchdog_s):
    return {"NOTIFY_SOCKET": str(systemd.path), "WATCHDOG_USEC": str(int(watchdog_s * 1e6))}


def test_ready_watchdog_and_stopping_are_told(postgres, systemd):
    box = ShapedOutbox(postgres)
    with box.relay(environment=environment(systemd, 0.2)) as relay:
        relay.wait_for(lambda: systemd.count("READY=1"), 15, "READY=1")
        relay.wait_for(lambda: systemd.count("WATCHDOG=1") >= 5, 15, "the watchdog is fed while idle")
        assert relay.terminate() == 0
    assert systemd.count("READY=1") == 1 and systemd.count("STOPPING=1") == 1
    assert any(message.startswith("STATUS=") for message in systemd.messages())


def test_ready_is_said_and_the_watchdog_fed_while_the_server_is_away_and_while_halted(postgres, systemd):
    box = ShapedOutbox(postgres)
    away = {**box.config["source"], "host": "127.0.0.1", "port": free_port()}
    here, box.config["source"] = box.config["source"], away
    with box.relay(environment=environment(systemd, 0.2)) as relay:
        relay.wait_for(lambda: systemd.count("READY=1"), 15, "READY=1")
        fed = systemd.count("WATCHDOG=1")
        relay.wait_for(lambda: systemd.count("WATCHDOG=1") >= fed + 5, 15, "the watchdog is fed")
        assert relay.terminate() == 0
    assert systemd.count("STOPPING=1") == 1
    box.config["source"] = here
    box.insert(aggregate_type="no topic")
    with box.relay(environment=environment(systemd, 0.2)) as relay:
        relay.wait_state("halted")
        fed = systemd.count("WATCHDOG=1")
        relay.wait_for(lambda: systemd.count("WATCHDOG=1") >= fed + 5, 15, "the watchdog is fed")
        eventually(lambda: any("STATUS=halted: the event" in message for message in systemd.messages()), 5, "its status")
        assert relay.terminate() == 0
    assert systemd.count("READY=1") == 2


def test_text_from_a_row_reaches_systemd_as_status_alone(postgres, systemd):
    box = ShapedOutbox(postgres)
    box.insert(aggregate_type="x\nMAINPID=1\nSTOPPING=1")
    with box.relay(environment=environment(systemd, 30)) as relay:
        relay.wait_state("halted")
        eventually(lambda: any("STATUS=halted" in message for message in systemd.messages()), 5, "its status")
        assert not any("\n" in message for message in systemd.messages())


def test_a_frozen_relay_does_not_feed_the_watchdog(postgres, systemd):
    box = ShapedOutbox(postgres)
    with box.relay(environment=environment(systemd, 0.2)) as relay:
        relay.wait_for(lambda: systemd.count("WATCHDOG=1") >= 2, 15, "the watchdog is fed")
        with frozen(relay):
            quiet = systemd.count("WATCHDOG=1")
            with pytest.raises(TimeoutError):
                eventually(lambda: systemd.count("WATCHDOG=1") > quiet + 1, 0.6, "fed while frozen")


@contextmanager
def frozen(relay):
    relay.pause()
    try:
        yield
    finally:
        relay.resume()
