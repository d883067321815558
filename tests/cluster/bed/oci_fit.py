"""Makes a container's OCI configuration one that root here may start, as containerd does and CRI-O does not: root may lack
capabilities, which are then not to be had in a privileged container either, and a score for the killer of processes below
one's own needs one of them."""

from __future__ import annotations

import json
import sys
from pathlib import Path

# In the order of their numbers.
CAPABILITIES = (
    "CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP LINUX_IMMUTABLE NET_BIND_SERVICE "
    "NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO SYS_CHROOT SYS_PTRACE SYS_PACCT SYS_ADMIN "
    "SYS_BOOT SYS_NICE SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG MKNOD LEASE AUDIT_WRITE AUDIT_CONTROL SETFCAP MAC_OVERRIDE "
    "MAC_ADMIN SYSLOG WAKE_ALARM BLOCK_SUSPEND AUDIT_READ PERFMON BPF CHECKPOINT_RESTORE").split()  # fmt: skip


def permitted() -> set[str]:
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    mask = int(status.split("CapPrm:")[1].split()[0], 16)
    return {f"CAP_{name}" for number, name in enumerate(CAPABILITIES) if mask >> number & 1}


def fit(config: dict, held: set[str], score: int) -> None:
    process = config["process"]
    for kind, names in (process.get("capabilities") or {}).items():
        process["capabilities"][kind] = [name for name in names if name in held]
    if "CAP_SYS_RESOURCE" not in held and "oomScoreAdj" in process:
        process["oomScoreAdj"] = max(process["oomScoreAdj"], score)


if __name__ == "__main__":
    file = Path(sys.argv[1])
    found = json.loads(file.read_text(encoding="utf-8"))
    fit(found, permitted(), int(Path("/proc/self/oom_score_adj").read_text(encoding="utf-8")))
    file.write_text(json.dumps(found), encoding="utf-8")
