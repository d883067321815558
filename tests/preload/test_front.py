"""The front, in the place of libcuda.so.1: every way to the driver's functions but its own file's path is held, whether the
library is preloaded too or not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from conftest import CONTEXT, FRONT, STANDIN, TREE, Bench
from front import DRIVER, VERSIONED, FrontBench
from share import MIB, Share, built_ways, ways_to_libcuda

BLOCKS = 256  # of 2 MiB, that fit into the share beside a context
LIMIT = CONTEXT + BLOCKS * 2 * MIB
FULL = f"0 {BLOCKS} 2 2 13000\n"  # the version is the driver's own answer: that function is not wrapped


@pytest.fixture(scope="session")
def ways(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built_ways(tmp_path_factory.mktemp("ways"), STANDIN / "libcuda.so.1")


@pytest.fixture
def bench(tmp_path: Path) -> FrontBench:
    return FrontBench(tmp_path)


@pytest.fixture(params=[False, True], ids=["front alone", "preloaded too"])
def preload(request: pytest.FixtureRequest) -> bool:
    return request.param


def is_full(share: Share, limit: int = LIMIT, slots: int = 1) -> None:
    """So many slots hold all of the limit, and somebody was refused."""
    assert (sum(share.used()), len(share.used())) == (limit, slots), share.used()
    assert sum(share.slot(index)["denied"] for index in range(slots)) > 0


@pytest.mark.parametrize("way", [pytest.param(way, marks=[pytest.mark.plain] if way in ("dlmopen", "RTLD_DEEPBIND") else [])
                                 for way in ways_to_libcuda(Path(), Path())])  # fmt: skip
def test_every_way_reaches_the_limit_and_not_a_mib_more(way: str, preload: bool, bench: FrontBench, ways: Path) -> None:
    share = bench.share(LIMIT)
    done = bench.run(ways_to_libcuda(ways, bench.libraries / VERSIONED)[way], preload)
    assert (done.returncode, done.stdout, done.stderr) == (0, FULL, ""), done
    is_full(share)


def test_a_library_behind_the_front_gets_no_way_past_it_by_rtld_next(bench: FrontBench, ways: Path, tmp_path: Path) -> None:
    """In the order of search: program, front, plugin, driver. Without the library preloaded this way is open."""
    share = bench.share(LIMIT)
    program = tmp_path / "program"
    source = tmp_path / "program.c"
    source.write_text("void run_next(long); int cuInit(unsigned); int main(int n, char** a) { if (n > 1) cuInit(0); run_next(1l << 30); return 0; }")
    subprocess.run(["gcc", "-o", program, source, "-Wl,--no-as-needed", STANDIN / "libcuda.so.1", ways / "plugin.so", f"-Wl,-rpath,{ways}"], check=True)
    done = bench.run([str(program)])
    assert (done.returncode, done.stdout) == (0, FULL), done
    is_full(share)


@pytest.mark.plain
def test_two_copies_in_one_process_share_its_limit(bench: FrontBench, ways: Path, preload: bool) -> None:
    """Each namespace has a front and a driver of its own; each front has a slot."""
    share = bench.share(LIMIT + CONTEXT)
    done = bench.run([str(ways / "ways"), "two"], preload)
    assert (done.returncode, done.stdout) == (0, "0 128 0 0 13000\n0 127 2 0 13000\n"), done
    is_full(share, LIMIT + CONTEXT, 2)


def test_every_kind_of_memory_is_counted_as_under_the_preloaded_library(bench: FrontBench, preload: bool, tmp_path: Path) -> None:
    (tmp_path / "preloaded").mkdir()
    other = Bench(tmp_path / "preloaded")
    programs = TREE / "tests" / "gpu" / "programs.py"
    for name in ("kinds", "linear"):
        bench.root.clear()
        other.root.clear()
        share = bench.share(2 << 30, name)
        other.share(2 << 30, name)
        ours, theirs = bench.python(programs, name, preload=preload), other.python(programs, name)
        if not preload:  # NVML is shown by the preloaded library alone
            ours, theirs = ([{key: value for key, value in found.items() if not isinstance(value, dict)} for found in (ours, theirs)])  # type: ignore[union-attr]
        assert ours == theirs
        assert share.slot(0)["denied"] > 0


OLD = """
int cuInit(unsigned flags) { return 0; }
int cuMemAlloc_v2(void* block, unsigned long bytes) { return 0; }
int cuBrandNew(void) { return 4711; }
"""
ASK = """
import ctypes, json
library = ctypes.CDLL("libcuda.so.1")
def ask(name):
    try:
        return getattr(library, name)()
    except AttributeError as problem:
        return str(problem)
