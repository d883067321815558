"""What there is on the machine of the kinds of things that a cluster makes; to prove that it leaves none."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bed.place import BASE

# Where the programs of a cluster would write by default.
FOLDERS = (
    BASE, Path("/run/netns"), Path("/run/containerd"), Path("/run/crio"), Path("/run/flannel"), Path("/run/cni"),
    Path("/run/xtables.lock"), Path("/var/lib/cni"), Path("/var/lib/kubelet"), Path("/var/lib/containerd"),
    Path("/var/lib/crio"), Path("/var/lib/etcd"),
    Path("/var/log/pods"), Path("/var/log/containers"), Path("/etc/cni"), Path("/etc/cdi"), Path("/var/run/cdi"),
    Path("/usr/libexec/kubernetes"))  # fmt: skip
SETTINGS = ("vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops", "net/ipv4/ip_forward",
            "kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes")  # fmt: skip


def output(*command: str) -> list[str]:
    return subprocess.run(command, capture_output=True, text=True).stdout.splitlines()


# A cluster's name in the path of its folder or its control group, and in the names of its sockets.
NAMED = re.compile(r"drawbridge(?:-cluster(?=/))?[-/]([a-z0-9][-a-z0-9]*)")


class Others:
    """The clusters that stand beside the ones that are looked at, and neighbours: what is theirs is passed over.

    Clusters come and go while one looks, so that a name is enough; their processes are those that come from a first one.
    A neighbour is a living program that has nothing to do with this test run and gave its children namespaces of their
    own: a build in a chroot, a container. What a cluster leaves has lost its parent and hangs below init.
    """

    def __init__(self, mine: frozenset[str]) -> None:
        self.mine = mine
        self.processes = read_processes()
        started = {pid: match[1] for pid, process in self.processes.items()
                   if (match := re.search(r"/bed/init\.py (\S+)", process.command))}  # fmt: skip
        self._roots = {pid for pid, name in started.items() if name not in mine}
        self._ours = self.processes[os.getpid()].namespaces()

    def owns_process(self, pid: int) -> bool:
        """Whether it comes from a process of theirs, or of a neighbour."""
        line = list(self._line(pid))
        if not self._roots.isdisjoint(line):
            return True
        inside = [each for each in line if self.processes[each].namespaces() <= self._ours]
        return pid not in inside and inside != [] and inside[0] != 1 and os.getppid() not in inside

    def _line(self, pid: int) -> Iterator[int]:
        """The process, its parent, and so on."""
        while pid in self.processes:
            yield pid
            pid = self.processes[pid].parent

    def namespaces(self) -> set[str]:
        """Theirs; a command of a person or test may be in one without being of the cluster."""
        roots = [self.processes[pid] for pid in self._roots]
        return {space for root in roots for space in root.namespaces()}

    def is_of_mine(self, process: Process) -> bool:
        """Whether a process works on one of the clusters that are looked at, wherever it lives."""
        return any(f" --name {name} " in f"{process.command} " or f"{BASE}/{name}/" in process.command for name in self.mine)

    def owns_text(self, text: str) -> bool:
        """Whether a path or a name is theirs."""
        found = NAMED.search(text)
        return found is not None and found[1] not in self.mine


@dataclass(frozen=True)
class Process:
    """A process as far as it is of interest."""

    command: str
    parent: int
    pid_namespace: str
    mounts: str
    network: str

    def namespaces(self) -> set[str]:
        return {self.pid_namespace, self.mounts, self.network}


def read_processes() -> dict[int, Process]:
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
            state, parent = (entry / "stat").read_text(encoding="utf-8").rpartition(") ")[2].split()[:2]
            spaces = [os.readlink(entry / "ns" / name) for name in ("pid", "mnt", "net")]
        except OSError:
            continue  # it has ended
        if state != "Z":
            found[int(entry.name)] = Process(command, int(parent), *spaces)
    return found


def files(others: Others) -> set[str]:
    found: set[str] = set()
    for top in FOLDERS:
        if top.exists():
            found.add(str(top))
            found |= {os.path.join(folder, name) for folder, below, names in os.walk(top) for name in [*below, *names]}
    found.discard(str(BASE))  # it is there for whoever comes first
    return {path for path in found if not others.owns_text(path)}


def cgroups(others: Others) -> set[str]:
    found = {folder for folder, _, _ in os.walk("/sys/fs/cgroup") if "drawbridge" in folder or "kubepods" in folder}
    return {folder for folder in found if not others.owns_text(folder)}


def processes(others: Others) -> set[str]:
    """Those with namespaces of their own, and those that work on a cluster."""
    ours = tuple(os.readlink(f"/proc/self/ns/{name}") for name in ("pid", "mnt"))

    theirs = others.namespaces()

    def foreign(process: Process) -> bool:
        apart = {process.pid_namespace, process.mounts} - {*ours, *theirs}
        return bool(apart) or "/bed/init.py" in process.command or others.is_of_mine(process)

    return {
        f"{pid} {process.command[:120]}"
        for pid, process in others.processes.items()
        if foreign(process) and not others.owns_process(pid)
    }


def network_namespaces(others: Others) -> set[str]:
    """Those that a process lives in, besides our own."""
    ours = os.readlink("/proc/self/ns/net")
    found = {process.network for pid, process in others.processes.items() if not others.owns_process(pid)}
    return (found - {ours} - others.namespaces()) | {f"named {line}" for line in output("ip", "netns", "list")}


def rules() -> set[str]:
    """Tables and rules of the packet filter; counters and handles left out."""
    return set(output("nft", "--stateless", "list", "ruleset"))


def take(*mine: str) -> dict[str, set[str]]:
    """A snapshot by kind; of clusters, those called `mine` and nothing of others that stand beside them."""
    others = Others(frozenset(mine))
    mounts = {" ".join(line.split(" ")[3:6]) for line in Path("/proc/self/mountinfo").read_text("utf-8").splitlines()}
    links = {line.split(": ")[1] for line in output("ip", "-o", "link")}
    addresses = {" ".join(line.split()[1:4]) for line in output("ip", "-o", "address")}
    settings = {f"{name} = {Path('/proc/sys', name).read_text('utf-8').strip()}" for name in SETTINGS
                if Path("/proc/sys", name).exists()}  # fmt: skip
    sockets = {line.split()[-1] for line in Path("/proc/net/unix").read_text("utf-8").splitlines()
               if "drawbridge-cluster" in line and not others.owns_text(line.split()[-1])}  # fmt: skip
    return {"mounts": mounts, "links": links, "addresses": addresses, "network namespaces": network_namespaces(others),
            "control groups": cgroups(others), "processes": processes(others), "rules": rules(),
            "files": files(others),
            "kernel settings": settings, "sockets": sockets}  # fmt: skip


# What others end and begin all the time; that something of it is gone means nothing.
PASSING = ("processes", "network namespaces")


def difference(before: dict[str, set[str]], after: dict[str, set[str]]) -> dict[str, list[str]]:
    """What is there now and was not, and what was and is not, by kind; empty if all is as it was."""
    added = {kind: {f"+ {each}" for each in after[kind] - before[kind]} for kind in before}
    gone = {kind: {f"- {each}" for each in before[kind] - after[kind]} for kind in before if kind not in PASSING}
    changed = {kind: sorted(added[kind] | gone.get(kind, set())) for kind in before}
    return {kind: lines for kind, lines in changed.items() if lines}
