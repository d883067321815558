"""A TCP proxy before the API server, for one client: to cut it off, to let it wait, and to let it in again."""

from __future__ import annotations

import contextlib
import socket
import threading
import time

from bed.place import API_ADDRESS, API_PORT
from bed.space import Space


class Proxy:
    """Forwards connections until it is told to cut, to hold or to slow them."""

    def __init__(self, space: Space) -> None:
        self._space = space
        self._listener = space.listen(API_ADDRESS)
        self.server = f"https://{API_ADDRESS}:{self._listener.getsockname()[1]}"
        self._asking, self._answering = threading.Event(), threading.Event()  # unset: bytes of that way wait
        self._held = threading.Event()
        self.restore()
        self._sockets: set[socket.socket] = set()
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Ends every connection, and every new one at once."""
        self._refusing = True
        self._drop()

    def hold(self) -> None:
        """Lets every byte wait, in both directions."""
        self._asking.clear()
        self._answering.clear()

    def hold_answers(self) -> None:
        """Lets what the API server says wait: it does what it is asked, and the client does not learn of it."""
        self._answering.clear()

    def is_holding(self) -> bool:
        """Whether bytes have come that wait."""
        return self._held.is_set()

    def slow(self, seconds: float) -> None:
        """Lets every answer come so much later."""
        self._delay = seconds

    def restore(self) -> None:
        self._refusing = False
        self._delay = 0.0
        self._held.clear()
        self._asking.set()
        self._answering.set()

    def close(self) -> None:
        self.cut()
        self._asking.set()
        self._answering.set()
        self._listener.close()

    def _drop(self) -> None:
        with self._lock:
            for each in self._sockets:
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
            self._sockets.clear()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                if self._refusing:
                    client.close()
                    continue
                server = self._space.connect(API_ADDRESS, API_PORT)
                server.settimeout(None)
                with self._lock:
                    self._sockets |= {client, server}
                for source, target in ((client, server), (server, client)):
                    threading.Thread(target=self._pump, args=(source, target, target is client), daemon=True).start()

    def _pump(self, source: socket.socket, target: socket.socket, answers: bool) -> None:
        gate = self._answering if answers else self._asking
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if answers and self._delay:
                    time.sleep(self._delay)
                if not gate.is_set():
                    self._held.set()
                gate.wait()
                target.sendall(data)
        for each in (source, target):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
