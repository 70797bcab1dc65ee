"""One Kafka node, broker and controller in one JVM: its properties, its data, its process."""

import base64
import shutil
import signal
import subprocess
import uuid
from pathlib import Path

from .fetched import SERVERS
from .ports import free_port
from .process import Process

LOG_CONFIG = Path(__file__).resolve().parent / "servers" / "kafka-log4j2.yaml"


class Broker:
    """Made by `Broker.cluster`, which knows all voters."""

    @staticmethod
    def cluster(root, count, settings, heap, listeners=()):
        brokers = [Broker(root / f"node-{number}", number, heap, listeners) for number in range(1, count + 1)]
        voters = ",".join(f"{b.node_id}@127.0.0.1:{b.controller_port}" for b in brokers)
        cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        for broker in brokers:
            broker.write_properties(voters, min(count, 3), settings)
        for broker in brokers:
            broker.format(cluster_id)
        return brokers

    def __init__(self, root, node_id, heap, listeners=()):
        self.root = root
        self.node_id = node_id
        self.port = free_port()
        self.controller_port = free_port()
        self.listeners = listeners
        self.ports = {listener.name: free_port() for listener in listeners}
        self.advertised_ports = {listener.name: free_port() if listener.proxied else self.ports[listener.name]
                                 for listener in listeners}
        self.log_path = root / "server.log"
        self._properties = root / "server.properties"
        self._heap = heap
        self._process = None
        root.mkdir()
        for listener in listeners:
            for name, contents in listener.stores.items():
                self.write_store(name, contents)

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"

    def advertised_address(self, name):
        """Where clients find that listener."""
        [listener] = [each for each in self.listeners if each.name == name]
        return f"{listener.advertised_host}:{self.advertised_ports[name]}"

    def write_store(self, name, contents):
        """A key store, for the next start."""
        (self.root / name).write_text(contents)

    @property
    def running(self):
        return self._process is not None and self._process.running

    @property
    def pid(self):
        return self._process.pid

    def write_properties(self, voters, replication, settings):
        self._written = {
            "process.roles": "broker,controller",
            "node.id": self.node_id,
            "controller.quorum.voters": voters,
            "listeners": ",".join([f"PLAINTEXT://{self.address}", f"CONTROLLER://127.0.0.1:{self.controller_port}"]
                                  + [f"{name}://127.0.0.1:{port}" for name, port in self.ports.items()]),
            "advertised.listeners": ",".join(
                [f"PLAINTEXT://{self.address}"]
                + [f"{name}://{self.advertised_address(name)}" for name in self.ports]),
            "listener.security.protocol.map": ",".join(
                ["PLAINTEXT:PLAINTEXT", "CONTROLLER:PLAINTEXT"]
                + [f"{listener.name}:{listener.protocol}" for listener in self.listeners]),
            "controller.listener.names": "CONTROLLER",
            "log.dirs": self.root / "data",
            "num.partitions": 1,
            "default.replication.factor": replication,
            "offsets.topic.replication.factor": replication,
            "offsets.topic.num.partitions": 1,
            "transaction.state.log.replication.factor": replication,
            "transaction.state.log.min.isr": 1,
            "transaction.state.log.num.partitions": 1,
            "share.coordinator.state.topic.replication.factor": replication,
            "share.coordinator.state.topic.min.isr": 1,
            "group.initial.rebalance.delay.ms": 0,
            # A killed broker may come back only when its former session has run out.
            "broker.heartbeat.interval.ms": 500,
            "broker.session.timeout.ms": 3000,
            **{name: value for listener in self.listeners for name, value in listener.properties(self.root).items()},
            **settings,
        }
        self.change_properties({})

    def change_properties(self, changes):
        """For the next start."""
        self._written.update(changes)
        self._properties.write_text("".join(f"{n}={v}\n" for n, v in self._written.items()))

    def format(self, cluster_id):
        done = subprocess.run(
            java("kafka.tools.StorageTool", "format", f"--cluster-id={cluster_id}", "-c", self._properties,
                 heap="128m"),
            text=True, capture_output=True, timeout=120)
        if done.returncode != 0:
            raise RuntimeError(f"formatting Kafka's storage failed: {done.stdout}{done.stderr}")

    def start(self):
        if not self.running:
            self._process = Process(java("kafka.Kafka", self._properties, heap=self._heap),
                                    self.log_path, cwd=self.root)
        return self

    def terminate(self):
        if self.running:
            self.resume()
            self._process.signal(signal.SIGTERM)

    def wait_stopped(self, deadline_s=60):
        if self._process is not None:
            self._process.wait(deadline_s)

    def kill(self):
        if self.running:
            self._process.kill()

    def pause(self):
        self._process.pause()

    def resume(self):
        self._process.resume()

    def check_running(self):
        if self._process is not None:
            self._process.check_running()

    def log_tail(self):
        return self._process.log_tail() if self._process else ""

    def log_text(self):
        return self._process.log_text() if self._process else ""


def java(main_class, *arguments, heap):
    """The command that runs one of Kafka's classes; clear errors where something is missing."""
    program = shutil.which("java")
    if program is None:
        raise FileNotFoundError("java is missing: tests/support/install_packages.sh tests")
    return [program, f"-Xmx{heap}", "-XX:+UseSerialGC", f"-Dlog4j2.configurationFile={LOG_CONFIG}",
            "-cp", f"{kafka_jars()}/*", main_class, *map(str, arguments)]


def kafka_jars():
    jars = SERVERS / "kafka" / "lib"
    if not any(jars.glob("kafka_*.jar")):
        raise FileNotFoundError(f"Kafka is not in {jars}: tests/support/fetch_servers.sh kafka")
    return jars
