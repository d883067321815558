"""Many pods at once: none fails, none is denied, and a new shape is written once."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from bed.api import KeptApi
from bed.space import PATIENCE, wait_for
from bench import Bench, Names, container, own_entries, pod
from fleet import more_cards

RATE = 500  # pods a second that are offered; how fast they are taken is the machine's affair
CLIENTS = 16
SHAPES = ({"gpumem": "50"}, {"gpumem": "60", "gpucores": "1"}, {"gpumem_percentage": "1"})
LONG = 2 * PATIENCE  # for what so many take


def offer(bench: Bench, count: int, send: Callable[[KeptApi, int], tuple[int, str]]) -> list[tuple[int, str]]:
    """Sends so many at the rate, whatever becomes of those before, as far as there are clients; what was answered."""
    numbers = itertools.count()
    lock = threading.Lock()
    answers: list[tuple[int, str]] = []
    began = time.monotonic()

    def client(_: int) -> None:
        api = KeptApi(bench.cluster.space)
        while True:
            with lock:
                number = next(numbers)
            if number >= count:
                return api.close()
            time.sleep(max(0.0, began + number / RATE - time.monotonic()))
            answers.append(send(api, number))

    with ThreadPoolExecutor(CLIENTS) as pool:
        list(pool.map(client, range(CLIENTS)))
    print(f"{count} pods offered at {RATE} a second were answered at {count / (time.monotonic() - began):.0f} a second")
    return answers


def test_five_hundred_pods_within_a_second_come_and_go_and_leave_a_template_a_shape(bench: Bench, names: Names) -> None:
    def send(api: KeptApi, number: int) -> tuple[int, str]:
        made = pod(f"p{number}", container(gpu="1", **SHAPES[number % len(SHAPES)]))
        made["metadata"]["annotations"] = {"nvidia.com/use-gputype": "Crowd"}
        status, _, text = api.exchange("POST", names.path("pods"), made)
        return status, text

    with more_cards(bench, "Crowd", 7):
        answers = offer(bench, RATE, send)
        assert [text for status, text in answers if status != 201] == []
        assert len(names.templates()) == len(SHAPES)
        pods = wait_for(lambda: running(names, RATE), "the pods to run", LONG)
        assert all(own_entries(each).keys() == {"vgpu-0"} for each in pods)
        assert len(names.listed("resourceclaims")) == RATE
        names.delete_pods()
        wait_for(lambda: not names.listed("resourceclaims"), "the claims to go with their pods", LONG)
        assert len(names.templates()) == len(SHAPES)


def running(names: Names, count: int) -> list[dict] | None:
    """The pods of the namespace once so many run."""
    pods = names.listed("pods")
    return pods if sum(each["status"].get("phase") == "Running" for each in pods) == count else None


@pytest.mark.long
def test_half_a_minute_of_five_hundred_pods_a_second_fails_none(bench: Bench, names: Names) -> None:
    def send(api: KeptApi, number: int) -> tuple[int, str]:
        made = pod(f"p{number}", container(gpu="1", gpumem=str(100 + number % 10)))
        status, _, text = api.exchange("POST", f"{names.path('pods')}?dryRun=All", made)
        return status, "" if status == 201 and "vgpu-0" in text else text

    answers = offer(bench, 30 * RATE, send)
    assert [text for status, text in answers if text] == []
