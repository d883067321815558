"""Real processes on the shares that the agent makes: the preload library over the stand-in driver."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from material import ROOT, Agent

BUILD = Path(os.environ.get("DRAWBRIDGE_PRELOAD_BUILD", ROOT / "build" / "debug"))
MIB = 1 << 20
HEAD = f"import sys, os, ctypes; sys.path.insert(0, {str(ROOT / 'tests/preload/record')!r}); from driver import *; cu = Driver(); cu.start(); "


def card(number: int = 1) -> dict[str, Any]:
    """An entry of a DeviceList that is a card of the stand-in."""
    return {"uuid": f"GPU-5d000000-0000-0000-0000-{number:012x}", "memory": "80Gi", "deviceNodes": ["/dev/null"]}


class Container:
    """What a container with one share sees: the library in its place, and that share alone."""

    def __init__(self, agent: Agent, share: str) -> None:
        self.share = agent.plugin / "shares" / share
        self.root = agent.folder / f"container-{share}"
        (self.root / "lib").mkdir(parents=True)
        (self.root / "shares").mkdir()
        (self.root / "shares" / share).symlink_to(self.share)
        self.library = self.root / "lib" / "libdrawbridge.so"
        self.library.write_bytes((BUILD / "lib" / "libdrawbridge.so").read_bytes())
        self.environment = os.environ | {
            "LD_PRELOAD": str(self.library), "LD_LIBRARY_PATH": str(BUILD / "standin"), "PYTHONDONTWRITEBYTECODE": "1",
            "DRAWBRIDGE_STANDIN_STATE": str(agent.folder / "world")}  # fmt: skip

    def run(self, script: str, preload: bool = True) -> Program:
        environment = self.environment if preload else {key: value for key, value in self.environment.items() if key != "LD_PRELOAD"}
        return Program(script, environment)


class Program:
    """A process that has set up the driver and runs a line at a time; `say` inside answers a line."""

    def __init__(self, script: str, environment: dict[str, str]) -> None:
        code = HEAD + "say = lambda value: print(value, flush=True)\n" + script + "\nsay('ready')\nfor line in sys.stdin: exec(line); say('done')"
        self.process = subprocess.Popen([sys.executable, "-c", code], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.line() == "ready"

    def line(self) -> str:
        assert self.process.stdout
        return self.process.stdout.readline().strip()

    def do(self, statement: str) -> None:
        assert self.process.stdin
        self.process.stdin.write(statement + "\n")
        self.process.stdin.flush()
        assert self.line() == "done"

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe:
                pipe.close()
