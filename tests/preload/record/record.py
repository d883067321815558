"""Records facts of a real driver into a folder: `python3 record.py FOLDER`, on a machine with an NVIDIA GPU.

The answers feed the stand-in driver and its conformance test. Names of machines, serial numbers and UUIDs are left out
or replaced. See README.md beside ../recorded for what each file holds."""

from __future__ import annotations

import ctypes
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import memory
from driver import Driver
from elf import dynamic_symbols
from rules import in_child

HERE = Path(__file__).resolve().parent
VERSIONS = [2000, 2010, 2020, 2030, 3000, 3010, 3020, 4000, 4010, 4020, 5000, 5050, 6000, 6050, 7000, 7050, 8000, 9000, 9010, 9020,
            10000, 10010, 10020, *range(11000, 11090, 10), *range(12000, 12100, 10), *range(13000, 13060, 10), 14000]  # fmt: skip


def redact(text: str) -> str:
    """UUIDs, serial numbers, board ids and the machine's name give way to made-up ones."""
    text = re.sub(r"(GPU|MIG)-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", r"\1-00000000-0000-0000-0000-000000000001", text)
    text = re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "00000000-0000-0000-0000-000000000001", text)
    text = re.sub(r"(?mi)^(\s*(?:serial number|board serial|chassis serial number|gpu part number|board part number|vbios version|module id|"
                  r"minor number|board id|gpu link info.*|host id|clusteruuid|cliqueid|timestamp|device id|sub system id|pdi)\s*:\s*)(?!N/A)(\S.*)$",
                  lambda m: m.group(0) if re.search(r"minor|module|device id|sub system", m.group(1), re.I) else m.group(1) + "redacted", text)  # fmt: skip
    text = re.sub(r"(Video BIOS: \\t )[^\\]+", r"\1redacted", text)
    text = re.sub(r"\(\w+@\w*\)", "", text)  # who built the kernel module
    return re.sub(rf"\b{re.escape(os.uname().nodename)}\b", "host", text)


def mapped(name: str) -> str:
    """The path of a loaded library."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        if name in line:
            return line.split()[-1]
    raise FileNotFoundError(name)


def symbols(folder: Path) -> list[str]:
    """exports.tsv: library, name, version, kind. Gives the driver's exported names."""
    ctypes.CDLL("libcuda.so.1")
    ctypes.CDLL("libnvidia-ml.so.1")
    lines, names = [], []
    for library in ("libcuda.so", "libnvidia-ml.so"):
        for symbol in sorted(dynamic_symbols(mapped(library))):
            if symbol.defined:
                lines.append(f"{library}.1\t{symbol.name}\t{symbol.version or '-'}\t{'function' if symbol.function else 'data'}")
                if library == "libcuda.so" and symbol.function:
                    names.append(symbol.name)
    (folder / "exports.tsv").write_text("\n".join(lines) + "\n")
    return names


def lookups(folder: Path, names: list[str]) -> dict[str, object]:
    """lookups.tsv: function, name, flags, then `from:symbol/rc/status` where the answer changes with the version."""
    cu = Driver()
    address = {}
    for name in names:
        address.setdefault(ctypes.cast(getattr(cu.library, name), ctypes.c_void_p).value, []).append(name)
    asked = sorted({*names, *(re.sub(r"(_v\d+)?(_ptsz|_ptds)?$", "", name) for name in names), "cuNoSuchFunction", ""})
    lines: dict[str, list[int]] = {}
    foreign, calls = [], 0
    for function in ("cuGetProcAddress", "cuGetProcAddress_v2"):
        call = getattr(cu.library, function)
        for name in asked:
            for flags in (0, 1, 2, 4):
                answers, last = [], None
                for version in VERSIONS:
                    pointer, status = ctypes.c_void_p(0x5A), ctypes.c_int(-1)
                    extra = [ctypes.byref(status)] if function.endswith("v2") else []
                    rc = call(name.encode(), ctypes.byref(pointer), ctypes.c_int(version), ctypes.c_uint64(flags), *extra)
                    calls += 1
                    found = address.get(pointer.value, [])
                    if pointer.value not in (None, 0x5A) and not found:
                        foreign.append([name, version, flags])
                    symbol = "=" if pointer.value == 0x5A else "|".join(found) or ("null" if not pointer.value else "foreign")
                    answer = f"{symbol}/{rc}/{status.value}"
                    if answer != last:
                        answers.append(f"{version}:{answer}")
                        last = answer
                lines.setdefault("\t".join([function, name or "(empty)", "{}", *answers]), []).append(flags)
    text = "".join(line.format(",".join(map(str, flags))) + "\n" for line, flags in lines.items())
    (folder / "lookups.tsv").write_text(text)
    def ask(name: bytes | None, result: bool) -> object:
        place = ctypes.byref(ctypes.c_void_p()) if result else None
        return in_child(
            lambda _: cu.library.cuGetProcAddress_v2(name, place, ctypes.c_int(12000), ctypes.c_uint64(0), None), False)

    nulls = [ask(b"cuInit", False), ask(None, True), ask(b"cuInit", True), ask(b"cuNoSuchFunction", True)]
    return {"calls": calls, "not an export": foreign, "shared addresses": [n for n in address.values() if len(n) > 1],
            "null result, null name, null status, unknown without status": nulls}  # fmt: skip