print(json.dumps([ask("cuBrandNew"), ask("cuMemRelease"), ask("cuNothingAtAll")]))
"""


@pytest.fixture
def old_driver(tmp_path: Path) -> Path:
    """One that lacks nearly all that the table has, and has what the table has not."""
    (tmp_path / "old.c").write_text(OLD)
    subprocess.run(["gcc", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-o", tmp_path / "old.so", tmp_path / "old.c"], check=True)
    return tmp_path / "old.so"


def test_the_drivers_other_functions_are_its_own(bench: FrontBench, preload: bool) -> None:
    script = """
import ctypes, json
library = ctypes.CDLL("libcuda.so.1")
driver = [line for line in open("/proc/self/maps") if line.rstrip().endswith("/driver/libcuda.so.1")]
low, high = int(driver[0].split("-")[0], 16), int(driver[-1].split("-")[1].split()[0], 16)
names = [line.split("\\t")[1] for line in open(__import__("sys").argv[1]) if line.startswith("libcuda") and line.rstrip().endswith("function")]
wrapped = {line.split("\\t")[0] for line in open(__import__("sys").argv[2]) if line[0] != "#"}
own = {name: low <= ctypes.cast(getattr(library, name), ctypes.c_void_p).value < high for name in names}
print(json.dumps([len(own), sorted(name for name in own if own[name] == (name in wrapped))]))
"""
    arguments = str(TREE / "tests/preload/recorded/580.159-h200/exports.tsv"), str(TREE / "preload/entry_points.tsv")
    count, wrong = bench.python(script, *arguments, preload=preload)  # type: ignore[misc]
    assert count > 500 and wrong == []


def test_what_the_table_does_not_know_is_the_drivers_and_what_the_driver_lacks_is_not_there(tmp_path: Path, old_driver: Path, preload: bool) -> None:
    """The front itself has every name of the table; where the library is preloaded too, it says so of no name that the driver
    lacks."""
    (tmp_path / "bench").mkdir()
    new, lacking, nothing = FrontBench(tmp_path / "bench", driver=old_driver).python(ASK, preload=preload)  # type: ignore[misc]
    assert new == 4711
    assert "undefined symbol: cuNothingAtAll" in nothing
    assert lacking == (f"{DRIVER}: undefined symbol: cuMemRelease" if preload else 3)  # CUDA_ERROR_NOT_INITIALIZED


def test_without_the_drivers_file_nothing_of_it_is_there_and_one_line_names_it(bench: FrontBench, ways: Path, preload: bool) -> None:
    bench.share(LIMIT)
    bench.driver.unlink()
    opened = bench.run([str(ways / "ways"), "private"], preload)
    assert (opened.returncode, opened.stdout) == (9, "")
    linked = bench.run([str(ways / "linked"), "link"], preload)
    assert (linked.returncode, linked.stdout) == (127, "")
    for done in (opened, linked):
        assert done.stderr.count("\n") == 1 and f"{DRIVER}: cannot open shared object file" in done.stderr, done.stderr
    assert bench.run(["true"], preload).returncode == 0


@pytest.mark.plain
def test_a_share_that_cannot_be_used_refuses_cuinit_with_one_line(bench: FrontBench, ways: Path, preload: bool) -> None:
    missing = bench.run([str(ways / "ways"), "private"], preload)
    share = bench.share(LIMIT)
    share.write("limits", 0, "<Q", 1)
    damaged = bench.run([str(ways / "ways"), "namespace"], preload)
    for done, reason in ((missing, "/run/drawbridge/shares: holds no share"), (damaged, "limits: not a file of Drawbridge")):
        assert done.stdout.startswith("800 0 ") and done.stderr.count("\n") == 1 and reason in done.stderr, done


def test_a_program_without_cuda_never_notices(bench: FrontBench, ways: Path, preload: bool) -> None:
    """Also not one that is linked to the driver, whatever state the shares are in."""
    programs = [[str(ways / "linked"), "nothing"], ["sh", "-c", "umask; trap; ulimit -n; exit 3"], [sys.executable, "-c", "import ssl, ctypes; print(ctypes.CDLL(None).getpid() > 0)"]]
    wanted = [subprocess.run(command, env=bench.environment(False, LD_LIBRARY_PATH=str(STANDIN)), capture_output=True, text=True, check=False) for command in programs]
    bench.share(LIMIT).write("limits", 0, "<Q", 1)
    for command, want in zip(programs, wanted, strict=True):
        got = bench.run(command, preload)
        assert (got.returncode, got.stdout, got.stderr) == (want.returncode, want.stdout, want.stderr)


def test_a_program_may_close_the_library_and_fork(bench: FrontBench, preload: bool) -> None:
    bench.share(LIMIT)
    script = """
