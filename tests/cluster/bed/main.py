"""The command `cluster`: a real Kubernetes on this machine, in namespaces of its own."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from bed import components, residue
from bed.agent import AgentInstallation
from bed.cluster import Cluster, Wish
from bed.drawbridge import Installation
from bed.place import BASE, DEFAULT_NAME, Place
from bed.space import Failed, NotUp

DEVICES = Path(__file__).resolve().parent.parent / "devices.yaml"
EXAMPLES = """examples:
  cluster up                                        one node, Kubernetes %(default)s
  cluster up --name old --kubernetes 1.35 --nodes 3
  cluster up --control-plane-only --fleet tests/cases/fleet.yaml
  cluster kubectl -- get nodes
  cluster exec -- sh -c 'curl --cacert "$CLUSTER_CA" "$CLUSTER_API/version"'
  cluster logs kube-scheduler
  cluster down
"""


class Steps:
    """Says what is being done, and how long it took."""

    def __init__(self) -> None:
        self.began = time.monotonic()

    def __call__(self, text: str) -> None:
        print(f"{time.monotonic() - self.began:6.1f} s  {text}", flush=True)


def refuse_together(options: argparse.Namespace) -> None:
    """What cannot work together is told before anything is started."""
    for wanted in ("drawbridge", "agent"):
        if options.control_plane_only and getattr(options, wanted):
            raise ValueError(f"--{wanted} runs in a pod, and --control-plane-only has no node for it")


def up(options: argparse.Namespace) -> int:
    refuse_together(options)
    steps = Steps()
    cluster = Cluster(options.name, steps)
    gates = None if options.feature_gates is None else tuple(filter(None, options.feature_gates.split(",")))

    def furnish() -> None:
        if options.fake_nodes:
            steps("fake nodes")
            cluster.add_fake_nodes(options.fake_nodes)
        if options.fleet:
            steps("fleet")
            cluster.add_fleet(options.fleet)
        if options.drawbridge:
            steps("Drawbridge")
            Installation(cluster).install(replicas=options.replicas)
        if options.agent:
            steps("node agent")
            AgentInstallation(cluster).install(options.devices)

    nodes = 0 if options.control_plane_only else options.nodes
    cluster.up(Wish(options.kubernetes, nodes, gates, runtime=options.runtime), furnish)
    steps(f"cluster {options.name} is up: cluster kubectl --name {options.name} -- get nodes")
    return 0


def build(options: argparse.Namespace) -> int:
    runtime = components.RUNTIMES[options.runtime]
    wanted = [components.etcd(), runtime(), components.kwok(), components.kubernetes(options.kubernetes)]
    for component in wanted:
        print(f"{component.name} {component.version}: {components.ensure(component)}", flush=True)
    return 0


def down(options: argparse.Namespace) -> int:
    cluster = Cluster(options.name)
    cluster.down()
    if left := residue.left_of(cluster.place):
        print("left behind: " + ", ".join(left), file=sys.stderr)
        return 1
    return 0


def status(options: argparse.Namespace) -> int:
    names = [options.name] if options.name else sorted(entry.name for entry in BASE.glob("*"))
    if not names:
        print("no cluster")
    running = True
    for name in names:
        cluster = Cluster(name)
        if not cluster.space.is_up():
            left = ", ".join(residue.left_of(Place(name)))
            print(f"{name}: not up" + (f"; left of it: {left}" if left else ""))
            running = False
            continue
        wish = cluster.wish()
        print(f"{name}: Kubernetes {wish.kubernetes}, nodes: {wish.nodes} on {wish.runtime}, process {cluster.space.pid()}")
        for daemon, state in sorted(cluster.space.daemons().items()):
            print(f"  {daemon:<26} {state}")
            running = running and state == "running"
    return 0 if running else 1


def logs(options: argparse.Namespace) -> int:
    folder = Place(options.name).logs
    found = sorted(file.stem for file in folder.glob("*.log"))
    if options.component not in found:
        print("\n".join(found) or "no logs")
        return 0 if not options.component else 1
    return subprocess.run(["cat", str(folder / f"{options.component}.log")]).returncode


def execute(options: argparse.Namespace, command: list[str]) -> int:
    cluster = Cluster(options.name)
    environment = cluster.environment() | {"CLUSTER_CA": str(cluster.place.keys / "ca.crt")}
    line = [*cluster.space.entering(mounts=options.inside), *command]
    sys.stdout.flush()
    os.execvpe(line[0], line, environment)


def choose(parser: argparse.ArgumentParser) -> None:
    """What decides which programs a cluster is made of."""
    parser.add_argument("--kubernetes", choices=components.MINORS, default=components.DEFAULT_MINOR, help="minor version")
    parser.add_argument("--runtime", choices=components.RUNTIMES, default=components.DEFAULT_RUNTIME,
                        help=f"container runtime of real nodes (default: {components.DEFAULT_RUNTIME})")  # fmt: skip


def parser() -> tuple[argparse.ArgumentParser, dict[str, Callable[[argparse.Namespace], int]]]:
    top = argparse.ArgumentParser(
        prog="cluster",
        description="A real Kubernetes on this machine, in namespaces of its own.",
        epilog=EXAMPLES % {"default": components.DEFAULT_MINOR},
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name: str, help: str, default: str | None = DEFAULT_NAME) -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=help, description=help)
        made.add_argument("--name", default=default, help=f"which cluster (default: {default or 'all'})")
        return made

    one = command("up", "start a cluster, or mend what of it is not running")
    choose(one)
    one.add_argument(
        "--nodes", type=int, default=1, help="real nodes: each its own kubelet and container runtime (default: 1)"
    )
    one.add_argument("--control-plane-only", action="store_true", help="no real node")
    one.add_argument(
        "--feature-gates", metavar="GATE=BOOL,...", help="instead of what the minor needs to share devices"
    )
    one.add_argument("--fake-nodes", type=int, default=0, metavar="N", help="add nodes that are played by KWOK")
    one.add_argument("--fleet", type=Path, metavar="FILE", help="ResourceSlices to create, with played nodes as needed")
    one.add_argument("--drawbridge", action="store_true", help="install Drawbridge from this tree's build")
    one.add_argument("--agent", action="store_true", help="install the node agent from this tree's build")
    one.add_argument(
        "--devices", type=Path, metavar="FILE", default=DEVICES, help="DeviceList that the agent offers (default: two cards)"
    )
    one.add_argument("--replicas", type=int, default=1, help="how many webhooks (default: 1)")
    choose(commands.add_parser("build", help="build the components, once a machine (`up` does it too)"))
    command("down", "end a cluster and remove everything of it")
    command("status", "what runs and what does not", None)
    log = command("logs", "print what a component has said, or list the components")
    log.add_argument("component", nargs="?", default="")
    command("kubectl", "run kubectl: cluster kubectl -- ARGUMENT ...")
    run = command("exec", "run a command in the cluster's network: cluster exec -- COMMAND ...")
    run.add_argument("--inside", action="store_true", help="among its processes and mounts too")
    return top, {"up": up, "build": build, "down": down, "status": status, "logs": logs}


def main() -> int:
    arguments = sys.argv[1:]
    cut = arguments.index("--") if "--" in arguments else len(arguments)
    top, actions = parser()
    options = top.parse_args(arguments[:cut])
    rest = arguments[cut + 1 :]
    try:
        if options.command == "kubectl":
            options.inside = False
            return execute(options, ["kubectl", *rest])
        if options.command == "exec":
            return execute(options, rest or [os.environ.get("SHELL", "/bin/sh")])
        return actions[options.command](options)
    except (Failed, NotUp, ValueError, components.BuildFailed) as error:
        print(f"cluster: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
