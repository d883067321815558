"""Nodes with NVIDIA's container toolkit: containers get the driver as its CDI specification says, which `nvidia-ctk` writes here
from the stand-in's NVML."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest
from fake_cluster import FakeCluster
from gpu_program import BUILD
from material import NVML, Agent, get, wait_until
from test_cdi import inject
from test_node import nvml, started

VERSION = "580.159"  # of the stand-in
FOLDER = "/usr/lib/x86_64-linux-gnu"


@pytest.fixture(scope="session")
def nvidia_ctk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    built = tmp_path_factory.mktemp("toolkit") / "nvidia-ctk"
    subprocess.run(["go", "build", "-o", str(built), "github.com/NVIDIA/nvidia-container-toolkit/cmd/nvidia-ctk"],
                   cwd=Path(__file__).resolve().parent / "nvidia_ctk", check=True)  # fmt: skip
    return built


class Toolkit:
    """A driver with all that the toolkit looks for, below a folder, and what the toolkit writes of it."""

    def __init__(self, program: Path, agent: Agent) -> None:
        self.program, self.agent = program, agent
        self.root = agent.folder / "driver"
        self.hook = agent.folder / "nvidia-cdi-hook"
        self.spec = agent.folder / "static" / "nvidia.yaml"
        libraries = self.root / FOLDER[1:]
        for folder in (libraries, self.root / "usr" / "bin", self.root / "dev"):
            folder.mkdir(parents=True)
        shutil.copy(NVML, libraries / f"libnvidia-ml.so.{VERSION}")
        shutil.copy(BUILD / "standin" / "libcuda.so.1", libraries / f"libcuda.so.{VERSION}")
        for name in ("libnvidia-ml", "libcuda"):
            (libraries / f"{name}.so.1").symlink_to(f"{name}.so.{VERSION}")
        for number, name in enumerate(("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm")):
            os.mknod(self.root / "dev" / name, 0o666 | stat.S_IFCHR, os.makedev(195, number))
        self.hook.touch(mode=0o755)
        self.generate()

    def generate(self) -> None:
        subprocess.run([str(self.program), "cdi", "generate", "--mode=nvml", f"--driver-root={self.root}", f"--output={self.spec}",
                        f"--nvidia-cdi-hook-path={self.hook}"], check=True, env=os.environ | nvml(self.agent))  # fmt: skip

    def start(self, *arguments: str) -> int:
        return started(self.agent, "--driver-root", str(self.root), "--driver-root-on-host", str(self.root), *arguments,
                       devices=False, **nvml(self.agent))  # fmt: skip


@pytest.fixture
def toolkit(nvidia_ctk: Path, agent: Agent) -> Toolkit:
    return Toolkit(nvidia_ctk, agent)


def container(agent: Agent, cluster: FakeCluster, referee: Path) -> dict[str, Any]:
    """What a runtime makes of a container with a share of each card."""
    cluster.wait_until(lambda: len(cluster.devices()) == 2)
    claim = cluster.claim("c", [{"device": device["name"], "memory": "1Gi"} for device in cluster.devices()])
    ids = [id for device in agent.kubelet.prepare_one(claim).devices for id in device.cdi_device_ids]
    return inject(referee, agent.cdi, *ids)


def hooks_of(spec: dict[str, Any]) -> set[str]:
    return {hook["args"][1] for hook in spec.get("hooks", {}).get("createContainer", [])}


def test_a_container_gets_the_driver_and_the_hooks_of_the_toolkit(
    agent: Agent, cluster: FakeCluster, referee: Path, toolkit: Toolkit
) -> None:
    toolkit.start()
    spec = container(agent, cluster, referee)
    assert {"create-symlinks", "update-ldcache"} <= hooks_of(spec)
    lies = {mount["destination"]: mount["source"] for mount in spec["mounts"]}
    assert lies[f"{FOLDER}/libcuda.so.{VERSION}"] == f"{toolkit.root}{FOLDER}/libcuda.so.{VERSION}"
    assert f"{FOLDER}/libcuda.so.1" not in lies  # a link, which its hook makes
    assert sorted(device["path"] for device in spec["linux"]["devices"]) == ["/dev/nvidia-uvm", "/dev/nvidia0", "/dev/nvidia1", "/dev/nvidiactl"]
    assert spec["process"]["env"].count("NVIDIA_VISIBLE_DEVICES=void") == 1


def test_the_front_takes_the_place_of_the_toolkits_libcuda(agent: Agent, cluster: FakeCluster, referee: Path, toolkit: Toolkit) -> None:
    settings = agent.folder / "settings.yaml"
    settings.write_text("apiVersion: drawbridge.dev/v1\nkind: AgentSettings\nreplaceLibcuda: true\n")
    toolkit.start("--library", str(BUILD / "lib" / "libdrawbridge.so"), "--settings", str(settings))
    lies = {mount["destination"]: mount["source"] for mount in container(agent, cluster, referee)["mounts"]}
    assert Path(lies[f"{FOLDER}/libcuda.so.{VERSION}"]).name == "libdrawbridge-libcuda.so"
    assert lies["/run/drawbridge/driver/libcuda.so.1"] == f"{toolkit.root}{FOLDER}/libcuda.so.{VERSION}"


def test_a_specification_of_another_driver_is_not_used_and_told(agent: Agent, cluster: FakeCluster, referee: Path, toolkit: Toolkit) -> None:
    whole = toolkit.spec.read_text()
    toolkit.spec.write_text(whole.replace(VERSION, "570.86"))
    port = toolkit.start()
    spec = container(agent, cluster, referee)
    assert hooks_of(spec) == set()
    lies = {mount["destination"]: mount["source"] for mount in spec["mounts"]}
    for folder in (FOLDER, "/usr/lib64"):  # where Debian's linker looks, and where others do
        assert lies[f"{folder}/libcuda.so.1"] == f"{toolkit.root}{FOLDER}/libcuda.so.{VERSION}"
    wait_until(lambda: get(port, "/readyz")[0] == 200)
    assert f"nvidia-ctk cdi generate --output={toolkit.spec}" in get(port, "/readyz")[1]
    toolkit.generate()
    wait_until(lambda: "nvidia-ctk" not in get(port, "/readyz")[1])
