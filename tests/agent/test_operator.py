"""The operator port and `drawbridge-agent status`."""

from __future__ import annotations

import json
import re
import struct
import subprocess
from pathlib import Path

from fake_cluster import FakeCluster
from fake_pod_resources import PodResources
from material import AGENT, GIB, ROOT, Agent, device_name, get, gpu

GOLDEN = ROOT / "tests" / "golden" / "agent_metrics.txt"
HAMI = ROOT / "tests" / "golden" / "hami_metrics.txt"


def started(agent: Agent, *, register: bool = True) -> int:
    port_file = agent.folder / "ports"
    agent.start("--port-file", str(port_file), register=register)
    return json.loads(port_file.read_text())["operator"]


def busy(agent: Agent, cluster: FakeCluster) -> dict:
    claim = cluster.claim("train", [{"device": device_name(1), "memory": "8Gi", "cores": 30}])
    assert not agent.kubelet.prepare_one(claim).error
    ledger = agent.plugin / "shares" / (claim["metadata"]["uid"] + "-0") / "ledger"
    with ledger.open("r+b") as file:
        file.seek(16)
        file.write(struct.pack("<I", 1))  # one slot was ever used
        file.seek(4096)
        file.write(struct.pack("<Q", 3 * GIB))
    return claim


def test_ready_is_registered_and_published(agent: Agent, cluster: FakeCluster) -> None:
    port = started(agent, register=False)
    assert get(port, "/livez") == (200, "ok\n")
    status, text = get(port, "/readyz")
    assert status == 503 and "not registered" in text and "not published" in text
    agent.kubelet.register()
    cluster.wait_until(lambda: len(cluster.devices()) == 2)
    agent.wait_log("slice")
    while get(port, "/readyz") != (200, "ok\n"):
        pass


def test_what_hinders_is_said(agent: Agent, cluster: FakeCluster) -> None:
    cluster.sharing = False
    port = started(agent)
    agent.wait_log("publish", level="error")
    assert "DRAConsumableCapacity" in get(port, "/readyz")[1]
    agent.devices_file.write_text("devices: [")
    agent.wait_log("devices", level="warn")
    assert str(agent.devices_file) in get(port, "/readyz")[1]


def test_status_tells_devices_shares_and_usage(agent: Agent, cluster: FakeCluster) -> None:
    port = started(agent)
    claim = busy(agent, cluster)
    first, second = json.loads(get(port, "/status")[1])["devices"]
    assert first == {
        "name": device_name(1), "uuid": gpu(1)["uuid"], "productName": "NVIDIA H200", "memoryBytes": 80 * GIB,
        "health": "Healthy",
        "shares": [{"namespace": "default", "pod": "", "container": "", "claim": "train",
                    "claimUID": claim["metadata"]["uid"], "share": 0, "request": "gpu-0", "memoryBytes": 8 * GIB, "cores": 30,
                    "slots": 1, "usedBytes": 3 * GIB, "processes": 0, "launches": 0, "throttledMilliseconds": 0, "denied": 0,
                    "perSecond": {"launches": 0, "throttledMilliseconds": 0, "denied": 0}}]}  # fmt: skip
    assert second["shares"] == []


