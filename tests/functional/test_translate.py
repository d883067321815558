"""The command line as people and pipelines use it: flags, streams, exit statuses, and the layout of what it prints."""

from __future__ import annotations

import json
import os
import pty
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from material import ROOT, program

FLEET = ROOT / "tests" / "cases" / "fleet.yaml"
POD = """\
# A training pod.
apiVersion: v1
kind: Pod
metadata:
  name: train   # the name
spec:
  containers:
  - name: main
    image: registry.example/train:1
    # What it asks for.
    resources:
      limits:
        nvidia.com/gpu: 1       # one card
        nvidia.com/gpumem: 3000
        cpu: "2"
  # Behind the containers.
  restartPolicy: Never
"""
DENIED = POD.replace("3000", "8Gi").replace("train   #", "wrong   #")
PLAIN = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name:   plain}\ndata: {a: 'x'}  # as it is\n"
WARNED = POD.replace("        cpu", "        nvidia.com/gpucores: 150\n        cpu")
PERCENT = POD.replace("gpumem: 3000", "gpumem-percentage: 50")
LEGACY = "nvidia.com/"


class Answer:
    """What one call printed."""

    def __init__(self, done: subprocess.CompletedProcess[bytes]) -> None:
        self.status = done.returncode
        self.bytes = done.stdout
        self.text = done.stdout.decode()
        self.errors = done.stderr.decode()

    def notices(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.errors.splitlines()]

    def verdicts(self) -> list[str]:
        return [line["verdict"] for line in self.notices() if "verdict" in line]

    def codes(self) -> list[str]:
        return [line["code"] for line in self.notices() if "code" in line]

    def items(self) -> list[dict[str, Any]]:
        document = json.loads(self.text)
        assert (document["apiVersion"], document["kind"]) == ("v1", "List")
        return document["items"]

    def documents(self) -> list[dict[str, Any]]:
        return [document for document in yaml.safe_load_all(self.text) if document is not None]


# For the superuser: what takes its privilege from a command to read what it may not.
AS_NO_ROOT = () if os.geteuid() else ("setpriv", "--bounding-set=-dac_override,-dac_read_search")


def call(
    *arguments: str | Path, text: str | bytes = "", folder: Path = ROOT, before: tuple[str, ...] = (), **environment: str
) -> Answer:
    command = [*before, program(), *map(str, arguments)]
    data = text.encode() if isinstance(text, str) else text
    return Answer(subprocess.run(command, input=data, cwd=folder, capture_output=True, timeout=60, check=False,
                                 env=os.environ | environment))  # fmt: skip


def translate(text: str | bytes, *arguments: str | Path) -> Answer:
    return call("translate", "-f", "-", "--notices", "json", *arguments, text=text)


def own_failure(answer: Answer, *words: str) -> None:
    assert answer.status == 1
    assert answer.bytes == b""
    (error,) = answer.notices()
    assert error["severity"] == "error"
    for word in words:
        assert word in json.dumps(error), error


# ---------------------------------------------------------------------------------------------------- layout


def test_a_changed_document_keeps_comments_and_order_where_nothing_changed() -> None:
    answer = translate(POD)
    assert (answer.status, answer.verdicts()) == (0, ["translate"])
    template, pod = answer.text.split("---\n")
    name = yaml.safe_load(template)["metadata"]["name"]
    original = '{"v":1,"containers":{"main":{"limits":{"nvidia.com/gpu":"1","nvidia.com/gpumem":"3000"}}}}'
    assert pod == f"""\
# A training pod.
apiVersion: v1
kind: Pod
metadata:
  name: train   # the name
  annotations:
    drawbridge.dev/original: '{original}'
spec:
  containers:
  - name: main
    image: registry.example/train:1
    # What it asks for.
    resources:
      limits:
        cpu: "2"
      claims:
      - name: vgpu-0
  # Behind the containers.
  restartPolicy: Never
  resourceClaims:
  - name: vgpu-0
    resourceClaimTemplateName: {name}
"""


def test_line_breaks_of_windows_and_byte_order_marks_are_understood() -> None:
    answer = translate(b"\xef\xbb\xbf" + POD.replace("\n", "\r\n").encode())
    pod = answer.bytes.split(b"---\n")[1]
    assert b"\xef\xbb\xbf" not in pod
    assert pod.count(b"\n") == pod.count(b"\r\n") > 10
    assert yaml.safe_load(pod) == answer.documents()[1] == translate(POD).documents()[1]


def test_what_needs_no_change_comes_out_byte_for_byte() -> None:
    text = f"# head\n{PLAIN}---\n{PLAIN}# end"
    answer = translate(text)
    assert answer.text == text
    assert answer.verdicts() == ["leave", "leave"]


def test_flow_style_and_json_text_stay_what_they_are() -> None:
    flow = """\
{apiVersion: v1, kind: Pod, metadata: {name: flow},
 spec: {containers: [{name: main, resources: {limits: {nvidia.com/gpu: 1, cpu: 1}}}]}}  # short
"""
    answer = translate(flow)
    pod = answer.text.split("---\n")[1]
    assert pod.endswith("}  # short\n") and pod.count("\n") == 2
    assert "limits: {cpu: 1}" in pod

    document = '{"apiVersion":"v1","kind":"Pod","metadata":{"name":"j","uid":"\\u0041"},"spec":{"big":12345678901234567890,' \
               '"containers":[{"name":"main","resources":{"limits":{"nvidia.com/gpu":1}}}]}}'  # fmt: skip
    answer = translate(document)
    pod = answer.text.split("---\n")[1]
    assert pod.startswith('{"apiVersion":"v1","kind":"Pod","metadata":{"name":"j","uid":"\\u0041"')
    assert '"big":12345678901234567890' in pod
    assert '"big": 12345678901234567890' in translate(document, "-o", "json").text


def test_anchors_in_the_way_lead_to_a_document_written_anew_and_a_note() -> None:
    text = POD.replace("resources:\n", "resources: &ask\n") + "x-other: *ask\n"
    answer = translate(text)
    assert (answer.status, answer.codes()) == (0, ["document-rewritten"])
    pod = answer.documents()[1]
    assert pod["x-other"]["limits"] == {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 3000, "cpu": "2"}
    assert pod["spec"]["containers"][0]["resources"] == {"limits": {"cpu": "2"}, "claims": [{"name": "vgpu-0"}]}


