"""Talks to the webhook byte by byte, as a client that does odd things would."""

from __future__ import annotations

import json
import socket
import ssl
from pathlib import Path
from typing import Any

import material
from material import webhook

SOME_POD = (material.ROOT / "tests" / "reviews" / "01-memory-round-thousand.json").read_bytes()
PATIENCE = 60.0  # seconds until a test gives up on an answer; never waited for where all is well


def secure(hook: webhook.Webhook, certificate: Path | None = None, key: Path | None = None) -> ssl.SSLSocket:
    """A TLS connection with the server's certificate verified."""
    context = ssl.create_default_context(cafile=str(hook.authority))
    if certificate:
        context.load_cert_chain(certificate, key)
    plain = socket.create_connection(("127.0.0.1", hook.port), timeout=PATIENCE)
    return context.wrap_socket(plain, server_hostname="127.0.0.1")


def head(length: int, *lines: str, path: str = "/mutate?timeout=5s") -> bytes:
    return "\r\n".join(
        [f"POST {path} HTTP/1.1", "Host: webhook", "Content-Type: application/json", f"Content-Length: {length}",
         *lines, "", ""]).encode()  # fmt: skip


def request(body: bytes = SOME_POD, *lines: str) -> bytes:
    return head(len(body), *lines) + body


class Answers:
    """The answers that come over a connection, one after the other."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.buffer = b""

    def _more(self) -> None:
        data = self.connection.recv(65536)
        if not data:
            raise EOFError(f"closed; unread: {self.buffer!r}")
        self.buffer += data

    def next(self) -> tuple[int, dict[str, str], bytes]:
        """Status, headers with lower-case names, body."""
        while b"\r\n\r\n" not in self.buffer:
            self._more()
        top, self.buffer = self.buffer.split(b"\r\n\r\n", 1)
        status, *lines = top.decode().split("\r\n")
        headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
        while len(self.buffer) < int(headers.get("content-length", 0)):
            self._more()
        length = int(headers.get("content-length", 0))
        body, self.buffer = self.buffer[:length], self.buffer[length:]
        return int(status.split()[1]), headers, body

    def closed(self) -> bool:
        """Waits for the end of the connection."""
        try:
            while data := self.connection.recv(65536):
                self.buffer += data
        except ConnectionResetError:
            pass
        return not self.buffer


def exchange(hook: webhook.Webhook, *parts: bytes) -> tuple[int, dict[str, str], bytes]:
    """One answer to the bytes given, over a connection of their own."""
    with secure(hook) as connection:
        for part in parts:
            connection.sendall(part)
        return Answers(connection).next()


def review(body: bytes = SOME_POD, **changes: Any) -> bytes:
    """A review with some members of its request replaced; a member set to None is left out."""
    document = json.loads(body)
    for name, value in changes.items():
        if value is None:
            document["request"].pop(name, None)
        else:
            document["request"][name] = value
    return json.dumps(document).encode()


def serves(hook: webhook.Webhook) -> bool:
    """Whether an ordinary client gets an ordinary answer."""
    status, _, body = exchange(hook, request())
    return status == 200 and json.loads(body)["response"]["allowed"] is True


def metric(hook: webhook.Webhook, series: str) -> float:
    """The value of one series of the metrics page."""
    for line in hook.operator("/metrics")[1].splitlines():
        name, _, value = line.rpartition(" ")
        if name == series:
            return float(value)
    raise KeyError(series)