import ctypes, json, os, _ctypes
library = ctypes.CDLL("libcuda.so.1")
status = library.cuInit(0)
_ctypes.dlclose(library._handle)
child = os.fork()
if child == 0: os._exit(7)
print(json.dumps([status, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])]))
"""
    assert bench.python(script, preload=preload) == [0, 7]


def test_an_images_own_driver_for_newer_programs_is_held_as_by_the_preloaded_library(bench: FrontBench, ways: Path, tmp_path: Path) -> None:
    """/usr/local/cuda/compat, which comes first by LD_LIBRARY_PATH: another file, with another driver behind nothing."""
    bench.share(LIMIT)
    compat = tmp_path / "compat"
    compat.mkdir()
    (compat / "libcuda.so.1").write_bytes((STANDIN / "libcuda.so.1").read_bytes())
    path = f"{compat}:{bench.libraries}"
    for program, way in (("linked", "link"), ("linked", "next"), ("ways", "private"), ("ways", "look-up")):
        done = bench.run([str(ways / program), way], LD_LIBRARY_PATH=path)
        assert (done.returncode, done.stdout) == (0, FULL), done


@pytest.mark.plain
@pytest.mark.parametrize("names", [("libcuda.so.1", VERSIONED), (VERSIONED,)], ids=["as the agent mounts", "as a file of nvidia-ctk does"])
def test_ldconfig_after_the_mounts_finds_the_front(names: tuple[str, ...], preload: bool, ways: Path, tmp_path: Path) -> None:
    (tmp_path / "bench").mkdir()
    bench = FrontBench(tmp_path / "bench", names)
    bench.share(LIMIT)
    (tmp_path / "conf").write_text(f"{bench.libraries}\n")
    subprocess.run(["ldconfig", "-f", tmp_path / "conf", "-C", tmp_path / "cache"], check=True, capture_output=True)
    assert (bench.libraries / "libcuda.so.1").read_bytes() == FRONT.read_bytes()
    cached = ["sh", "-c", 'mount --bind "$1" /etc/ld.so.cache && shift && exec "$@"', "sh", str(tmp_path / "cache")]
    for program, way in (("linked", "link"), ("ways", "namespace")):
        done = bench.run([*cached, str(ways / program), way], preload, LD_LIBRARY_PATH="")
        assert (done.returncode, done.stdout) == (0, FULL), done