def test_anchors_elsewhere_change_nothing() -> None:
    answer = translate(POD.replace("name: train ", "name: &name train ").replace("image:", "hostname: *name\n    image:"))
    assert answer.codes() == []
    assert "name: &name train   # the name" in answer.text


# ---------------------------------------------------------------------------------------------------- order and streams


def test_templates_come_before_the_document_that_needs_them_once_each() -> None:
    other = POD.replace("name: train ", "name: again ").replace("3000", "3001")
    answer = translate("---\n".join([PLAIN, POD, POD, other]))
    kinds = [document["kind"] for document in answer.documents()]
    assert kinds == ["ConfigMap", "ResourceClaimTemplate", "Pod", "Pod", "ResourceClaimTemplate", "Pod"]


def test_a_template_is_written_for_each_namespace() -> None:
    here, there = (POD.replace("name: train ", f"namespace: {name}\n  name: train ") for name in ("a", "b"))
    answer = translate("---\n".join([here, there, POD]), "-n", "b")
    templates = [item for item in answer.documents() if item["kind"] == "ResourceClaimTemplate"]
    assert [item["metadata"].get("namespace") for item in templates] == ["a", "b"]
    assert "namespace" not in answer.documents()[-1]["metadata"]
    assert answer.notices()[-1]["namespace"] == "b"
    assert "namespace" not in translate(POD).documents()[0]["metadata"]


def test_a_template_of_the_input_is_not_written_again_wherever_it_stands() -> None:
    template = translate(POD).text.split("---\n")[0]
    for text in (f"{template}---\n{POD}", f"{POD}---\n{template}"):
        answer = translate(text)
        assert sorted(document["kind"] for document in answer.documents()) == ["Pod", "ResourceClaimTemplate"]
    answer = translate(f"{template.replace('3000Mi', '4000Mi')}---\n{POD}")
    assert (answer.status, answer.verdicts(), set(answer.codes())) == (2, ["deny", "deny"], {"template-conflict"})


def test_its_own_output_is_left_alone() -> None:
    first = translate(POD)
    second = translate(first.text)
    assert second.text == first.text
    assert second.verdicts() == ["leave", "leave"]


def test_a_pod_that_names_a_template_nobody_has_is_reported() -> None:
    template, pod = translate(POD).text.split("---\n")
    restored = translate(pod)
    assert [document["kind"] for document in restored.documents()] == ["ResourceClaimTemplate", "Pod"]
    assert restored.text == f"{template}---\n{pod}"
    lost = "\n".join(line for line in pod.split("\n") if "original" not in line).replace("  annotations:\n", "")
    answer = translate(lost, "--strict")
    assert (answer.status, answer.codes()) == (3, ["template-not-here"])


def test_documents_that_are_not_empty_are_counted_and_each_has_a_verdict() -> None:
    answer = translate(f"# c\n---\n{PLAIN}---\n# nothing\n---\n{POD}---\n{DENIED}---\nkind: Odd\n")
    verdicts = [line for line in answer.notices() if "verdict" in line]
    assert [line["document"] for line in verdicts] == [1, 2, 3, 4]
    assert [line["verdict"] for line in verdicts] == ["leave", "translate", "deny", "leave"]
    assert verdicts[1] == {"verdict": "translate", "file": "-", "document": 2, "kind": "Pod", "name": "train"}
    assert answer.status == 2


def test_amounts_of_other_resources_come_back_as_they_are_written() -> None:
    answer = translate(POD.replace('cpu: "2"', "cpu: 2.0\n        memory: 8e9"), "-o", "json")
    assert '"limits":{"cpu":2.0,"memory":8e9}' in "".join(answer.text.split())


@pytest.mark.parametrize("name", [
    "ACTIVE_OOM_KILLER", "CUDA_DEVICE_MEMORY_LIMIT", "CUDA_DEVICE_MEMORY_LIMIT_0", "CUDA_DEVICE_MEMORY_SHARED_CACHE",
    "CUDA_DEVICE_SM_LIMIT", "CUDA_DISABLE_CONTROL", "CUDA_OVERSUBSCRIBE", "CUDA_TASK_PRIORITY",
    "GPU_CORE_UTILIZATION_POLICY", "LIBCUDA_LOG_LEVEL", "NVIDIA_VISIBLE_DEVICES"])  # fmt: skip
def test_a_variable_of_hami_is_told_by_its_name_and_stays(name: str) -> None:
    answer = translate(POD.replace("    # What it asks for.", f'    env: [{{name: {name}, value: "1"}}]'), "--strict")
    (told,) = [line for line in answer.notices() if "code" in line]
    assert (answer.status, told["container"], told["path"]) == (3, "main", "/spec/containers/0/env/0")
    assert f"variable {name} " in told["message"]
    assert answer.documents()[1]["spec"]["containers"][0]["env"] == [{"name": name, "value": "1"}]


@pytest.mark.parametrize(("value", "told"), [
    ("'\"A100\"'", True), ("\"'A100', V100\"", True), ("A100;V100", True), ("A100|V100", True), ("A100，V100", True),
    ("A100 80GB, V100", False), ('"A100,\\n V100,"', False)])  # fmt: skip
@pytest.mark.parametrize("name", ["nvidia.com/use-gputype", "nvidia.com/nouse-gputype"])
def test_an_item_of_a_list_that_can_match_no_card_is_told(name: str, value: str, told: bool) -> None:
    answer = translate(POD.replace("spec:", f"  annotations:\n    {name}: {value}\nspec:"))
    assert (answer.verdicts(), answer.codes()) == (["translate"], ["device-list-item"] if told else [])


def test_the_verdict_comes_behind_the_diagnostics_of_its_document() -> None:
    notices = translate(f"{DENIED}---\n{WARNED}").notices()
    assert [line.get("code") or line["verdict"] for line in notices] == ["memory-unit", "deny", "cores-clamped", "translate"]
    assert notices[0]["severity"] == "denied"
    assert notices[0]["container"] == "main"
    assert notices[0]["path"] == "/spec/containers/0/resources/limits/nvidia.com~1gpumem"
    assert "8192" in notices[0]["fix"]


