"""How many objects there are: as many templates as shapes, as many claims as pods, and none behind them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from bed.space import wait_for
from bench import BACKGROUND, Bench, Names, container, pod

SHAPES = ({"gpumem": "100"}, {"gpumem": "200", "gpucores": "1"}, {"gpumem_percentage": "1"})


def test_three_hundred_pods_of_three_shapes_leave_three_templates_and_no_claim(bench: Bench, names: Names) -> None:
    def make(number: int) -> None:
        names.create(pod(f"p{number}", container(gpu="1", **SHAPES[number % 3])))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(make, range(300)))
    wait_for(lambda: len(names.listed("resourceclaims")) == 300, "a claim for every pod")
    assert len(names.templates()) == len(SHAPES)
    names.api.call("DELETE", names.path("pods"), BACKGROUND)
    wait_for(lambda: not names.listed("pods"), "the pods to go")
    wait_for(lambda: not names.listed("resourceclaims"), "the claims to go with their pods")
    assert len(names.templates()) == len(SHAPES)


def test_a_deployment_rolled_out_ten_times_leaves_one_template(bench: Bench, names: Names) -> None:
    template = {"metadata": {"labels": {"app": "x"}}, "spec": pod("x", container(gpu="1", gpumem="100"))["spec"]}
    spec = {"template": template, "selector": {"matchLabels": {"app": "x"}}, "replicas": 2}
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "x"}, "spec": spec}
    for generation in range(10):
        template["metadata"]["annotations"] = {"generation": str(generation)}
        names.apply(deployment, command=("apply",))

        def current(wanted: str = str(generation)) -> bool:
            pods = names.listed("pods")
            return len(pods) == 2 and all(
                each["metadata"].get("annotations", {}).get("generation") == wanted for each in pods)  # fmt: skip

        wait_for(current, f"generation {generation}")
    assert len(names.templates()) == 1
    wait_for(lambda: len(names.listed("resourceclaims")) == 2, "the claims of earlier generations to go")
