"""The tests can see: builds of the webhook that are wrong on purpose fail those that are there for it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from conftest import HERE, ROOT

FOLDER = ROOT / "build" / "sabotage"
FILE = Path("translate/build_template.cpp")


@dataclass(frozen=True)
class Sabotage:
    """One line of the source made wrong, the minor on which it shows, and the tests that must see it."""

    right: str
    wrong: str
    minor: str
    seen_by: tuple[str, ...]


SABOTAGES = {
    "cores 0 is not named": Sabotage(
        "capacity.emplace_back(target_.cores_capacity, std::to_string(shape_.cores));",
        "if (shape_.cores > 0) {\n        capacity.emplace_back(target_.cores_capacity, std::to_string(shape_.cores));\n    }",
        "1.36",
        ("test_two_shares_that_fit_get_one_card", "test_a_case_comes_to_what_its_header_says[12-cores-zero-explicit]")),
    "slots are not named": Sabotage(
        'capacity.emplace_back(target_.slots_capacity, "1");', "", "1.36",
        ("test_two_shares_that_fit_get_one_card",
         "test_a_case_comes_to_what_its_header_says[01-memory-round-thousand]")),
    "count is used on 1.35": Sabotage(
        "if (context_.minor < 36) return false;", "", "1.35",
        ("test_two_cards_of_one_container_are_two_cards",
         "test_requests_of_several_cards_have_the_form_that_the_minor_needs")),
}  # fmt: skip


def build(sabotage: Sabotage) -> Path:
    """The program built from a copy of the tree with one line changed."""
    source = FOLDER / "source"
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    ).stdout.decode()
    for name in filter(None, listed.split("\0")):
        target = source / name
        if not (ROOT / name).is_file():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists() or target.read_bytes() != (ROOT / name).read_bytes():
            shutil.copy(ROOT / name, target)
    text = (source / FILE).read_text(encoding="utf-8")
    assert text.count(sabotage.right) == 1, f"{FILE} has no such line any more: {sabotage.right}"
    (source / FILE).write_text(text.replace(sabotage.right, sabotage.wrong), encoding="utf-8")
    environment = os.environ | {"CCACHE_BASEDIR": str(source), "CCACHE_NOHASHDIR": "1"}
    for command in (["cmake", "--preset", "release"], ["cmake", "--build", "build/release", "--target", "drawbridge"]):
        done = subprocess.run(command, cwd=source, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    return source / "build" / "release" / "bin" / "drawbridge"


@pytest.mark.long
@pytest.mark.parametrize("name", SABOTAGES)
def test_a_sabotaged_build_fails_the_tests_that_are_there_for_it(name: str) -> None:
    sabotage = SABOTAGES[name]
    wanted = " or ".join(sabotage.seen_by)
    done = subprocess.run(
        [
            sys.executable,
            "-B",
            "-m",
            "pytest",
            "-p",
            "no:cacheprovider",
            "-q",
            "-ra",
            str(HERE),
            "--kubernetes",
            sabotage.minor,
            "-k",
            wanted + " and not sabotage",
        ],
        env=os.environ | {"DRAWBRIDGE": str(build(sabotage)), "CLUSTER_TESTS": "wrong", "CLUSTER_PATIENCE": "20"},
        capture_output=True,
        text=True,
    )
    failed = set(re.findall(r"^FAILED \S+::(\S+)", done.stdout, re.MULTILINE))
    assert set(sabotage.seen_by) <= failed, done.stdout[-5000:]