def test_a_stream_of_json_documents_is_read() -> None:
    pods = [json.dumps(yaml.safe_load(text)) for text in (POD, PLAIN)]
    answer = translate("\n".join(pods), "-o", "json")
    assert [item["kind"] for item in answer.items()] == ["ResourceClaimTemplate", "Pod", "ConfigMap"]


def test_a_pod_with_only_a_generated_name_says_so() -> None:
    (verdict,) = translate(POD.replace("  name: train ", "  generateName: train- ")).notices()
    assert verdict["generateName"] == "train-"
    assert "name" not in verdict


# ---------------------------------------------------------------------------------------------------- denied documents


def test_a_denied_document_is_left_out() -> None:
    answer = translate(f"{DENIED}---\n{PLAIN}")
    assert answer.status == 2
    assert answer.text == PLAIN
    assert translate(DENIED).text == ""
    assert translate(DENIED, "-o", "json").items() == []


def test_one_wrong_pod_template_denies_the_whole_object() -> None:
    spec = yaml.safe_load(POD)["spec"]
    wrong = yaml.safe_load(DENIED)["spec"]
    cluster = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": "ray"},
               "spec": {"headGroupSpec": {"template": {"spec": spec}},
                        "workerGroupSpecs": [{"template": {"spec": spec}}, {"template": {"spec": wrong}}]}}  # fmt: skip
    answer = translate(json.dumps(cluster))
    assert (answer.status, answer.text) == (2, "")
    assert answer.notices()[0]["path"].startswith("/spec/workerGroupSpecs/1/template/spec/containers/0/")
    cluster["spec"]["workerGroupSpecs"].pop()
    answer = translate(json.dumps(cluster), "-o", "json")
    assert [item["kind"] for item in answer.items()] == ["ResourceClaimTemplate", "RayCluster"]
    assert LEGACY + "gpu\"" not in json.dumps(answer.items()[1]["spec"]).replace("\\\"", "")


# ---------------------------------------------------------------------------------------------------- Lists


def as_list(*texts: str, kind: str = "List") -> str:
    items = "".join("- " + text.strip().replace("\n", "\n  ") + "\n" for text in texts)
    return f"apiVersion: v1\nkind: {kind}\n# all of them\nitems:\n{items}metadata: {{}}\n"


def test_the_items_of_a_list_are_answered_one_by_one() -> None:
    answer = translate(as_list(PLAIN, POD, DENIED))
    verdicts = [(line["item"], line["verdict"]) for line in answer.notices() if "verdict" in line]
    assert verdicts == [(0, "leave"), (1, "translate"), (2, "deny")]
    assert answer.notices()[1].get("code") is None
    assert answer.codes() == ["memory-unit"]
    template, rest = answer.text.split("---\n")
    assert yaml.safe_load(template)["kind"] == "ResourceClaimTemplate"
    assert [item["kind"] for item in yaml.safe_load(rest)["items"]] == ["ConfigMap", "Pod"]
    assert "# all of them\n" in rest and "# one card" not in rest and "# as it is" in rest
    assert rest.endswith("metadata: {}\n")


def test_paths_are_relative_to_the_item() -> None:
    (notice, _, _) = translate(as_list(DENIED, PLAIN)).notices()
    assert notice["item"] == 0
    assert notice["path"].startswith("/spec/containers/0/")


def test_json_output_is_one_flat_list() -> None:
    answer = translate(f"{as_list(PLAIN, POD, DENIED)}---\n{POD}", "-o", "json")
    assert [item["kind"] for item in answer.items()] == ["ConfigMap", "ResourceClaimTemplate", "Pod", "Pod"]


def test_a_list_without_a_good_item_stays_a_list() -> None:
    answer = translate(as_list(DENIED))
    assert yaml.safe_load(answer.text) == {"apiVersion": "v1", "kind": "List", "items": [], "metadata": {}}
    assert translate(as_list(DENIED), "-o", "json").items() == []
    text = json.dumps({"kind": "List", "items": [yaml.safe_load(DENIED), 5, yaml.safe_load(PLAIN)]}, indent=1)
    answer = translate(text)
    assert json.loads(answer.text)["items"] == [5, yaml.safe_load(PLAIN)]
    assert answer.text.startswith('{\n "kind": "List",\n "items": [\n')


def test_the_items_of_a_pod_list_need_no_kind() -> None:
    pod = yaml.safe_load(POD)
    del pod["kind"], pod["apiVersion"]
    text = json.dumps({"apiVersion": "v1", "kind": "PodList", "items": [pod]})
    answer = translate(text, "-o", "json")
    assert answer.verdicts() == ["translate"]
    assert answer.notices()[0]["kind"] == "Pod"
    assert [(item["kind"], item["apiVersion"]) for item in answer.items()][1] == ("Pod", "v1")
    assert "kind" not in json.loads(translate(text).text.split("---\n")[1])["items"][0]


# ---------------------------------------------------------------------------------------------------- kinds


