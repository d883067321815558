"""Real processes on the shares that the agent makes: the preload library over the stand-in driver."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from fake_cluster import FakeCluster
from material import DRIVER, NVML, ROOT, Agent

BUILD = Path(os.environ.get("DRAWBRIDGE_PRELOAD_BUILD", ROOT / "build" / "debug"))
MIB = 1 << 20
HEAD = f"import sys, os, ctypes, time; sys.path.insert(0, {str(ROOT / 'tests/preload/record')!r}); from driver import *; cu = Driver(); cu.start(); "

# A kernel of the stand-in runs a microsecond a block.
KERNEL = """
function = ctypes.c_void_p(); cu.call('cuModuleGetFunction', ctypes.byref(function), 0, 0)
def launch(blocks=1000):
    return cu.library.cuLaunchKernel(function, blocks, 1, 1, 1, 1, 1, 0, None, None, None)
def work(milliseconds):
    assert {launch() for _ in range(milliseconds)} == {0}
    cu.must('cuCtxSynchronize')
"""


def card(number: int = 1) -> dict[str, Any]:
    """An entry of a DeviceList that is a card of the stand-in."""
    return {"uuid": f"GPU-5d000000-0000-0000-0000-{number:012x}", "memory": "80Gi", "deviceNodes": ["/dev/null"]}


class Container:
    """What a container with one share sees: the library in its place, and that share alone."""

    def __init__(self, agent: Agent, share: str) -> None:
        self.share = agent.plugin / "shares" / share
        self.root = agent.folder / f"container-{share}"
        (self.root / "lib").mkdir(parents=True)
        (self.root / "shares").mkdir()
        (self.root / "shares" / share).symlink_to(self.share)
        self.library = self.root / "lib" / "libdrawbridge.so"
        self.library.write_bytes((BUILD / "lib" / "libdrawbridge.so").read_bytes())
        self.environment = os.environ | {
            "LD_PRELOAD": str(self.library), "LD_LIBRARY_PATH": str(BUILD / "standin"), "PYTHONDONTWRITEBYTECODE": "1",
            "DRAWBRIDGE_STANDIN_STATE": str(agent.folder / "world")}  # fmt: skip

    def run(self, script: str, preload: bool = True, mounted: bool = False) -> Program:
        """`mounted`: with the share mounted where a container has it, and with processes and mounts of its own as one has."""
        environment = self.environment if preload else {key: value for key, value in self.environment.items() if key != "LD_PRELOAD"}
        inside = f"/run/drawbridge/shares/{self.share.name}"
        # As the kubelet does, with the pod's UID in the path.
        hosts = self.root / "pods" / "pod-uid" / "etc-hosts"
        hosts.parent.mkdir(parents=True, exist_ok=True)
        hosts.touch()
        mount = f'mount -t tmpfs none /run && mkdir -p {inside} && mount --bind {self.share} {inside} && mount --bind {hosts} /etc/hosts && exec "$@"'
        return Program(script, environment, ["unshare", "--mount", "--pid", "--mount-proc", "--kill-child", "sh", "-c", mount, "sh"] if mounted else [])


def start_on_this_boot(agent: Agent, *arguments: str) -> None:
    """With a card of the stand-in, and on the boot of this machine, since a real library runs on what is made."""
    agent.devices(card())
    agent.boot_id_file.write_text(Path("/proc/sys/kernel/random/boot_id").read_text())
    agent.start(*arguments)


def start_on_nvml(agent: Agent, *arguments: str) -> None:
    """On the stand-in's NVML, in the same world as the programs."""
    root = agent.folder / "driver"
    (root / "usr" / "lib64").mkdir(parents=True, exist_ok=True)
    (root / "usr" / "lib64" / "libnvidia-ml.so.1").symlink_to(NVML)
    agent.boot_id_file.write_text(Path("/proc/sys/kernel/random/boot_id").read_text())
    agent.start("--driver-root", str(root), *arguments, devices=False, DRAWBRIDGE_STANDIN_STATE=str(agent.folder / "world"))


def container(agent: Agent, cluster: FakeCluster, name: str, policy: str = "default", priority: int = 1, **share: Any) -> Container:
    """One that was given a share of the first card."""
    parameters = {"apiVersion": "gpu.drawbridge.dev/v1", "kind": "ShareConfig", "corePolicy": policy, "priority": priority}
    config = [{"source": "FromClaim", "opaque": {"driver": DRIVER, "parameters": parameters}}]
    cluster.wait_until(lambda: bool(cluster.devices()))
    claim = cluster.claim(name, [{"device": cluster.devices()[0]["name"], "memory": "8Gi", **share}], config=config)
    assert not agent.kubelet.prepare_one(claim).error
    return Container(agent, claim["metadata"]["uid"] + "-0")


class Program:
    """A process that has set up the driver and runs a line at a time; `say` inside answers a line."""

    def __init__(self, script: str, environment: dict[str, str], before: list[str]) -> None:
        code = HEAD + "say = lambda value: print(value, flush=True)\n" + script + "\nsay('ready')\nfor line in sys.stdin: exec(line); say('done')"
        self.process = subprocess.Popen([*before, sys.executable, "-c", code], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.line() == "ready"

    def line(self) -> str:
        assert self.process.stdout
        return self.process.stdout.readline().strip()

    def start(self, statement: str) -> None:
        """Begins it, and does not wait for its end."""
        assert self.process.stdin
        self.process.stdin.write(statement + "\n")
        self.process.stdin.flush()

    def do(self, statement: str) -> None:
        self.start(statement)
        assert self.line() == "done"

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe:
                pipe.close()
