"""What the functional tests share: the program, and a webhook that is started for one test or one file."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import material
import pytest
from material import webhook


Start = Callable[..., webhook.Webhook]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts webhooks with the options given; all are stopped at the end of the test."""
    with contextlib.ExitStack() as stack:
        count = 0

        def one(*arguments: str) -> webhook.Webhook:
            nonlocal count
            count += 1
            folder = tmp_path / f"webhook-{count}"
            folder.mkdir()
            return stack.enter_context(webhook.started(material.program(), folder, *arguments))

        yield one


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webhook.Webhook]:
    """A webhook with the test fleet that all tests of a file may use; each leaves it as it was."""
    folder = tmp_path_factory.mktemp("webhook")
    with webhook.started(material.program(), folder, *webhook.IN_MEMORY) as hook:
        yield hook
