"""The agent's rights are those that it uses, and all of these."""

from __future__ import annotations

import re

import yaml
from fake_cluster import SLICES, FakeCluster, Request
from material import DRIVER, ROOT, Agent, device_name, gpu

RIGHTS = ROOT / "manifests" / "base" / "agent" / "rights.yaml"
VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


def granted() -> set[tuple[str, str, str]]:
    [role] = [item for item in yaml.safe_load_all(RIGHTS.read_text()) if item["kind"] == "ClusterRole"]
    return {(group, resource, verb) for rule in role["rules"] for group in rule["apiGroups"]
            for resource in rule["resources"] for verb in rule["verbs"]}  # fmt: skip


def used(request: Request) -> set[tuple[str, str, str]]:
    """The rights that a server asks for before it answers."""
    found = re.fullmatch(r"/(?:api/v1|apis/([^/]+)/v1)(?:/namespaces/[^/]+)?/([a-z]+)(?:/([^/]+))?(?:/(status))?", request.path)
    if not found:
        return set()
    group, resource, name, part = found.group(1) or "", found.group(2), found.group(3), found.group(4)
    verb = VERBS.get(request.method) or ("get" if name else "watch" if request.query.get("watch") else "list")
    rights = {(group, resource + (f"/{part}" if part else ""), verb)}
    if part:
        rights.add((group, "resourceclaims/driver", f"associated-node:{verb}"))
    return rights


def test_every_right_is_used_and_every_use_is_granted(agent: Agent, cluster: FakeCluster) -> None:
    agent.devices(*[gpu(number) for number in range(1, 66)])
    agent.start()
    cluster.wait_until(lambda: len(cluster.devices()) == 65)
    agent.devices(gpu(1), gpu(2))
    cluster.wait_until(lambda: len(cluster.devices()) == 2)
    cluster.wait_until(lambda: any(request.query.get("watch") for request in cluster.requests))
    claim = cluster.claim("one", [{"device": device_name(1)}])
    assert not agent.kubelet.prepare_one(claim).error
    cluster.wait_until(lambda: "devices" in cluster.claim_now(claim)["status"])
    agent.kubelet.prepare_one(cluster.claim("bad", [{"device": "gpu-unknown"}]))
    cluster.wait_until(lambda: len(cluster.events("default")) == 1)
    (agent.plugin / "claims" / (claim["metadata"]["uid"] + ".json")).write_text("damaged")
    agent.kubelet.register()  # at which it looks at all claims
    cluster.wait_until(lambda: cluster.count("GET", "/apis/resource.k8s.io/v1/resourceclaims") == 1)
    with cluster.changed:
        uses = set().union(*map(used, cluster.requests))
    # A series is told a minute later; notice_test.cpp has the call.
    assert uses | {("events.k8s.io", "events", "patch")} == granted()
    assert all(request.path.startswith(SLICES) for request in cluster.requests if request.method in ("PUT", "DELETE"))


def test_the_right_to_write_device_status_is_for_this_driver_alone() -> None:
    [role] = [item for item in yaml.safe_load_all(RIGHTS.read_text()) if item["kind"] == "ClusterRole"]
    [rule] = [rule for rule in role["rules"] if "resourceclaims/driver" in rule["resources"]]
    assert rule["resourceNames"] == [DRIVER]
