"""The library harms nothing it is loaded into, and every way to a wrapped function leads to the wrapper."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import CONTEXT, LIBRARY, STANDIN, TREE, Bench
from share import preloaded

PROGRAMS = {
    "true": ["true"],
    "sh": ["sh", "-c", "umask; trap; ulimit -n; env | sort | grep -v -e LD_ -e DRAWBRIDGE -e ^_=; ls -l /proc/self/fd | wc -l; exit 3"],
    "bash": ["bash", "-c", "kill -USR1 $$ || true; echo not reached"],
    "python": [sys.executable, "-c", "import signal, ssl, ctypes, threading, json; print(signal.getsignal(signal.SIGUSR1), signal.getsignal(signal.SIGUSR2))"],
    "awk": ["awk", "BEGIN { for (i = 0; i < 1000; i++) s += i; print s }"],
    "perl": ["perl", "-e", "print join(',', map { $_ * 2 } 1..5), \"\\n\"; exit 7"],
    "fork": [sys.executable, "-c", "import os; pid = os.fork(); os._exit(5) if pid == 0 else print(os.waitpid(pid, 0)[1])"],
    "dlsym fails": [sys.executable, "-c", "import ctypes; l = ctypes.CDLL(None)\ntry: l.cuInit\nexcept AttributeError as e: print(str(e).split(': ')[1:])\ntry: l.no_such\nexcept AttributeError as e: print(e)"],
    "openssl": ["openssl", "version"],
    "setuid": ["su", "--version"],
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_without_cuda_never_notice(name: str, bench: Bench) -> None:
    """Same output, status and error text, whether shares are there or not, good or damaged."""
    if shutil.which(PROGRAMS[name][0]) is None:
        pytest.fail(f"{PROGRAMS[name][0]} is not installed")
    wanted = bench.run(PROGRAMS[name], preload=False, LD_LIBRARY_PATH="")
    without = bench.run(PROGRAMS[name], LD_LIBRARY_PATH="")
    share = bench.share(1 << 30)
    with_share = bench.run(PROGRAMS[name], LD_LIBRARY_PATH="")
    share.write("limits", 0, "<Q", 1)
    damaged = bench.run(PROGRAMS[name], LD_LIBRARY_PATH="")
    for got in (without, with_share, damaged):
        assert (got.returncode, got.stdout, got.stderr) == (wanted.returncode, wanted.stdout, wanted.stderr)


def test_every_way_to_a_function_leads_to_its_wrapper(bench: Bench) -> None:
    bench.share(1 << 40)
    got = bench.python(TREE / "tests" / "gpu" / "programs.py", "ways")
    assert got and all(value == [1, True] for value in got.values()), got  # type: ignore[union-attr]


LINKED = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
int cuInit(unsigned); int cuMemAlloc_v2(unsigned long*, unsigned long); int cuMemGetInfo_v2(unsigned long*, unsigned long*);
int cuDevicePrimaryCtxRetain(void**, int); int cuCtxSetCurrent(void*);
unsigned long standin_calls(const char*) __attribute__((weak));
int main() {
    void* c; unsigned long p, f, t;
    printf("%d ", cuInit(0)); printf("%d ", cuDevicePrimaryCtxRetain(&c, 0)); cuCtxSetCurrent(c);
    printf("%d ", cuMemAlloc_v2(&p, 100 << 20)); printf("%d ", cuMemGetInfo_v2(&f, &t)); printf("%lu\n", t);
    return dlsym(RTLD_DEFAULT, "cuMemAlloc_v2") == (void*)cuMemAlloc_v2 && dlsym(RTLD_NEXT, "cuMemAlloc_v2") == (void*)cuMemAlloc_v2 ? 0 : 9;
}
"""


def compiled(folder: Path, text: str, *flags: str) -> Path:
    source, program = folder / "program.c", folder / "program"
    source.write_text(text)
    subprocess.run(["gcc", "-o", program, source, *flags], check=True)
    return program


def test_a_linked_program_is_held_to_its_share(bench: Bench, tmp_path: Path) -> None:
    bench.share(1 << 30)
    program = compiled(tmp_path, LINKED, str(STANDIN / "libcuda.so.1"))
    done = bench.run([str(program)])
    assert (done.returncode, done.stdout) == (0, "0 0 0 0 1073741824\n"), done


