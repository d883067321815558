"""`drawbridge check` tells of a real cluster what is there and what is missing."""

from __future__ import annotations

import base64
import json
import socket
import subprocess

from bed.cluster import Cluster
from bed.drawbridge import program
from bed.hooks import CONFIGURATIONS
from bed.space import wait_for
from bench import Bench
from test_probe import without_gate  # noqa: F401  (a fixture)


def check(cluster: Cluster, *options: str) -> tuple[int, dict[str, tuple[str, str]]]:
    """The status, and by subject the state and the text."""
    done = subprocess.run(
        [*cluster.space.entering(), str(program()), "check", "--json", "--kubeconfig", str(cluster.place.kubeconfig), *options],
        capture_output=True, text=True)  # fmt: skip
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return done.returncode, {line["subject"]: (line["state"], line["text"]) for line in lines}


def test_of_a_cluster_with_everything_nothing_is_bad(bench: Bench, minor: str) -> None:
    status, found = check(bench.cluster)
    assert status == 0, found
    good = {subject for subject, (state, _) in found.items() if state == "ok"}
    assert good >= {"api", "gates", "rights", "class", "slices", "webhook"}
    assert f"v{minor}." in found["api"][1]
    assert "7 devices" in found["slices"][1]


def test_it_writes_nothing(bench: Bench) -> None:
    before = bench.api.get("/api/v1/namespaces/default/pods"), bench.installation.pods()
    status, _ = check(bench.cluster)
    assert status == 0
    after = bench.api.get("/api/v1/namespaces/default/pods"), bench.installation.pods()
    assert [each["metadata"]["uid"] for each in before[0]["items"]] == [
        each["metadata"]["uid"] for each in after[0]["items"]
    ]
    assert not bench.api.get("/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates")["items"]


def test_a_webhook_that_is_not_trusted_is_found(bench: Bench) -> None:
    path = f"{CONFIGURATIONS}/zz-drawbridge"
    before = bench.api.get(path)["webhooks"][0]["clientConfig"]
    other = bench.cluster.place.keys / "ca.crt"  # an authority, but not the one that signed

    wrong = before | {"caBundle": base64.b64encode(other.read_bytes()).decode()}
    bench.installation.set_client(wrong)
    try:
        found = wait_for(lambda: (now := check(bench.cluster))[1]["webhook"][0] == "bad" and now, "the distrust")
        assert found[0] == 2 and "certificate" in found[1]["webhook"][1]
    finally:
        bench.installation.set_client(before)
        bench.installation.wait_until_serving()


def test_an_account_without_rights_is_found(bench: Bench) -> None:
    status, found = check(bench.cluster, "--namespace", "default", "--account", "default")
    assert status == 2
    assert found["rights"][0] == "bad" and "create resourceclaimtemplates" in found["rights"][1]


def test_of_a_bare_cluster_without_the_gate_all_is_told(without_gate: Cluster) -> None:  # noqa: F811
    status, found = check(without_gate)
    assert status == 2
    assert {subject for subject, (state, _) in found.items() if state == "bad"} >= {
        "gates",
        "rights",
        "class",
        "slices",
        "webhook",
    }
    assert "DRAConsumableCapacity" in found["gates"][1]
    assert found["runtime"][0] == "note"


def test_no_cluster_is_one_finding_and_no_credentials_are_none(tmp_path) -> None:
    kubeconfig = tmp_path / "kubeconfig"

    def check() -> subprocess.CompletedProcess:
        return subprocess.run([str(program()), "check", "--kubeconfig", str(kubeconfig)], capture_output=True, text=True)

    done = check()
    assert (done.returncode, done.stdout) == (1, "") and str(kubeconfig) in done.stderr
    with socket.socket() as closed:  # bound, and nobody listens
        closed.bind(("127.0.0.1", 0))
        server = f"http://127.0.0.1:{closed.getsockname()[1]}"
        kubeconfig.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "a", "clusters": [{"name": "a", "cluster": {"server": server}}],
            "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}], "users": [{"name": "a", "user": {}}]}))  # fmt: skip
        done = check()
    assert done.returncode == 2 and done.stdout.startswith("BAD   api") and done.stdout.count("BAD") == 1
