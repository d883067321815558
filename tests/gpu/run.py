"""The preload library on a real GPU, as one command: `tests/gpu/run [--library PATH] [--front PATH] [--out FOLDER]`.

Prints one line a check, also for what was not run and why, and writes results.json. Without a GPU it says so and fails
nothing. Changes no setting of the card, resets nothing, takes no large managed memory."""

from __future__ import annotations

import argparse
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path

from cudart import check_cudart
from holders import check_multicast, check_sparse
from plan import CONTEXT, HERE, LIMIT, TREE, Bench, check, counts, has, has_command, has_module, not_run, program, results, run
from share import FRONT_NAMES, MIB, UNLIMITED, FrontRoot, Share, built_ways, ways_to_libcuda
def gpu_uuid() -> bytes | None:
    if not glob.glob("/dev/nvidia[0-9]*"):
        return None
    done = subprocess.run(["nvidia-smi", "--query-gpu=uuid", "--format=csv,noheader"], capture_output=True, text=True, check=False)
    found = re.search(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", done.stdout)
    return bytes.fromhex(found.group().replace("-", "")) if found else None


# ---------------------------------------------------------------------------------------------------- memory


def check_linear(bench: Bench) -> None:
    root, share = bench.share()
    got = program("linear", root.environment())
    check("linear: refused with out of memory at the limit", "full" in got and got["small"][1] == 2 and got["full"]["free"] < 2 * MIB, got)  # type: ignore[index]
    if "full" not in got:
        return
    check("linear: every byte up to the limit can be had", got["large"][0] + got["small"][0] == got["begin"]["free"] // (2 * MIB) * 2 * MIB, got)  # type: ignore[index]
    check("linear: total is the limit everywhere", {got["full"]["total"], got["full"]["device_total"]} == {LIMIT}, got)  # type: ignore[index]
    check("linear: NVML shows what the driver shows", got["full"]["nvml_used"] == LIMIT - got["full"]["free"] == got["full"]["nvml_process"], got)  # type: ignore[index]
    check("linear: a free makes room, one MiB beyond is refused", (got["freed"], got["again"], got["beyond"]) == (0, 0, 2), got)
    check("linear: all freed, only the context is left", got["end"] == got["begin"], got)
    check("linear: the slot is empty of blocks", share.slot(0)["linear"] == 0 and share.slot(0)["errors"] == 0, share.slot(0))


def check_real_use(bench: Bench) -> None:
    """NVML's true figure of a full process, seen from outside the library."""
    root, _ = bench.share()
    with subprocess.Popen([sys.executable, HERE / "programs.py", "hold"], env=root.environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        taken = json.loads(child.stdout.readline())["taken"]
        from driver import Nvml

        truth = Nvml().process_used(child.pid)
        child.kill()
    check("true use: NVML's figure for a full process is within the limit", 0 < truth <= LIMIT, {"taken": taken, "nvml": truth, "limit": LIMIT})


def check_kinds(bench: Bench) -> None:
    root, share = bench.share()
    results["kinds"] = got = program("kinds", root.environment())
    are_counted("kinds", got, share)


def are_counted(name: str, got: dict[str, object], share: Share) -> None:
    """What `kinds` of programs.py found: a check for each kind."""
    for kind in ("linear", "async", "async freed by cuMemFree", "vmm", "array", "own pool"):
        facts = got.get(kind, got)
        check(f"{name}: {kind} is refused at the limit and given back", isinstance(facts, list) and facts[1] == 2 and 2000 * MIB < facts[0] < LIMIT and facts[3] == [0], facts)
    check(f"{name}: nothing is left at the end", share.slot(0)["errors"] == 0 and all(share.slot(0)[gauge] == 0 for gauge in ("linear", "array", "vmm")), [got, share.slot(0)])


def check_killed(bench: Bench) -> None:
    """SIGKILL of a full process: the next one gets everything."""
    root, share = bench.share()
    rounds = []
    for _ in range(5):
        with subprocess.Popen([sys.executable, HERE / "programs.py", "hold"], env=root.environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
            assert child.stdout is not None
            rounds.append(json.loads(child.stdout.readline())["taken"])
            child.kill()
    check("killed: five processes in a row are killed full, each gets all of it", len(set(rounds)) == 1 and 2000 * MIB < rounds[0] < LIMIT, [rounds, share.used()])


def check_changed(bench: Bench) -> None:
    """A limit lowered below use refuses; raised, it serves."""
    root, share = bench.share()
    share.set_memory(1000 * MIB)
    small = program("linear", root.environment())
    share.set_memory(5000 * MIB)
    large = program("linear", root.environment())
    totals = [got.get("full", {}).get("total") for got in (small, large)]  # type: ignore[union-attr]
    check("changed: the limit follows the file", totals == [1000 * MIB, 5000 * MIB], [small, large])


def check_overhead(bench: Bench) -> None:
    """The agent's measured overhead takes the place of the assumed one."""
    root, share = bench.share()
    with subprocess.Popen([sys.executable, HERE / "programs.py", "measured"], env=root.environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdin is not None and child.stdout is not None
        before = json.loads(child.stdout.readline())["free"]
        share.set_overhead(0, 700)
        after = json.loads(child.communicate(b"\n")[0])["free"]
    check("overhead: a measured figure counts", after == LIMIT - 700 * MIB < before, [before, after])


# -------------------------------------------------------------------------------------------------- programs


def check_frameworks(bench: Bench) -> None:
    if has_module("torch", "torch native", "torch expandable", "torch async", "torch graph"):
        check_torch(bench)
    if has_module("cupy", "cupy"):
        root, _ = bench.share()
        got = program("cupy_fill", root.environment())
        check("cupy: out of memory at the limit", "memory" in str(got.get("error")) and 2000 * MIB < got.get("taken", 0) < LIMIT, got)  # type: ignore[operator]
    if has_module("jax", "jax"):
        root, _ = bench.share()
        got = program("jax_fill", root.environment())
        check("jax: takes its three quarters of the share, not of the card", got.get("sum") == 1 << 30 and 0 < got["process"] <= LIMIT, got)  # type: ignore[operator]


def check_torch(bench: Bench) -> None:
    for name, variables in (("native", {}), ("expandable", {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}), ("async", {"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"})):
        root, share = bench.share()
        got = program("torch_fill", root.environment(**variables))
        check(f"torch {name}: out of memory at the limit", is_torch_held(got), got)
        results[f"torch {name}"] = [got, share.slot(0)]
    root, _ = bench.share()
    check("torch graph: capture and replay are left whole", program("torch_graph", root.environment()).get("sum") == 3 * (1 << 20))


def is_torch_held(got: dict[str, object]) -> bool:
    """What `torch_fill` of programs.py found in a share."""
    return bool("taken" in got and "memory" in str(got["error"]) and got["works"] and 2000 * MIB < got["taken"] < LIMIT and got["before"][1] == LIMIT and got["properties"] == LIMIT)  # type: ignore[operator, index]


def check_views(bench: Bench) -> None:
    if has_module("pynvml", "views"):
        check_pynvml(bench)
    if has_command("nvidia-smi", "views: nvidia-smi shows the share"):
        root, _ = bench.share()
        smi = run(["nvidia-smi", "--query-gpu=memory.total,memory.used", "--format=csv,noheader,nounits"], root.environment())
        check("views: nvidia-smi shows the share", smi.stdout.strip().startswith(f"{LIMIT // MIB},"), smi.stdout + smi.stderr)


def check_pynvml(bench: Bench) -> None:
    root, _ = bench.share()
    got = program("views", root.environment())
    nvml = got.get("nvml", [0, 0, 0])
    check("views: pynvml and the driver agree", nvml[0] == got.get("total") and nvml[1] == got.get("free") and got["nvml_v2"][:3] == nvml, got)  # type: ignore[index]
    check("views: own process with its bytes, nobody else", got.get("processes") == [[True, nvml[2]]], got)  # type: ignore[index]
    check("views: settings are refused", got.get("setting") == "NVMLError_NoPermission", got)


def check_ways(bench: Bench) -> None:
    root, _ = bench.share(UNLIMITED)
    got = program("ways", root.environment())
    check("ways: every way to a function leads to the wrapper", bool(got) and all(value == [1, True] for value in got.values()), got)


def check_refusals(bench: Bench) -> None:
    root = bench.root()
    got = program("linear", root.environment())
    check("refusals: no share at all", "cuInit: 800" in str(got) and "holds no share" in str(got), got)
    root, share = bench.share()
    share.write("limits", 0, "<Q", 1)
    got = program("linear", root.environment())
    check("refusals: a damaged file is named", "cuInit: 800" in str(got) and "limits" in str(got), got)
    root, share = bench.share(boot=bytes(16))
    check("refusals: limits of another boot", "last boot" in str(program("linear", root.environment())))


# --------------------------------------------------------------------------------------------------- compute

FORCE = 1


def check_compute(bench: Bench) -> None:
    """Products in a second at a limit against those without, native runs before and after."""
    if not has_module("torch", "compute"):
        return
    root, _ = bench.share(UNLIMITED)
    bare = [program("torch_busy", dict(os.environ), "4").get("rate")]
    table = {}
    for permille in (1000, 250, 500, 750):
        root, share = bench.share(UNLIMITED, permille=permille)
        share.write("limits", 148, "<I", FORCE)
        got = program("torch_busy", root.environment(), "8")
        table[permille] = [got.get("rate"), share.slot(0)]
    bare.append(program("torch_busy", dict(os.environ), "4").get("rate"))
    results["compute"] = [bare, table]
    if None in bare or any(row[0] is None for row in table.values()):
        check("compute: runs", False, [bare, table])
        return
    native = sum(bare) / 2  # type: ignore[arg-type]
    check("compute: without a limit nothing is lost", table[1000][0] >= 0.98 * native, [native, table[1000]])  # type: ignore[operator]
    for permille in (250, 500, 750):
        ratio = table[permille][0] / native  # type: ignore[operator]
        check(f"compute: {permille / 10:.0f} % gives {permille / 10:.0f} % of the products, five points about", abs(ratio - permille / 1000) <= 0.05, [ratio, table[permille]])


# ------------------------------------------------------------------------------------------------------ cost


def check_cost(bench: Bench) -> None:
    """The recorder's cost program with and without the library, alternating; medians of three each."""
    if not has_command("gcc", "cost"):
        return
    work = bench.folders
    subprocess.run(["gcc", "-O2", "-o", work / "cost", HERE.parent / "preload" / "record" / "cost.c", "-ldl"], check=True)
    root, _ = bench.share(UNLIMITED, physical=1 << 37)
    times: dict[str, dict[str, list[float]]] = {}
    for _ in range(3):
        for kind, environment in (("bare", dict(os.environ)), ("library", root.environment())):
            done = run([str(work / "cost")], environment)
            for line in done.stdout.splitlines():
                name, value, *_ = line.split()
                times.setdefault(name, {}).setdefault(kind, []).append(float(value))
    table = {name: {kind: sorted(values)[len(values) // 2] for kind, values in kinds.items()} for name, kinds in times.items()}
    results["cost"] = table
    for name, row in table.items():
        print(f"     {name:32} {row.get('bare', 0):14.1f} {row.get('library', 0):14.1f} {row.get('library', 0) - row.get('bare', 0):+12.1f} ns")
    check("cost: measured", "alloc_free_512" in table, table)


# ----------------------------------------------------------------------------------------------------- front

BLOCKS = (LIMIT - CONTEXT) // (2 * MIB)  # that fit into the share beside a context
DRIVER = "import ctypes; ctypes.CDLL('libcuda.so.1'); print(*[line.split()[-1] for line in open('/proc/self/maps') if 'libcuda.so' in line][:1])"


def check_front(bench: Bench) -> None:
    """The front in the place of libcuda.so.1: by every way to the driver a program is held, also by those that lead past a
    preloaded library."""
    apart = way_to_mount()
    if has(apart, "this user may make no mounts of its own", "front") and has_command("gcc", "front"):
        driver = Path(run([sys.executable, "-c", DRIVER], dict(os.environ)).stdout.strip())
        ways = bench.folder()
        ways.mkdir()
        built_ways(ways, driver)
        is_open_without(bench, ways)
        for preload, name in ((False, "front"), (True, "front beside the library")):
            root = FrontRoot(bench.folder(), bench.library, bench.front, driver)
            root.apart = apart  # type: ignore[assignment]
            is_held(bench, root, ways, preload, name)


def is_held(bench: Bench, root: FrontRoot, ways: Path, preload: bool, name: str) -> None:
    environment = root.environment(preload)

    def fresh() -> Share:
        root.clear()
        return bench.share(root=root)[1]

    for way, command in ways_to_libcuda(ways, root.libraries / FRONT_NAMES[1]).items():
        share = fresh()
        done = run(command, environment, root)
        held = re.fullmatch(rf"0 {BLOCKS} 2 2 \d+\n", done.stdout) and share.used() == [LIMIT] and share.slot(0)["denied"] > 0
        check(f"{name}: {way} is refused at the limit", bool(held), [done.stdout, done.stderr[-300:], share.used()])
    share = fresh()
    are_counted(name, program("kinds", environment, root=root), share)
    if has_module("torch", f"{name}: torch"):
        fresh()
        got = program("torch_fill", environment, root=root)
        check(f"{name}: torch is out of memory at the limit", is_torch_held(got), got)


def way_to_mount() -> list[str] | None:
    """Begin of a command that has mounts of its own: as root, else in a user namespace; None where neither is allowed."""
    for apart in (["unshare", "--mount"], ["unshare", "--map-root-user", "--mount"]):
        if shutil.which("unshare") and run([*apart, "mount", "-t", "tmpfs", "none", "/run"], dict(os.environ)).returncode == 0:
            return apart
    return None


def is_open_without(bench: Bench, ways: Path) -> None:
    """What the front is there for: without it these ways lead past the library, as docs/preload.md says."""
    beyond = BLOCKS + 16
    for way, command in {"dlmopen": [str(ways / "ways"), "namespace", "libcuda.so.1"], "RTLD_DEEPBIND": [str(ways / "ways"), "deep", str(ways / "plugin.so")]}.items():
        root, _ = bench.share()
        done = run([*command, str(beyond)], root.environment())
        check(f"front: without it {way} leads past the limit", done.stdout.startswith(f"0 {beyond} 0 0 "), [done.stdout, done.stderr[-300:]])


CHECKS: list[Callable[[Bench], None]] = [check_ways, check_linear, check_real_use, check_kinds, check_multicast, check_sparse, check_killed, check_changed, check_overhead, check_views, check_refusals,
                                         check_front, check_cudart, check_cost, check_compute, check_frameworks]  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", type=Path, default=TREE / "build" / "release" / "lib" / "libdrawbridge.so")
    parser.add_argument("--front", type=Path, default=TREE / "build" / "release" / "lib" / "libdrawbridge-libcuda.so")
    parser.add_argument("--device", type=lambda text: uuid.UUID(text).bytes, help="UUID of the card (default: the first that nvidia-smi names)")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--only", nargs="+", metavar="WORD", help="run only the checks whose name contains one of these")
    options = parser.parse_args()
    device = options.device or gpu_uuid()
    if device is None:
        print("tests/gpu/run: this machine has no NVIDIA GPU; nothing was run, nothing failed")
        return 0
    bench = Bench(options.library, options.front, device)
    for one in CHECKS:
        if options.only and not any(word in one.__name__ for word in options.only):
            continue
        began = time.monotonic()
        try:
            one(bench)
        except Exception as error:  # one broken check must not hide the others
            check(f"{one.__name__}: runs", False, f"{type(error).__name__}: {error}")
        print(f"     ({one.__name__}: {time.monotonic() - began:.1f} s)", flush=True)
    results["not run"] = not_run
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / "results.json").write_text(json.dumps(results, indent=1) + "\n")
    print(f"{counts[0]} passed, {counts[1]} failed, {len(not_run)} not run")
    return 1 if counts[1] else 0


if __name__ == "__main__":
    sys.exit(main())
