"""Cuts the power of a node: its disk is left in one of the states that a real one may be in, by what the agent has synced.

A file that was renamed into place is there whole if it was synced before, else whole, cut or empty; its name is there if the folder
was synced behind the renaming, else that one is there or the one before. The same holds for names that were removed.
"""

from __future__ import annotations

import random
import subprocess
import tempfile
from functools import cache
from pathlib import Path

HERE = Path(__file__).resolve().parent
State = bytes | None  # what is under a name; nothing: no file


@cache
def library() -> Path:
    built = Path(tempfile.mkdtemp(prefix="drawbridge-power-")) / "power_cut.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o", str(built), str(HERE / "power_cut.c")], check=True)
    return built


class Disk:
    """What may be left of the files below a folder."""

    def __init__(self, folder: Path, notes: Path) -> None:
        self.folder, self.notes = folder, notes
        self.before: dict[Path, bytes] = {}  # what is there for certain
        notes.mkdir()

    def environment(self, syncs: bool = True) -> dict[str, str]:
        """Of an agent that works on it; `syncs` is whether the disk does what it is told."""
        return {"LD_PRELOAD": str(library()), "POWER_CUT_FOLDER": str(self.folder), "POWER_CUT_NOTES": str(self.notes)} | (
            {} if syncs else {"POWER_CUT_NO_SYNC": "1"})  # fmt: skip

    def states(self) -> dict[Path, list[list[State]]]:
        """By name: the files that may be there, and of each the contents that it may have."""
        found: dict[Path, list[list[State]]] = {}
        synced: set[str] = set()
        file = self.notes / "notes"
        for line in file.read_text().splitlines() if file.exists() else []:
            kind, inode, name = line.split(" ", 2)
            path = Path(name)
            if kind == "S":
                synced.add(inode)
            elif kind == "D":
                for inside, states in found.items():
                    if inside.parent == path:
                        del states[:-1]
            else:
                found.setdefault(path, [[self.before.get(path)]]).append(self._contents(inode, inode in synced) if kind == "R" else [None])
        return found

    def _contents(self, inode: str, synced: bool) -> list[State]:
        whole = (self.notes / inode).read_bytes()
        return [whole] if synced else [whole, whole[: len(whole) // 2], b""]

    def cut(self, chance: random.Random) -> None:
        """Nothing runs any more; leaves what may be left."""
        for path, states in self.states().items():
            content = chance.choice(chance.choice(states))
            path.unlink(missing_ok=True)
            if content is not None:
                path.parent.mkdir(exist_ok=True)
                path.write_bytes(content)
        for note in self.notes.iterdir():
            note.unlink()
        self.before = {path: path.read_bytes() for path in self.folder.rglob("*") if path.is_file()}
