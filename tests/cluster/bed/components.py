"""The programs of a cluster, built from their Go modules once a machine and version into a cache folder."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

SOURCES = Path(__file__).resolve().parent.parent / "components"
PINS = json.loads((SOURCES / "pins.json").read_text(encoding="utf-8"))
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "drawbridge-cluster"
KUBERNETES_COMMANDS = (
    "kube-apiserver", "kube-controller-manager", "kube-proxy", "kube-scheduler", "kubectl", "kubelet")  # fmt: skip
MINORS = tuple(PINS["kubernetes"])
DEFAULT_MINOR = PINS["default"]


class BuildFailed(Exception):
    """A component could not be built; the text says where its log is."""


@dataclass(frozen=True)
class Component:
    """What is built from one module: `packages` become programs of the same base name, `links` are other names."""

    name: str
    version: str
    packages: tuple[str, ...]
    module_file: str = "go.mod"
    links: tuple[str, ...] = ()
    ldflags: str = "-s -w"
    tags: tuple[str, ...] = ()
    module: str = ""  # of which `files` and `c_programs` are wanted too
    files: tuple[str, ...] = ()
    c_programs: tuple[str, ...] = ()  # in folders of their names

    def folder(self) -> Path:
        return CACHE / self.name / self.version


def kubernetes(minor: str) -> Component:
    """The six commands of one minor; without the version in it a server calls itself 0.0.0 and every check fails."""
    version = PINS["kubernetes"][minor]
    major, number, _ = version.split(".")
    known = {"gitVersion": f"v{version}", "gitMajor": major, "gitMinor": number, "gitTreeState": "clean"}
    flags = " ".join(f"-X k8s.io/component-base/version.{key}={value}" for key, value in known.items())
    return Component("kubernetes", version, (".",), f"{minor}.mod", KUBERNETES_COMMANDS, f"-s -w {flags}")


def etcd() -> Component:
    return Component("etcd", PINS["etcd"], (".",))


def containerd() -> Component:
    base = "github.com/containerd/containerd/v2"
    commands = ("containerd", "containerd-shim-runc-v2", "ctr")
    version = f"-X {base}/version.Version=v{PINS['containerd']}"
    return Component(
        "containerd", PINS["containerd"], tuple(f"{base}/cmd/{name}" for name in commands), ldflags=f"-s -w {version}")  # fmt: skip


def crio() -> Component:
    """CRI-O, and the program in C that holds namespaces for it. What needs a library in C is left out: signatures by gpgme,
    seccomp, file systems that nobody asks for here."""
    base = "github.com/cri-o/cri-o"
    tags = ("containers_image_openpgp", "containers_image_ostree_stub", "exclude_graphdriver_btrfs", "btrfs_noversion")
    return Component("crio", PINS["crio"], (f"{base}/cmd/crio",), tags=tags, module=base, c_programs=("pinns",))


RUNTIMES = {"containerd": containerd, "crio": crio}
DEFAULT_RUNTIME = "containerd"


def kwok() -> Component:
    """The player of nodes and pods, with its own description of what they do."""
    stages = ("node/fast/node-initialize", "node/heartbeat-with-lease/node-heartbeat-with-lease",
              "pod/fast/pod-ready", "pod/fast/pod-delete")  # fmt: skip
    files = tuple(f"kustomize/stage/{name}.yaml" for name in stages)
    return Component(
        "kwok", PINS["kwok"], ("sigs.k8s.io/kwok/cmd/kwok",), module="sigs.k8s.io/kwok", files=files)  # fmt: skip


def ensure(component: Component) -> Path:
    """The folder with the component's programs, built first where this machine has them not."""
    folder = component.folder()
    done = folder / ".complete"
    if done.exists():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    with only_one(folder):
        if not done.exists():
            build(component, folder)
            done.touch()
    return folder


@contextmanager
def only_one(folder: Path) -> Iterator[None]:
    """Lets one process at a time build into a folder; the lock goes with the process."""
    with (folder / ".lock").open("w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def build(component: Component, folder: Path) -> None:
    """Builds with the same flags always: others would miss Go's build cache."""
    source = SOURCES / component.name
    environment = os.environ | {"CGO_ENABLED": "0", "GOFLAGS": "-buildvcs=false", "GOWORK": "off"}
    choice = [f"-modfile={component.module_file}", "-mod=readonly", "-trimpath"]
    choice += [f"-tags={','.join(component.tags)}"] if component.tags else []
    title = f"{component.name} {component.version}"
    if shutil.which("go") is None:
        raise BuildFailed(f"{title} is built with Go 1.26 or newer, and there is no go on PATH")
    print(f"Building {title}, once on this machine ...", flush=True)
    began = time.monotonic()
    # What is given to -o is a folder where there are several packages, a file where there is one.
    target = str(folder) + "/" if len(component.packages) > 1 else str(folder / component.name)
    log = folder / "build.log"
    with log.open("w", encoding="utf-8") as sink:
        listed = subprocess.run(
            ["go", "list", *choice, "-deps", *component.packages],
            cwd=source, env=environment, stdout=subprocess.PIPE, stderr=sink, text=True)  # fmt: skip
        child = subprocess.Popen(
            ["go", "build", "-v", *choice, "-ldflags", component.ldflags, "-o", target, *component.packages],
            cwd=source, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)  # fmt: skip
        follow(child, sink, len(listed.stdout.split()))
    if child.wait() != 0:
        raise BuildFailed(f"{title} did not build; the reason is at the end of {log}")
    if component.module:
        found = subprocess.run(
            ["go", "list", *choice, "-m", "-f", "{{.Dir}}", component.module],
            cwd=source, env=environment, capture_output=True, text=True, check=True)  # fmt: skip
        take_from_module(component, Path(found.stdout.strip()), folder)
    for name in component.links:
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(component.name)
    print(f"Built {title} in {time.monotonic() - began:.0f} s.", flush=True)


def take_from_module(component: Component, module: Path, folder: Path) -> None:
    """What of a module is no Go: files as they are, and programs in C."""
    for name in component.files:
        shutil.copy(module / name, folder / Path(name).name)
    for name in component.c_programs:
        sources = sorted((module / name).rglob("*.c"))
        done = subprocess.run(
            ["gcc", "-std=c99", "-O2", "-static", "-s", "-o", str(folder / name), *map(str, sources)], capture_output=True, text=True)
        if done.returncode != 0:
            raise BuildFailed(f"{component.name} {component.version}: {name} did not build:\n{done.stderr}")


def follow(child: subprocess.Popen, sink, total: int) -> None:
    """Copies a build's output to its log, and says now and then how far it is."""
    shown, started = time.monotonic(), 0
    for line in child.stdout or ():
        sink.write(line)
        started += not line.startswith(("go: ", "#"))
        now = time.monotonic()
        if sys.stdout.isatty():
            print(f"\r\033[K  {started} of at most {total} packages", end="", flush=True)
        elif now - shown > 30:
            print(f"  {started} of at most {total} packages", flush=True)
            shown = now
    if sys.stdout.isatty():
        print("\r\033[K", end="", flush=True)