def test_pod_templates_are_found_in_every_known_kind() -> None:
    spec = {"metadata": {"labels": {"a": "b"}}, "spec": yaml.safe_load(POD)["spec"]}
    kinds: list[tuple[str, str, dict[str, Any]]] = [
        ("apps/v1", "Deployment", {"template": spec}),
        ("apps/v1", "StatefulSet", {"template": spec}),
        ("apps/v1", "DaemonSet", {"template": spec}),
        ("apps/v1", "ReplicaSet", {"template": spec}),
        ("v1", "ReplicationController", {"template": spec}),
        ("batch/v1", "Job", {"template": spec}),
        ("batch/v1", "CronJob", {"jobTemplate": {"spec": {"template": spec}}}),
        ("batch.volcano.sh/v1alpha1", "Job", {"schedulerName": "default-scheduler", "tasks": [{"template": spec}]}),
        ("kubeflow.org/v1", "PyTorchJob", {"pytorchReplicaSpecs": {"Master": {"template": spec}, "Worker": {"template": spec}}}),
        ("kubeflow.org/v1", "MPIJob", {"mpiReplicaSpecs": {"Launcher": {"template": spec}}}),
        ("kubeflow.org/v1", "TFJob", {"tfReplicaSpecs": {"PS": {"template": spec}}}),
        ("ray.io/v1", "RayCluster", {"headGroupSpec": {"template": spec}, "workerGroupSpecs": [{"template": spec}]}),
        ("ray.io/v1", "RayJob", {"rayClusterSpec": {"headGroupSpec": {"template": spec}}}),
        ("ray.io/v1", "RayService", {"rayClusterConfig": {"workerGroupSpecs": [{"template": spec}]}}),
        ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", {"leaderWorkerTemplate": {"workerTemplate": spec}}),
        ("jobset.x-k8s.io/v1alpha2", "JobSet", {"replicatedJobs": [{"template": {"spec": {"template": spec}}}]}),
    ]  # fmt: skip
    objects = [{"apiVersion": version, "kind": kind, "metadata": {"name": kind.lower()}, "spec": spec_of}
               for version, kind, spec_of in kinds]  # fmt: skip
    objects.append({"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "t"}, "template": spec})
    answer = translate("\n".join(map(json.dumps, objects)), "-o", "json")
    assert answer.verdicts() == ["translate"] * len(objects)
    for item in answer.items()[1:]:
        text = json.dumps(item).replace('\\"', "")
        assert '"nvidia.com/' not in text and '"resourceClaimTemplateName"' in text, item["kind"]


def test_kinds_of_the_settings_are_searched_too(tmp_path: Path) -> None:
    settings = tmp_path / "settings.yaml"
    settings.write_text("apiVersion: drawbridge.dev/v1\nkind: Settings\nworkloads:\n"
                        "- apiGroup: example.com\n  kind: Trainer\n  paths: [/spec/parts/*/pod]\n")  # fmt: skip
    spec = yaml.safe_load(POD)["spec"]
    text = json.dumps({"apiVersion": "example.com/v1", "kind": "Trainer", "metadata": {"name": "t"},
                       "spec": {"parts": {"a/b": {"pod": {"spec": spec}}}}})  # fmt: skip
    answer = translate(text, "--settings", settings)
    assert answer.verdicts() == ["translate"], answer.errors
    unknown = translate(text, "--strict")
    assert (unknown.status, unknown.codes()) == (3, ["legacy-in-unknown-kind"])
    assert unknown.text == text
    assert unknown.notices()[0]["path"] == "/spec/parts/a~1b/pod/spec/containers/0/resources/limits/nvidia.com~1gpu"


def test_a_path_of_the_settings_that_misses_the_pods_is_told(tmp_path: Path) -> None:
    settings = tmp_path / "settings.yaml"
    settings.write_text("apiVersion: drawbridge.dev/v1\nkind: Settings\nworkloads:\n"
                        "- apiGroup: example.com\n  kind: Trainer\n  paths: [/spec/pod/spec]\n")  # fmt: skip
    text = json.dumps({"apiVersion": "example.com/v1", "kind": "Trainer", "metadata": {"name": "t"},
                       "spec": {"pod": {"spec": yaml.safe_load(POD)["spec"]}}})  # fmt: skip
    answer = translate(text, "--settings", settings, "--strict")
    assert (answer.status, answer.codes(), answer.text) == (3, ["legacy-in-unknown-kind"], text)
    assert "outside its pod templates" in answer.notices()[0]["message"]


def test_lists_inside_a_list_are_opened() -> None:
    def a_list(*items: object, kind: str = "List") -> dict[str, object]:
        return {"apiVersion": "v1", "kind": kind, "items": list(items)}

    pods = [yaml.safe_load(POD.replace("name: train", f"name: train-{n}")) for n in range(3)]
    bare = {key: value for key, value in pods[2].items() if key not in ("kind", "apiVersion")}
    nested = a_list(pods[0], a_list(yaml.safe_load(DENIED), a_list(pods[1]), a_list(bare, kind="PodList")))
    for text in (json.dumps(nested), yaml.safe_dump(nested)):
        answer = translate(text)
        assert (answer.status, answer.verdicts()) == (2, ["translate", "deny", "translate", "translate"])
        (whole,) = [document for document in answer.documents() if document["kind"] == "List"]
        assert [item["metadata"]["name"] for item in whole["items"]] == ["train-0", "train-1", "train-2"]
        assert [item["kind"] for item in whole["items"]] == ["Pod"] * 3
        assert '"nvidia.com/gpu":' not in json.dumps(whole)
        assert answer.codes().count("document-rewritten") == 1
    flat = translate(json.dumps(nested), "-o", "json").items()
    assert [item["metadata"]["name"] for item in flat if item["kind"] == "Pod"] == ["train-0", "train-1", "train-2"]


def test_a_template_of_ours_that_was_edited_is_left_out_with_the_pods_that_need_it() -> None:
    good = translate(POD).text
    edited = good.replace("3000Mi", "99Mi", 1)
    assert edited != good
    answer = translate(edited)
    assert (answer.status, answer.verdicts(), answer.codes()) == (2, ["deny", "leave"], ["template-conflict"])
    assert "99Mi" not in answer.text
    for same in (good, good.replace("3000Mi", "3145728000", 1), good.replace("3000Mi", '"3072000Ki"', 1)):
        assert translate(same).status == 0, same


def test_what_is_hidden_from_pods_without_a_gpu_is_not_from_those_with_a_claim(tmp_path: Path) -> None:
    settings = tmp_path / "settings.yaml"
    settings.write_text("apiVersion: drawbridge.dev/v1\nkind: Settings\npolicy: {hideGpusFromOthers: true}\n")
    once = translate(POD, "--settings", settings)
    again = translate(once.text, "--settings", settings)
    assert (again.text, again.verdicts()) == (once.text, ["leave", "leave"])
    foreign = POD.replace("nvidia.com/gpu", "example.com/none").replace("resources:\n", "resources:\n      claims: [{name: g}]\n")
    assert "NVIDIA_VISIBLE_DEVICES" not in translate(foreign, "--settings", settings).text
    assert "NVIDIA_VISIBLE_DEVICES" in translate("apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: a}]}\n",
                                                 "--settings", settings).text  # fmt: skip


@pytest.mark.parametrize(("where", "value"), [
    ("spec.resourceClaims", {"nic": {"resourceClaimTemplateName": "nic"}}), ("metadata.annotations", ["a"]),
    ("spec.containers.0.resources.claims", {"name": "nic"}), ("spec.containers.0.env", {"FOO": "bar"}),
    ("metadata.annotations", {"nvidia.com/numa-bind": True}), ("metadata.annotations", {"nvidia.com/use-gpuuuid": ["GPU-a"]}),
])  # fmt: skip
def test_what_is_of_another_kind_than_the_api_has_is_refused_and_not_written_over(where: str, value: object) -> None:
    pod = yaml.safe_load(POD)
    *path, last = where.split(".")
    place = pod
    for key in path:
        place = place[int(key)] if isinstance(place, list) else place[key]
    place[last] = value
    answer = translate(json.dumps(pod))
    assert (answer.status, answer.codes()) == (2, ["wrong-kind"])
    assert answer.notices()[0]["path"].startswith("/" + where.replace(".", "/"))


def test_an_annotation_beside_the_pod_template_is_told() -> None:
    pod = yaml.safe_load(POD)
    notes = {"nvidia.com/use-gpuuuid": "GPU-a", "example.com/other": "x"}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "annotations": notes},
           "spec": {"template": {"metadata": {}, "spec": pod["spec"]}}}  # fmt: skip
    answer = translate(json.dumps(job), "--strict")
    assert (answer.status, answer.codes()) == (3, ["annotation-ignored"])
    assert answer.notices()[0]["path"] == "/metadata/annotations/nvidia.com~1use-gpuuuid"
    job["spec"]["template"]["metadata"]["annotations"] = job["metadata"].pop("annotations")
    assert translate(json.dumps(job), "--strict").status == 0
    ray = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": "r", "annotations": notes},
           "spec": {"headGroupSpec": {"template": {"spec": pod["spec"]}}}}  # fmt: skip
    assert translate(json.dumps(ray)).codes() == ["custom-resource"]


