"""The agent's binary on folders of its own, with a fake kubelet and a fake API server around it."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import threading
import time
import urllib.error
import urllib.request
from base64 import b32encode
from pathlib import Path
from typing import Any

from fake_cluster import FakeCluster
from fake_kubelet import Kubelet

ROOT = Path(__file__).resolve().parents[2]
AGENT = Path(os.environ.get("DRAWBRIDGE_AGENT", ROOT / "build" / "release" / "bin" / "drawbridge-agent"))
SANITIZED = "san/" in str(AGENT)  # build/asan, build/tsan
# The stand-in of NVML that is built as the agent is.
NVML = Path(os.environ.get("DRAWBRIDGE_STANDIN", ROOT / "build" / "debug" / "standin")) / "libnvidia-ml.so.1"
DRIVER = "gpu.drawbridge.dev"
GIB = 1 << 30


def gpu(number: int, **more: Any) -> dict[str, Any]:
    """An entry of a DeviceList."""
    return {"uuid": f"GPU-00000000-0000-0000-0000-{number:012x}", "memory": "80Gi", "productName": "NVIDIA H200",
            "pciBusID": f"0000:{number:02x}:00.0", "numaNode": 0, "deviceNodes": ["/dev/null"], **more}  # fmt: skip


def device_name(number: int) -> str:
    digest = hashlib.sha256(gpu(number)["uuid"].encode()).digest()
    return "gpu-" + b32encode(digest).decode().lower()[:16]


def get(port: int, path: str) -> tuple[int, str]:
    """What a port of the agent answers: (status, text)."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=20) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


class Agent:
    """One node's folders, and the agents that run on them one after another."""

    def __init__(self, folder: Path, cluster: FakeCluster) -> None:
        self.folder, self.cluster = folder, cluster
        self.root = folder / "kubelet"
        self.cdi = folder / "cdi"
        self.plugin = self.root / "plugins" / DRIVER
        for path in (self.root / "plugins", self.root / "plugins_registry", self.cdi):
            path.mkdir(parents=True)
        self.devices_file = folder / "devices.json"
        self.boot_id_file = folder / "boot_id"
        self.devices(gpu(1), gpu(2))
        self.boot(1)
        self.kubeconfig = folder / "kubeconfig"
        self._write_kubeconfig()
        self.kubelet = Kubelet(self.root)
        self.program = AGENT
        self.process: subprocess.Popen[bytes] | None = None  # the one that was started last
        self.processes: list[subprocess.Popen[bytes]] = []
        self.log: list[dict[str, Any]] = []
        self._more = threading.Condition()
        self._readers: list[threading.Thread] = []

    def _write_kubeconfig(self) -> None:
        self.kubeconfig.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "fake",
            "contexts": [{"name": "fake", "context": {"cluster": "fake", "user": "fake"}}],
            "clusters": [{"name": "fake", "cluster": {"server": self.cluster.url}}],
            "users": [{"name": "fake", "user": {}}]}))  # fmt: skip

    def devices(self, *entries: dict[str, Any]) -> None:
        text = json.dumps({"apiVersion": "drawbridge.dev/v1", "kind": "DeviceList", "devices": list(entries)})
        temporary = self.devices_file.with_suffix(".new")
        temporary.write_text(text)
        temporary.rename(self.devices_file)

    def boot(self, number: int) -> None:
        self.boot_id_file.write_text(f"00000000-0000-4000-8000-{number:012x}\n")

    def start(self, *arguments: str, register: bool = True, devices: bool = True, **environment: str) -> Agent:
        """`devices`: those of the file, else those of NVML."""
        before = len(self.log)
        self.process = subprocess.Popen(
            [str(self.program), "--node", self.cluster.node, "--kubeconfig", str(self.kubeconfig),
             "--kubelet-root", str(self.root), "--cdi", str(self.cdi), *(["--devices", str(self.devices_file)] if devices else []),
             "--boot-id-file", str(self.boot_id_file), "--operator-listen", "127.0.0.1:0", *self._apart(arguments), *arguments],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=os.environ | environment)  # fmt: skip
        self.processes.append(self.process)
        reader = threading.Thread(target=self._read_log, args=(self.process,), daemon=True)
        self._readers.append(reader)
        reader.start()
        self.wait_log("started", after=before)
        if register:
            self.kubelet.close()
            self.kubelet.register()
        return self

    def _apart(self, arguments: tuple[str, ...]) -> list[str]:
        """Keeps the agent from what this machine itself has. Where it is shown another root it looks for runtimes there."""
        places = {"--runtime-socket": "no-runtime.sock", "--static-cdi": "no-cdi"}
        if "--host-root" in arguments:
            del places["--runtime-socket"]
        return [word for option, name in places.items() if option not in arguments for word in (option, str(self.folder / name))]

    def _read_log(self, process: subprocess.Popen[bytes]) -> None:
        for line in process.stderr or ():
            entry = json.loads(line) if line.startswith(b"{") else {"msg": "plain", "text": line.decode(errors="replace")}
            with self._more:
                self.log.append(entry)
                self._more.notify_all()
        with self._more:
            self.log.append({"msg": "ended"})
            self._more.notify_all()

    def wait_log(self, message: str, after: int = 0, seconds: float = 30.0, **fields: Any) -> dict[str, Any]:
        """The first line of that kind from `after` on."""
        def found() -> list[dict[str, Any]]:
            return [entry for entry in self.log[after:] if entry["msg"] == message and fields.items() <= entry.items()]

        with self._more:
            ended = self._more.wait_for(lambda: found() or self.log[after:][-1:] == [{"msg": "ended"}], seconds)
            assert ended and found(), f"no line {message} {fields} in {self.log}"
            return found()[0]

    def kill(self) -> None:
        if self.process:
            self.process.kill()
            self.process.wait()
            self._readers[-1].join()

    def kill_all(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()
        for reader in self._readers:
            reader.join()

    def stop(self) -> int:
        assert self.process
        self.process.terminate()
        return self.process.wait(30)

    def close(self) -> None:
        self.kubelet.close()
        for process in self.processes:
            if SANITIZED and process.poll() is None:
                process.terminate()  # what it leaks is told at its end
                assert process.wait(60) == 0, self.log
            process.kill()
            process.wait()
        reports = [entry["text"] for entry in self.log if "Sanitizer" in entry.get("text", "") or "runtime error" in entry.get("text", "")]
        assert reports == [], self.log

    # ------------------------------------------------------------------ what lies on disk

    def cdi_files(self) -> dict[str, Any]:
        return {path.name: json.loads(path.read_text()) for path in self.cdi.iterdir()}

    def shares(self) -> list[str]:
        return sorted(path.name for path in (self.plugin / "shares").iterdir())

    def records(self) -> dict[str, Any]:
        return {path.stem: json.loads(path.read_text())["claim"] for path in (self.plugin / "claims").glob("*.json")}


def wait_until(holds: Any, seconds: float = 30.0) -> None:
    """For what tells nobody when it changes: files."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it did not come to that"
        threading.Event().wait(0.01)
