"""Checks of what holds physical memory besides its handle: the programs of held.py, with and without the library."""

from __future__ import annotations

import os

from plan import CONTEXT, LIMIT, Bench, check, has, program  # makes the next two known
from held import SIZE  # isort: skip
from share import MIB

SLACK = 32 * MIB  # page tables and what the driver keeps for itself


def check_multicast(bench: Bench) -> None:
    is_held(bench, "multicast", ["until it is unbound", "until the object is gone", "bound by its address, until it is unbound"])


def check_sparse(bench: Bench) -> None:
    is_held(bench, "sparse", ["until the last tile is unmapped", "until the array is gone"])


def is_held(bench: Bench, name: str, cases: list[str]) -> None:
    """The account says what the bare driver does, and what is held so is refused to others at the limit."""
    names = [*(f"{name}: memory is held {case}" for case in cases), f"{name}: no more than the share, and all of it is back"]
    bare = program(name, os.environ | {"DRAWBRIDGE_GPU_BARE": "1"})
    if not has(None if "not supported" in bare else True, str(bare.get("not supported")), *names):
        return
    root, share = bench.share()
    got = program(name, root.environment())
    for index, title in enumerate(names[:-1]):
        account, truth = [run["traces"][index] if "traces" in run else [] for run in (got, bare)]  # type: ignore[index]
        held = [SIZE] * (len(account) - 1) + [0]
        is_true = len(account) > 1 and [gone for _, gone in account] == held and all(abs(gone - right) <= SLACK for (_, gone), right in zip(truth, held, strict=True))
        check(title, is_true, [account, truth, got, bare])
    room = (LIMIT - CONTEXT) // SIZE
    check(names[-1], got.get("fill") == [room, 2, 0] and share.slot(0)["errors"] == share.slot(0)["vmm"] == 0, [got, share.slot(0)])