def test_an_annotation_of_null_is_an_empty_text_as_for_an_api_server() -> None:
    pod = yaml.safe_load(POD)
    pod["metadata"]["annotations"] = {"nvidia.com/vgpu-mode": None, "nvidia.com/use-gputype": None}
    answer = translate(json.dumps(pod))
    assert (answer.status, answer.codes()) == (2, ["mode-unsupported"])


def test_a_gpu_that_no_container_asks_for_is_told() -> None:
    limits = {"limits": {"nvidia.com/gpumem": 3000}}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"},
           "spec": {"template": {"spec": {"resources": limits, "containers": [{"name": "main"}]}}}}  # fmt: skip
    for text in (POD + f"  resources: {json.dumps(limits)}\n", json.dumps(job)):
        answer = translate(text, "--strict")
        assert (answer.status, answer.codes()) == (3, ["legacy-in-unknown-kind"]), answer.errors
        assert "no container" in answer.notices()[0]["message"] and "container" in answer.notices()[0]["fix"]


def test_a_byte_order_mark_may_stand_before_any_document() -> None:
    mark = "\ufeff"
    answer = translate(f"{mark}{POD}---\n{mark}{PLAIN}---\n{mark}# a comment\n{POD.replace('name: train', 'name: two')}")
    assert (answer.status, answer.verdicts()) == (0, ["translate", "leave", "translate"])
    assert mark not in answer.text
    assert [document["kind"] for document in answer.documents()] == ["ResourceClaimTemplate", "Pod", "ConfigMap", "Pod"]


@pytest.mark.parametrize("text", [
    "{{- if .Values.gpu }}\n" + POD + "{{- end }}\n", POD.replace("3000", "{{ .Values.memory }}"),
    POD.replace("spec:\n", "spec:\n  {{- toYaml .Values.pod | nindent 2 }}\n"),
])  # fmt: skip
def test_of_a_template_it_is_said_that_it_has_to_be_rendered(text: str) -> None:
    answer = translate(text)
    assert answer.status == 1 and "a template has to be rendered first" in answer.errors


@pytest.mark.parametrize(("more", "code"), [
    ({"securityContext": {"privileged": True}}, "privileged-container"), ({}, "node-name-set")])  # fmt: skip
def test_a_translated_pod_is_held_to_the_same_rules(more: dict[str, object], code: str) -> None:
    template, pod = yaml.safe_load_all(translate(POD).text)
    pod["spec"]["containers"][0] |= more
    if not more:
        pod["spec"]["nodeName"] = "node-a"
    answer = translate(yaml.safe_dump_all([template, pod]))
    assert (answer.status, answer.codes()) == (2, [code])


def test_labels_of_a_namespace_count_wherever_it_stands() -> None:
    namespace = "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: team\n  labels: {hami.io/webhook: ignore}\n"
    pod = POD.replace("name: train ", "namespace: team\n  name: train ")
    for text in (f"{namespace}---\n{pod}", f"{pod}---\n{namespace}", as_list(namespace, pod)):
        answer = translate(text)
        assert answer.verdicts() == ["leave", "leave"]
        assert "opted-out" in answer.codes()
    assert translate(f"{namespace}---\n{POD}").verdicts() == ["leave", "translate"]
    for mode, verdict in (("off", "leave"), ("audit", "leave"), ("translate", "translate")):
        moded = namespace.replace("hami.io/webhook: ignore", f"drawbridge.dev/mode: '{mode}'")
        assert translate(f"{moded}---\n{pod}").verdicts() == ["leave", verdict]


# ---------------------------------------------------------------------------------------------------- input


def test_folders_are_read_in_the_order_of_names_and_deeper_only_on_request(tmp_path: Path) -> None:
    (tmp_path / "deeper").mkdir()
    for name, label in (("b.yaml", "two"), ("a.yml", "one"), ("c.json", "three"), ("notes.txt", "no"), ("deeper/d.yaml", "four")):
        (tmp_path / name).write_text(json.dumps({"kind": "ConfigMap", "metadata": {"name": label}}))
    flat = call("translate", "-f", tmp_path, "-o", "json")
    assert [item["metadata"]["name"] for item in flat.items()] == ["one", "two", "three"]
    deep = call("translate", "-R", "-f", tmp_path, "-o", "json", "--notices", "json")
    assert [item["metadata"]["name"] for item in deep.items()] == ["one", "two", "three", "four"]
    assert deep.notices()[-1]["file"] == str(tmp_path / "deeper" / "d.yaml")


