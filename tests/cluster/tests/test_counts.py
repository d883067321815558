"""How many objects there are over many roll-outs: as many templates as shapes, as many claims as pods."""

from __future__ import annotations

from bed.space import wait_for
from bench import Bench, Names, container, pod


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
