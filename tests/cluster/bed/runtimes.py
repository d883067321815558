"""The container runtimes that a node may have, each a module with the same functions."""

from __future__ import annotations

from types import ModuleType

from bed import containerd, crio
from bed.daemons import Release

KINDS = {containerd.NAME: containerd, crio.NAME: crio}


def of(release: Release) -> ModuleType:
    return KINDS[release.runtime_name]