def test_without_a_driver_a_linked_program_is_told_so(bench: Bench, tmp_path: Path) -> None:
    """Linked against the library itself: nothing else is there."""
    program = compiled(tmp_path, LINKED.split("unsigned long standin_calls")[0] + "int main() { unsigned long p; int a = cuInit(0); printf(\"%d %d\", a, cuMemAlloc_v2(&p, 1)); }",
                       str(bench.root.library))  # fmt: skip
    done = bench.run([str(program)], LD_LIBRARY_PATH="")
    assert done.stdout == "100 3", done


ROUTES = """
import ctypes, json
library = ctypes.CDLL("libcuda.so.1")
library.cuInit(0)
context = ctypes.c_void_p()
library.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
library.cuCtxSetCurrent(context)
calls = library.standin_calls
calls.restype, calls.argtypes = ctypes.c_ulong, [ctypes.c_char_p]
found = {}
for name, version, flags, expected in [
    ("cuMemAllocAsync", 12000, 0, "cuMemAllocAsync"), ("cuMemAllocAsync", 12000, 1, "cuMemAllocAsync"),
    ("cuMemAllocAsync", 12000, 2, "cuMemAllocAsync_ptsz"), ("cuMemFreeAsync", 12000, 2, "cuMemFreeAsync_ptsz"),
    ("cuMemAlloc", 3010, 0, "cuMemAlloc"), ("cuMemAlloc", 3020, 0, "cuMemAlloc_v2"), ("cuGraphLaunch", 12000, 2, "cuGraphLaunch_ptsz"),
    ("cuCtxCreate", 3010, 0, "cuCtxCreate"), ("cuCtxCreate", 11000, 0, "cuCtxCreate_v2"), ("cuCtxCreate", 12000, 0, "cuCtxCreate_v3"),
    ("cuCtxCreate", 12050, 0, "cuCtxCreate_v4"), ("cuMemPrefetchAsync", 11000, 0, "cuMemPrefetchAsync"),
    ("cuMemPrefetchAsync", 12020, 2, "cuMemPrefetchAsync_v2_ptsz")]:
    pointer = ctypes.c_void_p()
    status = ctypes.c_int(-1)
    library.cuGetProcAddress_v2(name.encode(), ctypes.byref(pointer), version, ctypes.c_uint64(flags), ctypes.byref(status))
    before = calls(expected.encode())
    place = (ctypes.c_uint64 * 16)()
    ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint64)(pointer.value)(ctypes.addressof(place), 0, 0, 0, 0)
    found[f"{name} {version} {flags}"] = [calls(expected.encode()) - before, status.value]
print(json.dumps(found))
"""


def test_versions_and_stream_flags_reach_the_function_that_was_asked_for(bench: Bench) -> None:
    bench.share(1 << 40)
    got = bench.python(ROUTES)
    assert all(value == [1, 0] for value in got.values()), got  # type: ignore[union-attr]


def test_look_ups_are_the_drivers_but_for_wrapped_addresses(bench: Bench) -> None:
    """Status, rc and null results of every recorded look-up stay what the driver says, under the library too."""
    bench.share(1 << 40)
    script = """
import ctypes, json, sys
library = ctypes.CDLL("libcuda.so.1")
maps = [line for line in open("/proc/self/maps") if "libdrawbridge" in line]
low, high = (min(int(m.split("-")[0], 16) for m in maps), max(int(m.split("-")[1].split()[0], 16) for m in maps)) if maps else (0, 0)
wrapped = {line.split("\\t")[0] for line in open(sys.argv[2]) if line[0] != "#"}
found = wrong = 0
for line in open(sys.argv[1]):
    function, name, flags, *changes = line.rstrip("\\n").split("\\t")
    if function != "cuGetProcAddress_v2": continue
    for change in changes:
        version, symbol, rc, status = change.replace(":", "/").split("/")
        pointer, state = ctypes.c_void_p(0x5a), ctypes.c_int(-1)
        got = library.cuGetProcAddress_v2(b"" if name == "(empty)" else name.encode(), ctypes.byref(pointer), int(version), ctypes.c_uint64(int(flags.split(",")[0])), ctypes.byref(state))
        ours = low <= (pointer.value or 0) < high
        found += 1
        wrong += got != int(rc) or state.value != int(status) or ours != (symbol in wrapped) or (symbol == "null") != (not pointer.value)
print(json.dumps([found, wrong]))
"""
    recorded = TREE / "tests/preload/recorded/580.159-h200/lookups.tsv"
    found, wrong = bench.python(script, str(recorded), str(TREE / "preload" / "entry_points.tsv"))  # type: ignore[misc]
    assert found > 2000 and wrong == 0


