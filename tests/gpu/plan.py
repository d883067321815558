"""What the checks on a real GPU share: a share of their own, programs run in it, and how their outcome is told."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
TREE = HERE.parent.parent
sys.path.insert(0, str(HERE.parent / "preload"))
sys.path.insert(0, str(HERE.parent / "preload" / "record"))

from share import MIB, FrontRoot, Root, Share  # noqa: E402

LIMIT = 3000 * MIB
CONTEXT = 518 * MIB  # of one context on an H200 with driver 580, recorded
SECONDS = 120  # only a hang reaches it

results: dict[str, object] = {}
counts = [0, 0]
not_run: dict[str, str] = {}


def run(command: list[str], environment: dict[str, str], root: FrontRoot | None = None) -> subprocess.CompletedProcess[str]:
    """Runs a command to its end, with `root` behind its front."""
    how = root.entered(command, environment) if root else {"args": command, "env": environment}
    return subprocess.run(**how, capture_output=True, text=True, timeout=SECONDS, check=False)  # type: ignore[call-overload]


def program(name: str, environment: dict[str, str], *arguments: str, root: FrontRoot | None = None) -> dict[str, object]:
    """Runs a function of programs.py in a process of its own; its JSON, or what went wrong."""
    done = run([sys.executable, str(HERE / "programs.py"), name, *arguments], environment | {"PYTHONDONTWRITEBYTECODE": "1"}, root)
    try:
        return json.loads(done.stdout.splitlines()[-1])
    except (ValueError, IndexError):
        return {"failed": [done.returncode, done.stdout[-300:], done.stderr[-900:]]}


def check(name: str, passed: bool, facts: object = None) -> None:
    counts[0 if passed else 1] += 1
    print(f"{'ok  ' if passed else 'FAIL'} {name}" + ("" if passed else f": {json.dumps(facts)[:1500]}"), flush=True)
    results.setdefault(name.split(":")[0], facts)


def has(needed: object, reason: str, *names: str) -> bool:
    """Whether what these checks need is there; says that they are not run where it is None."""
    for name in names if needed is None else ():
        print(f"not run: {name}: {reason}", flush=True)
        not_run[name] = reason
    return needed is not None


def has_module(module: str, *names: str) -> bool:
    return has(importlib.util.find_spec(module), f"Python has no {module}", *names)


def has_command(command: str, *names: str) -> bool:
    return has(shutil.which(command), f"there is no {command}", *names)


class Bench:
    """A fresh root with one share of the GPU."""

    def __init__(self, library: Path, front: Path, device: bytes) -> None:
        self.library, self.front, self.device = library, front, device
        self.folders = Path(tempfile.mkdtemp(prefix="drawbridge-gpu-"))
        self.number = 0

    def folder(self) -> Path:
        self.number += 1
        return self.folders / str(self.number)

    def root(self) -> Root:
        return Root(self.folder(), self.library)

    def share(self, memory: int = LIMIT, root: Root | None = None, **more: object) -> tuple[Root, Share]:
        root = root or self.root()
        return root, root.share("claim-0", self.device, memory, context=CONTEXT, **more)
