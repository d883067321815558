"""What a pod meets on a real node (the scenarios of the specification's test plan, by number)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from bed.images import BUSYBOX_IMAGE
from bed.proxy import Proxy
from bed.space import wait_for
from fake_kubelet import Kubelet
from material import DRIVER, GIB, device_name, gpu
from node import SHOW, SHOW_SHARES, Node, Pods, share

MIB = 1 << 20
# CRI-O has no switch for it: what is off there is the folder.
SAYS_CDI_IS_OFF = {"containerd": "enable_cdi", "crio": "CRI-O's cdi_spec_dirs"}


def test_1_a_pod_sees_its_share_and_nothing_more(node: Node, pods: Pods) -> None:
    pods.simple("one", pods.template("t", share("8000Mi", 30)))
    pods.running("one")
    assert pods.limits("one") == [(8000 * MIB, 300)]
    log = pods.log("one")
    assert "ENV void" in log
    assert "rw-rw-rw-" in next(line for line in log.splitlines() if line.endswith("ledger"))
    [claim] = pods.claims()
    uid = claim["metadata"]["uid"]
    assert pods.shares() == [uid + "-0"]
    pods.delete("one")
    wait_for(lambda: uid not in " ".join(node.shares() + node.cdi_files()), "the files to go")


def test_2_a_third_pod_waits_until_there_is_room(node: Node, pods: Pods) -> None:
    node.devices(gpu(1))
    wait_for(lambda: node.published() == 1, "one device")
    template = pods.template("t", share("40Gi"))
    for name in ("a", "b"):
        pods.simple(name, template)
        pods.running(name)
    pods.simple("c", template)
    wait_for(lambda: pods.is_pending("c"), "the third pod to wait")
    pods.delete("a")
    pods.running("c")


def test_3_two_gpus_of_one_claim_are_two_gpus(node: Node, pods: Pods) -> None:
    distinct = [{"distinctAttribute": "gpu.drawbridge.dev/uuid"}]
    pods.simple("two", pods.template("t", share("2Gi"), share("3Gi"), constraints=distinct))
    pods.running("two")
    assert pods.limits("two") == [(2 * GIB, 1000), (3 * GIB, 1000)]
    [claim] = pods.claims()
    results = claim["status"]["allocation"]["devices"]["results"]
    assert {result["device"] for result in results} == {device_name(1), device_name(2)}


def test_4_two_claims_in_one_container_keep_both_limits(node: Node, pods: Pods) -> None:
    small, large = pods.template("s", share("2Gi", 20)), pods.template("l", share("3Gi", 30))
    pods.start("both", {"main": ["s", "l"]}, {"s": {"resourceClaimTemplateName": small}, "l": {"resourceClaimTemplateName": large}})
    pods.running("both")
    assert pods.limits("both") == [(2 * GIB, 200), (3 * GIB, 300)]


def test_5_each_container_sees_its_own_claims(node: Node, pods: Pods) -> None:
    small, large = pods.template("s", share("2Gi")), pods.template("l", share("3Gi"))
    pods.start("three", {"a": ["s"], "b": ["l"], "c": []},
               {"s": {"resourceClaimTemplateName": small}, "l": {"resourceClaimTemplateName": large}})  # fmt: skip
    pods.running("three")
    assert pods.limits("three", "a") == [(2 * GIB, 1000)]
    assert pods.limits("three", "b") == [(3 * GIB, 1000)]
    assert pods.limits("three", "c") == []


def test_5_init_container_main_container_and_sidecar_see_their_own_claims(node: Node, pods: Pods) -> None:
    def container(name: str, show: str, *claims: str, **more: object) -> dict:
        return {"name": name, "image": BUSYBOX_IMAGE, "imagePullPolicy": "Never", "command": ["sh", "-c", show],
                "resources": {"claims": [{"name": claim} for claim in claims]}} | more  # fmt: skip

    templates = {name: pods.template(name, share(memory)) for name, memory in (("i", "2Gi"), ("s", "3Gi"), ("m", "4Gi"))}
    pods.start("whole", {"main": ["m"]}, {name: {"resourceClaimTemplateName": template} for name, template in templates.items()},
               initContainers=[container("init", SHOW_SHARES + "; echo READY", "i"),
                               container("sidecar", SHOW, "s", restartPolicy="Always")])  # fmt: skip
    pods.running("whole")
    wait_for(lambda: "READY" in pods.log("whole", "sidecar"), "the sidecar's word")
    seen = {name: pods.limits("whole", name) for name in ("init", "sidecar", "main")}
    assert seen == {"init": [(2 * GIB, 1000)], "sidecar": [(3 * GIB, 1000)], "main": [(4 * GIB, 1000)]}


def test_6_two_pods_on_one_claim_share_its_ledger_until_the_last_ends(node: Node, pods: Pods) -> None:
    pods.claim("shared", share("2Gi"))
    for name in ("a", "b"):
        pods.start(name, {"main": ["gpu"]}, {"gpu": {"resourceClaimName": "shared"}})
        pods.running(name)
        assert pods.limits(name) == [(2 * GIB, 1000)]
    assert len(pods.shares()) == 1
    pods.delete("a")
    assert len(pods.shares()) == 1
    pods.delete("b")
    wait_for(lambda: pods.shares() == [], "the share to go")


def test_7_restarts_leave_a_running_pod_and_its_ledger_alone(node: Node, pods: Pods) -> None:
    pods.simple("one", pods.template("t", share("2Gi")))
    pods.running("one")
    ledger = node.plugin / "shares" / pods.shares()[0] / "ledger"
    with ledger.open("r+b") as file:
        file.seek(4096)
        file.write(b"\x11")
    inode = ledger.stat().st_ino
    node.restart_kubelet()
    wait_for(lambda: node.published() == 2, "the slices to be back")
    node.kill()
    node.start()
    node.restart_kubelet()
    wait_for(lambda: node.published() == 2, "the slices to be back")
    pods.simple("two", "t")
    pods.running("two")
    status = pods.get("one")["status"]["containerStatuses"][0]
    assert status["restartCount"] == 0 and "running" in status["state"]
    assert ledger.stat().st_ino == inode and ledger.read_bytes()[4096] == 0x11


def test_10_a_forced_deletion_frees_nothing_before_the_kubelet_does(node: Node, pods: Pods) -> None:
    node.devices(gpu(1))
    wait_for(lambda: node.published() == 1, "one device")
    template = pods.template("t", share("60Gi"))
    pods.simple("old", template)
    pods.running("old")
    pods.delete("old", force=True)
    pods.simple("new", template)
    pods.running("new")
    assert len(pods.shares()) == 1


def test_12_a_taint_keeps_pods_away_until_it_goes(node: Node, pods: Pods) -> None:
    node.devices(gpu(1, taints=[{"key": "xid", "value": "62"}]), gpu(2, taints=[{"key": "xid", "value": "62"}]))
    if node.taints:
        wait_for(lambda: all(node.device(number).get("taints") for number in (1, 2)), "the taints")
    else:
        wait_for(lambda: node.published() == 0, "the devices to be left out")
    pods.simple("one", pods.template("t", share("2Gi")))
    wait_for(lambda: pods.is_pending("one"), "the pod to wait")
    node.devices(gpu(1), gpu(2))
    pods.running("one")


def test_13_a_lost_gpu_is_tainted_and_the_other_serves_on(node: Node, pods: Pods) -> None:
    pods.simple("one", pods.template("t", share("2Gi")))
    pods.running("one")
    node.devices(gpu(2))
    if node.taints:
        wait_for(lambda: pods.api.find(f"{pods.path}/one") is None, "the pod on the lost GPU to be evicted")
    else:
        wait_for(lambda: node.published() == 1, "the lost GPU to be left out")
    pods.simple("two", "t")
    pods.running("two")
    claims = [claim for claim in pods.claims() if claim.get("status", {}).get("allocation")]
    assert claims[-1]["status"]["allocation"]["devices"]["results"][0]["device"] == device_name(2)


def test_15_an_agent_cannot_write_what_is_not_its_own(node: Node) -> None:
    agent = node.as_agent()

    def attempt(**changes: object) -> tuple[int, str]:
        spec = {"driver": "gpu.drawbridge.dev", "nodeName": node.name, "devices": [],
                "pool": {"name": node.name, "generation": 1, "resourceSliceCount": 1}} | changes  # fmt: skip
        body = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "attempt"},
                "spec": {key: value for key, value in spec.items() if value is not None}}  # fmt: skip
        status, _, text = agent.exchange("POST", "/apis/resource.k8s.io/v1/resourceslices?dryRun=All", body)
        return status, text

    assert attempt()[0] == 201
    for changes, reason in [({"nodeName": "node-2"}, "alone"), ({"driver": "other.example.com"}, "driver"),
                            ({"nodeName": None, "allNodes": True}, "alone")]:  # fmt: skip
        status, text = attempt(**changes)
        assert status == 422 and reason in text, (changes, text)
    for path in ("/api/v1/secrets", "/api/v1/pods", "/api/v1/nodes", "/apis/apps/v1/deployments"):
        assert agent.exchange("GET", path)[0] == 403


def test_9_after_a_reboot_the_pod_has_its_share_again(node: Node, pods: Pods) -> None:
    pods.simple("one", pods.template("t", share("2Gi")))
    pods.running("one")
    before = pods.shares()
    space = node.cluster.space
    for name in ("agent", "kubelet-1"):
        space.kill(name)
    for file in node.bed.cdi.iterdir():
        file.unlink()
    node.end_containers()
    node.boot(2)
    node.start()
    node.restart_kubelet()
    wait_for(lambda: pods.get("one")["status"]["containerStatuses"][0]["restartCount"] > 0, "the container to start anew")
    pods.running("one")
    assert pods.limits("one") == [(2 * GIB, 1000)]
    assert pods.shares() == before


@pytest.fixture
def proxy(node: Node) -> Iterator[Proxy]:
    """What stands between the agent and the API server; the kubelet goes its own way."""
    made = Proxy(node.cluster.space)
    node.stop()
    node.start(server=made.server)
    yield made
    node.stop()
    made.close()


def test_14_an_api_server_that_is_away_from_the_agent_harms_nothing_known(node: Node, pods: Pods, proxy: Proxy) -> None:
    pods.simple("one", pods.template("t", share("2Gi")))
    pods.running("one")
    proxy.cut()
    seen = len(node.log())

    def prepares(verdict: str) -> list[str]:
        return [line["claim"] for line in node.log()[seen:] if line["msg"] == "prepare" and line["verdict"] == verdict]

    def restarts() -> int:
        return pods.get("one")["status"]["containerStatuses"][0]["restartCount"]

    pods.simple("two", "t")
    wait_for(lambda: prepares("refused"), "the new claim to be refused")
    wait_for(lambda: "FailedPrepareDynamicResources" in pods.reasons(), "the kubelet to tell of it")
    # A kubelet that was restarted asks for the claims of a pod again when it makes another sandbox for it: what is known
    # is answered from its record.
    node.restart_kubelet()
    node.end_containers()
    wait_for(lambda: prepares("done"), "the known claim to be answered")
    wait_for(lambda: restarts() > 0, "the container to start anew")
    pods.running("one")
    assert pods.limits("one") == [(2 * GIB, 1000)]
    proxy.restore()
    pods.running("two")
    wait_for(lambda: node.published() == 2, "the slices to be back")


def test_a_prepare_that_comes_late_brings_no_ended_claim_back(node: Node, pods: Pods, proxy: Proxy) -> None:
    pods.simple("one", pods.template("t", share("2Gi")))
    pods.running("one")
    [claim] = pods.claims()
    late = Kubelet(node.bed.kubelet_root)
    late.endpoint = str(node.plugin / "dra.sock")
    proxy.hold_answers()
    with ThreadPoolExecutor(1) as pool:
        # The agent has asked for the claim and does not learn what the API server says of it ...
        answer = pool.submit(late.prepare_one, claim)
        wait_for(proxy.is_holding, "the agent's question to be answered")
        # ... before the kubelet has ended it.
        pods.delete("one")
        wait_for(lambda: node.shares() == [] and node.cdi_files() == [], "the claim to be unprepared")
        proxy.restore()
        assert "was unprepared while it was asked for" in answer.result().error
    late.close()
    assert node.shares() == [] and node.cdi_files() == []


def test_a_wiped_cdi_folder_is_made_whole_and_containers_start_anew(node: Node, pods: Pods) -> None:
    pods.simple("one", pods.template("t", share("2Gi")))
    pods.running("one")

    def whole() -> dict[str, bytes]:
        """Without what is being written: it goes while one looks."""
        return {file.name: file.read_bytes() for file in node.bed.cdi.glob("*.json")}

    files = whole()
    assert len(files) == 1
    for name in files:
        (node.bed.cdi / name).unlink()
    node.end_containers()
    wait_for(lambda: whole() == files, "the file to be back")
    wait_for(lambda: pods.get("one")["status"]["containerStatuses"][0]["restartCount"] > 0, "the container to start anew")
    pods.running("one")
    assert pods.limits("one") == [(2 * GIB, 1000)]


def test_20_health_reaches_the_pods_status_and_recovers(pods_with_health: Pods) -> None:
    pods = pods_with_health
    node = pods.node
    pods.simple("one", pods.template("t", share("2Gi")))
    pods.running("one")

    def health() -> str:
        statuses = pods.get("one")["status"]["containerStatuses"][0].get("allocatedResourcesStatus") or []
        return statuses[0]["resources"][0]["health"] if statuses and statuses[0].get("resources") else ""

    wait_for(lambda: health() == "Healthy", "healthy")
    node.devices(gpu(1, taints=[{"key": "xid", "value": "62"}]), gpu(2))
    wait_for(lambda: health() == "Unhealthy", "unhealthy")
    node.devices(gpu(1), gpu(2))
    wait_for(lambda: health() == "Healthy", "healthy again")


def test_a_claim_that_the_kubelet_forgot_is_ended_by_the_agent(node: Node, pods: Pods) -> None:
    pods.simple("one", pods.template("t", share("2Gi")))
    pods.running("one")
    [name] = pods.shares()
    space = node.cluster.space
    space.kill("kubelet-1")
    space.kill("agent")
    pods.api.call("DELETE", f"{pods.path}/one", {"gracePeriodSeconds": 0})
    (node.bed.kubelet_root / "dra_manager_state").unlink()
    wait_for(lambda: pods.claims() == [], "the claim to go")
    node.start()
    node.restart_kubelet()
    wait_for(lambda: name not in node.shares(), "the share to go")


def test_16_with_cdi_off_no_gpu_is_offered_and_people_are_told(node: Node, pods: Pods) -> None:
    node.set_cdi(False)
    try:
        node.kill()
        node.start()
        wait_for(lambda: node.published() == 0, "the devices to be withdrawn")
        assert SAYS_CDI_IS_OFF[node.runtime.NAME] in node.readiness()
        described = node.cluster.kubectl("describe", "node", node.name).stdout
        wait_for(lambda: "CdiOff" in node.cluster.kubectl("describe", "node", node.name).stdout, f"the event: {described}")
        pods.simple("one", pods.template("t", share("2Gi")))
        wait_for(lambda: pods.is_pending("one"), "the pod to wait")
    finally:
        node.set_cdi(True)
        node.kill()
        node.start()
    pods.running("one")
    assert pods.limits("one") == [(2 * GIB, 1000)]


def test_16_what_a_container_meets_that_starts_anew_with_cdi_off(node: Node, pods: Pods) -> None:
    """containerd starts it without its share and says nothing, which is why the agent asks; CRI-O does not start it."""
    pods.simple("one", pods.template("t", share("2Gi")))
    pods.running("one")

    def status() -> dict:
        return pods.get("one")["status"]["containerStatuses"][0]

    node.set_cdi(False)
    try:
        node.end_containers()
        if node.runtime.NAME == "crio":
            wait_for(lambda: "unresolvable CDI devices" in status()["state"].get("waiting", {}).get("message", ""), "the refusal")
        else:
            wait_for(lambda: status()["restartCount"] > 0, "the container to start anew")
            pods.running("one")
            assert pods.limits("one") == []
    finally:
        node.set_cdi(True)
        node.kill()
        node.start()


def test_metadata_of_devices_is_where_programs_look_for_it(node: Node, pods: Pods) -> None:
    node.kill()
    node.start("--device-metadata")
    wait_for(lambda: node.published() == 2, "the devices")
    show = "for f in $(find /var/run/kubernetes.io -name '*.json'); do echo $f; cat $f; done; echo READY; exec sleep 100000"
    pods.claim("own", share("3Gi"))
    pods.start("one", {"main": ["gpu", "own"]}, {"gpu": {"resourceClaimTemplateName": pods.template("t", share("2Gi"))},
                                                 "own": {"resourceClaimName": "own"}}, show=show)  # fmt: skip
    pods.running("one")
    log = pods.log("one")
    base = "/var/run/kubernetes.io/dra-device-attributes"
    for place, memory in (("resourceclaimtemplates/gpu", "2Gi"), ("resourceclaims/own", "3Gi")):
        newest = json.loads(log.split(f"{base}/{place}/gpu-0/{DRIVER}-metadata.json\n")[1].splitlines()[0])
        [device] = newest["requests"][0]["devices"]
        assert device["attributes"]["shareMemory"] == {"string": memory} and device["driver"] == DRIVER
    node.kill()
