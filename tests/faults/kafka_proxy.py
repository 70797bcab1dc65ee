"""A proxy in front of one broker that knows where Kafka's requests and responses begin and end.

    with KafkaProxy(broker) as proxy:
        proxy.on_response = lambda request, frame: Delay(0.5)
        ...
        proxy.on_response = None

Clients come to the PROXIED listener's advertised port (support/kafka_listeners.py). Both hooks are asked about each
whole frame, without its length, and answer what becomes of it; None passes it on.
"""

import socket
import struct
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass

from support.wait import eventually

PRODUCE, METADATA, END_TXN = 0, 3, 26


@dataclass(frozen=True)
class Delay:
    """Passed on so much later, and so is all that follows."""
    seconds: float


@dataclass(frozen=True)
class Replace:
    """These bytes go on in its place, which may be none, and then the connection is reset where `reset` says so."""
    data: bytes
    reset: bool = False


SWALLOW = Replace(b"")
RESET = Replace(b"", reset=True)


def framed(frame):
    return struct.pack("!I", len(frame)) + frame


@dataclass(frozen=True)
class Request:
    api_key: int
    api_version: int
    correlation_id: int


class KafkaProxy:
    """`requests` counts what came through, by API key."""

    def __init__(self, broker, listener="PROXIED"):
        self.on_request = None
        self.on_response = None
        self.requests = {}
        self.accepted = 0
        self._target = ("127.0.0.1", broker.ports[listener])
        self._server = socket.create_server(("127.0.0.1", broker.advertised_ports[listener]))
        self._connections = set()
        self._lock = threading.Lock()
        self._closed = False
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self._closed = True
        self._server.close()
        self.reset_all()

    def reset_all(self):
        """Every connection there is ends with a reset, in both directions."""
        with self._lock:
            connections = list(self._connections)
        for connection in connections:
            connection.reset()

    @contextmanager
    def slowed(self, seconds, api_key):
        """Each response to such a request comes so much later."""
        self.on_response = lambda request, _: Delay(seconds) if request.api_key == api_key else None
        try:
            yield
        finally:
            self.on_response = None

    def damage_next(self, api_key, damage, deadline_s=30):
        """`damage` makes a verdict of the next response to such a request; returns once it has gone out."""
        done = threading.Event()

        def once(request, frame):
            if done.is_set() or request is None or request.api_key != api_key:
                return None
            done.set()
            return damage(frame)

        self.on_response = once
        if not done.wait(deadline_s):
            raise TimeoutError(f"no response to a request {api_key} within {deadline_s} s")
        self.on_response = None

    def wait_connections(self, more, deadline_s=60):
        """Until so many more have come than there are by now."""
        start = self.accepted
        eventually(lambda: self.accepted >= start + more, deadline_s, f"{more} more connections")

    def _accept(self):
        while not self._closed:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(self._target, 5)
                server.settimeout(None)
            except OSError:
                _reset(client)
                continue
            self.accepted += 1
            connection = _Connection(self, client, server)
            with self._lock:
                self._connections.add(connection)
            connection.start()

    def _ended(self, connection):
        with self._lock:
            self._connections.discard(connection)


class _Connection:
    def __init__(self, proxy, client, server):
        self._proxy = proxy
        self._client = client
        self._server = server
        self._asked = {}  # Correlation id to Request.
        for end in (client, server):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def start(self):
        for pump in (self._requests, self._responses):
            threading.Thread(target=self._run, args=(pump,), daemon=True).start()

    def reset(self):
        _reset(self._client)
        _reset(self._server)

    def _run(self, pump):
        try:
            pump()
        except OSError:
            pass
        self.reset()
        self._proxy._ended(self)

    def _requests(self):
        for frame in _frames(self._client):
            request = Request(*struct.unpack_from("!HHI", frame))
            self._asked[request.correlation_id] = request
            self._proxy.requests[request.api_key] = self._proxy.requests.get(request.api_key, 0) + 1
            self._pass_on(self._server, frame, self._proxy.on_request, request)

    def _responses(self):
        for frame in _frames(self._server):
            request = self._asked.pop(struct.unpack_from("!I", frame)[0], None)
            self._pass_on(self._client, frame, self._proxy.on_response, request)

    def _pass_on(self, target, frame, hook, request):
        verdict = hook(request, frame) if hook else None
        if isinstance(verdict, Delay):
            time.sleep(verdict.seconds)
            verdict = None
        if verdict is None:
            target.sendall(framed(frame))
            return
        target.sendall(verdict.data)
        if verdict.reset:
            raise ConnectionResetError


def _frames(source):
    with source.makefile("rb") as stream:
        while head := stream.read(4):
            frame = stream.read(struct.unpack("!I", head)[0])
            yield frame


def _reset(end):
    try:
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        end.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
    end.close()
