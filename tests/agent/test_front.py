"""Nodes with replaceLibcuda: what their containers get, and that programs in such a container are held by whatever way they
open the driver."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest
from fake_cluster import FakeCluster
from gpu_program import BUILD, MIB, start_on_nvml
from material import ROOT, Agent, wait_until
from test_cdi import inject

VERSION = "580.159"  # of the stand-in
OWN = BUILD / "standin" / "libcuda.so.1"
FOLDER = "/usr/lib64"
LIBCUDA = [f"{folder}/libcuda.so.{end}" for folder in (FOLDER, "/usr/lib/x86_64-linux-gnu") for end in ("1", VERSION)]
DRIVER = "/run/drawbridge/driver/libcuda.so.1"
FRONT = "libdrawbridge-libcuda.so"


def start(agent: Agent, replace: bool, library: Path = BUILD / "lib" / "libdrawbridge.so") -> None:
    """On the stand-in's NVML, with a driver that has a libcuda, on a host that is nothing but that."""
    (agent.folder / "host").mkdir()
    libraries = agent.folder / "driver" / FOLDER[1:]
    libraries.mkdir(parents=True)
    shutil.copy(OWN, libraries / f"libcuda.so.{VERSION}")
    set_to(agent, replace)
    start_on_nvml(agent, "--host-root", str(agent.folder / "host"), "--driver-root-on-host", str(agent.folder / "driver"), "--library", str(library),
                  "--settings", str(agent.folder / "settings.yaml"))  # fmt: skip


def set_to(agent: Agent, replace: bool) -> None:
    (agent.folder / "settings.yaml").write_text(
        f"apiVersion: drawbridge.dev/v1\nkind: AgentSettings\nnodes: [{{name: {agent.cluster.node}, replaceLibcuda: {str(replace).lower()}}}]\n")  # fmt: skip


def claim(cluster: FakeCluster, name: str) -> dict[str, Any]:
    cluster.wait_until(lambda: bool(cluster.devices()))
    return cluster.claim(name, [{"device": cluster.devices()[0]["name"], "memory": "1Gi"}])


def mounts_of(agent: Agent, claim: dict[str, Any]) -> list[dict[str, Any]]:
    spec = json.loads((agent.cdi / f"k8s.gpu.drawbridge.dev-claim_{claim['metadata']['uid']}.json").read_text())
    return spec["containerEdits"]["mounts"] + [mount for device in spec["devices"] for mount in device["containerEdits"]["mounts"]]


def prepared(agent: Agent, cluster: FakeCluster, name: str) -> dict[str, Any]:
    made = claim(cluster, name)
    assert not agent.kubelet.prepare_one(made).error
    return made


def places(agent: Agent, claim: dict[str, Any]) -> dict[str, str]:
    """What lies where in the containers of a claim; each place is named once."""
    mounts = mounts_of(agent, claim)
    lies = {mount["containerPath"]: mount["hostPath"] for mount in mounts}
    assert len(lies) == len(mounts)
    return lies


def is_fronted(lies: dict[str, str]) -> bool:
    """All of it or nothing of it."""
    fronts = {Path(lies[place]).name == FRONT for place in LIBCUDA}
    assert fronts == {DRIVER in lies}
    return DRIVER in lies


def test_by_default_containers_get_the_drivers_own_file(agent: Agent, cluster: FakeCluster) -> None:
    start(agent, False)
    lies = places(agent, prepared(agent, cluster, "one"))
    assert not is_fronted(lies)
    assert Path(lies[LIBCUDA[0]]).name == f"libcuda.so.{VERSION}"


def test_the_setting_holds_for_claims_that_begin_after_it(agent: Agent, cluster: FakeCluster) -> None:
    start(agent, True)
    first = prepared(agent, cluster, "one")
    fronted = places(agent, first)
    assert is_fronted(fronted)
    assert Path(fronted[DRIVER]).read_bytes() == OWN.read_bytes()
    assert Path(fronted[LIBCUDA[0]]).read_bytes() == (BUILD / "lib" / FRONT).read_bytes()
    assert Path(fronted[LIBCUDA[0]]).parent == Path(fronted["/etc/ld.so.preload"]).parent
    set_to(agent, False)

    def later() -> bool:
        made = prepared(agent, cluster, "later")
        had = is_fronted(places(agent, made))
        assert not agent.kubelet.unprepare(made)[made["metadata"]["uid"]].error
        return had

    wait_until(lambda: not later())
    agent.kill()
    (agent.cdi / f"k8s.gpu.drawbridge.dev-claim_{first['metadata']['uid']}.json").unlink()
    agent.start("--driver-root", str(agent.folder / "driver"), "--driver-root-on-host", str(agent.folder / "driver"),
                devices=False, DRAWBRIDGE_STANDIN_STATE=str(agent.folder / "world"))  # fmt: skip
    assert places(agent, first) == fronted