def test_a_manifest_of_a_folder_that_cannot_be_read_is_a_failure(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(POD)
    (tmp_path / "folder.yaml").mkdir()
    assert call("translate", "-f", tmp_path).status == 0
    wrong = tmp_path / "b.yaml"
    for make in (lambda: wrong.symlink_to("nowhere"), lambda: wrong.symlink_to(wrong), lambda: os.mkfifo(wrong)):
        make()
        own_failure(call("translate", "-f", tmp_path, "--notices", "json"), "b.yaml")
        wrong.unlink()


def test_several_files_make_one_output(tmp_path: Path) -> None:
    one, two = tmp_path / "one.yaml", tmp_path / "two.yaml"
    one.write_text(POD)
    two.write_text(POD.rstrip("\n"))
    answer = call("translate", "-f", one, "-f", two, "-f", "-", text=PLAIN)
    assert [document["kind"] for document in answer.documents()] == ["ResourceClaimTemplate", "Pod", "Pod", "ConfigMap"]


@pytest.mark.parametrize(("text", "place", "words"), [
    ("a: [1\nb: 2\n", (2, 2), "YAML"),
    ("kind: A\n---\nkind: B\nkind: C\n", (4, 1), "twice"),
    ('{"kind": "A", "kind": "B"}', (1, 16), "already"),
    ("a: *nowhere\n", (1, 4), "anchor"),
    ("- 1\n- 2\n", (1, 1), "map"),
    ("just text\n", (1, 1), "map"),
    ("a: .inf\n", (1, 4), "JSON"),
    pytest.param("[" * 100_000, (1, 129), "128", id="deep"),
    ("{{ .Values.pod }}\n", (1, 2), "rendered"),
    ("a: &x [*x, *x]\n", (1, 8), "itself"),
    ('   {"a": 1,, }', (1, 12), "JSON"),
    ('{"a": 1}\n\n  {"b":, }', (3, 8), "JSON"),
    ('a: 1\n--- {"a": 1,, }\n', (2, 13), "JSON"),
    ('b: 1\na: "x\n', (3, 1), "begins at line 2"),
    pytest.param(POD.encode("utf-16"), (1, 1), "UTF-16", id="utf-16"),
])  # fmt: skip
def test_unreadable_input_is_a_failure_with_its_place(text: str | bytes, place: tuple[int, int], words: str) -> None:
    answer = translate(text, "-o", "json")
    own_failure(answer, words)
    (error,) = answer.notices()
    assert (error["file"], error["line"], error["column"]) == ("-", *place), error
    plain = call("translate", "-f", "-", text=text)
    assert plain.bytes == b""
    assert plain.errors.startswith(f"drawbridge: -:{place[0]}:{place[1]}: "), plain.errors


def test_a_failure_wins_over_all_that_was_good(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(f"{POD}---\n{DENIED}---\n{WARNED}")
    (tmp_path / "b.yaml").write_text("a: b: c\n")
    own_failure(call("translate", "-f", tmp_path, "--strict", "--notices", "json"), "b.yaml", "mapping values")


def test_input_without_a_manifest_is_a_failure(tmp_path: Path) -> None:
    for text in ("", "\n", "# nothing\n---\n", "---\nnull\n"):
        own_failure(translate(text), "no manifest")
    (tmp_path / "empty.yaml").touch()
    own_failure(call("translate", "-f", tmp_path, "--notices", "json"), "no manifest", "empty.yaml")
    (tmp_path / "pod.yaml").write_text(POD)
    assert call("translate", "-f", tmp_path).status == 0


def test_standard_input_that_cannot_be_read_is_a_failure(tmp_path: Path) -> None:
    folder = os.open(tmp_path, os.O_RDONLY)
    done = subprocess.run([program(), "translate", "-f", "-"], stdin=folder, capture_output=True, text=True)
    os.close(folder)
    assert (done.returncode, done.stdout) == (1, "")
    assert "standard input cannot be read" in done.stderr


@pytest.mark.parametrize("arguments", [
    ("translate", "-f", "-", "--settings", ""), ("translate", "-f", "-", "--fleet", ""),
    ("translate", "-f", "-", "--device-memory", ""), ("translate", "-f", ""), ("webhook", "--ca-bundle", ""),
    ("webhook", "--settings", ""), ("check", "--kubeconfig", ""), ("check", "--settings", ""),
    ("serve", "--self-signed", "x", "--settings", ""), ("serve", "--tls-cert", "", "--tls-key", "k"),
])  # fmt: skip
def test_an_empty_value_does_not_count_as_not_given(arguments: tuple[str, ...]) -> None:
    answer = call(*arguments, text=POD)
    assert (answer.status, answer.text) == (1, ""), answer.errors
    option = {"-f": "--filename"}.get(given := arguments[arguments.index("") - 1], given)
    assert answer.errors.startswith(f"{option}: the value is empty"), answer.errors


@pytest.mark.parametrize(("arguments", "error"), [
    (("translate", "-f", "-", "-o", "toml"), '--output: "toml" is none of yaml|json'),
    (("serve", "--self-signed", "x", "--store", "1"), '--store: "1" is none of memory|kubernetes'),
    (("serve", "--self-signed", "x", "--log-level", "x"), '--log-level: "x" is none of debug|info|warn|error'),
    (("serve", "--self-signed", "x", "--listen", "foo:80"), '--listen: "foo:80" is no address'),
    (("serve", "--self-signed", "x", "--idle-timeout", "5"), '--idle-timeout: "5" is no duration'),
    (("webhook", "--namespace", "A_B"), '--namespace: "A_B" is no name of a namespace'),
    (("webhook", "--service", "a.b"), '--service: "a.b" is no name of a service'),
])  # fmt: skip
def test_a_wrong_value_names_its_option_and_what_is_right(arguments: tuple[str, ...], error: str) -> None:
    answer = call(*arguments, text=POD)
    assert (answer.status, answer.text) == (1, "")
    assert answer.errors.startswith(error), answer.errors


@pytest.mark.parametrize("arguments", [
    ("translate", "-f", "-"), ("explain",), ("explain", "memory-unit"), ("webhook",), ("completion", "bash")])  # fmt: skip
def test_output_that_cannot_be_written_is_a_failure(arguments: tuple[str, ...]) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run([program(), *arguments], input=POD.encode(), stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 1
    assert b"standard output cannot be written" in done.stderr


def test_own_failures_of_check_and_webhook_have_status_1_and_name_the_file(tmp_path: Path) -> None:
    wrong = tmp_path / "settings.yaml"
    wrong.write_text("apiVersion: drawbridge.dev/v1\nkind: Settings\nnone: 1\n")
    for command in ("check", "webhook"):
        for file in (wrong, tmp_path / "missing.yaml"):
            answer = call(command, "--settings", file)
            assert (answer.status, answer.text) == (1, "")
            assert answer.errors.count(str(file)) == 1, answer.errors
    answer = call("check", "--kubeconfig", tmp_path / "none")
    assert (answer.status, answer.text) == (1, "")
    assert answer.errors.count(str(tmp_path / "none")) == 1, answer.errors


def test_input_that_is_not_there_is_a_failure(tmp_path: Path) -> None:
    own_failure(call("translate", "-f", tmp_path / "none.yaml", "--notices", "json"), "none.yaml")
    own_failure(call("translate", "-f", tmp_path, "--notices", "json"), str(tmp_path))


@pytest.mark.parametrize("folder", [False, True], ids=["file", "folder below another"])
def test_input_that_may_not_be_read_is_named(tmp_path: Path, folder: bool) -> None:
    (tmp_path / "open.yaml").write_text(POD)
    closed = tmp_path / ("closed" if folder else "closed.yaml")
    closed.mkdir() if folder else closed.write_text(POD)
    closed.chmod(0)
    answer = call("translate", "-R", "-f", tmp_path, "--notices", "json", before=AS_NO_ROOT)
    closed.chmod(stat.S_IRWXU)
    own_failure(answer, f"{closed}\"")


def test_aliases_that_multiply_are_refused_soon() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [" + ", ".join([f"*a{n - 1}"] * 9) + "]" for n in range(1, 40)]
    own_failure(translate("\n".join(lines)), "aliases")


def test_hostile_names_do_not_reach_the_terminal() -> None:
    name = '"evil\\e[2J\\n name\\a"'
    answer = call("translate", "-f", "-", "--colour", "always", text=DENIED.replace("name: wrong", f"name: {name}"))
    assert answer.status == 2
    assert "evil" in answer.errors
    assert "\x1b[2J" not in answer.errors and "\a" not in answer.errors
    json_answer = translate(DENIED.replace("name: wrong", f"name: {name}"))
    assert json_answer.notices()[0]["name"] == "evil\x1b[2J\n name\a"


def test_many_documents_are_answered_in_one_call() -> None:
    text = "---\n".join(POD.replace("train ", f"train-{n} ").replace("3000", str(3000 + n)) for n in range(300))
    answer = translate(text)
    assert answer.verdicts() == ["translate"] * 300
    assert len(answer.documents()) == 600


# ---------------------------------------------------------------------------------------------------- options


def test_warnings_fail_only_when_asked_and_yield_to_denials() -> None:
    assert translate(WARNED).status == 0
    assert translate(WARNED, "--strict").status == 3
    assert translate(WARNED, "--strict").text == translate(WARNED).text != ""
    assert translate(f"{WARNED}---\n{DENIED}", "--strict").status == 2
    assert translate(POD, "--strict").status == 0


def test_a_percentage_needs_the_sizes_of_the_fleet(tmp_path: Path) -> None:
    unknown = translate(PERCENT)
    assert (unknown.status, unknown.codes()) == (2, ["memory-sizes-unknown"])
    assert "--device-memory" in unknown.notices()[0]["fix"]
    for gone in (PERCENT.replace(": 50", ": 100"), PERCENT.replace(": 50", ": 0")):
        assert translate(gone).verdicts() == ["translate"]
    by_size = translate(PERCENT, "--device-memory", "80Gi,24Gi,24Gi")
    assert "12288Mi" in by_size.text and "40960Mi" in by_size.text
    settings = tmp_path / "settings.yaml"
    settings.write_text("apiVersion: drawbridge.dev/v1\nkind: Settings\nmemorySizes: [16Gi]\n")
    by_settings = translate(PERCENT, "--settings", settings)
    assert "8192Mi" in by_settings.text, by_settings.errors
    both = translate(PERCENT, "--settings", settings, "--device-memory", "24Gi,80Gi")
    assert both.text == translate(PERCENT, "--settings", settings).text  # as the server does
    assert len(translate(PERCENT, "--fleet", FLEET).text) > len(by_size.text)


@pytest.mark.parametrize(("arguments", "word"), [
    (["--device-memory", "24GB"], "24GB"),
    (["--kubernetes-version", "new"], "1.36"),
    (["--kubernetes-version", "2.0"], "1.36"),
    (["--settings", "/nowhere/settings.yaml"], "settings.yaml"),
    (["--fleet", "/nowhere/fleet.yaml"], "fleet.yaml"),
])  # fmt: skip
def test_bad_options_are_failures(arguments: list[str], word: str) -> None:
    own_failure(translate(POD, *arguments), word)


def test_usage_errors_exit_with_one() -> None:
    for arguments in (["translate"], ["translate", "-f", "-", "-o", "xml"], ["translate", "-f", "-", "-o", "1"],
                      ["translate", "-f", "-", "-n", "Bad Name"], ["nothing"], [], ["translate", "--what"],
                      ["translate", "-f", "-", "--fleet", "f.yaml", "--device-memory", "24Gi"]):  # fmt: skip
        answer = call(*arguments)
        assert (answer.status, answer.bytes) == (1, b""), arguments
        assert answer.errors != ""


def test_a_mistyped_command_is_told_the_nearest() -> None:
    assert 'unknown command "tranlate"; did you mean "translate"?' in call("tranlate", "-f", "-").errors
    assert "json" in call("translate", "-f", "-", "-o", "xml").errors


def test_each_problem_of_the_settings_is_a_line_with_its_file(tmp_path: Path) -> None:
    settings = tmp_path / "settings.yaml"
    settings.write_text("apiVersion: drawbridge.dev/v1\nkind: Settings\ndefaults: {cores: many, memoryMiB: [1]}\n")
    lines = call("translate", "-f", "-", "--settings", settings, text=POD).errors.splitlines()
    assert len(lines) == 2 and all(line.startswith(f"drawbridge: {settings}:") for line in lines), lines
    assert [line.count("/defaults/") for line in lines] == [1, 1]


def test_a_fleet_without_our_driver_is_a_failure(tmp_path: Path) -> None:
    fleet = tmp_path / "fleet.yaml"
    fleet.write_text(FLEET.read_text().replace("gpu.drawbridge.dev", "gpu.example.com"))
    own_failure(translate(POD, "--fleet", fleet), "gpu.drawbridge.dev", "fleet.yaml")


def test_bad_settings_are_a_failure_with_the_place(tmp_path: Path) -> None:
    settings = tmp_path / "settings.yaml"
    settings.write_text("apiVersion: drawbridge.dev/v1\nkind: Settings\ndefaults: {cores: many}\n")
    own_failure(translate(POD, "--settings", settings), "/defaults/cores", "settings.yaml")


def test_the_shape_follows_the_version_of_the_server() -> None:
    two = POD.replace("nvidia.com/gpu: 1 ", "nvidia.com/gpu: 2 ")
    new = [translate(two, "--kubernetes-version", version).text for version in ("1.36", "v1.36.3", "1.36+")]
    assert new[0] == new[1] == new[2] == translate(two).text
    assert "count: 2" in new[0]
    old = translate(two, "--kubernetes-version", "1.35")
    assert old.status == 0 and "count: 2" not in old.text and "gpu-1" in old.text
    older = translate(two, "--kubernetes-version", "v1.34.0-gke.1")
    assert (older.status, older.codes()) == (2, ["server-too-old"])


def test_text_notices_name_code_place_and_fix() -> None:
    answer = call("translate", "-f", "-", text=f"{WARNED}---\n{DENIED}")
    for word in ("[memory-unit]", "[cores-clamped]", "fix: ", "document 2", "Pod wrong",
                 "/spec/containers/0/resources/limits/nvidia.com~1gpumem", "left out"):  # fmt: skip
        assert word in answer.errors, answer.errors
    assert "\x1b" not in answer.errors


def test_colour_is_for_terminals_and_can_be_forbidden() -> None:
    def on_terminal(*arguments: str, **environment: str) -> bytes:
        ours, theirs = pty.openpty()
        command = [program(), "translate", "-f", "-", *arguments]
        subprocess.run(command, input=WARNED.encode(), stdout=subprocess.DEVNULL, stderr=theirs, check=True, timeout=60,
                       env={k: v for k, v in os.environ.items() if k != "NO_COLOR"} | environment)  # fmt: skip
        os.close(theirs)
        output = b""
        try:
            while block := os.read(ours, 4096):
                output += block
        except OSError:
            pass  # the other end is closed
        os.close(ours)
        return output

    assert b"\x1b[" in on_terminal()
    assert b"\x1b[" not in on_terminal(NO_COLOR="1")
    assert b"\x1b[" not in on_terminal("--colour", "never")
    assert "\x1b[" in call("translate", "-f", "-", "--colour", "always", text=WARNED).errors


def test_output_that_cannot_be_written_is_a_failure() -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run([program(), "translate", "-f", "-"], input=POD.encode(), stdout=full, stderr=subprocess.PIPE,
                              timeout=60, check=False)  # fmt: skip
    assert done.returncode == 1
    assert b"standard output" in done.stderr


# ---------------------------------------------------------------------------------------------------- other commands


def test_every_code_is_explained_and_the_page_is_up_to_date() -> None:
    page = call("explain", "--markdown")
    assert page.text == (ROOT / "docs" / "codes.md").read_text(encoding="utf-8")
    codes = [line.split()[0] for line in call("explain").text.splitlines()]
    assert len(codes) > 40 and codes == sorted(codes)
    for code in codes:
        explained = call("explain", code)
        assert explained.status == 0
        assert explained.text.startswith(code) and "Example:" in explained.text and "What to do:" in explained.text
        assert f"## {code}\n" in page.text


def test_an_unknown_code_is_answered_with_the_nearest() -> None:
    answer = call("explain", "memory-unti")
    assert (answer.status, answer.text) == (1, "")
    assert "memory-unit" in answer.errors
    assert call("explain", "MEMORY-UNIT").text == call("explain", "memory-unit").text != ""


def test_help_and_version_say_what_is_needed() -> None:
    assert call("--version").text.startswith("drawbridge 0.")
    assert "translate" in call("--help").text and "serve" in call("--help").text
    text = call("translate", "--help").text
    for word in ("--fleet", "--device-memory", "kubectl apply -f -", "Exit status"):
        assert word in text


def test_completion_scripts_know_commands_and_options(tmp_path: Path) -> None:
    script = tmp_path / "completion"
    script.write_text(call("completion", "bash").text)
    ask = f". {script}; COMP_WORDS=(drawbridge {{}}); COMP_CWORD={{}}; _drawbridge; echo ${{{{COMPREPLY[*]}}}}"

    def complete(words: str, position: int) -> list[str]:
        done = subprocess.run(["bash", "-c", ask.format(words, position)], capture_output=True, text=True, check=True)
        return done.stdout.split()

    assert complete("tr", 1) == ["translate"]
    assert complete("translate --dev", 2) == ["--device-memory"]
    assert complete("explain memory-un", 2) == ["memory-unit"]
    assert complete("translate -o ''", 3) == ["yaml", "json"]
    assert complete("translate --notices j", 3) == ["json"]
    assert complete("translate -f p", 3) == []  # a file: the shell's own completion
    assert complete("serve --self", 2) == ["--self-signed"]
    assert complete("serve --store k", 3) == ["kubernetes"]
    assert "--device-memory" in call("completion", "zsh").text
    assert " -l device-memory " in call("completion", "fish").text
    assert call("completion", "csh").status == 1