PROGRAMS = {
    "cudart static": None,
    "cudart shared": None,
    "torch native": "import torch; x = torch.ones(1024, 1024, device='cuda'); y = x @ x; torch.cuda.synchronize(); print(torch.cuda.mem_get_info(), y.sum().item())",
    "torch expandable": "import os; os.environ['PYTORCH_CUDA_ALLOC_CONF'] = 'expandable_segments:True'; import torch; x = torch.ones(1 << 26, device='cuda'); del x; torch.cuda.empty_cache(); torch.cuda.synchronize()",
    "torch async": "import os; os.environ['PYTORCH_CUDA_ALLOC_CONF'] = 'backend:cudaMallocAsync'; import torch; x = torch.ones(1 << 26, device='cuda'); del x; torch.cuda.empty_cache(); torch.cuda.synchronize()",
    "torch graph": "import torch; g = torch.cuda.CUDAGraph(); x = torch.ones(1024, device='cuda'); s = torch.cuda.Stream()\nwith torch.cuda.graph(g):\n y = x * 2\ng.replay(); torch.cuda.synchronize()",
    "cupy": "import cupy; x = cupy.ones((1024, 1024)); y = x @ x; print(float(y.sum())); a = cupy.cuda.malloc_managed(1 << 20); p = cupy.cuda.MemoryAsyncPool(); m = p.malloc(1 << 20)",
    "jax": "import os; os.environ['XLA_PYTHON_CLIENT_PREALLOCATE'] = 'false'; import jax.numpy as j; x = j.ones((512, 512)); print(float((x @ x).sum()))",
    "numba": "from numba import cuda; import numpy; a = cuda.to_device(numpy.ones(1000)); print(a.copy_to_host().sum(), cuda.current_context().get_memory_info())",
    "cuda-bindings": "from cuda.bindings import driver as d; print(d.cuInit(0), d.cuDriverGetVersion())",
    "pynvml": "import pynvml as n; n.nvmlInit(); h = n.nvmlDeviceGetHandleByIndex(0); print(n.nvmlDeviceGetMemoryInfo(h), n.nvmlDeviceGetComputeRunningProcesses(h), n.nvmlDeviceGetUtilizationRates(h))",
    "nvidia-smi": "",
}

CUDART = r"""
#include <cuda_runtime.h>
#include <stdio.h>
__global__ void one(float* p) { p[threadIdx.x] = 1; }
int main() {
    size_t f, t; void *a, *b, *c; cudaArray_t array; cudaStream_t s;
    cudaMemGetInfo(&f, &t); cudaMalloc(&a, 1 << 20); cudaMallocManaged(&b, 1 << 20); cudaStreamCreate(&s);
    cudaMallocAsync(&c, 1 << 20, s); cudaFreeAsync(c, s); size_t pitch; void* d; cudaMallocPitch(&d, &pitch, 100, 100);
    cudaChannelFormatDesc form = cudaCreateChannelDesc<float>(); cudaMallocArray(&array, &form, 64, 64);
    one<<<1, 32, 0, s>>>((float*)a); cudaDeviceProp p; cudaGetDeviceProperties(&p, 0);
    cudaFree(a); cudaFree(b); cudaFree(d); cudaFreeArray(array);
    printf("%s %zu %zu\n", cudaGetErrorString(cudaDeviceSynchronize()), f, t);
}
"""


