"""Several pods on one card: who shares, who waits, and who runs when one leaves.

Each test keeps to one kind of card, since the fleet has others that would take what does not fit.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from bed.space import wait_for
from bench import Bench, Names, container, pod
from fleet import more_cards

T4 = {"nvidia.com/use-gputype": "T4"}  # one card of 15109 MiB, split by 4, in the fleet


def on_t4(name: str, **figures: str) -> dict:
    made = pod(name, container(gpu="1", **figures))
    made["metadata"]["annotations"] = T4
    return made


def device_of(names: Names, name: str) -> str:
    (results,) = names.allocated(name).values()
    return results[0]["device"]


def placed(names: Names, *pods: dict) -> set[str]:
    """Places pods one after the other; the cards that they got.

    Not at once: while a pod is being bound its claim may count twice with a scheduler (docs/cluster.md), and the next
    pod then waits for minutes though there is room.
    """
    devices = set()
    for each in pods:
        names.apply(each)
        devices.add(device_of(names, each["metadata"]["name"]))
    return devices


def test_two_shares_that_fit_get_one_card(bench: Bench, names: Names) -> None:
    assert len(placed(names, on_t4("a", gpumem="6000"), on_t4("b", gpumem="6000"))) == 1


def test_a_share_that_does_not_fit_waits_and_runs_when_one_leaves(bench: Bench, names: Names) -> None:
    placed(names, on_t4("a", gpumem="6000"), on_t4("b", gpumem="6000"))
    names.apply(on_t4("c", gpumem="6000"))
    assert "cannot allocate all claims" in names.pends("c")
    names.delete_pod("a")
    assert device_of(names, "c") == device_of(names, "b")


def test_compute_adds_up_to_a_whole_card_and_no_further(bench: Bench, names: Names) -> None:
    assert len(placed(names, on_t4("a", gpumem="1000", gpucores="60"), on_t4("b", gpumem="1000", gpucores="40"))) == 1
    names.apply(on_t4("c", gpumem="1000", gpucores="1"))
    names.pends("c")
    names.apply(on_t4("d", gpumem="1000"))  # no limit of compute: it takes none
    assert device_of(names, "d") == device_of(names, "a")


def test_a_card_takes_as_many_shares_as_its_node_splits_it_into(bench: Bench, names: Names) -> None:
    splits = 4  # node-b's, where the T4 is
    assert len(placed(names, *(on_t4(f"s{number}", gpumem="100") for number in range(splits)))) == 1
    names.apply(on_t4("late", gpumem="100"))
    names.pends("late")


def test_a_whole_card_waits_for_an_empty_one(bench: Bench, names: Names) -> None:
    names.apply(on_t4("share", gpumem="100"))
    names.allocated("share")
    names.apply(on_t4("whole"))
    names.pends("whole")
    names.delete_pod("share")
    device_of(names, "whole")
    names.apply(on_t4("share2", gpumem="100"))
    names.pends("share2")


def test_exclusive_compute_keeps_others_out_whatever_its_memory(bench: Bench, names: Names) -> None:
    names.apply(on_t4("alone", gpumem="1000", gpucores="100"))
    device_of(names, "alone")
    names.apply(on_t4("other", gpumem="1000"))
    names.pends("other")


@pytest.mark.parametrize(
    ("tenant", "late"),
    [
        ({"gpumem": "3000"}, {"gpumem": "3000", "gpucores": "100"}),
        ({"gpumem": "1000", "gpucores": "60"}, {"gpumem": "1000", "gpucores": "50"}),
        ({"gpumem": "15109", "gpucores": "0"}, {"gpumem": "100", "gpucores": "30"}),
        ({"gpumem": "1000", "gpucores": "100"}, {"gpumem": "1000", "gpucores": "100"}),
    ],
    ids=["exclusive beside a share", "110 percent of compute", "beside all memory", "two exclusives"],
)
def test_what_one_card_cannot_give_waits(bench: Bench, names: Names, tenant: dict, late: dict) -> None:
    names.apply(on_t4("tenant", **tenant))
    device_of(names, "tenant")
    names.apply(on_t4("late", **late))
    names.pends("late")
    names.delete_pod("tenant")
    device_of(names, "late")


def test_half_of_any_card_is_half_of_the_card_that_is_chosen(bench: Bench, names: Names) -> None:
    names.apply(pod("half", container(gpu="1", gpumem_percentage="50")), on_t4("half-t4", gpumem_percentage="50"))
    (results,) = names.allocated("half-t4").values()
    assert results[0]["consumedCapacity"]["memory"] == f"{15109 // 2}Mi"


def test_two_containers_of_a_pod_may_share_a_card_and_are_two_tenants(bench: Bench, names: Names) -> None:
    made = pod("pair", container("a", gpu="1", gpumem="1000"), container("b", gpu="1", gpumem="2000"))
    made["metadata"]["annotations"] = T4
    names.apply(made)
    allocated = names.allocated("pair")
    assert {entry: [result["device"] for result in results] for entry, results in allocated.items()} == {
        "vgpu-0": [allocated["vgpu-1"][0]["device"]], "vgpu-1": [allocated["vgpu-0"][0]["device"]]}  # fmt: skip
    assert allocated["vgpu-0"][0]["shareID"] != allocated["vgpu-1"][0]["shareID"]


def test_two_cards_of_one_container_are_two_cards(bench: Bench, names: Names) -> None:
    names.apply(pod("two", container(gpu="2", gpumem="3000")))
    (results,) = names.allocated("two").values()
    assert len({result["device"] for result in results}) == 2


def test_a_template_deleted_while_a_pod_waits_is_written_again_by_the_next_pod(bench: Bench, names: Names) -> None:
    names.apply(on_t4("first", gpumem="6000"))
    names.allocated("first")
    (name,) = names.templates()
    names.api.call("DELETE", names.path("resourceclaimtemplates", name))

    def again() -> bool:
        names.create(on_t4("again", gpumem="6000"), dry_run=True)
        return True

    wait_for(again, "a dry run")
    names.apply(on_t4("second", gpumem="6000"))
    assert device_of(names, "second") == device_of(names, "first")
    assert set(names.templates()) == {name}


@pytest.fixture
def eight_cards(bench: Bench) -> Iterator[set[str]]:
    """A node with eight equal cards beside the fleet, as long as the test takes."""
    with more_cards(bench, "Eightfold", 1):
        yield {f"card-{number}" for number in range(8)}


@pytest.mark.parametrize("figures", [{}, {"gpumem": "1000"}, {"gpumem_percentage": "50"}, {"gpucores": "100"}], ids=str)
def test_eight_cards_are_all_eight(bench: Bench, names: Names, eight_cards: set[str], figures: dict) -> None:
    made = pod("eight", container(gpu="8", **figures))
    made["metadata"]["annotations"] = {"nvidia.com/use-gputype": "Eightfold"}
    names.apply(made)
    (results,) = names.allocated("eight").values()
    assert {result["device"] for result in results} == eight_cards
    assert len({result["shareID"] for result in results}) == 8
