"""A kube-apiserver as far as the agent uses one: a Node, ResourceClaims, ResourceSlices with watch, Events, and faults.

Standard library only. Slices are kept as a real server keeps them: fields of gates that are off are dropped, quantities
are written in canonical form, taints get a time.
"""

from __future__ import annotations

import copy
import json
import re
import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

Json = dict[str, Any]
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/{}/resourceclaims"
EVENTS = "/apis/events.k8s.io/v1/namespaces/{}/events"
DRIVER = "gpu.drawbridge.dev"


@dataclass
class Request:
    method: str
    path: str
    query: dict[str, str]
    body: Json
    content_type: str = ""


@dataclass
class Fault:
    """What happens in place of the answer: a status, or a connection that is cut; first a wait for `hold`."""

    matches: Callable[[Request], bool]
    status: int = 500
    times: int = -1  # how often; -1: always
    hold: threading.Event | None = None
    pass_on: bool = False  # after the wait, the true answer


class FakeCluster:
    def __init__(self, node: str = "node-1", minor: str = "36", sharing: bool = True, taints: bool = True) -> None:
        self.node, self.minor, self.sharing, self.taints = node, minor, sharing, taints
        self.device_status = True  # gate DRAResourceClaimDeviceStatus
        self.changed = threading.Condition()
        self.requests: list[Request] = []
        self.faults: list[Fault] = []
        self.down = False
        self._objects: dict[str, Json] = {}  # by path
        self._events: list[tuple[int, str, Json]] = []  # of slices
        self._version = 10
        self._stopping = False
        self.put("/api/v1/nodes/" + node, {"kind": "Node", "metadata": {"name": node}, "status": {"allocatable": {}}})
        self._server = _Server(self)

    def __enter__(self) -> FakeCluster:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        with self.changed:
            self._stopping = True
            self.changed.notify_all()
        self._server.shutdown()
        self._server.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    # ------------------------------------------------------------------ what a test does

    def put(self, path: str, document: Json) -> Json:
        with self.changed:
            self._version += 1
            kept = copy.deepcopy(document)
            before = self._objects.get(path)
            uid = before["metadata"]["uid"] if before else str(uuid.uuid4())
            kept["metadata"] = {"uid": uid} | kept["metadata"] | {"resourceVersion": str(self._version)}
            self._objects[path] = kept
            if path.startswith(SLICES):
                self._events.append((self._version, "MODIFIED" if before else "ADDED", kept))
            self.changed.notify_all()
            return kept

    def delete(self, path: str) -> None:
        with self.changed:
            self._version += 1
            gone = self._objects.pop(path)
            gone = gone | {"metadata": gone["metadata"] | {"resourceVersion": str(self._version)}}
            if path.startswith(SLICES):
                self._events.append((self._version, "DELETED", gone))
            self.changed.notify_all()

    def slices(self) -> list[Json]:
        with self.changed:
            return [copy.deepcopy(item) for path, item in sorted(self._objects.items()) if path.startswith(SLICES)]

    def wipe_slices(self) -> None:
        """As a kubelet does when it starts."""
        for item in self.slices():
            self.delete(f"{SLICES}/{item['metadata']['name']}")

    def devices(self) -> list[Json]:
        return [device for item in self.slices() for device in item["spec"].get("devices", [])]

    def wait_until(self, holds: Callable[[], bool], seconds: float = 30.0) -> None:
        with self.changed:
            assert self.changed.wait_for(holds, seconds), "it did not come to that"

    def claim(self, name: str, shares: list[Json], namespace: str = "default", uid: str | None = None, **spec: Any) -> Json:
        """Adds a ResourceClaim that is allocated and reserved for a pod. A share is `device`, and what it takes."""
        results = []
        for at, share in enumerate(shares):
            amounts = {"memory": share.get("memory", "1Gi"), "cores": str(share.get("cores", 0)), "slots": str(share.get("slots", 1))}
            results.append({"request": share.get("request", f"gpu-{at}"), "driver": share.get("driver", DRIVER),
                            "pool": share.get("pool", self.node), "device": share["device"],
                            "shareID": share.get("shareID", str(uuid.uuid4())), "consumedCapacity": amounts})  # fmt: skip
            if share.get("whole"):
                del results[-1]["shareID"], results[-1]["consumedCapacity"]
            if share.get("admin"):
                results[-1]["adminAccess"] = True
        document = {
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
            "metadata": {"name": name, "namespace": namespace, "uid": uid or str(uuid.uuid4())},
            "status": {"allocation": {"devices": {"results": results, "config": spec.get("config", [])}},
                       "reservedFor": [{"resource": "pods", "name": "pod-" + name, "uid": str(uuid.uuid4())}]},
        }  # fmt: skip
        return self.put(f"{CLAIMS.format(namespace)}/{name}", document)

    def delete_claim(self, claim: Json) -> None:
        self.delete(f"{CLAIMS.format(claim['metadata']['namespace'])}/{claim['metadata']['name']}")

    def claim_now(self, claim: Json) -> Json:
        found = self.get(f"{CLAIMS.format(claim['metadata']['namespace'])}/{claim['metadata']['name']}")
        assert found
        return found

    def events(self, namespace: str) -> list[Json]:
        with self.changed:
            prefix = EVENTS.format(namespace) + "/"
            return [copy.deepcopy(item) for path, item in sorted(self._objects.items()) if path.startswith(prefix)]

    def count(self, method: str, part: str) -> int:
        with self.changed:
            return sum(request.method == method and part in request.path for request in self.requests)

    # ------------------------------------------------------------------ what the server does

    def admit(self, request: Request) -> Fault | None:
        with self.changed:
            self.requests.append(request)
            self.changed.notify_all()
            for fault in self.faults:
                if fault.times != 0 and fault.matches(request):
                    fault.times -= fault.times > 0
                    return fault
        return None

    def write_slice(self, request: Request) -> tuple[int, Json]:
        body = request.body
        name = body.get("metadata", {}).get("name") if request.method == "POST" else request.path.rsplit("/", 1)[1]
        path = f"{SLICES}/{name}"
        with self.changed:
            before = self._objects.get(path)
            if request.method == "POST" and before:
                return 409, status(409, "already exists")
            if request.method != "POST" and not before:
                return 404, status(404, "not found")
            if request.method == "DELETE":
                wanted = body.get("preconditions", {})
                if any(before["metadata"][key] != value for key, value in wanted.items()):
                    return 409, status(409, "precondition failed")
                self.delete(path)
                return 200, status(200, "")
            if before and body["metadata"].get("resourceVersion") != before["metadata"]["resourceVersion"]:
                return 409, status(409, "the object has been modified")
            kept = self._as_stored(body)
            if request.query.get("dryRun") == "All":
                return 200, kept
            return (200 if before else 201), self.put(path, kept)

    def _as_stored(self, body: Json) -> Json:
        kept = copy.deepcopy(body)
        for device in kept["spec"].get("devices", []):
            if not self.sharing:
                device.pop("allowMultipleAllocations", None)
                for capacity in device.get("capacity", {}).values():
                    capacity.pop("requestPolicy", None)
            if not self.taints:
                device.pop("taints", None)
            for taint in device.get("taints", []):
                taint.setdefault("timeAdded", "2026-01-01T00:00:00Z")
        return kept

    def apply_claim_status(self, request: Request) -> tuple[int, Json]:
        """Server-side apply, with the driver of the field manager as the owner of its entries."""
        path = request.path.removesuffix("/status")
        with self.changed:
            claim = self.get(path)
            if not claim:
                return 404, status(404, "not found")
            if request.body["metadata"].get("uid", claim["metadata"]["uid"]) != claim["metadata"]["uid"]:
                return 409, status(409, "the UID in the precondition is another one")
            kept = claim["status"]
            key = ("driver", "pool", "device", "shareID")
            allocated = [tuple(result.get(name) for name in key) for result in kept.get("allocation", {"devices": {"results": []}})["devices"]["results"]]
            entries = request.body["status"]["devices"]
            if any(tuple(entry.get(name) for name in key) not in allocated for entry in entries):
                return 422, status(422, "must be an allocated device in the claim")
            if self.device_status:
                others = [entry for entry in kept.get("devices", []) if entry["driver"] != request.query["fieldManager"]]
                kept["devices"] = others + entries
            return 200, self.put(path, claim)

    def write_event(self, request: Request) -> tuple[int, Json]:
        with self.changed:
            path = request.path if request.method == "PATCH" else f"{request.path}/{request.body['metadata']['name']}"
            before = self.get(path)
            if request.method == "PATCH":
                return (200, self.put(path, before | request.body)) if before else (404, status(404, "not found"))
            return (409, status(409, "already exists")) if before else (201, self.put(path, request.body))

    def list_slices(self) -> Json:
        with self.changed:
            return {"kind": "ResourceSliceList", "apiVersion": "resource.k8s.io/v1",
                    "metadata": {"resourceVersion": str(self._version)}, "items": self.slices()}  # fmt: skip

    def list_claims(self, query: dict[str, str]) -> Json:
        """Those of all namespaces, a page at a time."""
        with self.changed:
            claims = [item for path, item in sorted(self._objects.items()) if "/resourceclaims/" in path]
        begin = int(query.get("continue", "0"))
        end = begin + int(query.get("limit", str(len(claims))))
        page = {"continue": str(end)} if end < len(claims) else {}
        return {"kind": "ResourceClaimList", "apiVersion": "resource.k8s.io/v1", "metadata": page, "items": claims[begin:end]}

    def get(self, path: str) -> Json | None:
        with self.changed:
            return copy.deepcopy(self._objects.get(path))

    def events_after(self, version: int):
        while True:
            with self.changed:
                self.changed.wait_for(lambda: self._stopping or self.down or any(at > version for at, _, _ in self._events), 0.5)
                if self._stopping or self.down:
                    return
                found = [event for event in self._events if event[0] > version]
                latest = self._version
            for at, kind, document in found:
                version = at
                yield {"type": kind, "object": document}
            if not found:
                version = max(version, latest)
                yield {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": str(version)}}}


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, cluster: FakeCluster) -> None:
        self.cluster = cluster
        super().__init__(("127.0.0.1", 0), _Handler)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def log_message(self, format: str, *args: object) -> None:
        """No log: tests look at `requests`."""

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        text = self.rfile.read(int(self.headers.get("content-length", "0")))
        request = Request(self.command, url.path, query, json.loads(text) if text else {}, self.headers.get("content-type", ""))
        fault = self.server.cluster.admit(request)
        if fault and fault.hold:
            fault.hold.wait(60)
        if self.server.cluster.down:
            self.close_connection = True
        elif fault and not fault.pass_on:
            self._send(fault.status, status(fault.status, "made to fail"))
        else:
            self._serve(request)

    do_POST = do_PUT = do_DELETE = do_PATCH = do_GET

    def _send(self, code: int, document: Json) -> None:
        text = json.dumps(document).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def _serve(self, request: Request) -> None:
        cluster = self.server.cluster
        if request.path == "/version":
            return self._send(200, {"major": "1", "minor": cluster.minor})
        if request.path.startswith(SLICES) and request.method != "GET":
            return self._send(*cluster.write_slice(request))
        if request.path == SLICES:
            return self._watch(request) if request.query.get("watch") == "true" else self._send(200, cluster.list_slices())
        if request.path == "/apis/resource.k8s.io/v1/resourceclaims":
            return self._send(200, cluster.list_claims(request.query))
        if re.search(r"/resourceclaims/[^/]+/status$", request.path) and request.method == "PATCH":
            return self._send(*cluster.apply_claim_status(request))
        if request.path.startswith("/apis/events.k8s.io/v1/") and request.method in ("POST", "PATCH"):
            return self._send(*cluster.write_event(request))
        found = cluster.get(request.path)
        return self._send(200, found) if found else self._send(404, status(404, "not found"))

    def _watch(self, request: Request) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            for event in self.server.cluster.events_after(int(request.query["resourceVersion"])):
                line = json.dumps(event).encode() + b"\n"
                self.wfile.write(f"{len(line):x}\r\n".encode() + line + b"\r\n")
                self.wfile.flush()
            self.wfile.write(b"0\r\n\r\n")
        except OSError:
            self.close_connection = True


def status(code: int, message: str) -> Json:
    return {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "code": code}
