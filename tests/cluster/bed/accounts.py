"""Programs as a ServiceAccount: a kubeconfig with a bound token, and the rights that it has."""

from __future__ import annotations

from pathlib import Path

from bed import keys
from bed.cluster import Cluster

RULES = "/apis/rbac.authorization.k8s.io/v1"


def account_kubeconfig(cluster: Cluster, namespace: str, account: str, file: Path, server: str = "") -> Path:
    """A kubeconfig with a token of the account, bound to it and good for an hour; `server` as behind a proxy."""
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
    token = cluster.api.call("POST", path, asked)["status"]["token"]
    return keys.write_kubeconfig(keys.Authority(cluster.place.keys), file, {"token": token}, server, namespace)


def grant(cluster: Cluster, name: str, namespace: str, account: str, rules: list[dict]) -> None:
    """Gives an account of its own a ClusterRole with exactly these rules."""
    cluster.api.apply(f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}",
                      {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": account}})  # fmt: skip
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name},
        "rules": rules,
    }
    binding = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": name},
               "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
               "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}]}  # fmt: skip
    cluster.api.apply(f"{RULES}/clusterroles/{name}", role)
    cluster.api.apply(f"{RULES}/clusterrolebindings/{name}", binding)


def revoke(cluster: Cluster, name: str) -> None:
    for kind in ("clusterrolebindings", "clusterroles"):
        cluster.api.call("DELETE", f"{RULES}/{kind}/{name}")
