"""The preload library in containers of a real runtime: there, loaded, and noticed by nobody."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from bed import images
from bed.cluster import Cluster
from bed.space import wait_for
from node import LIBRARY, Node, Pods, share

IMAGE = "test.local/dynamic:1"
# Debian's own cat needs the loader and libc; busybox is linked statically.
PROGRAM = Path("/bin/cat")
LIBRARIES = ("/lib64/ld-linux-x86-64.so.2", "/lib/x86_64-linux-gnu/libc.so.6")
SHOW = """
busybox cat /etc/ld.so.preload > /seen && echo "STATIC $(cat /seen)"
/usr/bin/cat /proc/self/maps > /maps 2> /messages; echo "DYNAMIC $?"
while read -r line; do echo "MESSAGE $line"; done < /messages
busybox grep -F libdrawbridge.so /maps && echo READY
trap 'exit 0' TERM; sleep 100000 & wait
"""


@pytest.fixture(scope="module")
def image(cluster: Cluster, session_node: Node) -> str:
    """An image with a program that is linked dynamically, and one that is not."""
    files = {"bin/busybox": images.BUSYBOX, "usr/bin/cat": PROGRAM} | {name[1:]: Path(name) for name in LIBRARIES}
    layer = images.layer_of(files, {f"bin/{applet}": "busybox" for applet in images.APPLETS})
    archive = cluster.place.root / "dynamic.tar"
    images.write_archive(archive, {IMAGE: ["/bin/busybox", "sh", "-c", SHOW]}, layer)
    images.load(cluster.space, session_node.bed, cluster.release(), archive)
    return IMAGE


@pytest.fixture
def next_build(node: Node, tmp_path: Path) -> Iterator[Path]:
    """Another build of the library: what stands behind the end of an ELF file changes nothing of what it does."""
    file = tmp_path / "libdrawbridge.so"
    file.write_bytes(LIBRARY.read_bytes() + b"next")
    yield file
    node.stop()  # so that the next test finds an agent with the usual one


def start(pods: Pods, name: str, image: str, template: str) -> None:
    pods.start(name, {"main": ["gpu"]}, {"gpu": {"resourceClaimTemplateName": template}}, image=image)


def build_of(node: Node, pods: Pods, name: str) -> str:
    """The folder of the build that a pod's CDI file names."""
    [entry] = pods.get(name)["status"]["resourceClaimStatuses"]
    [uid] = [claim["metadata"]["uid"] for claim in pods.claims() if claim["metadata"]["name"] == entry["resourceClaimName"]]
    text = (node.bed.cdi / f"k8s.gpu.drawbridge.dev-claim_{uid}.json").read_text()
    return next(path.name for path in (node.plugin / "lib").iterdir() if f"/lib/{path.name}/" in text)


def test_programs_of_both_kinds_run_and_only_the_dynamic_one_has_it(node: Node, pods: Pods, image: str) -> None:
    start(pods, "one", image, pods.template("t", share("2Gi")))
    pods.running("one")
    log = pods.log("one").splitlines()
    assert "STATIC /run/drawbridge/lib/libdrawbridge.so" in log and "DYNAMIC 0" in log
    assert [line for line in log if "r-xp" in line and line.endswith("/run/drawbridge/lib/libdrawbridge.so")]
    assert not [line for line in log if line.startswith("MESSAGE")]


def test_a_running_container_keeps_its_build_over_an_upgrade(node: Node, pods: Pods, image: str, next_build: Path) -> None:
    template = pods.template("t", share("2Gi"))
    start(pods, "old", image, template)
    pods.running("old")
    build = build_of(node, pods, "old")
    node.stop()
    node.start(library=next_build)
    start(pods, "new", image, template)
    pods.running("new")
    assert build_of(node, pods, "new") != build
    # A container that is started again, without another prepare, still finds the files of its build.
    node.end_containers()
    wait_for(lambda: pods.get("old")["status"]["containerStatuses"][0]["restartCount"] > 0, "the container to start anew")
    pods.running("old")
    assert build_of(node, pods, "old") == build
    pods.delete("old")
    wait_for(lambda: len(node.shares()) == 1, "the old claim to be unprepared")
    node.stop()
    node.start(library=next_build)  # which looks after the files at once, and every minute from then on
    wait_for(lambda: build not in {path.name for path in (node.plugin / "lib").iterdir()}, "the old build to go")
    pods.running("new")
