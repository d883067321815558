"""Where a cluster lies: its folder, its addresses, and the name by which its first process is reached."""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path

# Short, because sockets below it may have names of at most 107 characters.
BASE = Path(os.environ.get("DRAWBRIDGE_CLUSTERS") or "/var/tmp/drawbridge-cluster")
NETWORK = "10.200.0"
API_ADDRESS = f"{NETWORK}.1"
API_PORT = 6443
SERVICES = "10.96"
PODS = "10.244"
DEFAULT_NAME = "default"
NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,18}[a-z0-9])?")


def own(name: str) -> str:
    """The name of a cluster that the tests of this checkout start: those of another may run beside them."""
    return f"{name}-{hashlib.sha256(os.fsencode(Path(__file__).resolve())).hexdigest()[:4]}"


@dataclass(frozen=True)
class Place:
    """The folder of one cluster and what lies where in it."""

    name: str

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.name):
            raise ValueError(f"{self.name!r} is no name of a cluster: at most 20 of a-z, 0-9 and -")

    @property
    def root(self) -> Path:
        return BASE / self.name

    @property
    def keys(self) -> Path:
        return self.root / "keys"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def admissions(self) -> Path:
        """The API server's account of every pod that was sent to it, one JSON object a line."""
        return self.logs / "admissions.log"

    @property
    def temporary(self) -> Path:
        """For the temporary files of the daemons."""
        return self.root / "tmp"

    @property
    def kubeconfig(self) -> Path:
        """The administrator's."""
        return self.root / "admin.kubeconfig"

    @property
    def facts(self) -> Path:
        """What the cluster was made with (JSON)."""
        return self.root / "cluster.json"

    @property
    def cgroup(self) -> str:
        """The cluster's own control group, below each hierarchy's root."""
        return f"drawbridge-{self.name}"

    @property
    def socket(self) -> bytes:
        """The abstract socket of the cluster's first process; it is there as long as the process is."""
        return b"\0drawbridge-cluster/" + self.name.encode()

    @property
    def lock(self) -> bytes:
        """The abstract socket that whoever changes the cluster holds."""
        return self.socket + b"/lock"
