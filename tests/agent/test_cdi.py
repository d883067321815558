"""What the runtimes' own CDI library makes of the agent's files."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from fake_cluster import FakeCluster
from material import Agent, device_name


def inject(referee: Path, folder: Path, *devices: str) -> dict:
    done = subprocess.run([str(referee), str(folder), *devices], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_container_with_two_claims_gets_all_shares_and_each_common_edit_once(
    agent: Agent, cluster: FakeCluster, referee: Path
) -> None:
    agent.start("--legacy-variables")
    one = cluster.claim("one", [{"device": device_name(1)}, {"device": device_name(1)}])
    two = cluster.claim("two", [{"device": device_name(2)}])
    answers = agent.kubelet.prepare(one, two)
    ids = [device.cdi_device_ids[0] for answer in answers.values() for device in answer.devices]
    assert len(ids) == 3
    spec = inject(referee, agent.cdi, *ids)
    targets = [mount["destination"] for mount in spec["mounts"]]
    names = [id.split("=")[1] for id in ids]
    assert sorted(targets) == sorted(f"/run/drawbridge/shares/{name}/{file}" for name in names for file in ("limits", "ledger"))
    for mount in spec["mounts"]:
        assert ("ro" in mount["options"]) == mount["destination"].endswith("/limits")
        assert {"nosuid", "nodev", "noexec"} <= set(mount["options"])
    assert spec["process"]["env"].count("NVIDIA_VISIBLE_DEVICES=void") == 1
    assert [device["path"] for device in spec["linux"]["devices"]].count("/dev/null") == 1


def test_a_container_gets_the_shares_it_names_and_no_other(agent: Agent, cluster: FakeCluster, referee: Path) -> None:
    agent.start()
    claim = cluster.claim("two", [{"device": device_name(1)}, {"device": device_name(2)}])
    first, _ = agent.kubelet.prepare_one(claim).devices
    spec = inject(referee, agent.cdi, first.cdi_device_ids[0])
    assert len(spec["mounts"]) == 2
    assert all(claim["metadata"]["uid"] + "-0" in mount["destination"] for mount in spec["mounts"])


def test_the_referee_refuses_what_no_runtime_would_load(tmp_path: Path, referee: Path) -> None:
    (tmp_path / "bad.json").write_text('{"cdiVersion": "0.5.0", "kind": "vendor.com/class", "devices": [{"name": "-"}]}')
    done = subprocess.run([str(referee), str(tmp_path), "vendor.com/class=-"], capture_output=True, text=True)
    assert done.returncode == 1
