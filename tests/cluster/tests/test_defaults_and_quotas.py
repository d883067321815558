"""What a namespace sets for its pods: defaults of a LimitRange, and quotas."""

from __future__ import annotations

import pytest
from bed.space import wait_for
from bench import Bench, Names, container, legacy_names, own_entries, pod


def memory_of(template: dict) -> str:
    return template["spec"]["spec"]["devices"]["requests"][0]["exactly"]["capacity"]["requests"]["memory"]


def limit_range(names: Names, **default: str) -> None:
    figures = {f"nvidia.com/{key}": value for key, value in default.items()}
    limits = {"limits": [{"type": "Container", "default": figures, "defaultRequest": figures}]}
    names.api.call("POST", names.path("limitranges"), {"metadata": {"name": "gpu"}, "spec": limits})
    # LimitRanger reads from a cache that learns of it in its own time; without a webhook of ours in the way.
    plain = {
        "metadata": {"generateName": "ask-"},
        "spec": {"schedulerName": "nobody", "containers": [{"name": "a", "image": "a"}]},
    }
    wait_for(lambda: legacy_names(names.create(plain, dry_run=True)), "the LimitRange to be in force")


def test_a_limit_range_gives_a_pod_the_figure_that_it_leaves_out(bench: Bench, names: Names) -> None:
    limit_range(names, gpumem="2000")
    names.apply(pod("p", container(gpu="1")))
    assert not legacy_names(names.pod("p"))
    (template,) = names.templates().values()
    assert memory_of(template) == "2000Mi"


def test_a_limit_range_with_another_figure_than_the_pod_asks_for_changes_nothing(bench: Bench, names: Names) -> None:
    limit_range(names, gpumem="2000")
    with bench.recording() as reviews:
        said = names.apply(pod("p", container(gpu="1", gpumem="4000")))
    found = names.pod("p")
    assert not legacy_names(found)
    assert memory_of(names.templates()[own_entries(found)["vgpu-0"]]) == "4000Mi"
    assert len(names.templates()) == 1
    rounds = [request["object"] for request, _ in reviews if request["namespace"] == names.name]
    put_back = [review["spec"]["containers"][0]["resources"]["limits"] for review in rounds[1:]]
    assert put_back == [{"nvidia.com/gpumem": "2k"}], "the API server does not put the default back any more"
    assert "keeps the claim" in said


@pytest.mark.parametrize("defaults", [{"gpumem": "2000", "gpucores": "10"}, {"gpu": "1", "gpumem": "2000"}], ids=str)
def test_a_limit_range_with_several_names_changes_nothing_either(bench: Bench, names: Names, defaults: dict) -> None:
    limit_range(names, **defaults)
    names.apply(
        pod("p", container(gpu="2", gpumem="4000", gpucores="30"), container("q", gpu="1", gpumem="5000", gpucores="5"))
    )
    found = names.pod("p")
    assert not legacy_names(found)
    assert set(own_entries(found)) == {"vgpu-0", "vgpu-1"}
    assert len(names.templates()) == 2


def quota(names: Names, **hard: str) -> None:
    spec = {"hard": {name.replace("__", "/"): value for name, value in hard.items()}}
    path = f"/api/v1/namespaces/{names.name}/resourcequotas"
    names.api.call("POST", path, {"metadata": {"name": "q"}, "spec": spec})
    wait_for(lambda: names.api.get(f"{path}/q").get("status", {}).get("hard"), "the quota to be in force")


def test_a_quota_on_a_legacy_name_no_longer_counts_translated_pods(bench: Bench, names: Names) -> None:
    """The API server counts what is left of a pod (docs/cluster.md); that is why quotas are a matter for us."""
    quota(names, **{"requests.nvidia.com/gpu": "1"})
    names.apply(pod("p", container(gpu="2", gpumem="100")))
    status = names.api.get(f"/api/v1/namespaces/{names.name}/resourcequotas/q")["status"]
    assert status["used"] == {"requests.nvidia.com/gpu": "0"}


def test_a_quota_on_templates_without_room_refuses_with_its_name(bench: Bench, names: Names) -> None:
    quota(names, **{"count/resourceclaimtemplates.resource.k8s.io": "0"})
    done = names.kubectl("create", "-f", "-", input=pod("p", container(gpu="1", gpumem="100")))
    assert done.returncode != 0
    assert "count/resourceclaimtemplates.resource.k8s.io must leave room" in done.stderr
    assert not names.listed("pods")
