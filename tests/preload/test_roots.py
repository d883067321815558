"""The library in other systems than the one it was built on: glibc 2.31, 2.36 and 2.41, musl, 64-bit Arm."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from conftest import CONTEXT, FRONT, LIBRARY, TREE, card
from roots import roots
from share import Root, Share
from test_loading import THREADS

pytestmark = pytest.mark.plain  # no root has a sanitizer's runtime

MIB = 1 << 20
PROGRAMS = {
    "sh": ["sh", "-c", "umask; ulimit -n; ls /proc/self/fd | wc -l; echo out; echo err >&2; exit 3"],
    "bash": ["bash", "-c", "for i in 1 2 3; do (echo $((i * i))) | cat; done; kill -USR1 $BASHPID"],
    "coreutils": ["sort", "/etc/debian_version"],
    "awk": ["mawk", "BEGIN { for (i = 0; i < 1000; i++) s += i; print s }"],
    "perl": ["perl", "-e", "print join(',', map { $_ * 2 } 1..5), \"\\n\"; exit 7"],
    "python": ["python3", "-c", "import ctypes, threading, zlib; t = threading.Thread(target=print, args=(ctypes.CDLL(None).getpid() > 0,)); t.start(); t.join()"],
}


class System:
    """A root with the library where the node agent puts it."""

    def __init__(self, root: Path, work: Path, library: Path, standin: Path, before: tuple[str, ...] = ()) -> None:
        self.root, self.work, self.before = root, work, list(before)
        self.share_root = Root(work / "drawbridge", library)
        shutil.copytree(standin, work / "standin")
        shutil.copytree(TREE / "tests" / "gpu", work / "tests" / "gpu", ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copytree(TREE / "tests" / "preload" / "record", work / "tests" / "preload" / "record", ignore=shutil.ignore_patterns("__pycache__"))

    def activate(self) -> None:
        (self.work / "ld.so.preload").write_text("/run/drawbridge/lib/libdrawbridge.so\n")

    def put_front(self) -> None:
        """The front in the place of libcuda.so.1, and the driver where that looks for it."""
        driver = self.share_root.folder / "driver" / "libcuda.so.1"
        driver.parent.mkdir()
        (self.work / "standin" / "libcuda.so.1").rename(driver)
        shutil.copy(FRONT, self.work / "standin" / "libcuda.so.1")

    def share(self, memory: int) -> Share:
        return self.share_root.share("claim-0", card(0), memory, context=CONTEXT)

    def run(self, command: list[str]) -> subprocess.CompletedProcess[str]:
        return roots.run(self.root, self.work, [*self.before, *command], LD_LIBRARY_PATH="/run/bench/standin", DRAWBRIDGE_STANDIN_STATE="/run/bench/world")

    def program(self, name: str) -> object:
        """One of tests/gpu/programs.py, on the stand-in driver."""
        done = self.run(["/usr/bin/python3", "/run/bench/tests/gpu/programs.py", name])
        assert done.returncode == 0, done.stderr[-2000:]
        return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="session", params=roots.GLIBC)
def glibc_root(request: pytest.FixtureRequest) -> tuple[str, Path]:
    return roots.GLIBC[request.param], roots.debian(request.param)


@pytest.fixture
def system(glibc_root: tuple[str, Path], tmp_path: Path) -> System:
    """With the library as it is shipped; only the stand-in is built for the oldest glibc."""
    return System(glibc_root[1], tmp_path, LIBRARY, roots.oldest_build("x86_64") / "standin")


def is_limited(system: System) -> None:
    """Every way to a function leads to the wrapper, and a program is held to its share and not a byte less."""
    share = system.share(1024 * MIB)
    system.activate()
    got = system.program("ways")
    assert got and all(value == [1, True] for value in got.values()), got  # type: ignore[attr-defined]
    is_filled(system, share)


def is_filled(system: System, share: Share) -> None:
    got = system.program("linear")
    room = 1024 * MIB - CONTEXT
    assert [got["large"][0] + got["small"][0], got["small"][1]] == [room // (2 * MIB) * 2 * MIB, 2], got  # type: ignore[index]
    assert got["begin"]["total"] == 1024 * MIB and share.slot(0)["denied"] > 0  # type: ignore[index]


def test_the_root_is_of_the_glibc_it_stands_for(glibc_root: tuple[str, Path], system: System) -> None:
    assert system.run(["python3", "-c", "import os; print(os.confstr('CS_GNU_LIBC_VERSION'))"]).stdout == f"glibc {glibc_root[0]}\n"


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_without_cuda_never_notice(name: str, system: System) -> None:
    wanted = system.run(PROGRAMS[name])
    assert wanted.stdout or wanted.returncode, wanted
    system.activate()
    without_share = system.run(PROGRAMS[name])
    system.share(1024 * MIB)
    with_share = system.run(PROGRAMS[name])
    for got in (without_share, with_share):
        assert (got.returncode, got.stdout, got.stderr) == (wanted.returncode, wanted.stdout, wanted.stderr)


def test_a_program_is_held_to_its_share(system: System) -> None:
    is_limited(system)


def test_a_program_is_held_where_the_front_is_too(system: System) -> None:
    system.put_front()
    is_limited(system)


def test_the_front_alone_holds_a_program(system: System) -> None:
    system.put_front()
    is_filled(system, system.share(1024 * MIB))


def test_without_a_share_cuda_is_refused_with_a_reason(system: System) -> None:
    system.activate()
    done = system.run(["python3", "-c", "import ctypes; print(ctypes.CDLL('libcuda.so.1').cuInit(0))"])
    assert (done.returncode, done.stdout) == (0, "800\n"), done
    assert done.stderr.count("\n") == 1 and "/run/drawbridge/shares" in done.stderr, done.stderr


def test_the_library_links_against_the_oldest_glibc() -> None:
    """The linker refuses a symbol that glibc 2.17 has not."""
    assert (roots.oldest_build("x86_64") / "lib" / "libdrawbridge.so").exists()


MUSL = r"""
#include <dlfcn.h>
#include <stdio.h>
int main(void) { printf("%d\n", dlsym(RTLD_DEFAULT, "cuInit") == NULL); return 5; }
"""


@pytest.mark.parametrize("flags", [["-dynamic"], ["-static"]], ids=["dynamic", "static"])
def test_musl_goes_on_without_the_library(flags: list[str], tmp_path: Path) -> None:
    """musl reads no ld.so.preload: nothing is limited there, and nothing is harmed (docs/preload.md)."""
    root = roots.musl()
    system = System(root, tmp_path, LIBRARY, roots.oldest_build("x86_64") / "standin")
    roots.compiled("x86_64-linux-musl", MUSL, tmp_path / "program", *flags)
    system.activate()
    done = system.run(["/run/bench/program"])
    assert (done.returncode, done.stdout, done.stderr) == (5, "1\n", ""), done


@pytest.fixture
def arm(tmp_path: Path) -> System:
    """64-bit Arm, emulated: what depends on the processor, such as the trampolines of dlsym and dlvsym."""
    build = roots.oldest_build("aarch64")
    shutil.copy(roots.QEMU, tmp_path / "qemu")
    return System(roots.debian("bookworm", "arm64"), tmp_path, build / "lib" / "libdrawbridge.so", build / "standin", ("/run/bench/qemu",))


@pytest.mark.long
def test_a_program_on_64_bit_arm_is_held_to_its_share(arm: System) -> None:
    is_limited(arm)


VERSIONED = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
int main(void) {
    void* cuda = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    void* own = dlsym(cuda, "cuMemAlloc_v2");
    printf("%d %d ", dlvsym(RTLD_NEXT, "malloc", "GLIBC_2.17") == (void*)malloc, dlvsym(RTLD_NEXT, "malloc", "GLIBC_1.0") == NULL);
    printf("%d %d\n", own == dlsym(RTLD_DEFAULT, "cuMemAlloc_v2"), dlvsym(cuda, "cuMemAlloc_v2", "GLIBC_2.17") == NULL);
    return 0;
}
"""


