"""Every case of tests/cases against the real API server, scheduler and controllers."""

from __future__ import annotations

from pathlib import Path

import check
import pytest
from bench import Bench, Names
from conftest import FLEET
from judge import ClusterJudge
from submit import submit

FOLDER = FLEET.parent
CASES = sorted(path for path in FOLDER.glob("[0-9]*.yaml") if check.is_case(path))


@pytest.fixture(scope="module")
def control(session_bench: Bench) -> Names:
    """A namespace in which the webhook is not called: what the API server makes of a pod by itself."""
    return session_bench.namespace("control", **{"drawbridge.dev/mode": "off"})


@pytest.fixture(scope="module")
def judge(session_bench: Bench, control: Names) -> ClusterJudge:
    return ClusterJudge(session_bench, check.read_fleet(FLEET), control)


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_a_case_comes_to_what_its_header_says(bench: Bench, judge: ClusterJudge, names: Names, path: Path) -> None:
    case = check.read_case(path)
    done, said = submit(names, case)
    pods = names.listed("pods")
    if case.expect == "reject":
        assert not pods, "the pod was taken"
        assert done.returncode != 0 or "FailedCreate" in said, "nothing was refused"
        judge.rejected(case, said)
        return
    assert done.returncode == 0, said
    assert pods, said
    if case.expect == "leave":
        judge.left(case, names, pods)
        return
    placed = judge.translated(case, names, pods, said)
    print(f"{path.stem}: {len(pods)} pods, {placed} placed")
    assert (placed > 0) == can_be_placed(case, judge), f"{placed} of {len(pods)} pods placed"


def test_as_many_cases_ran_as_there_are_files() -> None:
    files = [path for path in FOLDER.glob("*.yaml") if path.name != "fleet.yaml"]
    assert len(CASES) == len(files) > 0


def can_be_placed(case: check.Case, judge: ClusterJudge) -> bool:
    """Whether there is a device for every container that asks for one."""
    for name, share in case.shares.items():
        fitting = [judge.fleet[device] for device in case.devices(name, judge.fleet)]
        if share and sum(share.memory_on(device) <= device.memory() for device in fitting) < share.devices:
            return False
    return True