def test_status_tells_what_is_in_force_and_what_was_allocated(agent: Agent, cluster: FakeCluster) -> None:
    settings = agent.folder / "settings.json"
    rules = [{"namespace": "default", "claim": "train", "memory": "2Gi"}, {"namespace": "default", "claim": "idle", "cores": 20}]
    settings.write_text(json.dumps({"apiVersion": "drawbridge.dev/v1", "kind": "AgentSettings", "limits": rules}))
    port_file = agent.folder / "ports"
    agent.start("--port-file", str(port_file), "--settings", str(settings))
    port = json.loads(port_file.read_text())["operator"]
    busy(agent, cluster)
    assert not agent.kubelet.prepare_one(cluster.claim("idle", [{"device": device_name(1), "memory": "1Gi"}])).error
    assert not agent.kubelet.prepare_one(cluster.claim("free", [{"device": device_name(2), "memory": "1Gi"}])).error
    shares = {share["claim"]: share for device in json.loads(get(port, "/status")[1])["devices"] for share in device["shares"]}
    assert (shares["train"]["memoryBytes"], shares["train"]["cores"]) == (2 * GIB, 30)
    assert shares["train"]["allocated"] == {"memoryBytes": 8 * GIB, "cores": 30, "slots": 1}
    assert (shares["idle"]["memoryBytes"], shares["idle"]["cores"]) == (GIB, 20)
    assert shares["idle"]["allocated"] == {"memoryBytes": GIB, "cores": 0, "slots": 1}
    assert shares["free"]["cores"] == 0 and "allocated" not in shares["free"]
    table = subprocess.run([str(AGENT), "status", "--operator", f"127.0.0.1:{port}"], capture_output=True, text=True).stdout
    assert re.search(r" train +2048 MiB of 8192 MiB +30 +3072 MiB$", table, re.MULTILINE)
    assert re.search(r" idle +1024 MiB +20 of 0 +0 MiB$", table, re.MULTILINE)
    metrics = get(port, "/metrics")[1]
    assert re.search(r'limit_bytes\{.*claim="train".*\} ' + str(2 * GIB), metrics)
    assert f'committed_bytes{{gpu="{gpu(1)["uuid"]}"}} {9 * GIB}' in metrics


def test_the_status_command_prints_json_and_a_table(agent: Agent, cluster: FakeCluster) -> None:
    port = started(agent)
    busy(agent, cluster)

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([str(AGENT), "status", "--operator", f"127.0.0.1:{port}", *arguments], capture_output=True, text=True)

    assert json.loads(run("-o", "json").stdout) == json.loads(get(port, "/status")[1])
    table = run().stdout
    assert re.search(rf"^{device_name(1)} +NVIDIA H200 +Healthy +81920 MiB$", table, re.MULTILINE)
    assert re.search(r"^ +default +- +- +train +8192 MiB +30 +3072 MiB$", table, re.MULTILINE)
    agent.kill()
    gone = run()
    assert gone.returncode == 1 and "no agent answers" in gone.stderr


def test_metrics_have_the_names_and_labels_of_the_golden_list(agent: Agent, cluster: FakeCluster) -> None:
    port = started(agent)
    busy(agent, cluster)
    text = get(port, "/metrics")[1]
    assert names_of(text) == GOLDEN.read_text().splitlines()
    assert f'drawbridge_agent_committed_bytes{{gpu="{gpu(1)["uuid"]}"}} {8 * GIB}' in text
    assert 'drawbridge_agent_prepare_seconds_count{result="done"} 1' in text


def names_of(text: str) -> list[str]:
    return sorted({re.sub(r'="[^"]*"', "", line.rsplit(" ", 1)[0]) for line in text.splitlines() if not line.startswith("#")})


def test_hamis_metrics_are_there_when_they_are_asked_for(agent: Agent, cluster: FakeCluster) -> None:
    port_file = agent.folder / "ports"
    agent.start("--port-file", str(port_file), "--hami-metrics", "all")
    port = json.loads(port_file.read_text())["operator"]
    claim = busy(agent, cluster)
    with PodResources(agent) as pods:
        pods.runs(claim, "main")
        text = get(port, "/metrics")[1]
    assert names_of("\n".join(line for line in text.splitlines() if 'zone="vGPU"' in line)) == HAMI.read_text().splitlines()
    assert f'podname="pod-train",ctrname="main",vdeviceid="0",deviceuuid="{gpu(1)["uuid"]}"}} {3 * GIB}' in text


def test_help_and_wrong_options_are_told(tmp_path: Path) -> None:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([str(AGENT), *arguments], capture_output=True, text=True)

    assert run("--help").returncode == 0 and "--devices" in run("--help").stdout
    assert run("--node", "UPPER").returncode == 1
    assert run("--node", "n", "--kubelet-root", "relative").returncode == 1
    missing = run("--node", "n", "--kubelet-root", str(tmp_path / "nowhere"), "--cdi", str(tmp_path))
    assert missing.returncode == 1 and "nowhere" in missing.stderr