def test_without_the_front_such_a_node_gives_out_nothing(agent: Agent, cluster: FakeCluster) -> None:
    alone = agent.folder / "alone" / "libdrawbridge.so"
    alone.parent.mkdir()
    shutil.copy(BUILD / "lib" / "libdrawbridge.so", alone)
    start(agent, True, alone)
    assert "replaceLibcuda" in agent.kubelet.prepare_one(claim(cluster, "one")).error


def test_a_container_with_two_claims_gets_the_front_and_the_driver_once(agent: Agent, cluster: FakeCluster, referee: Path) -> None:
    nodes = agent.folder / "driver" / "dev"  # which the referee looks for
    nodes.mkdir(parents=True)
    for name in ("nvidiactl", "nvidia0"):
        os.mknod(nodes / name, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    start(agent, True)
    ids = []
    for name in ("one", "two"):
        [device] = agent.kubelet.prepare_one(claim(cluster, name)).devices
        ids += device.cdi_device_ids
    mounts = inject(referee, agent.cdi, *ids)["mounts"]
    lies = {mount["destination"]: mount["source"] for mount in mounts}
    assert len(lies) == len(mounts)
    assert is_fronted(lies)
    assert not [mount for mount in mounts if mount["destination"] in (*LIBCUDA, DRIVER) and "noexec" in mount["options"]]


@pytest.fixture(scope="session")
def ways(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ways")
    driver = str(OWN)
    for name, flags in {"ways": [], "linked": ["-DLINKED", driver], "plugin.so": ["-DPLUGIN", "-shared", "-fPIC", driver]}.items():
        subprocess.run(["gcc", "-w", "-o", folder / name, ROOT / "tests" / "preload" / "programs" / "ways.c", *flags], check=True)
    return folder


def entered(mounts: list[dict[str, Any]]) -> str:
    """A script that makes a container's mounts, in a mount namespace of its own, and becomes its arguments. What activates
    the library comes last, as nothing else of it lies there before."""
    lines = ["set -e", "mount -t tmpfs none /run"]
    for folder in ("/etc", FOLDER):
        layer = f"/run/layers{folder}"
        lines.append(f"mkdir -p {layer}/upper {layer}/work")
        lines.append(f"mount -t overlay -o lowerdir={folder},upperdir={layer}/upper,workdir={layer}/work none {folder}")
    for mount in sorted(mounts, key=lambda mount: mount["containerPath"] == "/etc/ld.so.preload"):
        host, inside = shlex.quote(mount["hostPath"]), shlex.quote(mount["containerPath"])
        lines.append(f"mkdir -p $(dirname {inside}); touch {inside}; mount --bind {host} {inside}")
    return "; ".join([*lines, 'exec "$@"'])


@pytest.mark.parametrize("way", [["linked", "link"], ["linked", "next"], ["ways", "private"], ["ways", "look-up"], ["ways", "namespace"], ["ways", "deep"]])
def test_a_program_in_its_container_is_held_by_every_way(agent: Agent, cluster: FakeCluster, ways: Path, way: list[str]) -> None:
    start(agent, True)
    made = prepared(agent, cluster, "one")
    plugin = [str(ways / "plugin.so")] if way[1] == "deep" else []
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", entered(mounts_of(agent, made)), "sh", str(ways / way[0]), way[1], *plugin],
        env=os.environ | {"LD_LIBRARY_PATH": FOLDER, "DRAWBRIDGE_STANDIN_STATE": str(agent.folder / "world")},
        capture_output=True, text=True, timeout=60, check=False)  # fmt: skip
    found = re.fullmatch(r"0 (\d+) 2 2 13000\n", done.stdout)
    assert found and done.stderr == "", done
    assert 200 < int(found[1]) <= (1 << 30) // (2 * MIB)