@pytest.mark.long
@pytest.mark.parametrize(("text", "wanted"), [(THREADS, "0 0 0"), (VERSIONED, "1 1 1 1")], ids=["foreign names on threads", "versions"])
def test_look_ups_on_64_bit_arm_see_their_own_caller(text: str, wanted: str, arm: System) -> None:
    roots.compiled("aarch64-linux-gnu.2.17", text, arm.work / "program", "-rdynamic", "-pthread")
    bare = arm.run(["/run/bench/program"])
    arm.share(1024 * MIB)
    arm.activate()
    held = arm.run(["/run/bench/program"])
    assert (bare.stdout, held.stdout, held.stderr) == (f"{wanted}\n", f"{wanted}\n", "")


@pytest.mark.long
def test_the_parts_that_decide_pass_their_tests_on_64_bit_arm(arm: System) -> None:
    """Layout of the files, ledger, gate, tables: compiled for it."""
    roots.unit_tests("aarch64-linux-gnu.2.17", arm.work / "unit-tests")
    shutil.copytree(TREE / "tests" / "preload" / "recorded", arm.work / "tests" / "preload" / "recorded")
    done = arm.run(["/usr/bin/env", "-C", "/run/bench", "/run/bench/qemu", "/run/bench/unit-tests"])
    assert done.returncode == 0 and re.search(r"test cases: +\d\d \| +\d\d passed \| +0 failed", done.stdout), done.stdout[-2000:]
