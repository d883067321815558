"""A kubelet as far as a DRA plugin sees one: it registers what it finds, prepares, unprepares and watches health."""

from __future__ import annotations

import importlib
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import grpc

ROOT = Path(__file__).resolve().parents[2]
DRIVER = "gpu.drawbridge.dev"
DRA = "/k8s.io.kubelet.pkg.apis.dra.{}.DRAPlugin/{}"
PATIENCE = 30.0


@cache
def wire() -> Any:
    """The messages, compiled from the project's own text for this run."""
    folder = tempfile.mkdtemp(prefix="drawbridge-wire-")
    proto = ROOT / "agent" / "rpc" / "kubelet.proto"
    subprocess.run(["protoc", f"--python_out={folder}", "-I", str(proto.parent), str(proto)], check=True)
    sys.path.insert(0, folder)
    return importlib.import_module("kubelet_pb2")


class Kubelet:
    """Talks to one plugin instance."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._channels: dict[str, grpc.Channel] = {}

    def registration_sockets(self) -> list[Path]:
        return sorted(path for path in (self.root / "plugins_registry").iterdir() if not path.name.startswith("."))

    def close(self) -> None:
        for channel in self._channels.values():
            channel.close()
        self._channels.clear()

    def _channel(self, path: str) -> grpc.Channel:
        if path not in self._channels:
            self._channels[path] = grpc.insecure_channel(f"unix:{path}", options=[("grpc.default_authority", "localhost")])
        return self._channels[path]

    def _call(self, path: str, method: str, request: bytes, answer: Any, patience: float = PATIENCE) -> Any:
        call = self._channel(path).unary_unary(method, request_serializer=None, response_deserializer=answer.FromString)
        return call(request, timeout=patience, wait_for_ready=True)

    def register(self, registered: bool = True, error: str = "") -> Any:
        """Registers the newest plugin; gives its PluginInfo."""
        deadline = time.monotonic() + PATIENCE
        while not (sockets := self.registration_sockets()):
            assert time.monotonic() < deadline, "no plugin came"
            threading.Event().wait(0.01)
        path = str(max(sockets, key=lambda socket: socket.stat().st_mtime_ns))
        info = self._call(path, "/pluginregistration.Registration/GetInfo", b"", wire().PluginInfo)
        status = wire().RegistrationStatus(plugin_registered=registered, error=error)
        self._call(path, "/pluginregistration.Registration/NotifyRegistrationStatus", status.SerializeToString(),
                   wire().RegistrationStatus)  # fmt: skip
        self.endpoint = info.endpoint
        return info

    @staticmethod
    def _request(claims: tuple[dict[str, Any], ...]) -> bytes:
        names = [claim["metadata"] for claim in claims]
        request = wire().ClaimsRequest(
            claims=[wire().Claim(namespace=name["namespace"], uid=name["uid"], name=name["name"]) for name in names])  # fmt: skip
        return request.SerializeToString()

    def prepare(self, *claims: dict[str, Any], version: str = "v1", patience: float = PATIENCE) -> dict[str, Any]:
        method = DRA.format(version, "NodePrepareResources")
        answer = self._call(self.endpoint, method, self._request(claims), wire().PrepareResponse, patience)
        return dict(answer.claims)

    def prepare_one(self, claim: dict[str, Any], version: str = "v1", patience: float = PATIENCE) -> Any:
        return self.prepare(claim, version=version, patience=patience)[claim["metadata"]["uid"]]

    def unprepare(self, *claims: dict[str, Any], version: str = "v1") -> dict[str, Any]:
        method = DRA.format(version, "NodeUnprepareResources")
        answer = self._call(self.endpoint, method, self._request(claims), wire().UnprepareResponse)
        return dict(answer.claims)

    def health(self, version: str = "v1alpha1") -> Iterator[Any]:
        method = f"/{version}.DRAResourceHealth/NodeWatchResources"
        call = self._channel(self.endpoint).unary_stream(
            method, request_serializer=None, response_deserializer=wire().HealthResponse.FromString)  # fmt: skip
        return call(b"", timeout=PATIENCE, wait_for_ready=True)
