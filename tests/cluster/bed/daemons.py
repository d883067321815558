"""The command lines of a cluster's daemons: pure functions from what the cluster is to what is started."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from bed.place import API_ADDRESS, API_PORT, PODS, SERVICES, Place

ETCD_PORT = 2379
# Ports of health and metrics inside the cluster's network.
CONTROLLERS_PORT, SCHEDULER_PORT, PROXY_HEALTH_PORT, PROXY_METRICS_PORT = 10257, 10259, 10256, 10249


@dataclass(frozen=True)
class Daemon:
    """One program to start: the name that people use for it, and its command line."""

    name: str
    command: list[str]
    after: tuple[str, ...] = field(default=())


@dataclass(frozen=True)
class Release:
    """The programs of a cluster and the feature gates that it runs with."""

    minor: str
    kubernetes: Path
    etcd: Path
    runtime: Path
    runtime_name: str
    gates: tuple[str, ...] = ()

    def program(self, name: str) -> str:
        return str(self.kubernetes / name)

    def path(self) -> str:
        """PATH for daemons and people: the shim is looked for there."""
        folders = [self.kubernetes, self.etcd, self.runtime]
        return ":".join([*map(str, folders), "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"])

    def gate_flags(self) -> list[str]:
        return [f"--feature-gates={','.join(self.gates)}"] if self.gates else []


def default_gates(minor: str) -> tuple[str, ...]:
    """What the API server needs told to share devices: on 1.35 the gate is off unless one asks for it."""
    return ("DRAConsumableCapacity=true",) if minor == "1.35" else ()


def etcd(place: Place, release: Release) -> Daemon:
    here = f"http://127.0.0.1:{ETCD_PORT}"
    return Daemon("etcd", [
        str(release.etcd / "etcd"), "--data-dir", str(place.root / "etcd"), "--unsafe-no-fsync",
        "--listen-client-urls", here, "--advertise-client-urls", here,
        "--listen-peer-urls", "http://127.0.0.1:2380", "--initial-advertise-peer-urls", "http://127.0.0.1:2380",
        "--initial-cluster", "default=http://127.0.0.1:2380", "--log-level", "warn"])  # fmt: skip


def api_server(place: Place, release: Release, extra: tuple[str, ...] = ()) -> Daemon:
    keys = place.keys
    return Daemon("kube-apiserver", [
        release.program("kube-apiserver"), f"--etcd-servers=http://127.0.0.1:{ETCD_PORT}",
        f"--secure-port={API_PORT}", f"--advertise-address={API_ADDRESS}",
        f"--tls-cert-file={keys}/apiserver.crt", f"--tls-private-key-file={keys}/apiserver.key",
        f"--client-ca-file={keys}/ca.crt", "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction", f"--service-cluster-ip-range={SERVICES}.0.0/16",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={keys}/service-accounts.pub",
        f"--service-account-signing-key-file={keys}/service-accounts.key",
        f"--kubelet-client-certificate={keys}/apiserver-kubelet.crt",
        f"--kubelet-client-key={keys}/apiserver-kubelet.key",
        "--kubelet-preferred-address-types=InternalIP", "--allow-privileged",
        f"--audit-policy-file={place.root}/audit-policy.json", f"--audit-log-path={place.admissions}",
        # The aggregation layer has no certificate here, and needs none.
        *release.gate_flags(), *extra])  # fmt: skip


def audit_policy() -> dict:
    """What the API server notes of pods: what came, and in annotations what each webhook made of it."""
    pods = {"level": "Request", "verbs": ["create", "update", "patch"], "resources": [{"group": "", "resources": ["pods"]}]}
    return {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"],
            "rules": [pods, {"level": "None"}]}  # fmt: skip


def controller_manager(place: Place, release: Release) -> Daemon:
    kubeconfig = str(place.root / "controller-manager.kubeconfig")
    return Daemon("kube-controller-manager", [
        release.program("kube-controller-manager"), f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}", f"--authorization-kubeconfig={kubeconfig}",
        f"--service-account-private-key-file={place.keys}/service-accounts.key",
        f"--root-ca-file={place.keys}/ca.crt", "--use-service-account-credentials", "--leader-elect=false",
        f"--secure-port={CONTROLLERS_PORT}", "--kube-api-qps=300", "--kube-api-burst=600", *release.gate_flags()])  # fmt: skip


def scheduler(place: Place, release: Release) -> Daemon:
    kubeconfig = str(place.root / "scheduler.kubeconfig")
    return Daemon("kube-scheduler", [
        release.program("kube-scheduler"), f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}", f"--authorization-kubeconfig={kubeconfig}",
        "--leader-elect=false", f"--secure-port={SCHEDULER_PORT}", "--kube-api-qps=300", "--kube-api-burst=600",
        *release.gate_flags()])  # fmt: skip


def proxy(place: Place, release: Release) -> Daemon:
    return Daemon(
        "kube-proxy",
        [release.program("kube-proxy"), f"--config={place.root}/kube-proxy.json", "--hostname-override=node-1"],
    )


def proxy_configuration(place: Place, release: Release) -> dict:
    """One kube-proxy serves all nodes: they share a network."""
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration", "mode": "nftables",
        "clusterCIDR": f"{PODS}.0.0/16", "conntrack": {"maxPerCore": 0, "min": 0},
        "healthzBindAddress": f"127.0.0.1:{PROXY_HEALTH_PORT}",
        "metricsBindAddress": f"127.0.0.1:{PROXY_METRICS_PORT}",
        "featureGates": gate_map(release), "nodePortAddresses": ["primary"],
        "clientConnection": {"kubeconfig": str(place.root / "proxy.kubeconfig")}}  # fmt: skip


def kwok(place: Place, programs: Path) -> Daemon:
    """Plays the kubelet for the nodes that carry its annotation."""
    stages = [f"--config={file}" for file in sorted(programs.glob("*.yaml"))]
    return Daemon("kwok", [
        str(programs / "kwok"), f"--kubeconfig={place.kubeconfig}", *stages,
        "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake", "--node-lease-duration-seconds=40",
        "--cidr=10.245.0.0/16", f"--node-ip={API_ADDRESS}"])  # fmt: skip


def gate_map(release: Release) -> dict[str, bool]:
    return {name: value == "true" for name, _, value in (gate.partition("=") for gate in release.gates)}
