"""What of a node is in the way of shares, and how the agent says so; health for probes; metadata of devices."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from concurrent import futures
from pathlib import Path
from typing import Any

import grpc
import pytest
from fake_cluster import FakeCluster
from fake_kubelet import PATIENCE, Kubelet, wire
from material import AGENT, DRIVER, NVML, Agent, device_name, get, gpu, wait_until


class Runtime:
    """A container runtime as far as it tells of its configuration."""

    def __init__(self, socket: Path) -> None:
        self.config: Any = {"enableCDI": True}
        self.server = grpc.server(futures.ThreadPoolExecutor(1))
        handler = grpc.unary_unary_rpc_method_handler(
            self._status, request_deserializer=wire().RuntimeStatusRequest.FromString,
            response_serializer=wire().RuntimeStatus.SerializeToString)  # fmt: skip
        self.server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("runtime.v1.RuntimeService", {"Status": handler}),))
        self.server.add_insecure_port(f"unix:{socket}")
        self.server.start()

    def _status(self, request: Any, _: grpc.ServicerContext) -> Any:
        return wire().RuntimeStatus(info={"config": json.dumps(self.config)} if request.verbose else {})


@pytest.fixture
def runtime(agent: Agent) -> Iterator[Runtime]:
    made = Runtime(agent.folder / "runtime.sock")
    yield made
    made.server.stop(None)


def started(agent: Agent, *arguments: str, **more: Any) -> int:
    port_file = agent.folder / "ports"
    port_file.unlink(missing_ok=True)
    agent.log.clear()  # "started" is the new one's word
    agent.start("--port-file", str(port_file), "--runtime-socket", str(agent.folder / "runtime.sock"),
                "--static-cdi", str(agent.folder / "static"), *arguments, **more)  # fmt: skip
    return json.loads(port_file.read_text())["operator"]


# ------------------------------------------------------------------ the container runtime


def test_a_runtime_with_cdi_off_gets_no_share(agent: Agent, cluster: FakeCluster, runtime: Runtime) -> None:
    runtime.config = {"enableCDI": False, "cdiSpecDirs": [str(agent.cdi)]}
    port = started(agent)
    cluster.wait_until(lambda: len(cluster.slices()) == 1)
    assert cluster.devices() == []
    status, text = get(port, "/readyz")
    assert status == 503 and "enable_cdi" in text
    assert "enable_cdi" in agent.kubelet.prepare_one(cluster.claim("one", [{"device": device_name(1)}])).error
    cluster.wait_until(lambda: {event["reason"] for event in cluster.events("default")} == {"CdiOff", "PrepareRefused"})
    assert "drawbridge_agent_cdi 0\n" in get(port, "/metrics")[1]
    # Turned on, it is offered again.
    runtime.config["enableCDI"] = True
    agent.kill()
    started(agent)
    cluster.wait_until(lambda: len(cluster.devices()) == 2)


def test_a_runtime_that_reads_other_folders_gets_no_share(agent: Agent, cluster: FakeCluster, runtime: Runtime) -> None:
    runtime.config = {"enableCDI": True, "cdiSpecDirs": ["/etc/cdi"]}
    port = started(agent)
    assert f"writes them into {agent.cdi}" in get(port, "/readyz")[1]


def test_a_crio_that_reads_other_folders_gets_no_share(agent: Agent, cluster: FakeCluster, runtime: Runtime) -> None:
    runtime.config = {"sandboxImage": "pause", "crio": {"CDISpecDirs": ["/etc/cdi", str(agent.cdi)]}}
    port = started(agent)
    cluster.wait_until(lambda: len(cluster.devices()) == 2)
    assert "drawbridge_agent_cdi 1\n" in get(port, "/metrics")[1]
    agent.kill()
    runtime.config["crio"]["CDISpecDirs"].pop()
    port = started(agent)
    cluster.wait_until(lambda: len(cluster.devices()) == 0)
    status, text = get(port, "/readyz")
    assert status == 503 and "CRI-O's cdi_spec_dirs" in text and f"writes them into {agent.cdi}" in text


USUAL = ["run/containerd/containerd.sock", "run/crio/crio.sock"]


@pytest.mark.parametrize("place", USUAL)
def test_the_runtime_is_found_where_it_usually_is(agent: Agent, cluster: FakeCluster, place: str) -> None:
    root = agent.folder / "host"  # of a short name: a socket is bound in it
    for each in USUAL:
        (root / each).parent.mkdir(parents=True)
    runtime = Runtime(root / place)
    [other] = set(USUAL) - {place}
    (root / other).touch()  # as one that does not serve the kubelet
    port_file = agent.folder / "ports"
    agent.start("--port-file", str(port_file), "--host-root", str(root))
    cluster.wait_until(lambda: len(cluster.devices()) == 2)
    port = json.loads(port_file.read_text())["operator"]
    assert "drawbridge_agent_cdi 1\n" in get(port, "/metrics")[1]
    assert "does not say whether CDI is on" not in get(port, "/readyz")[1]
    runtime.server.stop(None)


@pytest.mark.parametrize("config", [{}, {"enableCDI": True}])
def test_a_runtime_that_has_cdi_on_or_does_not_say_is_served(agent: Agent, cluster: FakeCluster, runtime: Runtime, config: dict) -> None:
    runtime.config = config
    port = started(agent)
    cluster.wait_until(lambda: len(cluster.devices()) == 2)
    assert f"drawbridge_agent_cdi {1 if config else -1}\n" in get(port, "/metrics")[1]


def test_a_runtime_that_does_not_answer_is_told_of(agent: Agent, cluster: FakeCluster, runtime: Runtime) -> None:
    runtime.server.stop(None).wait()
    (agent.folder / "runtime.sock").touch()
    port = started(agent)
    cluster.wait_until(lambda: len(cluster.devices()) == 2)
    assert "does not say whether CDI is on" in get(port, "/readyz")[1]


def test_foreign_cdi_files_of_our_kind_are_told_of(agent: Agent, cluster: FakeCluster) -> None:
    agent.start()
    agent.kubelet.prepare_one(cluster.claim("one", [{"device": device_name(1)}]))
    [ours] = agent.cdi.iterdir()
    agent.kill()
    (agent.folder / "static").mkdir()
    shutil.copy(ours, agent.folder / "static" / "backup.json")
    (agent.cdi / "nvidia.yaml").write_text("cdiVersion: 0.5.0\nkind: nvidia.com/gpu\n")
    port = started(agent)
    text = get(port, "/readyz")[1]
    assert "backup.json names devices of kind" in text and "nvidia.yaml" not in text and ours.name not in text


# ------------------------------------------------------------------ two agents, late drivers


def test_a_second_agent_of_the_same_name_waits_for_the_first_to_end(agent: Agent, cluster: FakeCluster) -> None:
    started(agent)
    first, kubelet = agent.process, agent.kubelet
    claim = cluster.claim("one", [{"device": device_name(1)}])
    port = started(agent, register=False)
    status, text = get(port, "/readyz")
    assert status == 503 and "another agent runs on this node" in text
    assert len(kubelet.registration_sockets()) == 1
    assert not kubelet.prepare_one(claim).error  # by the first
    assert first and agent.process
    first.kill()
    first.wait()
    for path in kubelet.registration_sockets():
        path.unlink()
    kubelet.close()
    kubelet.register()
    assert not kubelet.prepare_one(claim).error
    while "another agent" in get(port, "/readyz")[1]:
        pass


def test_a_second_agent_that_waits_ends_when_it_is_told_to_and_leaves_the_first_its_sockets(agent: Agent, cluster: FakeCluster) -> None:
    started(agent)
    first, claim = agent.process, cluster.claim("one", [{"device": device_name(1)}])
    started(agent, register=False)
    assert agent.stop() == 0
    assert not agent.kubelet.prepare_one(claim).error
    agent.process = first
    assert agent.stop() == 0
    assert agent.kubelet.registration_sockets() == []


def test_an_agent_that_cannot_open_its_sockets_once_it_is_alone_tries_on(agent: Agent, cluster: FakeCluster) -> None:
    started(agent)
    first = agent.process
    port = started(agent, register=False)
    registry, aside = agent.root / "plugins_registry", agent.root / "aside"
    registry.rename(aside)
    registry.write_text("")
    assert first
    first.kill()
    first.wait()
    while "cannot listen" not in get(port, "/readyz")[1]:
        pass
    registry.unlink()
    aside.rename(registry)
    for path in agent.kubelet.registration_sockets():
        path.unlink()
    agent.kubelet.close()
    agent.kubelet.register()
    assert not agent.kubelet.prepare_one(cluster.claim("one", [{"device": device_name(1)}])).error


def test_agents_of_two_names_are_counted_and_a_dead_one_is_not(agent: Agent) -> None:
    started(agent, "--instance", "old")
    old = agent.process
    port = started(agent, "--instance", "new")
    assert "drawbridge_agent_instances 2\n" in get(port, "/metrics")[1] and "2 agents run on this node" in get(port, "/readyz")[1]
    assert old
    old.kill()
    old.wait()
    agent.kill()
    port = started(agent, "--instance", "newer")
    assert "drawbridge_agent_instances 1\n" in get(port, "/metrics")[1]
    assert [path.name for path in (agent.plugin / "instances").iterdir()] == ["newer"]


def test_sockets_of_killed_agents_of_any_name_go_and_those_of_others_stay(agent: Agent) -> None:
    registry = agent.root / "plugins_registry"

    def sockets() -> set[str]:
        return {path.name for folder in (registry, agent.plugin) for path in folder.iterdir() if path.is_socket()}

    def own(instance: str) -> set[str]:
        run = (agent.plugin / "instances" / instance).read_text()
        return {f"dra-{instance}-{run}.sock", f"{DRIVER}-{instance}-{run}-reg.sock"}

    foreign = registry / "other.example.com-reg.sock"
    with socket.socket(socket.AF_UNIX) as deserted:
        deserted.bind(str(foreign))
    for instance in ("killed", "", "a-name-with-which-the-path-of-a-socket-is-too-long-so-that-a-hash-takes-its-place"):
        started(agent, *(["--instance", instance] if instance else []), register=False)
        agent.kill()
    started(agent, "--instance", "live", register=False)
    live = agent.process
    assert sockets() == own("live") | {foreign.name}
    assert len([line for line in agent.log if line["msg"] == "dead_socket"]) == 2  # of the last; it had found the others
    started(agent, "--instance", "next")
    assert sockets() == own("live") | own("next") | {foreign.name}
    assert live and live.poll() is None


def test_each_run_of_an_instance_has_sockets_of_its_own(agent: Agent, cluster: FakeCluster) -> None:
    claim = cluster.claim("c", [{"device": device_name(1), "memory": "1Gi"}])
    seen: list[list[str]] = []
    for _ in range(3):
        started(agent, "--instance", "a")
        assert not agent.kubelet.prepare_one(claim).error
        seen.append([path.name for path in agent.kubelet.registration_sockets()])
        agent.kill()
    assert all(len(sockets) == 1 for sockets in seen) and len({sockets[0] for sockets in seen}) == 3


def nvml(agent: Agent, script: str = "") -> dict[str, str]:
    """Environment of an agent on two cards of the stand-in."""
    path = agent.folder / "script"
    path.write_text(script)
    return {"DRAWBRIDGE_STANDIN_DEVICES": "2", "DRAWBRIDGE_STANDIN_NVML": str(path)}


def test_a_driver_that_comes_late_is_not_ready_and_an_empty_slice(agent: Agent, cluster: FakeCluster) -> None:
    root = agent.folder / "driver"
    root.mkdir()
    port = started(agent, "--driver-root", str(root), devices=False, **nvml(agent))
    cluster.wait_until(lambda: len(cluster.slices()) == 1)
    status, text = get(port, "/readyz")
    assert status == 503 and "devices are not known" in text and str(root) in text
    (root / "usr" / "lib64").mkdir(parents=True)
    (root / "usr" / "lib64" / "libnvidia-ml.so.1").symlink_to(NVML)
    cluster.wait_until(lambda: len(cluster.devices()) == 2)
    while get(port, "/readyz")[0] != 200:
        pass


def test_a_driver_without_its_uvm_node_is_told_with_what_to_do(agent: Agent, cluster: FakeCluster) -> None:
    root = agent.folder / "driver"
    (root / "usr" / "lib64").mkdir(parents=True)
    (root / "usr" / "lib64" / "libnvidia-ml.so.1").symlink_to(NVML)
    (root / "dev").mkdir()
    (root / "dev" / "nvidiactl").touch()
    port = started(agent, "--driver-root", str(root), "--driver-root-on-host", str(root), devices=False, **nvml(agent))
    cluster.wait_until(lambda: len(cluster.devices()) == 2)
    wait_until(lambda: get(port, "/readyz")[0] == 200)
    assert "nvidia-modprobe -c 0 -u" in get(port, "/readyz")[1]
    assert [entry for entry in agent.log if entry["msg"] == "driver_files"]
    (root / "dev" / "nvidia-uvm").touch()
    wait_until(lambda: "nvidia-modprobe" not in get(port, "/readyz")[1])


def test_an_error_that_nvml_reports_is_a_taint_an_event_and_a_count(agent: Agent, cluster: FakeCluster) -> None:
    root = agent.folder / "driver"
    (root / "usr" / "lib64").mkdir(parents=True)
    (root / "usr" / "lib64" / "libnvidia-ml.so.1").symlink_to(NVML)
    port = started(agent, "--driver-root", str(root), devices=False, **nvml(agent))
    cluster.wait_until(lambda: len(cluster.devices()) == 2)
    (agent.folder / "script").write_text("xid 1 62\nxid 0 31\nlost 0\n")
    cluster.wait_until(lambda: len([device for device in cluster.devices() if device.get("taints")]) == 2)
    taints = [(taint["key"], taint.get("value"), taint["effect"]) for device in cluster.devices() for taint in device["taints"]]
    assert taints == [(DRIVER + "/gpu-lost", None, "NoExecute"), (DRIVER + "/xid", "62", "NoSchedule")]
    cluster.wait_until(lambda: {event["reason"] for event in cluster.events("default")} == {"GpuLost", "GpuError"})
    assert 'xid="62"} 1\n' in get(port, "/metrics")[1]


def test_a_driver_that_fails_later_taints_what_it_had_until_it_is_back(agent: Agent, cluster: FakeCluster) -> None:
    root = agent.folder / "driver"
    (root / "usr" / "lib64").mkdir(parents=True)
    (root / "usr" / "lib64" / "libnvidia-ml.so.1").symlink_to(NVML)
    port = started(agent, "--driver-root", str(root), devices=False, **nvml(agent))
    cluster.wait_until(lambda: len(cluster.devices()) == 2)
    device = cluster.devices()[0]
    held = cluster.claim("held", [{"device": device["name"]}])
    assert not agent.kubelet.prepare_one(held).error

    def health() -> set[int]:
        return {entry.health for entry in next(agent.kubelet.health()).devices}

    def metrics() -> int:
        return len(re.findall(r"^drawbridge_agent_health\{.*\} 0$", get(port, "/metrics")[1], re.MULTILINE))

    assert (health(), metrics()) == ({wire().HEALTHY}, 0)
    (agent.folder / "script").write_text("down\n")
    cluster.wait_until(lambda: all(device.get("taints") for device in cluster.devices()))
    taints = [(taint["key"], taint["effect"]) for device in cluster.devices() for taint in device["taints"]]
    assert taints == [(DRIVER + "/driver-failed", "NoSchedule")] * 2
    assert (health(), metrics()) == ({wire().UNHEALTHY}, 2)
    cluster.wait_until(lambda: [event["reason"] for event in cluster.events("default")] == ["GpuDriverFailed"] * 2)
    # What is known is answered, what would be new has no driver to be given.
    assert not agent.kubelet.prepare_one(held).error
    claim = cluster.claim("one", [{"device": device["name"]}])
    assert "the driver does not answer" in agent.kubelet.prepare_one(claim).error
    (agent.folder / "script").write_text("")
    cluster.wait_until(lambda: not any(device.get("taints") for device in cluster.devices()))
    assert (health(), metrics()) == ({wire().HEALTHY}, 0)
    assert not agent.kubelet.prepare_one(claim).error
    cluster.wait_until(lambda: [event["reason"] for event in cluster.events("default")].count("GpuRecovered") == 2)


# ------------------------------------------------------------------ grpc.health.v1


def probe(agent: Agent, service: str = "") -> str:
    """What a gRPC client is told."""
    channel = grpc.insecure_channel(f"unix:{agent.plugin / 'dra.sock'}")
    call = channel.unary_unary("/grpc.health.v1.Health/Check", request_serializer=wire().ServingRequest.SerializeToString,
                               response_deserializer=wire().ServingStatus.FromString)  # fmt: skip
    with channel:
        answer = call(wire().ServingRequest(service=service), timeout=PATIENCE)
    return wire().ServingStatus.Value.Name(answer.status)


def test_health_is_what_the_kubelet_would_meet(agent: Agent) -> None:
    agent.start(register=False)
    assert probe(agent) == "SERVING" and probe(agent, "k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin") == "SERVING"
    with pytest.raises(grpc.RpcError) as refused:
        probe(agent, "other")
    assert refused.value.code() == grpc.StatusCode.NOT_FOUND
    Kubelet(agent.root).registration_sockets()[0].unlink()
    assert probe(agent) == "NOT_SERVING"


def test_health_is_watched(agent: Agent) -> None:
    agent.start(register=False)
    with grpc.insecure_channel(f"unix:{agent.plugin / 'dra.sock'}") as channel:
        watch = channel.unary_stream("/grpc.health.v1.Health/Watch", request_serializer=wire().ServingRequest.SerializeToString,
                                     response_deserializer=wire().ServingStatus.FromString)  # fmt: skip
        unknown = watch(wire().ServingRequest(service="other"), timeout=PATIENCE)
        assert next(unknown).status == wire().ServingStatus.SERVICE_UNKNOWN
        stream = watch(wire().ServingRequest(), timeout=PATIENCE)
        assert any(message.status == wire().ServingStatus.SERVING for message in stream)
        Kubelet(agent.root).registration_sockets()[0].unlink()
        assert next(stream).status == wire().ServingStatus.NOT_SERVING


# ------------------------------------------------------------------ metadata of devices


def test_metadata_is_mounted_where_it_is_wanted(agent: Agent, cluster: FakeCluster) -> None:
    agent.start("--device-metadata")
    claim = cluster.claim("made-x7k2p", [{"device": device_name(1), "memory": "8000Mi", "request": "a"},
                                         {"device": device_name(2), "request": "a"},
                                         {"device": device_name(2), "request": "b/sub"}])  # fmt: skip
    claim["metadata"]["annotations"] = {"resource.kubernetes.io/pod-claim-name": "gpu"}
    claim = cluster.put("/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/made-x7k2p", claim)
    assert not agent.kubelet.prepare_one(claim).error
    [spec] = agent.cdi_files().values()
    mounts = {mount["containerPath"]: mount for device in spec["devices"] for mount in device["containerEdits"]["mounts"]
              if "dra-device-attributes" in mount["containerPath"]}  # fmt: skip
    base = "/var/run/kubernetes.io/dra-device-attributes/resourceclaimtemplates/gpu"
    assert set(mounts) == {f"{base}/a/{DRIVER}-metadata.json", f"{base}/b/{DRIVER}-metadata.json"}
    assert all("ro" in mount["options"] for mount in mounts.values())
    lines = Path(mounts[f"{base}/a/{DRIVER}-metadata.json"]["hostPath"]).read_text().splitlines()
    first = json.loads(lines[0])
    assert first["apiVersion"] == "metadata.resource.k8s.io/v1beta1" and first["metadata"]["uid"] == claim["metadata"]["uid"]
    assert [device["name"] for device in first["requests"][0]["devices"]] == [device_name(1), device_name(2)]
    assert first["requests"][0]["devices"][0]["attributes"]["uuid"] == {"string": gpu(1)["uuid"]}
    # It is there again after a reboot, and goes with the claim.
    agent.kill()
    agent.boot(2)
    shutil.rmtree(agent.cdi)
    agent.cdi.mkdir()
    agent.start("--device-metadata")
    assert not agent.kubelet.prepare_one(claim).error
    assert agent.cdi_files() and Path(mounts[f"{base}/b/{DRIVER}-metadata.json"]["hostPath"]).exists()
    agent.kubelet.unprepare(claim)
    wait_until(lambda: agent.shares() == [])


def test_without_the_option_there_is_no_metadata(agent: Agent, cluster: FakeCluster) -> None:
    agent.start()
    assert not agent.kubelet.prepare_one(cluster.claim("one", [{"device": device_name(1)}])).error
    assert "dra-device-attributes" not in json.dumps(agent.cdi_files())
    assert not list((agent.plugin / "shares").glob("*/metadata.json"))
    assert subprocess.run([str(AGENT), "--help"], capture_output=True, text=True).stdout.count("--device-metadata") == 1