THREADS = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
static const char* names[] = {"malloc", "getenv", "cudnnCreate", "pthread_self", "cuda_like", "nvmlish", "read", "ompt_start_tool"};
static void* run(void* bad) {
    for (int i = 0; i < 5000; ++i)
        for (int n = 0; n < 8; ++n) {
            void* found = dlsym(RTLD_NEXT, names[n]);
            int there = n == 0 || n == 1 || n == 3 || n == 6;
            if ((found != NULL) != there) __atomic_add_fetch((int*)bad, 1, __ATOMIC_RELAXED);
            dlerror();
        }
    return NULL;
}
int ompt_start_tool() { return dlsym(RTLD_NEXT, "ompt_start_tool") != NULL; }
int cudnnCreate() { return dlsym(RTLD_NEXT, "cudnnCreate") != NULL; }
int main() {
    int bad = 0; pthread_t t[8];
    for (int i = 0; i < 8; ++i) pthread_create(&t[i], NULL, run, &bad);
    for (int i = 0; i < 8; ++i) pthread_join(t[i], NULL);
    printf("%d %d %d\n", bad, ompt_start_tool(), cudnnCreate());
    return 0;
}
"""


def test_foreign_look_ups_with_rtld_next_see_their_own_caller(bench: Bench, tmp_path: Path) -> None:
    """320,000 look-ups on 8 threads, and two functions that forward to the next of their own name."""
    program = compiled(tmp_path, THREADS, "-rdynamic", "-pthread")
    assert bench.run([str(program)], preload=False).stdout == bench.run([str(program)]).stdout == "0 0 0\n"


INTERPOSER = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
void* dlsym_seen;
void* malloc(size_t n) { static void* (*next)(size_t); if (!next) next = dlsym(RTLD_NEXT, "malloc"); return next(n); }
"""


def test_other_interposers_before_and_behind(bench: Bench, tmp_path: Path) -> None:
    source = tmp_path / "i.c"
    source.write_text(INTERPOSER)
    other = tmp_path / "other.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", other, source], check=True)
    bench.share(1 << 40)
    for order in (f"{other}:{bench.root.library}", f"{bench.root.library}:{other}"):
        got = bench.python(TREE / "tests" / "gpu" / "programs.py", "ways", **preloaded(order))
        assert all(value == [1, True] for value in got.values()), got  # type: ignore[union-attr]


TOOL = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
int cuMemAlloc_v2(unsigned long* block, unsigned long bytes) {
    int (*next)(unsigned long*, unsigned long) = dlsym(RTLD_NEXT, "cuMemAlloc_v2");
    if (next == cuMemAlloc_v2) return -1;
    printf("tool ");
    return next(block, bytes);
}
"""
THROUGH_A_TOOL = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
int cuInit(unsigned); int cuMemAlloc_v2(unsigned long*, unsigned long);
int cuDevicePrimaryCtxRetain(void**, int); int cuCtxSetCurrent(void*);
int main() {
    void* c; unsigned long p;
    int (*found)(unsigned long*, unsigned long) = dlsym(RTLD_DEFAULT, "cuMemAlloc_v2");
    int (*driver)(unsigned long*, unsigned long) = dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuMemAlloc_v2");
    cuInit(0); cuDevicePrimaryCtxRetain(&c, 0); cuCtxSetCurrent(c);
    printf("%d, ", cuMemAlloc_v2(&p, 1 << 20)); printf("%d, ", found(&p, 1 << 20)); printf("%d, ", driver(&p, 1 << 20));
    printf("%d\n", cuMemAlloc_v2(&p, 2 << 20));
    return found != cuMemAlloc_v2;
}
"""


