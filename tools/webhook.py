"""A webhook started for a while on free ports of the loopback interface, and calls to it as an API server makes them.

Standard library only, since the demonstration must run where nothing but the build's packages is installed.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import ssl
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FLEET = ROOT / "tests" / "cases" / "fleet.yaml"
SETTINGS = ROOT / "examples" / "settings.yaml"
IN_MEMORY = ("--store", "memory", "--fleet", str(FLEET), "--settings", str(SETTINGS))
STARTUP_SECONDS = 60.0


class Failure(Exception):
    """The webhook did not start, or did not answer as it should; the text says why."""


@dataclass
class Webhook:
    """A running webhook: where it listens, and the authority that vouches for it."""

    process: subprocess.Popen[bytes]
    folder: Path
    port: int = 0
    operator_port: int = 0

    @property
    def authority(self) -> Path:
        return self.folder / "tls" / "ca.crt"

    def log(self) -> str:
        return (self.folder / "log").read_text(encoding="utf-8", errors="replace")

    def connect(self) -> http.client.HTTPSConnection:
        """A connection with the certificate verified, its handshake done."""
        context = ssl.create_default_context(cafile=str(self.authority))
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=30, context=context)
        connection.connect()
        return connection

    def operator(self, path: str) -> tuple[int, str]:
        """What the operator port answers: status and body."""
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.operator_port, timeout=30)) as connection:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()


@contextlib.contextmanager
def started(program: Path | str, folder: Path, *arguments: str) -> Iterator[Webhook]:
    """Starts the webhook with a certificate of its own, waits until it says that it is ready, stops it at the end."""
    command = [
        str(program), "serve", "--self-signed", str(folder / "tls"), "--listen", "127.0.0.1:0",
        "--operator-listen", "127.0.0.1:0", "--port-file", str(folder / "ports"), "--drain-delay", "0s", *arguments,
    ]  # fmt: skip
    with (folder / "log").open("wb") as log:
        # In a session of its own: Ctrl-C reaches the caller alone, which then stops the webhook.
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    webhook = Webhook(process, folder)
    try:
        wait_until_ready(webhook)
        yield webhook
    finally:
        process.terminate()
        try:
            process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def wait_until_ready(webhook: Webhook) -> None:
    deadline = time.monotonic() + STARTUP_SECONDS
    reason = "it has not said where it listens"
    while time.monotonic() < deadline:
        if webhook.process.poll() is not None:
            raise Failure(f"the webhook ended at once:\n{webhook.log()}")
        with contextlib.suppress(OSError, ValueError):
            known = json.loads((webhook.folder / "ports").read_text())
            webhook.port, webhook.operator_port = known["https"], known["operator"]
            status, reason = webhook.operator("/readyz")
            if status == 200:
                return
        time.sleep(0.02)
    raise Failure(f"the webhook is not ready after {STARTUP_SECONDS:.0f} s: {reason}")


def post(connection: http.client.HTTPSConnection, body: bytes) -> bytes:
    """Sends one review with the head that an API server sends; the answer's body."""
    headers = {"Content-Type": "application/json", "Accept": "application/json, */*"}
    connection.request("POST", "/mutate?timeout=5s", body, headers)
    answer = connection.getresponse()
    text = answer.read()
    if answer.status != 200:
        raise Failure(f"the webhook answered {answer.status}: {text.decode(errors='replace')}")
    return text
