"""The first process of a cluster: process 1 of a process, mount and network namespace that all the others share.

When it ends, the kernel ends every process of the cluster and takes the mounts, links and rules with it; that is why a
cluster can be killed at any time and leaves nothing running. It starts and signals the daemons, as `client.py` asks it
to over an abstract socket, one JSON object a line; and it takes everything down by itself if the `up` that started it
goes away before the cluster is complete.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import selectors
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bed import residue  # noqa: E402
from bed.place import API_ADDRESS, Place  # noqa: E402

# The kubelet writes these for the whole machine, and is content where they have its values already.
KUBELET_SETTINGS = {
    "vm/overcommit_memory": "1", "vm/panic_on_oom": "0", "kernel/panic": "10", "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000", "kernel/keys/root_maxbytes": "25000000"}  # fmt: skip
# Folders with fixed names that programs write to; each cluster has its own, gone with its namespace.
OWN_FOLDERS = ("/run", "/var/log", "/var/lib")
HUGE_PAGES = Path("/sys/kernel/mm/hugepages")


def command(*words: str) -> None:
    subprocess.run(words, check=True, stdin=subprocess.DEVNULL)


def limits_huge_pages() -> bool:
    """Whether a control group can: of version 1, or of version 2 where that is the only one."""
    top = Path("/sys/fs/cgroup")
    controllers = top / "cgroup.controllers"
    return (top / "hugetlb").is_dir() or controllers.exists() and "hugetlb" in controllers.read_text(encoding="utf-8").split()


def set_up(place: Place) -> None:
    """Makes the namespace fit to live in: private folders, kernel settings, one address."""
    place.logs.mkdir(parents=True)
    place.temporary.mkdir()
    for folder in OWN_FOLDERS:
        command("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", folder)
    settings = Path("/run/kernel-settings")
    settings.mkdir()
    for index, (name, value) in enumerate(KUBELET_SETTINGS.items()):
        (settings / str(index)).write_text(value + "\n", encoding="utf-8")
        if Path("/proc/sys", name).exists():
            command("mount", "--bind", str(settings / str(index)), f"/proc/sys/{name}")
    # Where no control group limits huge pages there are none to see: CRI-O insists on the limit that the kubelet makes of them.
    if HUGE_PAGES.exists() and not limits_huge_pages():
        command("mount", "-t", "tmpfs", "tmpfs", str(HUGE_PAGES))
    # What one node mounts another program of it must see.
    command("mount", "--make-rshared", "/")
    command("ip", "link", "set", "lo", "up")
    # A bridge without ports: the kernel need not know the type `dummy`.
    command("ip", "link", "add", "node0", "type", "bridge")
    command("ip", "address", "add", f"{API_ADDRESS}/24", "dev", "node0")
    command("ip", "link", "set", "node0", "up")
    command("ip", "route", "add", "default", "dev", "node0")
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1", encoding="utf-8")


class Init:
    """The daemons of a cluster and the requests about them."""

    def __init__(self, place: Place, listener: socket.socket, life: int) -> None:
        self.place = place
        self.listener = listener
        self.life: int | None = life
        self.daemons: dict[str, subprocess.Popen] = {}
        self.paused: set[str] = set()
        self.ended: dict[str, int] = {}
        self.selector = selectors.DefaultSelector()
        self.doing: dict[str, Callable[[dict], Any]] = {
            "start": self.start, "signal": self.signal, "wait": self.wait, "list": self.list, "keep": self.keep,
            "end": self.end}  # fmt: skip

    def run(self) -> None:
        """Serves until the cluster is to end."""
        waker, woken = os.pipe()
        os.set_blocking(woken, False)
        signal.set_wakeup_fd(woken)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self.selector.register(waker, selectors.EVENT_READ, lambda: os.read(waker, 4096) and self.reap())
        self.selector.register(self.listener, selectors.EVENT_READ, self.accept)
        if self.life is not None:
            self.selector.register(self.life, selectors.EVENT_READ, self.left_alone)
        while True:
            for key, _ in self.selector.select():
                key.data()

    def accept(self) -> None:
        connection, _ = self.listener.accept()
        # One request a connection; whoever asks sends it at once.
        with connection, contextlib.suppress(OSError), connection.makefile("rw", encoding="utf-8") as stream:
            line = stream.readline()
            if not line:
                return
            request = json.loads(line)
            try:
                answer = {"value": self.doing[request.pop("do")](request)}
            except (OSError, KeyError, ValueError) as error:
                answer = {"error": f"{type(error).__name__}: {error}"}
            print(json.dumps(answer), file=stream, flush=True)
            if answer == {"value": "ended"}:
                os._exit(0)

    def left_alone(self) -> None:
        """The `up` that started us is gone, and the cluster is not complete."""
        self.end({})
        os._exit(1)

    def keep(self, _: dict) -> None:
        """The cluster is complete: from now on it outlives whoever started it."""
        if self.life is not None:
            self.selector.unregister(self.life)
            os.close(self.life)
            self.life = None

    def start(self, request: dict) -> int:
        """Starts a daemon, unless it runs."""
        name = request["name"]
        if name in self.daemons:
            return self.daemons[name].pid
        with (self.place.logs / f"{name}.log").open("ab") as log:
            child = subprocess.Popen(
                request["command"], env=request["environment"], cwd="/", stdin=subprocess.DEVNULL, stdout=log,
                stderr=subprocess.STDOUT, start_new_session=True)  # fmt: skip
        self.daemons[name] = child
        self.ended.pop(name, None)
        return child.pid

    def signal(self, request: dict) -> bool:
        """Sends a signal to a daemon; says whether it runs."""
        name, number = request["name"], request["signal"]
        if name not in self.daemons:
            return False
        os.kill(self.daemons[name].pid, number)
        self.paused.discard(name)
        if number == signal.SIGSTOP:
            self.paused.add(name)
        return True

    def wait(self, request: dict) -> int | None:
        """Waits until a daemon has ended; its exit status, or None if it still runs after `seconds`."""
        name = request["name"]
        if name in self.daemons:
            ending = os.pidfd_open(self.daemons[name].pid)
            select.select([ending], [], [], request["seconds"])
            os.close(ending)
            self.reap()
        return self.ended.get(name) if name not in self.daemons else None

    def list(self, _: dict) -> dict[str, str]:
        """Every daemon that was started and what it does now."""
        states = {name: f"ended with status {status}" for name, status in self.ended.items()}
        return states | {name: "paused" if name in self.paused else "running" for name in self.daemons}

    def reap(self) -> None:
        """Collects what has ended: our daemons, and what others left to us."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            for name, child in list(self.daemons.items()):
                if child.pid == pid:
                    child.returncode = os.waitstatus_to_exitcode(status)
                    self.ended[name] = child.returncode
                    self.paused.discard(name)
                    del self.daemons[name]

    def end(self, _: dict) -> str:
        """Ends all processes of the namespace but this one, and takes away what they leave: twice, since somebody whom a
        killed `up` had sent may have come in behind the first time."""
        for _ in range(2):
            with contextlib.suppress(ProcessLookupError):
                os.kill(-1, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                while True:
                    os.waitpid(-1, 0)
            residue.clear(self.place)
        return "ended"


def main() -> None:
    name, socket_number, life = sys.argv[1:]
    place = Place(name)
    listener = socket.socket(fileno=int(socket_number))
    init = Init(place, listener, int(life))
    try:
        set_up(place)
        listener.listen(64)  # from now on we answer, and the socket's owner is this process
        init.run()
    except BaseException:
        init.end({})
        raise


if __name__ == "__main__":
    main()
