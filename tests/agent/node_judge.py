"""Judges a node by what lies on its disk and what the API server has, and by nothing that the agent says of itself."""

from __future__ import annotations

import json
import re
import struct
from collections import defaultdict
from pathlib import Path
from typing import Any

from material import GIB, Agent

# Places in preload/abi.h.
UUID, BOOT, MEMORY, CORES, SIZE = 24, 40, 120, 144, 16384
CAPACITY = {"memory": 80 * GIB, "cores": 1000, "slots": 10}
UNITS = {"Mi": 1 << 20, "Gi": 1 << 30}


def page_of(file: Path) -> dict[str, Any]:
    """The fields of limits; of those that a power cut has left in part all are nothing."""
    page = file.read_bytes()
    if len(page) != SIZE:
        return {"size": len(page), "uuid": b"", "boot": b"", "memory": 0, "cores": 0}
    (memory,), (cores,) = struct.unpack_from("<Q", page, MEMORY), struct.unpack_from("<I", page, CORES)
    return {"size": len(page), "uuid": page[UUID : UUID + 16], "boot": page[BOOT : BOOT + 16], "memory": memory, "cores": cores}


def in_bytes(quantity: str) -> int:
    number, unit = re.fullmatch(r"(\d+)(Mi|Gi)", quantity).groups()  # type: ignore[union-attr]
    return int(number) * UNITS[unit]


def sums(agent: Agent, boot: bytes) -> list[str]:
    """No device is given away more than once, by the share folders of this boot alone."""
    held: dict[bytes, dict[str, int]] = defaultdict(lambda: dict.fromkeys(CAPACITY, 0))
    for folder in (agent.plugin / "shares").iterdir():
        if not (folder / "limits").exists():
            continue  # begun, and given to nobody yet
        page = page_of(folder / "limits")
        if page["boot"] != boot:
            continue
        of_device = held[page["uuid"]]
        of_device["memory"] += page["memory"]
        of_device["cores"] += page["cores"] % 1000  # a share without a limit takes none of it
        of_device["slots"] += 1
    return [f"{name} of a device: {taken[name]} of {most}" for taken in held.values() for name, most in CAPACITY.items()
            if taken[name] > most]  # fmt: skip


def of_claim(agent: Agent, claim: dict[str, Any], boot: bytes) -> list[str]:
    """What a container of the claim needs is there, and says what the scheduler gave."""
    uid = claim["metadata"]["uid"]
    spec = agent.cdi_files().get(f"k8s.gpu.drawbridge.dev-claim_{uid}.json")
    if spec is None:
        return [f"{uid} has no CDI file"]
    faults = []
    results = claim["status"]["allocation"]["devices"]["results"]
    if [device["name"] for device in spec["devices"]] != [f"{uid}-{number}" for number in range(len(results))]:
        faults.append(f"{uid} has other devices than it was given")
    for result, device in zip(results, spec["devices"], strict=False):
        files = {Path(mount["containerPath"]).name: Path(mount["hostPath"]) for mount in device["containerEdits"]["mounts"]}
        if not all(name in files and files[name].exists() for name in ("limits", "ledger")):
            faults.append(f"{device['name']} lacks a file")
            continue
        page, given = page_of(files["limits"]), result["consumedCapacity"]
        wanted = (in_bytes(given["memory"]), int(given["cores"]) * 10 or 1000, boot, SIZE, 262144)
        found = (page["memory"], page["cores"], page["boot"], page["size"], files["ledger"].stat().st_size)
        if found != wanted:
            faults.append(f"{device['name']} is {found}, not {wanted}")
    return faults


def records(agent: Agent, ended: set[str]) -> list[str]:
    """No record is there in part, and none lets a claim that has ended go on."""
    faults = []
    for file in (agent.plugin / "claims").glob("*.json"):
        try:
            state = json.loads(file.read_text())["claim"]["state"]
        except ValueError:
            faults.append(f"the record of {file.stem} is not whole")
            continue
        if file.stem in ended and state != "Unprepared":
            faults.append(f"{file.stem} has ended, and is recorded as {state}")
    return faults


def left_of(agent: Agent, uid: str) -> list[str]:
    """Nothing is left of a claim that has ended."""
    return [name for name in [*agent.cdi_files(), *agent.shares()] if uid in name]
