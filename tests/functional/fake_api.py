"""A kube-apiserver as far as the webhook uses one, for faults that a real one cannot be made to show.

It keeps ResourceClaimTemplates and ResourceSlices, lists them in pages and watches them, answers dry runs, and does to a
template what a real one does: fills in defaults, writes quantities in canonical form, drops fields of gates that are
off. `rule` puts a fault before all of that. Standard library only.
"""

from __future__ import annotations

import contextlib
import copy
import json
import re
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

TEMPLATES = "resourceclaimtemplates"
SLICES = "resourceslices"
ALL_GATES = frozenset({"DRAConsumableCapacity", "DRAPrioritizedList"})
BOOKMARK_SECONDS = 0.5
Json = dict[str, Any]


@dataclass
class Request:
    """A request as it came."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Json

    @property
    def is_watch(self) -> bool:
        return self.query.get("watch") == "true"

    @property
    def is_write(self) -> bool:
        return self.method == "POST" and self.query.get("dryRun") != "All"


@dataclass
class Fault:
    """What happens in place of the answer: a status, raw bytes, or nothing; first of all a wait for `release`."""

    status: int = 0
    message: str = "made to fail"
    headers: dict[str, str] = field(default_factory=dict)
    raw: bytes | None = None  # sent as it is, then the connection is cut
    cut: bool = False  # the connection is cut without an answer
    hold: threading.Event | None = None  # waited for; then the rest, or the true answer


@dataclass
class Rule:
    matches: Callable[[Request], bool]
    fault: Fault
    times: int  # how often it still applies; -1: always


class FakeApi:
    """Runs from `with FakeApi(...) as api` on; everything may be changed while it runs."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.minor = "36"
        self.gates: frozenset[str] = ALL_GATES
        self.namespaces: set[str] | None = None  # None: every one exists
        self.tokens: set[str] | None = None  # None: everyone may come
        self.requests: list[Request] = []
        self.changed = threading.Condition()  # of everything here
        self._objects: dict[str, dict[str, Json]] = {TEMPLATES: {}, SLICES: {}}
        self._events: list[tuple[int, str, str, Json]] = []  # version, collection, type, object
        self._version = 100
        self._oldest = 0  # versions below are gone
        self._rules: list[Rule] = []
        self._streams: set[socket.socket] = set()
        self._connections: set[socket.socket] = set()
        self._stopping = False
        self._tls = tls
        self._server = _Server(self)

    def __enter__(self) -> FakeApi:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        with self.changed:
            self._stopping = True
            self.changed.notify_all()
        self._server.shutdown()
        self.cut_connections()
        self._server.server_close()

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}"

    # ------------------------------------------------------------------ what a test does

    def rule(self, matches: Callable[[Request], bool], fault: Fault, times: int = 1) -> Rule:
        """Lets requests that match meet a fault, so many times (-1: always)."""
        rule = Rule(matches, fault, times)
        with self.changed:
            self._rules.append(rule)
        return rule

    def drop(self, rule: Rule) -> None:
        with self.changed:
            rule.times = 0

    def put(self, collection: str, document: Json) -> None:
        """Adds or changes an object, as someone else would."""
        with self.changed:
            self._store(collection, document)

    def delete(self, collection: str, key: str) -> None:
        with self.changed:
            document = self._objects[collection].pop(key)
            self._version += 1
            gone = copy.deepcopy(document)
            gone["metadata"]["resourceVersion"] = str(self._version)
            self._events.append((self._version, collection, "DELETED", gone))
            self.changed.notify_all()

    def keys(self, collection: str = TEMPLATES) -> list[str]:
        with self.changed:
            return sorted(self._objects[collection])

    def get(self, key: str, collection: str = TEMPLATES) -> Json:
        with self.changed:
            return copy.deepcopy(self._objects[collection][key])

    def close_watches(self) -> None:
        """Ends every open watch, as a server that goes away does."""
        with self.changed:
            streams = list(self._streams)
        for stream in streams:
            with contextlib.suppress(OSError):
                stream.shutdown(socket.SHUT_RDWR)

    def cut_connections(self) -> None:
        """Cuts every connection, idle ones as well."""
        with self.changed:
            connections = list(self._connections)
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def forget_history(self) -> None:
        """Everything before now is compacted: a watch from an older version is answered with 410."""
        with self.changed:
            self._version += 1
            self._oldest = self._version

    def seen(self, matches: Callable[[Request], bool]) -> list[Request]:
        with self.changed:
            return [request for request in self.requests if matches(request)]

    def wait_for(self, matches: Callable[[Request], bool], times: int = 1, seconds: float = 30.0) -> None:
        """Waits until so many requests that match have come."""
        with self.changed:
            done = self.changed.wait_for(lambda: sum(map(matches, self.requests)) >= times, seconds)
        assert done, f"{times} such requests did not come; seen: {[(r.method, r.path) for r in self.requests]}"

    # ------------------------------------------------------------------ what the server does

    def _store(self, collection: str, document: Json) -> Json:
        metadata = document["metadata"]
        key = "/".join(filter(None, (metadata.get("namespace"), metadata["name"])))
        self._version += 1
        kept = copy.deepcopy(document)
        kept["metadata"] |= {"resourceVersion": str(self._version), "uid": f"uid-{self._version}"}
        kind = "MODIFIED" if key in self._objects[collection] else "ADDED"
        self._objects[collection][key] = kept
        self._events.append((self._version, collection, kind, kept))
        self.changed.notify_all()
        return kept

    def _admit(self, request: Request) -> Fault | None:
        """Notes the request; the fault it meets."""
        with self.changed:
            self.requests.append(request)
            self.changed.notify_all()
            for rule in self._rules:
                if rule.times != 0 and rule.matches(request):
                    rule.times -= rule.times > 0
                    return rule.fault
            token = request.headers.get("authorization", "").removeprefix("Bearer ")
            if self.tokens is not None and token not in self.tokens:
                return Fault(401, "Unauthorized")
        return None

    def _create(self, namespace: str, request: Request) -> tuple[int, Json]:
        if self.namespaces is not None and namespace not in self.namespaces:
            return 404, status(404, f'namespaces "{namespace}" not found', "NotFound")
        made = as_stored(request.body, self.gates)
        for index, constraint in enumerate(made["spec"]["spec"]["devices"].get("constraints", [])):
            if not constraint.keys() & {"matchAttribute", "distinctAttribute"}:
                place = f"spec.spec.devices.constraints[{index}].matchAttribute"
                return 422, status(422, f"{place}: Required value", "Invalid")
        made["metadata"]["namespace"] = namespace
        made["metadata"].setdefault("name", made["metadata"].get("generateName", "") + "x7k2p")
        name = made["metadata"]["name"]
        with self.changed:
            if f"{namespace}/{name}" in self._objects[TEMPLATES]:
                return 409, status(409, f'{TEMPLATES} "{name}" already exists', "AlreadyExists")
            return 201, (made if request.query.get("dryRun") == "All" else self._store(TEMPLATES, made))

    def _list(self, collection: str, query: dict[str, str]) -> Json:
        with self.changed:
            chosen = [item for _, item in sorted(self._objects[collection].items()) if selected(item, query)]
            version = self._version
        first = int(query.get("continue", "0"))
        size = int(query.get("limit", "500"))
        metadata: Json = {"resourceVersion": str(version)}
        if first + size < len(chosen):
            metadata["continue"] = str(first + size)
        return {"kind": "List", "apiVersion": "resource.k8s.io/v1", "metadata": metadata,
                "items": chosen[first : first + size] or None}  # fmt: skip

    def _events_after(self, version: int, collection: str, query: dict[str, str]) -> Iterator[Json | None]:
        """The events of a watch; None where nothing happens for a while, for a bookmark."""
        while True:
            with self.changed:
                if version < self._oldest:
                    yield {"type": "ERROR", "object": status(410, "too old resource version", "Expired")}
                    return
                found = [event for event in self._events if event[0] > version and event[1] == collection]
                if self._stopping:
                    return
                if not found:
                    self.changed.wait(BOOKMARK_SECONDS)
                    found = [event for event in self._events if event[0] > version and event[1] == collection]
                latest = self._version
            for at, _, kind, document in found:
                version = at
                if selected(document, query):
                    yield {"type": kind, "object": document}
            if not found:
                version = max(version, latest)
                yield {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": str(version)}}}


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, api: FakeApi) -> None:
        self.api = api
        super().__init__(("127.0.0.1", 0), _Handler)

    def finish_request(self, request: Any, client_address: Any) -> None:
        with contextlib.suppress(OSError):
            # The handshake belongs to the connection's own thread.
            wrapped = self.api._tls.wrap_socket(request, server_side=True) if self.api._tls else request
            with self.api.changed:
                self.api._connections.add(wrapped)
            try:
                super().finish_request(wrapped, client_address)
            finally:
                with self.api.changed:
                    self.api._connections.discard(wrapped)
                wrapped.close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def log_message(self, format: str, *args: object) -> None:
        """No log: tests look at `requests`."""

    def do_GET(self) -> None:
        self._answer()

    do_POST = do_GET

    def _answer(self) -> None:
        api = self.server.api
        url = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        text = self.rfile.read(int(self.headers.get("content-length", "0")))
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = Request(self.command, url.path, query, headers, json.loads(text) if text else {})
        fault = api._admit(request)
        if fault is not None and self._fail(fault):
            return
        self._serve(request)

    def _fail(self, fault: Fault) -> bool:
        """Whether that was all."""
        if fault.hold is not None:
            fault.hold.wait(60)
        if fault.raw is not None or fault.cut:
            self.wfile.write(fault.raw or b"")
            self.close_connection = True
            return True
        if fault.status:
            self._send(fault.status, status(fault.status, fault.message, ""), fault.headers)
            return True
        return False

    def _send(self, code: int, document: Json, headers: dict[str, str] | None = None) -> None:
        text = json.dumps(document).encode()
        self.send_response(code)
        for name, value in {"Content-Type": "application/json", "Content-Length": str(len(text)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(text)

    def _serve(self, request: Request) -> None:
        api = self.server.api
        if request.path == "/version":
            return self._send(200, {"major": "1", "minor": api.minor, "gitVersion": f"v1.{api.minor}.0"})
        place = re.fullmatch(r"/apis/resource.k8s.io/v1(?:/namespaces/([^/]+))?/(\w+)(?:/([^/]+))?", request.path)
        if not place or place[2] not in (TEMPLATES, SLICES):
            return self._send(404, status(404, "the server could not find the requested resource", "NotFound"))
        namespace, collection, name = place.groups()
        if request.method == "POST":
            return self._send(*api._create(namespace, request))
        if request.is_watch:
            return self._watch(collection, request)
        if name is None:
            return self._send(200, api._list(collection, request.query))
        with api.changed:
            document = api._objects[collection].get(f"{namespace}/{name}")
        if document is None:
            return self._send(404, status(404, f'{collection} "{name}" not found', "NotFound"))
        return self._send(200, document)

    def _watch(self, collection: str, request: Request) -> None:
        api = self.server.api
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        with api.changed:
            api._streams.add(self.connection)
        try:
            for event in api._events_after(int(request.query["resourceVersion"]), collection, request.query):
                line = json.dumps(event).encode() + b"\n"
                self.wfile.write(f"{len(line):x}\r\n".encode() + line + b"\r\n")
                self.wfile.flush()
            self.wfile.write(b"0\r\n\r\n")
        except OSError:
            self.close_connection = True
        finally:
            with api.changed:
                api._streams.discard(self.connection)


def status(code: int, message: str, reason: str) -> Json:
    return {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "reason": reason, "code": code}


def selected(document: Json, query: dict[str, str]) -> bool:
    """Whether an object is among those that a list or watch asks for."""
    labels = document["metadata"].get("labels") or {}
    label, _, value = query.get("labelSelector", "").partition("=")
    path, _, wanted = query.get("fieldSelector", "").partition("=")
    return (not label or labels.get(label) == value) and (not path or document["spec"]["driver"] == wanted)


def as_stored(document: Json, gates: frozenset[str]) -> Json:
    """A template as a real server keeps it."""
    made = copy.deepcopy(document)
    devices = made["spec"]["spec"]["devices"]
    for request in devices.get("requests", []):
        if "DRAPrioritizedList" not in gates:
            request.pop("firstAvailable", None)
        for wish in [request["exactly"]] if "exactly" in request else request.get("firstAvailable", []):
            wish.setdefault("allocationMode", "ExactCount")
            wish.setdefault("count", 1)
            if "DRAConsumableCapacity" not in gates:
                wish.pop("capacity", None)
            amounts = wish.get("capacity", {}).get("requests", {})
            amounts |= {name: canonical(amount) for name, amount in amounts.items()}
    for constraint in devices.get("constraints", []):
        if "DRAConsumableCapacity" not in gates:
            constraint.pop("distinctAttribute", None)
    return made


def canonical(amount: str) -> str:
    """A binary quantity with the largest suffix that keeps it whole (apimachinery's canonical form)."""
    suffixes = ["", "Ki", "Mi", "Gi", "Ti"]
    number = re.fullmatch(r"(\d+)(|Ki|Mi|Gi|Ti)", amount)
    if not number or number[2] == "":
        return amount
    value, at = int(number[1]), suffixes.index(number[2])
    while value and value % 1024 == 0 and at + 1 < len(suffixes):
        value, at = value // 1024, at + 1
    return f"{value}{suffixes[at]}"


def kubeconfig(folder: Path, url: str, cluster: Json | None = None, user: Json | None = None) -> Path:
    """Writes a kubeconfig (JSON is YAML as well) for the server at `url`."""
    path = folder / "kubeconfig"
    document = {
        "apiVersion": "v1", "kind": "Config", "current-context": "fake",
        "contexts": [{"name": "fake", "context": {"cluster": "fake", "user": "fake", "namespace": "drawbridge-system"}}],
        "clusters": [{"name": "fake", "cluster": {"server": url, **(cluster or {})}}],
        "users": [{"name": "fake", "user": user or {}}],
    }  # fmt: skip
    path.write_text(json.dumps(document, indent=1))
    return path
