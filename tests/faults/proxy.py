"""A TCP proxy that does what networks do: delays, throttles, swallows, resets, half-closes, truncates, flips bits.

    proxy = Proxy(("127.0.0.1", pg.port))
    proxy.delay_s = 0.5; proxy.swallow("down"); proxy.reset()

"up" is what the client sends, "down" what the server answers. `on_up` and `on_down` see the bytes of each connection
in order before they are passed on; see postgres_tap().
"""

import socket
import struct
import threading
import time


class Proxy:
    def __init__(self, target, port=0, on_up=None, on_down=None):
        self._target = target
        self._taps = {"up": on_up, "down": on_down}
        self._lock = threading.Lock()
        self._pairs = []
        self._swallowed = set()
        self._flips, self._truncations = {}, {}
        self.delay_s = 0
        self.bytes_per_second = None
        self.accepted = 0
        self.passed = {"up": 0, "down": 0}
        self._listener = socket.create_server(("127.0.0.1", port))
        self.port = self._listener.getsockname()[1]
        self._closed = False
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self._closed = True
        self._listener.close()
        self.reset()

    # Faults

    def swallow(self, *directions):
        """From now on these bytes go nowhere, and nobody is told."""
        self._swallowed = set(directions or ("up", "down"))

    def pass_on(self):
        """An end to swallowing; what was swallowed stays lost, so the connections are reset."""
        lost, self._swallowed = self._swallowed, set()
        if lost:
            self.reset()

    def reset(self):
        """RST to both ends of every connection."""
        with self._lock:
            pairs, self._pairs = self._pairs, []
        for pair in pairs:
            for end in pair:
                _abort(end)

    def half_close(self):
        """FIN to the clients; the way up stays open."""
        with self._lock:
            pairs = list(self._pairs)
        for client, _ in pairs:
            _quietly(client.shutdown, socket.SHUT_WR)

    def truncate(self, direction, after):
        """Once, `after` bytes from now: the connection is reset in the middle of whatever it is."""
        self._truncations[direction] = self.passed[direction] + after

    def flip(self, direction, after, bit=0):
        """Once, `after` bytes from now."""
        self._flips[direction] = (self.passed[direction] + after, bit)

    # Inner matters

    def _accept(self):
        while not self._closed:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self.accepted += 1
            try:
                server = socket.create_connection(self._target, timeout=10)
            except OSError:
                _abort(client)
                continue
            server.settimeout(None)
            for end in (client, server):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            pair = (client, server)
            with self._lock:
                self._pairs.append(pair)
            for direction, source, target in (("up", client, server), ("down", server, client)):
                make_tap = self._taps[direction]
                threading.Thread(target=self._pump, daemon=True,
                                 args=(direction, source, target, make_tap() if make_tap else None, pair)).start()

    def _pump(self, direction, source, target, tap, pair):
        try:
            while data := source.recv(65536):
                if direction in self._swallowed:
                    continue
                data = self._damaged(direction, data, pair)
                if self.delay_s:
                    time.sleep(self.delay_s)
                if tap:
                    tap(data)
                self._send(target, data)
            _quietly(target.shutdown, socket.SHUT_WR)
        except OSError:
            for end in pair:
                _abort(end)

    def _damaged(self, direction, data, pair):
        before = self.passed[direction]
        self.passed[direction] += len(data)
        at, bit = self._flips.get(direction, (None, 0))
        if at is not None and before <= at < before + len(data):
            del self._flips[direction]
            changed = bytearray(data)
            changed[at - before] ^= 1 << bit
            data = bytes(changed)
        at = self._truncations.get(direction)
        if at is not None and at < before + len(data):
            del self._truncations[direction]
            target = pair[1] if direction == "up" else pair[0]
            target.sendall(data[:max(0, at - before)])
            raise OSError("truncated on purpose")
        return data

    def _send(self, target, data):
        if not self.bytes_per_second:
            return target.sendall(data)
        size = max(1, self.bytes_per_second // 20)
        for start in range(0, len(data), size):
            target.sendall(data[start:start + size])
            time.sleep(len(data[start:start + size]) / self.bytes_per_second)


def postgres_tap(on_status):
    """For `on_up`: calls on_status(flushed LSN) for every standby status update, before it is passed on."""
    def make():
        buffer = bytearray()

        def tap(data):
            buffer.extend(data)
            while message := _next_message(buffer):
                kind, body = message
                # 'd': CopyData; 'r': written u64, flushed u64, applied u64, time i64, reply u8.
                if kind == b"d" and body[:1] == b"r":
                    on_status(struct.unpack_from("!Q", body, 9)[0])
        return tap
    return make


def _next_message(buffer):
    if buffer and buffer[0] == 0:  # The start-up packet has no type: length u32, version u32, …
        size = struct.unpack_from("!I", buffer)[0] if len(buffer) >= 4 else 0
        if not size or len(buffer) < size:
            return None
        del buffer[:size]
        return b"\0", b""
    if len(buffer) < 5:
        return None
    size = struct.unpack_from("!I", buffer, 1)[0]
    if len(buffer) < 1 + size:
        return None
    kind, body = bytes(buffer[:1]), bytes(buffer[5:1 + size])
    del buffer[:1 + size]
    return kind, body


def _abort(end):
    """SO_LINGER of nothing: RST in place of FIN."""
    _quietly(end.setsockopt, socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    _quietly(end.shutdown, socket.SHUT_RD)
    _quietly(end.close)


def _quietly(call, *arguments):
    try:
        call(*arguments)
    except OSError:
        pass
