"""How the webhook gets on with the API server's own admission, with other webhooks, and with kubectl."""

from __future__ import annotations

import json

import pytest
from bed.api import ApiError
from bed.space import wait_for
from bench import Bench, Names, container, legacy_names, own_entries, pod

SIDECAR = {"name": "proxy", "image": "test.local/busybox:1", "imagePullPolicy": "Never"}


def everything(names: Names) -> dict[str, str]:
    """The resource version of every object in the namespace, and of the cluster's claims and templates."""
    found = {}
    kinds = names.kubectl("api-resources", "--namespaced", "--verbs=list", "-o", "name").stdout.split()
    # Events tell of what happened; the API server writes them itself, and a lease is renewed by its holder.
    kinds = [kind for kind in kinds if not kind.startswith(("events", "leases"))]
    listed = json.loads(names.kubectl("get", ",".join(kinds), "-o", "json").stdout)
    for item in listed["items"]:
        found[f"{item['kind']}/{item['metadata']['name']}"] = item["metadata"]["resourceVersion"]
    return found


# ---------------------------------------------------------------------------------------------------- other webhooks


def test_a_sidecar_injected_before_us_keeps_its_place(bench: Bench, names: Names) -> None:
    def inject(request: dict) -> list[dict]:
        there = [entry["name"] for entry in request["object"]["spec"]["containers"]]
        return [] if "proxy" in there else [{"op": "add", "path": "/spec/containers/0", "value": SIDECAR}]

    with bench.injector("aa-injector", names.name, inject):
        names.apply(pod("p", container(gpu="1", gpumem="1000")))
    found = names.pod("p")
    assert [entry["name"] for entry in found["spec"]["containers"]] == ["proxy", "main"]
    assert found["spec"]["containers"][1]["resources"]["claims"] == [{"name": "vgpu-1"}]
    assert not legacy_names(found)


def test_a_sidecar_injected_behind_us_changes_no_claim(bench: Bench, names: Names) -> None:
    def inject(request: dict) -> list[dict]:
        there = [entry["name"] for entry in request["object"]["spec"]["containers"]]
        return [] if "proxy" in there else [{"op": "add", "path": "/spec/containers/0", "value": SIDECAR}]

    with bench.injector("zzz-injector", names.name, inject):
        names.apply(pod("p", container(gpu="1", gpumem="1000")))
    found = names.pod("p")
    assert own_entries(found).keys() == {"vgpu-0"}
    assert found["spec"]["containers"][1]["resources"]["claims"] == [{"name": "vgpu-0"}]
    assert len(names.templates()) == 1


def test_a_gpu_container_added_behind_us_gets_a_claim_in_the_second_round(bench: Bench, names: Names) -> None:
    def inject(request: dict) -> list[dict]:
        there = [entry["name"] for entry in request["object"]["spec"]["containers"]]
        late = container("late", gpu="1", gpumem="2000")
        return [] if "late" in there else [{"op": "add", "path": "/spec/containers/-", "value": late}]

    with bench.injector("zzz-injector", names.name, inject):
        names.apply(pod("p", container(gpu="1", gpumem="1000")))
    found = names.pod("p")
    assert not legacy_names(found)
    assert own_entries(found).keys() == {"vgpu-0", "vgpu-1"}
    original = json.loads(found["metadata"]["annotations"]["drawbridge.dev/original"])
    assert original["containers"].keys() == {"main", "late"}


def test_a_pod_that_becomes_one_of_ours_only_behind_us_escapes(bench: Bench, names: Names) -> None:
    """A webhook that was not called in the first round is not called in the second (docs/cluster.md)."""

    def inject(request: dict) -> list[dict]:
        path = "/spec/containers/0/resources"
        return [
            {
                "op": "add",
                "path": path,
                "value": {"limits": {"nvidia.com/gpu": "1"}, "requests": {"nvidia.com/gpu": "1"}},
            }
        ]

    with bench.injector("zzz-injector", names.name, inject):
        names.apply(pod("p", container()))
    assert legacy_names(names.pod("p")) == {"nvidia.com/gpu"}
    assert not names.templates()


# ---------------------------------------------------------------------------------------------------- kubectl


def test_a_manifest_applied_again_is_unchanged(bench: Bench, names: Names) -> None:
    made = pod("p", container(gpu="1", gpumem="1000"))
    names.apply(made, command=("apply",))
    first = names.pod("p")
    done = names.kubectl("apply", "-f", "-", input=made)
    assert done.returncode == 0, done.stderr
    assert own_entries(names.pod("p")) == own_entries(first)
    assert not legacy_names(names.pod("p"))


def test_a_manifest_applied_with_another_label_keeps_its_claim(bench: Bench, names: Names) -> None:
    made = pod("p", container(gpu="1", gpumem="1000"))
    names.apply(made, command=("apply",))
    made["metadata"]["labels"] = {"tier": "new"}
    done = names.kubectl("apply", "-f", "-", input=made)
    assert done.returncode == 0, done.stderr
    found = names.pod("p")
    assert found["metadata"]["labels"] == {"tier": "new"}
    assert own_entries(found).keys() == {"vgpu-0"} and not legacy_names(found)


