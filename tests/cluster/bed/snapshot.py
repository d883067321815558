"""What there is on the machine of the kinds of things that a cluster makes; to prove that it leaves none."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from bed.place import BASE

# Where the programs of a cluster would write by default.
FOLDERS = (
    BASE, Path("/run/netns"), Path("/run/containerd"), Path("/run/flannel"), Path("/run/cni"), Path("/run/xtables.lock"),
    Path("/var/lib/cni"), Path("/var/lib/kubelet"), Path("/var/lib/containerd"), Path("/var/lib/etcd"),
    Path("/var/log/pods"), Path("/var/log/containers"), Path("/etc/cni"), Path("/etc/cdi"), Path("/var/run/cdi"),
    Path("/usr/libexec/kubernetes"))  # fmt: skip
SETTINGS = ("vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops", "net/ipv4/ip_forward",
            "kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes")  # fmt: skip


def output(*command: str) -> list[str]:
    return subprocess.run(command, capture_output=True, text=True).stdout.splitlines()


def files() -> set[str]:
    found: set[str] = set()
    for top in FOLDERS:
        if top.exists():
            found.add(str(top))
            found |= {os.path.join(folder, name) for folder, below, names in os.walk(top) for name in [*below, *names]}
    return found


def cgroups() -> set[str]:
    return {folder for folder, _, _ in os.walk("/sys/fs/cgroup") if "drawbridge" in folder or "kubepods" in folder}


def processes() -> set[str]:
    """Those in a process namespace of their own, and those that work on a cluster."""
    found, ours = set(), os.readlink("/proc/self/ns/pid")
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
            state = (entry / "stat").read_text(encoding="utf-8").rpartition(") ")[2][0]
            foreign = os.readlink(entry / "ns" / "pid") != ours
        except OSError:
            continue
        if state != "Z" and (foreign or "/bed/init.py" in command):
            found.add(f"{entry.name} {command[:120]}")
    return found


def network_namespaces() -> set[str]:
    """Those that a process lives in, besides our own."""
    found, ours = set(), os.readlink("/proc/self/ns/net")
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                found.add(os.readlink(entry / "ns" / "net"))
            except OSError:
                continue
    return (found - {ours}) | {f"named {line}" for line in output("ip", "netns", "list")}


def rules() -> set[str]:
    """Tables and rules of the packet filter; counters and handles left out."""
    return set(output("nft", "--stateless", "list", "ruleset"))


def take() -> dict[str, set[str]]:
    """A snapshot by kind."""
    mounts = {" ".join(line.split(" ")[3:6]) for line in Path("/proc/self/mountinfo").read_text("utf-8").splitlines()}
    links = {line.split(": ")[1] for line in output("ip", "-o", "link")}
    addresses = {" ".join(line.split()[1:4]) for line in output("ip", "-o", "address")}
    settings = {f"{name} = {Path('/proc/sys', name).read_text('utf-8').strip()}" for name in SETTINGS
                if Path("/proc/sys", name).exists()}  # fmt: skip
    sockets = {line.split()[-1] for line in Path("/proc/net/unix").read_text("utf-8").splitlines()
               if "drawbridge-cluster" in line}  # fmt: skip
    return {"mounts": mounts, "links": links, "addresses": addresses, "network namespaces": network_namespaces(),
            "control groups": cgroups(), "processes": processes(), "rules": rules(), "files": files(),
            "kernel settings": settings, "sockets": sockets}  # fmt: skip


def difference(before: dict[str, set[str]], after: dict[str, set[str]]) -> dict[str, list[str]]:
    """What is there now and was not, and what was and is not, by kind; empty if all is as it was."""
    changed = {kind: sorted([f"+ {each}" for each in after[kind] - before[kind]]
                            + [f"- {each}" for each in before[kind] - after[kind]]) for kind in before}  # fmt: skip
    return {kind: lines for kind, lines in changed.items() if lines}
