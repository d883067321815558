"""What the webhook finds out of an API server: whether it keeps what our templates need, and what follows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from bed import daemons
from bed.accounts import account_kubeconfig, grant
from bed.cluster import Cluster, Wish
from bed.daemons import Daemon
from bed.place import own
from bed.serving import serving
from bed.space import wait_for
from bench import Bench, Names, container, pod
from test_rights import RULES

OURS = pod("p", container(gpu="1", gpumem="8000"))


def test_a_server_that_keeps_all_fields_is_found_complete(bench: Bench, minor: str) -> None:
    assert f"Kubernetes {minor} keeps all fields of our templates" in bench.installation.logs()


def test_requests_of_several_cards_have_the_form_that_the_minor_needs(bench: Bench, names: Names, minor: str) -> None:
    names.apply(pod("two", container(gpu="2", gpumem="3000")))
    (template,) = names.templates().values()
    requests = template["spec"]["spec"]["devices"]["requests"]
    assert [entry["exactly"].get("count", 1) for entry in requests] == ([1, 1] if minor == "1.35" else [2])


@pytest.fixture(scope="module")
def without_gate(minor: str) -> Iterator[Cluster]:
    """A control plane whose API server has the feature gate off, and says nothing of what it drops."""
    made = Cluster(own(f"gate-{minor.replace('.', '-')}"))
    made.up(Wish(minor, nodes=0, gates=("DRAConsumableCapacity=false",)))
    grant(made, "drawbridge", "default", "drawbridge", RULES)
    yield made
    made.down()


@pytest.mark.parametrize("old_server", ["deny", "passthrough"])
def test_a_server_that_drops_fields_silently_is_found_out(
    without_gate: Cluster, tmp_path: Path, old_server: str
) -> None:
    kubeconfig = account_kubeconfig(without_gate, "default", "drawbridge", tmp_path / "kubeconfig")
    settings = tmp_path / "settings.yaml"
    settings.write_text(f"apiVersion: drawbridge.dev/v1\nkind: Settings\npolicy: {{oldServer: {old_server}}}\n")
    with serving(without_gate.space, kubeconfig, "--settings", str(settings)) as server:
        wait_for(lambda: server.readiness()[0] == 200, "readiness: it must be there to say so")
        reason = server.readiness()[1]
        assert "capacity.requests (DRAConsumableCapacity)" in reason
        assert "DRAConsumableCapacity" in server.log.read_text(encoding="utf-8")
        assert "drawbridge_cluster_features{" in server.get("/metrics")[1] or "gate" in server.get("/metrics")[1]
        status, response = server.review(OURS, "default")
        assert status == 200 and "patch" not in response
        assert response["allowed"] == (old_server == "passthrough")
        said = response["status"]["message"] if old_server == "deny" else " ".join(response["warnings"])
        assert "DRAConsumableCapacity" in said
    assert not without_gate.api.get("/apis/resource.k8s.io/v1/resourceclaimtemplates")["items"]


def test_such_a_server_really_drops_what_a_share_is_made_of(without_gate: Cluster) -> None:
    """Why the probe is there: the template is taken, and asks for a whole card."""
    exactly = {"deviceClassName": "gpu.drawbridge.dev", "capacity": {"requests": {"memory": "8000Mi"}}}
    template = {
        "metadata": {"name": "share"},
        "spec": {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}},
    }
    path = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates"
    kept = without_gate.api.call("POST", f"{path}?dryRun=All", template)
    assert "capacity" not in kept["spec"]["spec"]["devices"]["requests"][0]["exactly"]


def test_a_scheduler_with_the_gate_off_is_told_on_the_pod(bench: Bench, names: Names, minor: str) -> None:
    """Nothing can probe a scheduler; what it says of our pods is in their conditions. That of 1.35 says nothing."""
    space, release = bench.cluster.space, bench.cluster.release()
    usual = daemons.scheduler(bench.cluster.place, release)
    space.kill("kube-scheduler")
    off = [word for word in usual.command if not word.startswith("--feature-gates")]
    try:
        bench.cluster.start(Daemon(usual.name, [*off, "--feature-gates=DRAConsumableCapacity=false"]), release)
        names.apply(OURS)
        if minor == "1.35":
            (results,) = names.allocated("p").values()
            assert [result.get("consumedCapacity") for result in results] == [None], "it keeps account of shares now"
            return

        def said() -> str | None:
            conditions = names.pod("p").get("status", {}).get("conditions") or []
            return next((entry.get("message") for entry in conditions if entry["type"] == "PodScheduled"), None)

        assert "DRAConsumableCapacity" in wait_for(said, "the scheduler to give a reason")
    finally:
        space.kill("kube-scheduler")
        bench.cluster.start(usual, release)
    names.delete_pod("p")
    names.apply(OURS)
    names.allocated("p")
