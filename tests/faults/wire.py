"""A TCP proxy in front of PostgreSQL that reads the protocol: it breaks, flips, slows, and logs what is confirmed.

    with Wire(pg) as wire, outbox.relay(**wire.source()) as relay:
        wire.arm(reset, at=4711)      # 4711 bytes of the stream from now on.
        relay.wait_for(lambda: wire.done)
        wire.check_confirmations(outbox)

Only a replication stream is broken; looks at the catalog pass.
"""

import socket
import struct
import threading
import time
from collections import deque

from support.load import transactions_of
from support.outbox import event_id
from support.ports import free_port

from faults.witness import WITNESS

_QUEUED_BYTES = 256 * 1024


class Wire:
    def __init__(self, pg):
        self._pg = pg
        self.port = free_port()
        self.delay_s, self.bytes_per_second = 0, None  # In each direction.
        self.done, self.what = False, None
        self.confirmed = []  # (time, flushed) of every status update.
        self._action, self._countdown = None, 0
        self._listener = socket.create_server(("127.0.0.1", self.port))
        self._links = []

    def __enter__(self):
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_):
        # A blocked accept() is woken by the shutdown alone.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for link in self._links:
            link.close()

    def source(self, settings=""):
        """The changes to a config that lead the relay through here."""
        return {"source__host": "127.0.0.1", "source__port": self.port,
                "source__libpq": {"sslmode": "disable", "gssencmode": "disable", "options": settings}}

    def arm(self, action, at):
        """The action happens once, so many bytes of the stream from here."""
        self.done, self.what = False, None
        self._countdown, self._action = at, action

    def check_confirmations(self, outbox):
        """I5: whatever an update confirmed had been written by the broker before. The topic bears its append times."""
        appended = {}
        for record in outbox.in_kafka():
            appended.setdefault(event_id(record), record.timestamp)
        transactions = transactions_of(outbox, outbox.name + WITNESS)
        for at, flushed in self.confirmed:
            for each in transactions:
                if each.end_lsn > flushed:
                    break
                late = [event for event, _ in each.events if appended.get(event, 1e18) > at * 1000 + 1]
                assert not late, (f"I5: {flushed:X} was confirmed while {len(late)} records of the transaction that ends "
                                  f"at {each.end_lsn:X} were not acknowledged")
        return len(self.confirmed)

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection((self._pg.host, self._pg.port))
            except OSError:
                client.close()
                continue
            self._links.append(Link(self, client, server))

    def take(self, link, frame):
        """What is passed on of one frame of a stream; None ends the pump."""
        if self._action is None:
            return frame
        if self._countdown >= len(frame):
            self._countdown -= len(frame)
            return frame
        changed = self._action(link, frame, self._countdown)
        if changed is not frame:
            self._action, self.done = None, True
            self.what = self.what or f"at byte {self._countdown} of a frame {frame[:1]!r}"
        return changed


class Link:
    """One connection of a client, and the one to the server behind it."""

    def __init__(self, wire, client, server):
        self.wire, self.client, self.server = wire, client, server
        self.streaming = False
        for end in (client, server):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for source, target, cut_frames in ((server, client, self._from_server), (client, server, self._from_client)):
            queue = _Queue(wire)
            threading.Thread(target=self._read, args=(source, queue, cut_frames), daemon=True).start()
            threading.Thread(target=self._write, args=(target, queue), daemon=True).start()

    def close(self):
        for end in (self.client, self.server):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            end.close()

    def _read(self, source, queue, cut_frames):
        cutter = cut_frames()
        next(cutter)
        try:
            while data := source.recv(65536):
                passed = cutter.send(data)
                if passed is None:
                    return
                queue.put(passed)
        except OSError:
            pass
        queue.put(None)

    @staticmethod
    def _write(target, queue):
        try:
            while (data := queue.get()) is not None:
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def _from_server(self):
        """Whole frames; a tag and a length that counts itself."""
        buffer, passed = b"", b""
        while True:
            buffer += yield passed
            out = []
            while len(buffer) >= 5:
                size = 1 + struct.unpack_from("!I", buffer, 1)[0]
                if len(buffer) < size:
                    break
                frame, buffer = buffer[:size], buffer[size:]
                if frame[:1] == b"W":  # CopyBothResponse
                    self.streaming = True
                elif self.streaming:
                    frame = self.wire.take(self, frame)
                    if frame is None:
                        yield None
                        return
                out.append(frame)
            passed = b"".join(out)

    def _from_client(self):
        """Everything as it is; the status updates are noted."""
        buffer, passed, started = b"", b"", False
        while True:
            data = yield passed
            passed = data
            buffer += data
            while len(buffer) >= 8:
                header = 1 if started else 0  # The first message has no tag.
                size = header + struct.unpack_from("!I", buffer, header)[0]
                if len(buffer) < size:
                    break
                frame, buffer, started = buffer[:size], buffer[size:], True
                if frame[:1] == b"d" and frame[5:6] == b"r":
                    flushed, = struct.unpack_from("!Q", frame, 14)
                    self.wire.confirmed.append((time.time(), flushed))


