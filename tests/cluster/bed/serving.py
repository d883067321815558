"""The webhook as a plain process in the cluster's network, with the rights of whichever account is wished."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import ssl
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bed import keys
from bed.drawbridge import program
from bed.space import Failed, Space, wait_for


class Serving:
    """A running `drawbridge serve` and how to ask it."""

    def __init__(self, space: Space, folder: Path, kubeconfig: Path, *options: str) -> None:
        self._space = space
        self._folder = folder
        self.log = folder / "log"
        # TLS is not what is looked at here; the Service and its certificate are in other tests.
        with self.log.open("wb") as sink:
            self.process = subprocess.Popen(
                [*space.entering(), str(program()), "serve", "--store", "kubernetes", "--kubeconfig", str(kubeconfig),
                 "--self-signed", str(folder / "certs"), "--listen", "127.0.0.1:0", "--operator-listen", "127.0.0.1:0",
                 "--port-file", str(folder / "ports"), *options],
                stdin=subprocess.DEVNULL, stdout=sink, stderr=subprocess.STDOUT,
                env={"PATH": os.environ["PATH"], "HOME": str(folder)})  # fmt: skip
        wait_for(lambda: (folder / "ports").exists() or self.process.poll() is not None, "the webhook to listen")
        if self.process.poll() is not None:
            raise Failed(f"the webhook ended:\n{self.log.read_text(encoding='utf-8')}")
        self.ports = json.loads((folder / "ports").read_text(encoding="utf-8"))

    @property
    def client(self) -> dict:
        """How an API server in the same network reaches it."""
        url = f"https://127.0.0.1:{self.ports['https']}/mutate"
        return {"url": url, "caBundle": keys.encoded(self._folder / "certs" / "ca.crt")}

    def readiness(self) -> tuple[int, str]:
        return self.get("/readyz")

    def get(self, path: str) -> tuple[int, str]:
        """Asks the operator port."""
        connection = http.client.HTTPConnection("127.0.0.1")
        connection.sock = self._space.connect("127.0.0.1", self.ports["operator"])
        connection.request("GET", path)
        answer = connection.getresponse()
        with contextlib.closing(connection):
            return answer.status, answer.read().decode()

    def review(self, pod: dict, namespace: str, dry_run: bool = False, seconds: int = 5) -> tuple[int, Any]:
        """Sends a review as an API server does; status, and the response or the text of a failure."""
        request = {"uid": str(uuid.uuid4()), "kind": {"group": "", "version": "v1", "kind": "Pod"},
                   "resource": {"group": "", "version": "v1", "resource": "pods"}, "operation": "CREATE",
                   "namespace": namespace, "dryRun": dry_run, "object": pod}  # fmt: skip
        review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
        connection = http.client.HTTPSConnection("127.0.0.1")
        context = ssl.create_default_context(cafile=str(self._folder / "certs" / "ca.crt"))
        plain = self._space.connect("127.0.0.1", self.ports["https"], 30.0)
        connection.sock = context.wrap_socket(plain, server_hostname="127.0.0.1")
        body = json.dumps(review)
        connection.request("POST", f"/mutate?timeout={seconds}s", body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        with contextlib.closing(connection):
            text = answer.read().decode()
            return answer.status, json.loads(text)["response"] if answer.status == 200 else text


@contextlib.contextmanager
def serving(space: Space, kubeconfig: Path, *options: str) -> Iterator[Serving]:
    """A webhook process, ended at the end; ready or not."""
    with tempfile.TemporaryDirectory(dir=space.place.temporary) as folder:
        made = Serving(space, Path(folder), kubeconfig, *options)
        try:
            yield made
        finally:
            made.process.kill()
            made.process.wait()
