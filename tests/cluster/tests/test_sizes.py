"""Pods as large as they come: up to what the conditions may cost, what etcd keeps, and what the API server takes."""

from __future__ import annotations

import json

from bench import Bench, Names, container, own_entries, pod

MEBI = 1024 * 1024
LARGEST = 3 * MEBI  # of a body, for the API server
STORED = 1_500_000  # about what etcd takes


def of_bytes(size: int) -> str:
    """A pod of ours that is exactly this long as it is sent."""
    made = pod("p", container(gpu="1", gpumem="100"))
    values = [{"name": f"V{number}", "value": ""} for number in range(40)]
    made["spec"]["containers"][0]["env"] = values
    room = size - len(json.dumps(made))
    for number, entry in enumerate(values):
        entry["value"] = "x" * (room // 40 + (room % 40 if number == 0 else 0))
    return json.dumps(made)


def test_a_pod_of_five_hundred_containers_stays_within_the_cost_of_the_conditions(bench: Bench, names: Names) -> None:
    many = [container(f"c{number}") for number in range(499)]
    names.create(pod("p", *many, container("last", gpu="1", gpumem="100")))
    found = names.pod("p")
    assert found["spec"]["containers"][499]["resources"]["claims"] == [{"name": "vgpu-499"}]


def test_the_largest_pod_that_etcd_keeps_is_translated(bench: Bench, names: Names) -> None:
    made = json.loads(of_bytes(STORED))
    made["metadata"]["annotations"] = {"note": "x" * 25_000}
    names.create(made)
    found = names.pod("p")
    assert own_entries(found).keys() == {"vgpu-0"}
    assert found["spec"]["containers"][0]["env"] == made["spec"]["containers"][0]["env"]


def test_a_pod_with_thousands_of_values_is_translated(bench: Bench, names: Names) -> None:
    """What we are sent is longer than what was sent: the API server adds a line for each to the managed fields."""
    made = pod("p", container(gpu="1", gpumem="100"))
    made["spec"]["containers"][0]["env"] = [{"name": f"V{number}", "value": "x"} for number in range(8000)]
    names.create(made)
    assert own_entries(names.pod("p")).keys() == {"vgpu-0"}


def test_a_pod_at_the_limit_of_the_api_server_is_translated(bench: Bench, names: Names) -> None:
    path = f"{names.path('pods')}?dryRun=All"
    status, _, text = names.api.exchange("POST", path, of_bytes(LARGEST))
    assert status == 201, text[:500]
    assert own_entries(json.loads(text)).keys() == {"vgpu-0"}
    status, _, text = names.api.exchange("POST", path, of_bytes(LARGEST + 1))
    assert status == 413, "the limit is another than this test takes it for"


def test_a_pod_that_etcd_refuses_behind_us_leaves_one_template_that_serves_the_next(bench: Bench, names: Names) -> None:
    status, _, text = names.api.exchange("POST", names.path("pods"), of_bytes(LARGEST))
    assert status == 500 and "larger than max" in text
    assert not names.listed("pods")
    (name,) = names.templates()
    names.create(pod("p", container(gpu="1", gpumem="100")))
    assert own_entries(names.pod("p")) == {"vgpu-0": name}