class _Queue:
    """Bytes on their way, each so late as the wire is long, and so slow as it is narrow."""

    def __init__(self, wire):
        self._wire, self._items, self._size = wire, deque(), 0
        self._changed = threading.Condition()

    def put(self, data):
        with self._changed:
            self._changed.wait_for(lambda: self._size < _QUEUED_BYTES)
            self._items.append((time.monotonic(), data))
            self._size += len(data or b"")
            self._changed.notify_all()

    def get(self):
        with self._changed:
            self._changed.wait_for(lambda: self._items)
            came, data = self._items[0]
        rate = self._wire.bytes_per_second
        if data and rate and len(data) > rate // 4:  # In slices of a quarter of a second.
            data, rest = data[:rate // 4], data[rate // 4:]
        else:
            rest = None
        late = came + self._wire.delay_s - time.monotonic()
        threading.Event().wait(max(0, late))
        if rate and data:
            threading.Event().wait(len(data) / rate)
        with self._changed:
            if rest is None:
                self._items.popleft()
            else:
                self._items[0] = (came, rest)
            self._size -= len(data or b"")
            self._changed.notify_all()
        return data


# What can happen to a frame: each gets it and the byte in it, and returns what is passed on.

def reset(link, frame, at):
    """An RST to both sides."""
    for end in (link.client, link.server):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    link.server.close()
    _deliver(link, frame[:at])
    link.client.close()


def half_close(link, frame, at):
    """A FIN to the relay after a part of the frame; its own half stays open."""
    _deliver(link, frame[:at])
    link.client.shutdown(socket.SHUT_WR)


def cut(link, frame, at):
    """The frame ends early, and so does the connection."""
    _deliver(link, frame[:at])
    link.close()


def _deliver(link, data):
    try:
        link.client.sendall(data)
    except OSError:
        pass


# pgoutput, behind the tag and length of CopyData and the header of XLogData.
_MESSAGE = 5 + 25
# Where a message says what it is and how long its parts are. A flip in a name, an id or a payload makes another valid
# message, which nothing but TLS can tell.
_STRUCTURE = {b"B": [0], b"C": [0, *range(2, 18)], b"R": [0, 1, 2, 3, 4], b"I": list(range(13))}


def flip_in_messages(chance):
    """One bit of the structure of one of the next messages."""
    skip = chance.randrange(12)

    def flip(link, frame, _):
        nonlocal skip
        tag = frame[_MESSAGE:_MESSAGE + 1]
        if frame[5:6] != b"w" or tag not in _STRUCTURE:
            return frame
        skip -= 1
        if skip >= 0:
            return frame
        place, bit = chance.choice(_STRUCTURE[tag]), chance.randrange(8)
        link.wire.what = f"bit {bit} of byte {place} of a message {tag.decode()}"
        changed = bytearray(frame)
        changed[_MESSAGE + place] ^= 1 << bit
        return bytes(changed)

    return flip
