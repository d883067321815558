"""A TCP proxy before the API server, for one client: to cut it off, to let it wait, and to let it in again."""

from __future__ import annotations

import contextlib
import socket
import threading

from bed.place import API_ADDRESS, API_PORT
from bed.space import Space


class Proxy:
    """Forwards connections until it is told to cut or to hold them."""

    def __init__(self, space: Space) -> None:
        self._space = space
        self._listener = space.listen(API_ADDRESS)
        self.server = f"https://{API_ADDRESS}:{self._listener.getsockname()[1]}"
        self._open = threading.Event()  # unset: bytes wait
        self._open.set()
        self._refusing = False
        self._sockets: set[socket.socket] = set()
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Ends every connection, and every new one at once."""
        self._refusing = True
        self._drop()

    def hold(self) -> None:
        """Lets every byte wait, in both directions."""
        self._open.clear()

    def restore(self) -> None:
        self._refusing = False
        self._open.set()

    def close(self) -> None:
        self.cut()
        self._open.set()
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
                    threading.Thread(target=self._pump, args=(source, target), daemon=True).start()

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                self._open.wait()
                target.sendall(data)
        for each in (source, target):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
