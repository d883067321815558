"""Admission webhooks of the tests' own, served by the test's process on an address of the cluster's network."""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from bed import keys
from bed.place import API_ADDRESS
from bed.space import Space

Patch = list[dict[str, Any]]
CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"


class Server:
    """An HTTPS server for one path; `answer` gets a body and returns status and body."""

    def __init__(self, space: Space, answer: Callable[[bytes], tuple[int, bytes]]) -> None:
        authority = keys.Authority(space.place.keys)
        certificate, key = authority.issue("test-hooks", keys.Identity("test-hooks", addresses=(API_ADDRESS,)))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        listener = space.listen(API_ADDRESS)

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                status, body = answer(self.rfile.read(int(self.headers["Content-Length"])))
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer((API_ADDRESS, 0), Handler, bind_and_activate=False)
        self._server.socket.close()
        self._server.socket = context.wrap_socket(listener, server_side=True)
        self._server.daemon_threads = True
        self.client = {
            "url": f"https://{API_ADDRESS}:{listener_port(self._server)}/",
            "caBundle": keys.encoded(authority.file),
        }
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def listener_port(server: ThreadingHTTPServer) -> int:
    return server.socket.getsockname()[1]


class Injector(Server):
    """A mutating webhook that patches pods; `patch` gets the request and returns JSON Patch operations."""

    def __init__(self, space: Space, patch: Callable[[dict], Patch]) -> None:
        self.requests: list[dict] = []

        def answer(body: bytes) -> tuple[int, bytes]:
            request = json.loads(body)["request"]
            self.requests.append(request)
            response: dict[str, Any] = {"uid": request["uid"], "allowed": True}
            if operations := patch(request):
                response["patchType"] = "JSONPatch"
                response["patch"] = base64.b64encode(json.dumps(operations).encode()).decode()
            return 200, json.dumps(
                {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
            ).encode()

        super().__init__(space, answer)

    def configuration(self, name: str, namespace: str, reinvoke: str = "IfNeeded") -> dict:
        """Called for new pods of one namespace, before or after others by its name."""
        rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
        hook = {"name": f"{name}.drawbridge.test", "clientConfig": self.client, "admissionReviewVersions": ["v1"],
                "sideEffects": "None", "failurePolicy": "Fail", "reinvocationPolicy": reinvoke, "rules": [rule],
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}}  # fmt: skip
        return {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
                "metadata": {"name": name}, "webhooks": [hook]}  # fmt: skip


class Recorder(Server):
    """Stands between the API server and a webhook; keeps every review with its answer, here and in a file of lines."""

    def __init__(self, space: Space, host: str, port: int, name: str, authority: str, file: Path) -> None:
        self.reviews: list[tuple[dict, dict]] = []
        context = ssl.create_default_context(cafile=authority)

        def answer(body: bytes) -> tuple[int, bytes]:
            connection = http.client.HTTPSConnection(name)
            connection.sock = context.wrap_socket(space.connect(host, port), server_hostname=name)
            connection.request("POST", "/mutate?timeout=5s", body, {"Content-Type": "application/json"})
            received = connection.getresponse()
            text = received.read()
            connection.close()
            if received.status == 200:
                review = json.loads(body)["request"], json.loads(text)["response"]
                self.reviews.append(review)
                with file.open("a", encoding="utf-8") as lines:
                    print(json.dumps({"request": review[0], "response": review[1]}), file=lines)
            return received.status, text

        super().__init__(space, answer)