def test_a_manifest_applied_with_another_figure_is_refused_by_the_api_server(bench: Bench, names: Names) -> None:
    names.apply(pod("p", container(gpu="1", gpumem="1000")), command=("apply",))
    done = names.kubectl("apply", "-f", "-", input=pod("p", container(gpu="1", gpumem="2000")))
    assert done.returncode != 0
    assert "pod updates may not change fields" in done.stderr


def test_server_side_apply_twice_gives_one_claim(bench: Bench, names: Names) -> None:
    made = pod("p", container(gpu="1", gpumem="1000"))
    for _ in range(2):
        done = names.kubectl("apply", "--server-side", "-f", "-", input=made)
        assert done.returncode == 0, done.stderr
    found = names.pod("p")
    assert own_entries(found).keys() == {"vgpu-0"} and not legacy_names(found)


def test_server_side_apply_of_another_label_keeps_the_claim(bench: Bench, names: Names) -> None:
    made = pod("p", container(gpu="1", gpumem="1000"))
    names.kubectl("apply", "--server-side", "-f", "-", input=made)
    made["metadata"]["labels"] = {"tier": "new"}
    done = names.kubectl("apply", "--server-side", "-f", "-", input=made)
    assert done.returncode == 0, done.stderr
    assert names.pod("p")["metadata"]["labels"] == {"tier": "new"}
    assert own_entries(names.pod("p")).keys() == {"vgpu-0"}


def test_strict_validation_finds_nothing_to_say(bench: Bench, names: Names) -> None:
    said = names.apply(pod("p", container(gpu="1", gpumem="1000")), command=("create", "--validate=strict"))
    assert said == ""


