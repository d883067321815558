"""What the tests of answers work on: examples, cases and recorded reviews, and the command line's answer to them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("*/before.yaml"))
CASES = sorted((ROOT / "tests" / "cases").glob("[0-9]*.yaml"))
RECORDED = sorted((ROOT / "tests" / "reviews").glob("*.json"))

sys.path.insert(0, str(ROOT / "tools"))
import make_review  # noqa: E402  (one module, used here and by hand)
import webhook  # noqa: E402


def program() -> str:
    """The program under test."""
    return os.environ.get("DRAWBRIDGE", str(ROOT / "build" / "release" / "bin" / "drawbridge"))


def translate(*arguments: str | Path, folder: Path = ROOT, text: str | None = None) -> subprocess.CompletedProcess[str]:
    """Runs `drawbridge translate` with the test fleet and settings, in a folder."""
    knowledge = ["--fleet", str(webhook.FLEET), "--settings", str(webhook.SETTINGS)]
    command = [program(), "translate", *knowledge, *map(str, arguments)]
    return subprocess.run(command, cwd=folder, input=text, capture_output=True, text=True, timeout=60, check=False)


@dataclass
class Offline:
    """The command line's answer to one object."""

    verdict: str
    codes: set[str]
    templates: dict[str, Any]  # name -> devices
    document: Any  # None where it was denied


def offline(document: dict[str, Any], namespace: str) -> Offline:
    """What `drawbridge translate` makes of one object."""
    outcome = translate("-f", "-", "-n", namespace, "-o", "json", "--notices", "json", text=json.dumps(document))
    assert outcome.returncode in (0, 2), outcome.stderr
    notices = [json.loads(line) for line in outcome.stderr.splitlines()]
    items = json.loads(outcome.stdout)["items"]
    (verdict,) = [line["verdict"] for line in notices if "verdict" in line]
    templates = [item for item in items if item["kind"] == "ResourceClaimTemplate"]
    rest = [item for item in items if item["kind"] != "ResourceClaimTemplate"]
    return Offline(
        verdict,
        {line["code"] for line in notices if "code" in line},
        {item["metadata"]["name"]: item["spec"] for item in templates},
        rest[0] if rest else None,
    )
