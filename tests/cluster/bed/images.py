"""Images without a registry: an OCI archive written from files, and its way to a node."""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import tarfile
from pathlib import Path

from bed import runtimes
from bed.daemons import Release
from bed.node import PAUSE_IMAGE, Node
from bed.space import Failed, Space

BUSYBOX_IMAGE = "test.local/busybox:1"
BUSYBOX = Path("/bin/busybox")
APPLETS = ("sh", "sleep", "cat", "echo", "true", "false", "env", "ls", "id", "wget", "nc", "date", "test", "kill")
MEDIA = "application/vnd.oci.image"


def layer_of(files: dict[str, Path], links: dict[str, str]) -> bytes:
    """A layer with these files and symbolic links; the same input gives the same bytes."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, source in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            entry.mode, entry.size = 0o755, source.stat().st_size
            with source.open("rb") as content:
                archive.addfile(entry, content)
        for name, target in sorted(links.items()):
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname, entry.mode = tarfile.SYMTYPE, target, 0o777
            archive.addfile(entry)
    return buffer.getvalue()


def write_archive(file: Path, images: dict[str, list[str]], layer: bytes) -> None:
    """An OCI archive with several images of one layer: by name, the command that each runs."""
    blobs: dict[str, bytes] = {}

    def blob(content: bytes, kind: str) -> dict:
        digest = hashlib.sha256(content).hexdigest()
        blobs[digest] = content
        return {"mediaType": f"{MEDIA}.{kind}", "digest": f"sha256:{digest}", "size": len(content)}

    stored = blob(layer, "layer.v1.tar")
    manifests = []
    for name, command in images.items():
        config = {"architecture": "amd64", "os": "linux", "config": {"Entrypoint": command, "Env": ["PATH=/bin"]},
                  "rootfs": {"type": "layers", "diff_ids": [stored["digest"]]}}  # fmt: skip
        described = blob(json.dumps(config).encode(), "config.v1+json")
        manifest = {
            "schemaVersion": 2,
            "mediaType": f"{MEDIA}.manifest.v1+json",
            "config": described,
            "layers": [stored],
        }
        entry = blob(json.dumps(manifest).encode(), "manifest.v1+json")
        names = {"io.containerd.image.name": name, "org.opencontainers.image.ref.name": name}
        manifests.append(entry | {"annotations": names})
    with tarfile.open(file, "w") as archive:
        add_file(archive, "oci-layout", b'{"imageLayoutVersion":"1.0.0"}')
        add_file(archive, "index.json", json.dumps({"schemaVersion": 2, "manifests": manifests}).encode())
        for digest, content in blobs.items():
            add_file(archive, f"blobs/sha256/{digest}", content)


def add_file(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), 0o644
    archive.addfile(entry, io.BytesIO(content))


def write_standard_images(file: Path) -> None:
    """The pause image and a busybox, both from Debian's static busybox."""
    links = {f"bin/{applet}": "busybox" for applet in APPLETS}
    layer = layer_of({"bin/busybox": BUSYBOX}, links)
    write_archive(file, {PAUSE_IMAGE: ["/bin/sleep", "infinity"], BUSYBOX_IMAGE: []}, layer)


def names_in(archive: Path) -> list[str]:
    """The names of the images of an OCI archive."""
    with tarfile.open(archive) as opened:
        index = opened.extractfile("index.json")
        assert index
        entries = json.load(index)["manifests"]
    return [entry["annotations"]["org.opencontainers.image.ref.name"] for entry in entries]


def load(space: Space, node: Node, release: Release, archive: Path) -> None:
    """Brings an OCI archive's images to a node."""
    for command in runtimes.of(release).importing(node, release, archive, names_in(archive)):
        done = subprocess.run([*space.entering(mounts=True, tied=True), *command], capture_output=True, text=True, cwd="/")
        if done.returncode != 0:
            raise Failed(f"{archive.name} could not be imported into {node.name}: {done.stderr.strip()}")
