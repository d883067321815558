"""The webhook's image holds the program, its libraries, and nothing that an intruder could use."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from dataclasses import dataclass
from pathlib import Path

import pytest
from bed.drawbridge import Installation

MEBI = 1024 * 1024


@dataclass(frozen=True)
class Image:
    """What an OCI archive holds: its configuration, and each entry of its layers by path."""

    config: dict
    entries: dict[str, tarfile.TarInfo]
    stored: int  # bytes, as they are pulled


def read(archive: Path) -> Image:
    with tarfile.open(archive) as outer:
        def blob(described: dict) -> bytes:
            return outer.extractfile("blobs/sha256/" + described["digest"].removeprefix("sha256:")).read()

        index = json.load(outer.extractfile("index.json"))
        manifest = json.loads(blob(index["manifests"][0]))
        entries = {}
        for layer in manifest["layers"]:
            content = blob(layer)
            plain = gzip.decompress(content) if layer["mediaType"].endswith("gzip") else content
            with tarfile.open(fileobj=io.BytesIO(plain)) as files:
                entries |= {f"/{entry.name.strip('/')}": entry for entry in files.getmembers()}
        return Image(json.loads(blob(manifest["config"])), entries, sum(layer["size"] for layer in manifest["layers"]))


@pytest.fixture(scope="module")
def image(installation: Installation) -> Image:
    (archive, *_) = installation.folder.glob("webhook-*.tar")
    return read(archive)


def test_it_holds_the_program_and_libraries_and_nothing_else(image: Image) -> None:
    files = [path for path, entry in image.entries.items() if not entry.isdir()]
    assert "/usr/bin/drawbridge" in files
    others = [path for path in files if not path.startswith(("/lib/", "/lib64/", "/usr/lib/")) or ".so" not in path]
    assert others == ["/usr/bin/drawbridge"]


def test_it_runs_as_nobody_special_and_nothing_in_it_lends_rights(image: Image) -> None:
    assert image.config["config"]["User"] == "65532:65532"
    assert image.config["config"]["Entrypoint"] == ["/usr/bin/drawbridge"]
    assert [path for path, entry in image.entries.items() if entry.mode & 0o6022 and not entry.issym()] == []


def test_it_is_small(image: Image) -> None:
    assert image.stored <= 15 * MEBI
    assert sum(entry.size for entry in image.entries.values()) <= 30 * MEBI