def test_what_the_command_line_prints_is_taken_strictly_and_left_alone(bench: Bench, names: Names) -> None:
    import subprocess

    from bed.drawbridge import program

    made = json.dumps(pod("p", container(gpu="2", gpumem="1000"), container("b", gpumem_percentage="50")))
    done = subprocess.run(
        [program(), "translate", "-f", "-", "--device-memory", "24Gi,80Gi"], input=made, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    created = names.kubectl("create", "--validate=strict", "-f", "-", input=done.stdout)
    assert created.returncode == 0, created.stderr
    assert own_entries(names.pod("p")).keys() == {"vgpu-0", "vgpu-1"}


def test_pods_without_a_name_of_one_shape_share_a_template(bench: Bench, names: Names) -> None:
    for _ in range(3):
        made = pod("p", container(gpu="1", gpumem="1000"))
        made["metadata"] = {"generateName": "any-"}
        names.apply(made)
    assert len(names.listed("pods")) == 3
    assert len(names.templates()) == 1


def test_kubectl_shows_a_denial_with_container_name_value_and_fix(bench: Bench, names: Names) -> None:
    done = names.kubectl("create", "-f", "-", input=pod("p", container(gpu="1", gpumem="8Gi")))
    assert done.returncode == 1
    assert 'admission webhook "pods.drawbridge.dev" denied the request' in done.stderr
    for word in ('container "main"', "nvidia.com/gpumem", "8Gi", "8192", "[memory-unit]"):
        assert word in done.stderr
    assert not names.listed("pods") and not names.templates()


def test_kubectl_shows_all_problems_of_a_pod_at_once(bench: Bench, names: Names) -> None:
    made = pod("p", container("a", gpu="1", gpumem="8Gi"), container("b", gpu="40"))
    done = names.kubectl("create", "-f", "-", input=made)
    assert 'container "a"' in done.stderr and 'container "b"' in done.stderr


def test_kubectl_shows_a_warning_and_takes_the_pod(bench: Bench, names: Names) -> None:
    said = names.apply(pod("p", container(gpu="1", gpumem="1000", gpucores="150")))
    assert said.startswith("Warning: ") and "nvidia.com/gpucores" in said


def test_a_dry_run_writes_nothing(bench: Bench, names: Names) -> None:
    before = everything(names)
    for command in (("create", "--dry-run=server"), ("apply", "--server-side", "--dry-run=server")):
        done = names.kubectl(*command, "-f", "-", "-o", "json", input=pod("p", container(gpu="3", gpumem="777")))
        assert done.returncode == 0, done.stderr
        assert own_entries(json.loads(done.stdout)).keys() == {"vgpu-0"}
    assert everything(names) == before


def test_an_update_of_a_translated_pod_keeps_it_as_it_is(bench: Bench, names: Names) -> None:
    names.apply(pod("p", container(gpu="1", gpumem="1000")))
    before = names.pod("p")["spec"]
    done = names.kubectl("label", "pod", "p", "team=red")
    assert done.returncode == 0, done.stderr
    after = names.pod("p")["spec"]
    for part in ("resourceClaims", "containers"):
        assert after[part] == before[part]


# ---------------------------------------------------------------------------------------------------- who is asked


def calls(bench: Bench) -> float:
    samples = bench.metrics("apiserver_admission_webhook_request_total")
    return sum(value for labels, value in samples.items() if "pods.drawbridge.dev" in labels)


def test_other_pods_never_reach_the_webhook(bench: Bench, names: Names) -> None:
    before = calls(bench)
    many = [container(f"c{number}", **({"cpu": "1"} if False else {})) for number in range(20)]
    names.apply(pod("plain"), pod("many", *many))
    names.kubectl("label", "pod", "plain", "a=b")
    names.delete_pod("plain")
    assert calls(bench) == before
    names.apply(pod("ours", container(gpu="1", gpumem="100")))
    assert calls(bench) > before, "the metric does not count what it is taken for"


@pytest.mark.parametrize(
    ("label", "value"), [("drawbridge.dev/mode", "off"), ("drawbridge.dev/mode", "audit"), ("hami.io/webhook", "ignore")])
def test_namespaces_that_are_off_or_opted_out_never_reach_the_webhook(bench: Bench, label: str, value: str) -> None:
    names = bench.namespace(f"left-{value}", **{label: value})
    before = calls(bench)
    try:
        names.apply(pod("p", container(gpu="1")))
        assert calls(bench) == before
        assert legacy_names(names.pod("p")) == {"nvidia.com/gpu"}
    finally:
        names.remove()


def test_a_pod_that_is_opted_out_never_reaches_the_webhook(bench: Bench, names: Names) -> None:
    before = calls(bench)
    made = pod("p", container(gpu="1"))
    made["metadata"]["labels"] = {"hami.io/webhook": "ignore"}
    names.apply(made)
    assert calls(bench) == before
    assert legacy_names(names.pod("p")) == {"nvidia.com/gpu"}


def test_the_api_server_notes_what_we_made_of_a_pod(bench: Bench, names: Names) -> None:
    """What a failing test prints, and what an administrator finds in the audit log."""
    names.create(pod("p", container(gpu="1", gpumem="100")))
    (event,) = bench.cluster.admissions(names.name)
    assert event["requestObject"]["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpumem"] == "100"
    patch = json.loads(event["annotations"]["patch.webhook.admission.k8s.io/round_0_index_0"])
    assert patch["webhook"] == "pods.drawbridge.dev"
    assert "vgpu-0" in json.dumps(patch["patch"])


# ---------------------------------------------------------------------------------------------------- controllers


@pytest.mark.parametrize("kind", ["StatefulSet", "ReplicaSet", "Job"])
def test_pods_that_a_controller_makes_are_translated(bench: Bench, names: Names, kind: str) -> None:
    template = {"metadata": {"labels": {"app": "x"}}, "spec": pod("x", container(gpu="1", gpumem="100"))["spec"]}
    spec: dict = {"template": template}
    if kind == "Job":
        template["spec"]["restartPolicy"] = "Never"
    else:
        spec |= {"selector": {"matchLabels": {"app": "x"}}, "replicas": 2}
    if kind == "StatefulSet":
        spec["serviceName"] = "x"
    version = "batch/v1" if kind == "Job" else "apps/v1"
    names.apply({"apiVersion": version, "kind": kind, "metadata": {"name": "x"}, "spec": spec})
    wanted = 1 if kind == "Job" else 2
    pods = wait_for(lambda: len(found := names.listed("pods")) == wanted and found, f"the {kind}'s pods")
    for found in pods:
        assert own_entries(found).keys() == {"vgpu-0"} and not legacy_names(found)
        names.allocated(found["metadata"]["name"])
    assert len(names.templates()) == 1


def test_a_denied_template_is_told_on_the_controller(bench: Bench, names: Names) -> None:
    template = {"metadata": {"labels": {"app": "x"}}, "spec": pod("x", container(gpu="1", gpumem="8Gi"))["spec"]}
    spec = {"template": template, "selector": {"matchLabels": {"app": "x"}}, "replicas": 1}
    names.apply({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "x"}, "spec": spec})
    told = wait_for(
        lambda: [event for event in names.listed("events") if event["reason"] == "FailedCreate"], "the event"
    )
    assert "the unit is MiB" in told[0]["message"]


def test_a_foreign_template_of_our_name_is_refused_with_its_name(bench: Bench, names: Names) -> None:
    names.apply(pod("first", container(gpu="1", gpumem="4321")))
    (name,) = names.templates()
    names.delete_pod("first")
    names.api.call("DELETE", names.path("resourceclaimtemplates", name))
    other = {"metadata": {"name": name}, "spec": {"spec": {"devices": {"requests": [
        {"name": "gpu", "exactly": {"deviceClassName": "gpu.drawbridge.dev"}}]}}}}  # fmt: skip
    names.api.call("POST", names.path("resourceclaimtemplates"), other)

    def refused() -> str | None:
        # The webhook hears of the deletion by its watch; until then it believes what it wrote.
        try:
            names.create(pod("second", container(gpu="1", gpumem="4321")), dry_run=True)
        except ApiError as error:
            return error.message
        return None

    assert name in wait_for(refused, "the foreign template to be noticed")
