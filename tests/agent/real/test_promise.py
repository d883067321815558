"""The promise of the whole product (scenario 19): an old manifest goes in unchanged, webhook, scheduler, kubelet and agent
do what each does, and the container that runs finds its legacy numbers in its share files."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import check
import pytest
from bed import images
from bed.cluster import Cluster
from bed.drawbridge import Installation
from bed.space import wait_for
from bench import Bench, Names
from judge import users_of
from node import SHOW_SHARES, Limits, Node, limits_in
from submit import submit

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "tests" / "cases"
FLEET = check.read_fleet(FOLDER / "fleet.yaml")
CASES = [case for path in sorted(FOLDER.glob("[0-9]*.yaml")) if (case := check.read_case(path)).expect in ("translate", "warn")]
ALL_CORES = 1000
USUAL_PRIORITY = 1  # HAMi-core's, where a task names none

# Stands in for the images that the cases name. `convert` is what an init container of theirs is told to do: it ends.
ENTRYPOINT = f"""#!/bin/sh
{SHOW_SHARES}
echo READY
[ "$1" = convert ] && exit 0
trap 'exit 0' TERM
sleep 100000 &
wait
"""


def image_names() -> set[str]:
    return {container["image"] for case in CASES for _, container in check.containers(check.pod_spec(case.document))}


def load_images(cluster: Cluster) -> None:
    """Brings an image to the node under every name that a case has."""
    folder = cluster.place.root
    script = folder / "show-shares"
    script.write_text(ENTRYPOINT, encoding="utf-8")
    links = {f"bin/{applet}": "busybox" for applet in images.APPLETS}
    layer = images.layer_of({"bin/busybox": images.BUSYBOX, "bin/show-shares": script}, links)
    archive = folder / "case-images.tar"
    images.write_archive(archive, {name: ["/bin/show-shares"] for name in image_names()}, layer)
    images.load(cluster.space, Node(cluster).bed, cluster.release(), archive)


def as_listed(device: check.Device) -> dict:
    """A device of the test fleet as an entry of a DeviceList."""
    def text(name: str) -> str:
        return device.attribute(name)["string"]

    return {"uuid": text("uuid"), "memory": str(device.memory()), "productName": text("productName"),
            "pciBusID": text("resource.kubernetes.io/pciBusID"),
            "numaNode": device.attribute("numaNode")["int"], "deviceNodes": ["/dev/null"]}  # fmt: skip


@pytest.fixture(scope="module")
def bench(cluster: Cluster, session_node: Node) -> Bench:
    """The webhook, the agent, and the cards of the whole test fleet on the one node."""
    installation = Installation(cluster)
    installation.install()
    load_images(cluster)
    session_node.devices(*(as_listed(device) for device in FLEET.values()))
    session_node.start()
    wait_for(lambda: session_node.published() == len(FLEET), "the fleet to be published")
    return Bench(cluster, installation)


@pytest.fixture
def names(bench: Bench) -> Iterator[Names]:
    """A namespace of the test's own; what is in it ends as its pods have it, while the next test is at work."""
    made = bench.namespace(f"t-{uuid.uuid4().hex[:8]}")
    yield made
    bench.api.call("DELETE", f"/api/v1/namespaces/{made.name}")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.path.stem)
def test_19_a_container_finds_its_legacy_numbers(names: Names, case: check.Case) -> None:
    done, said = submit(names, case)
    assert done.returncode == 0, said
    pods = wait_for(lambda: all_pods(names, case), f"all pods: {said}")
    for pod in pods:
        if not may_run(case):
            names.pends(pod["metadata"]["name"])
            continue
        running(names, pod)
        judge(case, pod, {name: limits_in(log(names, pod, name)) for name in case.shares})


def test_19_every_case_that_translates_is_among_them() -> None:
    texts = ["\n" + path.read_text(encoding="utf-8") for path in FOLDER.glob("*.yaml")]
    assert len(CASES) == sum("\n# expect: translate\n" in text or "\n# expect: warn\n" in text for text in texts) > 0


def all_pods(names: Names, case: check.Case) -> list[dict] | None:
    pods = names.listed("pods")
    return pods if len(pods) >= (case.document.get("spec") or {}).get("replicas", 1) else None


def may_run(case: check.Case) -> bool:
    return all(case.devices(name, FLEET) for name, share in case.shares.items() if share)


def log(names: Names, pod: dict, container: str) -> str:
    status, _, text = names.api.exchange("GET", f"{names.path('pods', pod['metadata']['name'])}/log?container={container}")
    return text if status == 200 else ""


def running(names: Names, pod: dict) -> None:
    """Waits until every container of a pod has shown what it sees."""
    name = pod["metadata"]["name"]
    for _, container in check.containers(pod["spec"]):
        wait_for(lambda: "READY" in log(names, pod, container["name"]),  # noqa: B023
                 f"container {container['name']} of {name}\n{names.kubectl('get', 'events').stdout}")  # fmt: skip
    wait_for(lambda: names.pod(name)["status"]["phase"] == "Running", f"{name} to be known to run")


def judge(case: check.Case, pod: dict, seen: dict[str, list[Limits]]) -> None:
    """Each container has a share of as many cards as its header says, each of what it says; others have none."""
    cards = {device.attribute("uuid")["string"]: device for device in FLEET.values()}
    by_container = {name: users for users in users_of(pod).values() for name in users}
    for name, share in case.shares.items():
        got = seen[name]
        if share is None:
            assert got == [], f"{name} asked for nothing"
            continue
        users = by_container[name]
        assert len({limits.uuid for limits in got}) == len(got) == share.devices, name
        for limits in got:
            device = cards[limits.uuid]
            assert device.name in case.devices(name, FLEET), f"{name} got {device.name}, which may not serve it"
            assert limits == right(device, [case.shares[user] for user in users]), name


def right(device: check.Device, shares: list[check.Share | None]) -> Limits:
    """The limits of a share of this card that serves these containers: the most that one of them asked for."""
    asked = [share for share in shares if share]
    cores = max(share.cores for share in asked)
    return Limits(
        device.attribute("uuid")["string"],
        max(share.memory_on(device) for share in asked),
        cores * 10 if cores else ALL_CORES,
        USUAL_PRIORITY if asked[0].priority is None else asked[0].priority)  # fmt: skip