def trace(folder: Path) -> dict[str, object]:
    """trace.tsv: what was asked for (see trace.c) and by which programs; gives outcome of each program."""
    work = Path(tempfile.mkdtemp())
    subprocess.run(["gcc", "-shared", "-fPIC", "-O2", "-o", work / "trace.so", HERE / "trace.c", "-ldl"], check=True)
    (work / "c.cu").write_text(CUDART)
    for kind in ("static", "shared"):
        subprocess.run(["nvcc", "-cudart", kind, "-o", work / f"cudart_{kind}", work / "c.cu"], check=False)

    def one(program: str) -> tuple[str, object, list[str]]:
        out = work / (program.replace(" ", "_") + ".log")
        if program.startswith("cudart "):
            command = [str(work / program.replace(" ", "_"))]
        else:
            command = ["nvidia-smi"] if program == "nvidia-smi" else [sys.executable, "-c", PROGRAMS[program] or ""]
        try:
            done = subprocess.run(command, env=os.environ | {"LD_PRELOAD": str(work / "trace.so"), "TRACE_OUT": str(out)}, capture_output=True, text=True, timeout=100, check=False)
            outcome: object = [done.returncode, redact((done.stdout[-200:] + done.stderr[-300:]) if program != "nvidia-smi" else "")]
        except (OSError, subprocess.TimeoutExpired) as error:
            outcome = str(type(error).__name__)
        return program, outcome, list(dict.fromkeys(out.read_text().splitlines())) if out.exists() else []

    outcomes, askers = {}, {}
    with ThreadPoolExecutor(6) as pool:
        for program, outcome, asked in pool.map(one, PROGRAMS):
            outcomes[program] = outcome
            for line in asked:
                askers.setdefault(line, []).append(program)
    (folder / "trace.tsv").write_text("".join(f"{line}\t{', '.join(programs)}\n" for line, programs in sorted(askers.items())))
    return outcomes


def plain(value: object) -> object:
    """A value of pynvml as JSON can hold it."""
    if isinstance(value, ctypes.Structure):
        return {field[0]: plain(getattr(value, field[0])) for field in value._fields_}
    if isinstance(value, ctypes.Array):
        return [plain(item) for item in list(value)[:8]]
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value if isinstance(value, int | float | str | type(None)) else repr(value)


SKIPPED = re.compile("Handle(By|From)|Serial|Vbios|Inforom|BoardPart|ByIndex|Vgpu|Grid|Energy|Temperature|Thermal|Power|Fan|Clk|Clock|Violation|Hostname|Nvl?ink")


def nvml_values() -> dict[str, object]:
    """Every nvmlDeviceGet* of pynvml that takes a device alone or with a zero: value or error, each in a child."""
    import pynvml as n

    def system(_: object) -> object:
        n.nvmlInit()
        return [n.nvmlSystemGetDriverVersion(), n.nvmlSystemGetNVMLVersion(), n.nvmlSystemGetCudaDriverVersion_v2(), n.nvmlDeviceGetCount()]

    def ask(name: str) -> object:
        n.nvmlInit()
        handle = n.nvmlDeviceGetHandleByIndex(0)
        for extra in ((), (0,)):
            try:
                return plain(getattr(n, name)(handle, *extra))
            except TypeError:
                continue
            except Exception as error:  # recorded as it is
                return type(error).__name__
        return "more arguments"

    found: dict[str, object] = {"driver, nvml, cuda, count": in_child(system, False)}
    for name in sorted(dir(n)):
        if name.startswith("nvmlDeviceGet") and not SKIPPED.search(name):
            found[name] = in_child(lambda _, name=name: ask(name), False)
    return found


