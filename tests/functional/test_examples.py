"""Every example: its after.yaml and notices are what the program says today, and its reviews are what its pods send.

`python3 tests/functional/test_examples.py --update` writes after.yaml and notices.txt anew; read them before committing.
"""

from __future__ import annotations

import sys
from pathlib import Path

import material
import pytest

FOLDERS = [path.parent for path in material.EXAMPLES]
each_example = pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)


def written(path: Path) -> str:
    """A golden file's text; one that is not there is empty."""
    return path.read_text(encoding="utf-8") if path.exists() else ""


@each_example
def test_the_answer_is_the_one_on_record(folder: Path) -> None:
    outcome = material.translate("-f", "before.yaml", folder=folder)
    assert outcome.stdout == written(folder / "after.yaml")
    assert outcome.stderr == written(folder / "notices.txt")
    assert outcome.returncode == (2 if "denied" in folder.name else 0)


@pytest.mark.parametrize("folder", [f for f in FOLDERS if "denied" not in f.name], ids=lambda folder: folder.name)
def test_an_answer_translated_again_stays_as_it_is(folder: Path) -> None:
    outcome = material.translate("-f", "after.yaml", "--notices", "json", folder=folder)
    assert outcome.stdout == written(folder / "after.yaml")
    assert outcome.returncode == 0
    assert '"verdict":"translate"' not in outcome.stderr


@each_example
def test_the_reviews_are_those_that_the_pods_send(folder: Path) -> None:
    made = material.make_review.reviews(written(folder / "before.yaml"))
    assert made == {path.name: written(path) for path in folder.glob("review*.json")}


def test_there_are_examples_of_every_verdict() -> None:
    outcomes = {material.translate("-f", "before.yaml", "--strict", folder=folder).returncode for folder in FOLDERS}
    assert outcomes == {0, 2, 3}


def update() -> None:
    for folder in FOLDERS:
        outcome = material.translate("-f", "before.yaml", folder=folder)
        for name, text in (("after.yaml", outcome.stdout), ("notices.txt", outcome.stderr)):
            if text:
                (folder / name).write_text(text, encoding="utf-8")
            else:
                (folder / name).unlink(missing_ok=True)


if __name__ == "__main__":
    if sys.argv[1:] != ["--update"]:
        sys.exit(__doc__)
    update()
