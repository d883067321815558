"""`drawbridge-agent top`: what real processes on a share do, for scripts and on a terminal."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import termios
from pathlib import Path
from typing import Any

from fake_cluster import FakeCluster
from gpu_program import KERNEL, MIB, container, start_on_this_boot
from material import AGENT, Agent, get, wait_until


def started(agent: Agent) -> int:
    port_file = agent.folder / "ports"
    start_on_this_boot(agent, "--port-file", str(port_file))
    return json.loads(port_file.read_text())["operator"]


def share(port: int) -> dict[str, Any]:
    return json.loads(get(port, "/status")[1])["devices"][0]["shares"][0]


def top(port: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(AGENT), "top", "--operator", f"127.0.0.1:{port}", *arguments], capture_output=True, text=True, timeout=60)


def test_what_processes_use_and_do_is_told(agent: Agent, cluster: FakeCluster) -> None:
    port = started(agent)
    box = container(agent, cluster, "train", cores=10)
    with box.run(KERNEL + "cu.must_out('cuMemAlloc_v2', 100 << 20)") as program, box.run("cu.must_out('cuMemAlloc_v2', 100 << 20)") as other:
        now = share(port)
        assert now["usedBytes"] >= 200 * MIB and now["processes"] == 2 and now["denied"] == 0
        program.do("assert cu.out('cuMemAlloc_v2', 9 << 30)[0] == 2; work(300)")
        after = share(port)
        assert after["denied"] > 0 and after["launches"] > 0, after
        table = top(port, "--once").stdout
        assert re.search(r" default +- +- +train +\d+ / 8192 MiB \d+% +10% +2 +\d+ +\d+% +\d+$", table, re.MULTILINE), table
        assert top(port).stdout.splitlines()[0] == table.splitlines()[0]  # no terminal: once
        assert json.loads(top(port, "-o", "json").stdout)["devices"][0]["shares"][0]["processes"] == 2
        other.kill()
        agent.wait_log("reaped", share=box.share.name)
        assert share(port)["processes"] == 1 and share(port)["launches"] >= after["launches"]
    wait_until(lambda: share(port)["processes"] == 0)
    assert share(port)["launches"] >= after["launches"]  # the dead did them all the same


def test_rates_are_those_of_the_last_seconds(agent: Agent, cluster: FakeCluster) -> None:
    port = started(agent)
    box = container(agent, cluster, "train", policy="force", cores=10)
    with box.run(KERNEL) as program:
        program.start("work(1000)")  # ten seconds at a tenth of the card
        wait_until(lambda: share(port)["perSecond"]["throttledMilliseconds"] > 100 and share(port)["perSecond"]["launches"] > 0)


class Terminal:
    """A terminal of 80 columns that a program draws on."""

    def __init__(self, rows: int, *command: str) -> None:
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, 80, 0, 0))
        self.process = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave)
        os.close(slave)
        self.text = ""

    def until(self, holds: Any) -> None:
        while not holds(self.text):
            self.text += os.read(self.master, 4096).decode()


def test_a_terminal_is_redrawn_and_left_as_it_was(agent: Agent, cluster: FakeCluster) -> None:
    port = started(agent)
    for number in range(5):
        container(agent, cluster, f"claim-{number}")
    screen = Terminal(4, str(AGENT), "top", "--operator", f"127.0.0.1:{port}", "--interval", "1")
    screen.until(lambda text: text.count("\x1b[H\x1b[J") >= 3 and text.endswith("lines\r\n"))
    assert screen.text.startswith("\x1b[?1049h\x1b[?25l")
    drawn = screen.text.split("\x1b[H\x1b[J")[1].split("\r\n")
    assert len(drawn) == 4 and drawn[-1] == "" and drawn[2] == "... 5 more lines" and all(len(line) <= 80 for line in drawn)
    agent.kill()
    screen.until(lambda text: "no agent answers" in text)  # it goes on: agents come back
    screen.process.send_signal(signal.SIGINT)
    screen.until(lambda text: text.endswith("\x1b[?25h\x1b[?1049l"))
    assert screen.process.wait(30) == 0
    os.close(screen.master)


def test_without_an_agent_it_says_so(tmp_path: Path) -> None:
    gone = subprocess.run([str(AGENT), "top", "--operator", "127.0.0.1:1"], capture_output=True, text=True)
    assert gone.returncode == 1 and "no agent answers" in gone.stderr
