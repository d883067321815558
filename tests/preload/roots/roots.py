"""Root folders of other systems to run programs in: older and newer glibc, musl, another processor. Kept in the cache."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
TREE = HERE.parents[2]
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
CHECK_PYTHON = CACHE / "drawbridge-check" / "bin" / "python"  # has ziglang; see tools/deps
MIRROR = "http://deb.debian.org/debian"
GLIBC = {"bullseye": "2.31", "bookworm": "2.36", "trixie": "2.41"}
PACKAGES = ("dash", "bash", "coreutils", "grep", "mawk", "perl-base", "python3")
QEMU = "/usr/bin/qemu-aarch64-static"
SECONDS = 300  # only a hang reaches it


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """One process at a time makes a folder: tests run in several."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f"{folder.name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _kept(name: str, make: Callable[[Path], None]) -> Path:
    """The folder of this name in the cache, made once; one that was left half made is made again."""
    folder = CACHE / "drawbridge-roots" / name
    half = folder.with_name(f"{name}.half")
    with _alone(folder):
        if not folder.exists():
            shutil.rmtree(half, ignore_errors=True)
            make(half)
            half.rename(folder)
    return folder


def debian(suite: str, processor: str = "amd64") -> Path:
    """A root of a Debian release with a shell and Python; apt checks the archive's signatures."""

    def make(folder: Path) -> None:
        subprocess.run(
            ["mmdebstrap", "--quiet", "--variant=extract", f"--architectures={processor}", f"--include={','.join(PACKAGES)}",
             suite, str(folder), MIRROR], check=True)  # fmt: skip

    return _kept(f"{suite}-{processor}-1", make)


def musl() -> Path:
    """A root with nothing but musl's loader."""

    def make(folder: Path) -> None:
        folder.mkdir()
        subprocess.run(["apt-get", "download", "-q", "musl"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        (package,) = folder.glob("musl_*.deb")
        subprocess.run(["dpkg-deb", "--extract", package, folder], check=True)
        package.unlink()

    return _kept("musl-1", make)


def _from_non_free(package: str, folder: Path) -> None:
    """Unpacks a package of Debian's non-free archive; apt checks the archive's signature."""
    for name in ("state/lists/partial", "cache/archives/partial"):
        (folder / name).mkdir(parents=True)
    (folder / "sources.list").write_text(f"deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] {MIRROR} bookworm non-free\n")
    places = {"Dir::Etc::sourcelist": folder / "sources.list", "Dir::Etc::sourceparts": "-", "Dir::State": folder / "state",
              "Dir::Cache": folder / "cache", "APT::Sandbox::User": "root"}  # fmt: skip
    apt = ["apt-get", "-q", *(f"-o{name}={value}" for name, value in places.items())]
    for command in ("update",), ("download", package):
        subprocess.run([*apt, *command], cwd=folder, check=True, stdout=sys.stderr)
    (archive,) = folder.glob(f"{package}_*.deb")
    subprocess.run(["dpkg-deb", "--extract", archive, folder], check=True)


def nvidias_libcuda() -> Path:
    """NVIDIA's own libcuda; its licence lets nobody but its users have it, so that it is in the cache and nowhere else. It
    loads without a GPU and answers look-ups."""
    (library,) = _kept("libcuda1-bookworm-1", lambda folder: _from_non_free("libcuda1", folder)).glob("usr/lib/x86_64-linux-gnu/nvidia/current/libcuda.so.*.*")
    return library


def nvidias_smi() -> Path:
    """NVIDIA's nvidia-smi, had and kept in the same way."""
    return _kept("nvidia-smi-bookworm-1", lambda folder: _from_non_free("nvidia-smi", folder)) / "usr/lib/nvidia/current/nvidia-smi"


def oldest_build(processor: str) -> Path:
    """The library and the stand-in driver linked against the stubs of glibc 2.17."""
    folder = TREE / "build" / f"oldest-{processor}"
    with _alone(folder):
        if not (folder / "build.ninja").exists():
            subprocess.run(
                ["cmake", "-G", "Ninja", "-B", str(folder), "--log-level=WARNING", "-DCMAKE_BUILD_TYPE=Release", "-DDRAWBRIDGE_PRELOAD_ONLY=ON",
                 "--toolchain", str(HERE / "oldest.cmake"), f"-DROOTS_PROCESSOR={processor}", f"-DROOTS_PYTHON={CHECK_PYTHON}", str(TREE)],
                check=True)  # fmt: skip
        subprocess.run(["cmake", "--build", str(folder)], check=True, stdout=sys.stderr)
    return folder


def compiled(target: str, text: str, program: Path, *flags: str) -> None:
    """Compiles a C program for another system, such as `x86_64-linux-musl`."""
    source = program.with_suffix(".c")
    source.write_text(text)
    subprocess.run([CHECK_PYTHON, "-m", "ziglang", "cc", "-target", target, "-o", program, source, *flags], check=True)


def unit_tests(target: str, program: Path) -> None:
    """Compiles the unit tests of the preload library's pure parts for another system."""
    headers = program.with_suffix(".include")
    for name in ("doctest", "nlohmann"):
        shutil.copytree(Path("/usr/include") / name, headers / name)
    parts = [TREE / "preload" / f"{name}.cpp" for name in ("ledger", "array_size", "table", "os")]
    tests = [TREE / "tests" / "test_main.cpp", *sorted((TREE / "tests" / "preload").glob("*_test.cpp"))]
    subprocess.run(
        [CHECK_PYTHON, "-m", "ziglang", "c++", "-target", target, "-std=c++20", "-O1", "-I", TREE, "-isystem", headers,
         '-DDRAWBRIDGE_SOURCE="."', "-o", program, *tests, *parts], check=True)  # fmt: skip


# In a mount namespace of its own: nothing is left behind, and roots in the cache stay as they are.
ENTER = """
set -eu
root=$1 work=$2
shift 2
mount -t tmpfs none "$root/run"
mkdir "$root/run/drawbridge" "$root/run/bench"
mount -t proc none "$root/proc"
mount --bind "$work" "$root/run/bench"
mount --bind "$work/drawbridge" "$root/run/drawbridge"
if [ -e "$work/ld.so.preload" ]; then
    mount -t tmpfs none "$root/mnt"
    mkdir "$root/mnt/upper" "$root/mnt/work"
    mount -t overlay -o "lowerdir=$root/etc,upperdir=$root/mnt/upper,workdir=$root/mnt/work" none "$root/etc"
    cp "$work/ld.so.preload" "$root/etc/ld.so.preload"
fi
cd /
exec chroot "$root" "$@"
"""


def run(root: Path, work: Path, command: list[str], **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs a program in a root. `work` is its /run/bench; `work/drawbridge` its /run/drawbridge; `work/ld.so.preload`, where
    it is there, its /etc/ld.so.preload."""
    (work / "drawbridge").mkdir(exist_ok=True)
    for name in ("run", "proc", "mnt", "etc"):
        (root / name).mkdir(exist_ok=True)
    return subprocess.run(
        ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", ENTER, "sh", str(root), str(work), *command],
        env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C", "PYTHONDONTWRITEBYTECODE": "1"} | environment,
        capture_output=True, text=True, timeout=SECONDS, check=False)  # fmt: skip