def system() -> dict[str, object]:
    found: dict[str, object] = {"kernel": os.uname().release.split("-")[0], "libc": os.confstr("CS_GNU_LIBC_VERSION"), "uid": os.getuid()}
    folders = {str(Path(mapped(name)).parent) for name in ("libcuda.so", "libnvidia-ml.so")} | {"/usr/local/nvidia/lib64", "/usr/lib/x86_64-linux-gnu", "/usr/local/nvidia/bin", "/usr/bin"}
    files = []
    for folder in sorted(folders):
        for path in sorted(glob.glob(folder + "/*")):
            if re.search(r"nvidia|cuda|nvcuvid|nvopt", Path(path).name):
                files.append([path, os.readlink(path) if os.path.islink(path) else os.stat(path).st_size])
    found["files"] = files
    nodes = []
    for path in sorted(glob.glob("/dev/nvidia*") + glob.glob("/dev/nvidia-caps/*") + glob.glob("/dev/dri/*")):
        state = os.stat(path)
        nodes.append([path, os.major(state.st_rdev), os.minor(state.st_rdev), oct(state.st_mode), state.st_uid, state.st_gid])
    found["nodes"] = nodes
    found["devices"] = [line for line in Path("/proc/devices").read_text().splitlines() if "nvidia" in line]
    proc = {}
    for path in sorted(glob.glob("/proc/driver/nvidia/**", recursive=True)):
        if os.path.isfile(path):
            try:
                proc[path] = redact(Path(path).read_text(errors="replace"))[:3000]
            except OSError as error:
                proc[path] = str(error.strerror)
    found["proc"] = proc
    found["mounts"] = [" ".join(line.split()[i] for i in (4, 5)) + " - " + line.split(" - ")[1].split()[0] for line in Path("/proc/self/mountinfo").read_text().splitlines() if "nvidia" in line]
    found["cgroup controllers"] = Path("/sys/fs/cgroup/cgroup.controllers").read_text().split() if Path("/sys/fs/cgroup/cgroup.controllers").exists() else []
    found["pci"] = [{key: Path(path, key).read_text().strip() for key in ("vendor", "device", "class", "numa_node") if Path(path, key).exists()} for path in glob.glob("/sys/bus/pci/devices/*") if Path(path, "vendor").read_text().strip() == "0x10de"]
    return found


def costs() -> dict[str, object]:
    work = Path(tempfile.mkdtemp())
    subprocess.run(["gcc", "-O2", "-o", work / "cost", HERE / "cost.c", "-ldl"], check=True)
    runs: dict[str, object] = {}
    for number in range(2):
        done = subprocess.run([work / "cost"], capture_output=True, text=True, timeout=60, check=False)
        runs[f"run {number}"] = [done.returncode, *done.stdout.splitlines(), *done.stderr.splitlines()]
    runs["clocks"] = subprocess.run(["nvidia-smi", "--query-gpu=clocks.sm,clocks.mem,clocks.max.sm,pstate", "--format=csv"], capture_output=True, text=True, check=False).stdout
    runs["cpu"] = next((line for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line), "")
    return runs


def experiment(name: str) -> object:
    done = subprocess.run([sys.executable, HERE / "memory.py", name], capture_output=True, text=True, timeout=90, check=False)
    try:
        return json.loads(done.stdout)
    except ValueError:
        return [done.returncode, done.stdout[-500:], done.stderr[-1500:]]


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    facts: dict[str, object] = {}

    def add(name: str, make: object) -> None:
        print("recording", name, flush=True)
        try:
            facts[name] = make()  # type: ignore[operator]
        except Exception as error:  # one failed section must not cost the rest
            facts[name] = f"{type(error).__name__}: {error}"
        text = redact(json.dumps(facts, indent=1))
        (folder / "facts.json").write_text(re.sub(r"\n {2,}", " ", text) + "\n")

    names: list[str] = []
    add("exports", lambda: names.extend(symbols(folder)) or len(names))
    add("lookups", lambda: lookups(folder, names))
    for name in memory.EXPERIMENTS:
        if name != "holder":
            add(name, lambda name=name: experiment(name))
    add("costs", costs)
    add("system", system)
    (folder / "smi.txt").write_text(redact(subprocess.run(["nvidia-smi", "-q"], capture_output=True, text=True, check=False).stdout))
    add("trace", lambda: trace(folder))
    add("nvml", nvml_values)


if __name__ == "__main__":
    if shutil.which("nvidia-smi") is None and not glob.glob("/dev/nvidia*"):
        sys.exit("record.py: this machine has no NVIDIA GPU; nothing is recorded")
    main()