@pytest.mark.parametrize("kind", ["-pie", "-no-pie"])
def test_a_tool_preloaded_before_it_stays_before_it(kind: str, bench: Bench, tmp_path: Path) -> None:
    """What it wraps is called where it is without the library, and reaches the wrapper behind it."""
    (tmp_path / "tool.c").write_text(TOOL)
    tool = tmp_path / "tool.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", tool, tmp_path / "tool.c"], check=True)
    bench.share(CONTEXT + (4 << 20))
    program = str(compiled(tmp_path, THROUGH_A_TOOL, kind, *(["-fno-pic"] if kind == "-no-pie" else []), str(STANDIN / "libcuda.so.1")))
    bare = bench.run([program], preload=False, **preloaded(str(tool)))
    assert (bare.returncode, bare.stdout) == (0, "tool 0, tool 0, 0, tool 0\n"), bare
    held = bench.run([program], **preloaded(f"{tool}:{bench.root.library}"))
    assert (held.returncode, held.stdout) == (0, "tool 0, tool 0, 0, tool 2\n"), held
    alone = bench.run([program])
    assert (alone.returncode, alone.stdout) == (0, "0, 0, 0, 2\n"), alone


SANITIZED = """
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(int count, char** arguments) {
    char* text = strdup(arguments[0]);
    printf("%d %d\\n", strcmp(text, arguments[0]), dlsym(RTLD_DEFAULT, "cuInit") == NULL);
    free(text);
    if (count > 1) (void)*(volatile char*)(text + 1);
    return 3;
}
"""


@pytest.mark.plain
@pytest.mark.parametrize("sanitizer", ["address", "memory", "thread", "undefined"])
def test_a_program_under_a_sanitizer_starts_and_is_watched(sanitizer: str, bench: Bench, tmp_path: Path) -> None:
    """Its runtime, which is part of the program, looks functions up before any of its own can be called."""
    (tmp_path / "program.c").write_text(SANITIZED)
    program = str(tmp_path / "program")
    subprocess.run(["clang-14", "-w", "-g", f"-fsanitize={sanitizer}", "-o", program, tmp_path / "program.c"], check=True)
    bench.share(1 << 30)
    for arguments in ([], ["wrong"]):
        bare, held = bench.run([program, *arguments], preload=False), bench.run([program, *arguments])
        assert (held.returncode, held.stdout) == (bare.returncode, bare.stdout), held
    assert ("heap-use-after-free" in held.stderr) == (sanitizer in ("address", "thread")), held


def test_a_hand_preloaded_copy_without_shares_does_nothing(bench: Bench, tmp_path: Path) -> None:
    copy = tmp_path / "elsewhere" / "libdrawbridge.so"
    copy.parent.mkdir()
    shutil.copy(LIBRARY, copy)
    got = bench.python("import sys, json; sys.path.insert(0, sys.argv[1]); from driver import Driver; c = Driver(); c.start(); print(json.dumps([c.total_bytes(), c.free_bytes()]))",
                       str(TREE / "tests/preload/record"), **preloaded(str(copy)))  # fmt: skip
    assert got == [150109880320, 149557477376]


def test_null_arguments_get_the_drivers_answers(bench: Bench) -> None:
    """Every wrong call of the recording, with a share that never refuses, answers as without the library."""
    bench.share(1 << 45)
    rules = TREE / "tests" / "preload" / "record" / "memory.py"
    bare = bench.python(rules, "rules", preload=False)
    with_library = bench.python(rules, "rules")
    changed = {key for key in bare if bare[key] != with_library[key]}  # type: ignore[union-attr, index]
    # What NVML says of the process follows the ledger, which knows no bytes hidden in a context.
    assert changed <= {"context destroyed frees", "reset frees", "pool survives reset", "handle survives reset", "pool and handle after the second context"}, changed


def test_the_environment_of_the_library_is_empty() -> None:
    """No variable has a say: the file holds no getenv."""
    text = subprocess.run(["nm", "-D", LIBRARY], capture_output=True, text=True, check=True).stdout
    assert "getenv" not in text
    assert json.dumps("DRAWBRIDGE_") not in text
    assert ctypes.sizeof(ctypes.c_void_p) == 8 and os.sep == "/"
