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

    def generate(self, *arguments: str, mode: str = "nvml") -> None:
        subprocess.run([str(self.program), "cdi", "generate", f"--mode={mode}", f"--driver-root={self.root}", f"--output={self.spec}",
                        f"--nvidia-cdi-hook-path={self.hook}", *arguments], check=True, env=os.environ | nvml(self.agent))  # fmt: skip

    def start(self, *arguments: str) -> int:
        return started(self.agent, "--driver-root", str(self.root), "--driver-root-on-host", str(self.root), *arguments,
                       devices=False, **nvml(self.agent))  # fmt: skip


@pytest.fixture
def toolkit(nvidia_ctk: Path, agent: Agent) -> Toolkit:
    return Toolkit(nvidia_ctk, agent)


def claimed(agent: Agent, cluster: FakeCluster, name: str = "c") -> list[str]:
    """The CDI names of a claim with a share of each card."""
    cluster.wait_until(lambda: len(cluster.devices()) == 2)
    claim = cluster.claim(name, [{"device": device["name"], "memory": "1Gi"} for device in cluster.devices()])
    return [id for device in agent.kubelet.prepare_one(claim).devices for id in device.cdi_device_ids]


def container(agent: Agent, cluster: FakeCluster, referee: Path) -> dict[str, Any]:
    """What a runtime makes of a container with a share of each card."""
    return inject(referee, agent.cdi, *claimed(agent, cluster))


def nodes_of(spec: dict[str, Any]) -> list[str]:
    return sorted(device["path"] for device in spec["linux"]["devices"])


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
    assert lies[f"{FOLDER}/libcuda.so.1"] == lies[f"{FOLDER}/libcuda.so.{VERSION}"]
    assert nodes_of(spec) == ["/dev/nvidia-uvm", "/dev/nvidia0", "/dev/nvidia1", "/dev/nvidiactl"]
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


@pytest.mark.parametrize("comes", [True, False])
def test_a_container_with_a_claim_from_before_the_specification_came_or_went_and_one_from_after_starts(
    agent: Agent, cluster: FakeCluster, referee: Path, toolkit: Toolkit, comes: bool
) -> None:
    """The hook that makes links fails where something is mounted, and the container with it."""
    aside = toolkit.spec.with_suffix(".aside")
    if comes:
        toolkit.spec.rename(aside)
    toolkit.start()
    before = claimed(agent, cluster, "before")

    def looks() -> int:
        return len([entry for entry in agent.log if entry["msg"] == "inventory"])

    looked = looks()
    aside.rename(toolkit.spec) if comes else toolkit.spec.rename(aside)
    wait_until(lambda: looks() > looked)
    after = claimed(agent, cluster, "after")
    styles = [bool(hooks_of(inject(referee, agent.cdi, *ids))) for ids in (before, after)]
    assert styles == [not comes, comes]
    spec = inject(referee, agent.cdi, *before, *after)
    mounted = {mount["destination"] for mount in spec["mounts"]}
    links = {argument.split("::")[1] for hook in spec["hooks"]["createContainer"] for argument in hook["args"] if "::" in argument}
    assert f"{FOLDER}/libcuda.so" in links and not links & mounted


@pytest.mark.parametrize(
    "options",
    [{"mode": "management"}, {"arguments": ["--device-name-strategy=type-index"]}, {"arguments": ["--device-name-strategy=index", "--no-all-device"]}],
)  # fmt: skip
def test_whatever_names_the_toolkit_gives_a_container_has_its_card_and_the_control_nodes(
    agent: Agent, cluster: FakeCluster, referee: Path, toolkit: Toolkit, options: dict[str, Any]
) -> None:
    toolkit.generate(*options.get("arguments", []), mode=options.get("mode", "nvml"))
    toolkit.start()
    one, two = claimed(agent, cluster)
    for number, id in enumerate((one, two)):
        spec = inject(referee, agent.cdi, id)
        assert "update-ldcache" in hooks_of(spec)
        assert nodes_of(spec) == ["/dev/nvidia-uvm", f"/dev/nvidia{number}", "/dev/nvidiactl"]


def test_a_specification_from_before_a_card_was_moved_is_not_used(agent: Agent, cluster: FakeCluster, referee: Path, toolkit: Toolkit) -> None:
    whole = toolkit.spec.read_text()
    toolkit.spec.write_text(whole.replace("nvidia0", "nvidia-").replace("nvidia1", "nvidia0").replace("nvidia-\n", "nvidia1\n"))
    port = toolkit.start()
    for number, id in enumerate(claimed(agent, cluster)):
        spec = inject(referee, agent.cdi, id)
        assert nodes_of(spec) == ["/dev/nvidia-uvm", f"/dev/nvidia{number}", "/dev/nvidiactl"]
    assert "whose that is not" in get(port, "/readyz")[1]


def test_without_the_hook_for_the_linkers_cache_libraries_are_mounted_under_all_their_names(
    agent: Agent, cluster: FakeCluster, referee: Path, toolkit: Toolkit
) -> None:
    toolkit.generate("--disable-hook=all")
    toolkit.start()
    spec = container(agent, cluster, referee)
    assert {f"{folder}/libcuda.so.1" for folder in (FOLDER, "/usr/lib64")} <= {mount["destination"] for mount in spec["mounts"]}


def test_what_is_no_cdi_file_keeps_nobody_from_those_that_are(agent: Agent, cluster: FakeCluster, referee: Path, toolkit: Toolkit) -> None:
    folder = toolkit.spec.parent
    os.mkfifo(folder / "a.yaml")  # nobody writes to it
    (folder / "b.json").mkdir()
    (folder / "c.yaml").symlink_to("c.yaml")
    (folder / "d.yaml").symlink_to("/dev/zero")
    (folder / "e.yaml").symlink_to("/nowhere")
    (folder / "f.yaml").write_bytes(b"\xff\xfekind: nvidia.com/gpu\0")
    (folder / 'g"\n.yaml').write_text("kind: nvidia.com/gpu\ncontainerEdits: {netDevices: []}\n")
    port = toolkit.start()
    assert "update-ldcache" in hooks_of(container(agent, cluster, referee))
    assert get(port, "/readyz")[0] == 200
