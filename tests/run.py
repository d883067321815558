"""Run the tests in parts and count them; `tests/run` installs what is needed and runs this."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import subprocess
import sys
import time
import xml.etree.ElementTree as xml
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOGS = ROOT / "build" / "logs"
CHECK_PYTHON = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "drawbridge-check" / "bin" / "python"
JOBS = str(os.cpu_count() or 2)
UNIT_TESTS = [f"{folder}_test" for folder in ("base", "kube", "kube_client", "translate", "certs", "server", "cli", "agent", "preload")]
PRELOAD = ["drawbridge_preload", "drawbridge_preload_marked", "drawbridge_front", "standin_cuda", "standin_nvml", "standin_profiles"]

# A clone in another folder finds what an earlier one compiled.
os.environ |= {"CCACHE_BASEDIR": str(ROOT), "CCACHE_NOHASHDIR": "1"}
os.environ.setdefault("ASAN_OPTIONS", "detect_stack_use_after_return=1:strict_string_checks=1")
os.environ.setdefault("UBSAN_OPTIONS", "print_stacktrace=1")
os.environ.setdefault("TSAN_OPTIONS", "halt_on_error=1:second_deadlock_stack=1")
# gRPC is not built for ThreadSanitizer; what it promises is told by agent/rpc/grpc_order.hpp. Its threads may still be ending
# when main returns; our own are joined by their owners.
TSAN_BESIDE_GRPC = os.environ["TSAN_OPTIONS"] + ":ignore_noninstrumented_modules=1:report_thread_leaks=0"


@dataclass
class Count:
    """How many tests passed and failed; what was no test but broke counts as failed."""

    passed: int = 0
    failed: int = 0

    def __add__(self, other: Count) -> Count:
        return Count(self.passed + other.passed, self.failed + other.failed)


class Broken(Exception):
    """A step that is no test itself (a build) failed."""


@dataclass
class Step:
    """The outcome of one command."""

    status: int
    output: str
    log: Path = field(default_factory=Path)


def log_of(title: str) -> Path:
    """Where the output of a step of this title goes."""
    return LOGS / (re.sub(r"[^a-z0-9.]+", "-", title.lower()).strip("-") + ".log")


def run(title: str, command: list[str], **environment: str) -> Step:
    """Runs a command with its output in a log, and says when it starts and ends."""
    LOGS.mkdir(parents=True, exist_ok=True)
    log = log_of(title)
    print(f"  {title} ...", flush=True)
    began = time.monotonic()
    progress = Progress()
    with log.open("wb") as sink:
        child = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env=os.environ | environment)  # fmt: skip
        for line in child.stdout or ():
            sink.write(line)
            progress.show(line)
        status = child.wait()
    progress.end()
    print(f"  {title}: {'done' if status == 0 else f'exit status {status}'}, {time.monotonic() - began:.0f} s", flush=True)
    return Step(status, log.read_text(encoding="utf-8", errors="replace"), log)


class Progress:
    """Shows the newest line of a running command: on a terminal each, elsewhere one a minute."""

    def __init__(self) -> None:
        self.shown = time.monotonic()

    def show(self, line: bytes) -> None:
        text = line.decode(errors="replace").strip()[:100]
        if sys.stdout.isatty():
            print(f"\r\033[K    {text}" if text else "\r\033[K", end="", flush=True)
        elif text and time.monotonic() - self.shown > 60:
            self.shown = time.monotonic()
            print(f"    {text}", flush=True)

    def end(self) -> None:
        if sys.stdout.isatty():
            print("\r\033[K", end="", flush=True)


def show(step: Step, lines: int = 60) -> None:
    """Prints the end of a log, for a step that went wrong."""
    print("\n".join(f"    | {line}" for line in step.output.splitlines()[-lines:]), flush=True)
    print(f"    (all of it: {step.log.relative_to(ROOT)})", flush=True)


# ---------------------------------------------------------------------------------------------------- steps


def build(preset: str, *targets: str) -> None:
    """Configures and builds; a failure ends the part."""
    steps = [] if (ROOT / "build" / preset / "build.ninja").exists() else [["cmake", "--preset", preset]]
    steps.append(["cmake", "--build", "--preset", preset, *(["--target", *targets] if targets else [])])
    for command in steps:
        step = run(f"{preset}: {'build' if '--build' in command else 'configure'}", command)
        if step.status != 0:
            show(step)
            raise Broken(f"the {preset} build failed")


DOCTEST = re.compile(r"^(\d+): \[doctest\] test cases:\s*\d+ \|\s*(\d+) passed \|\s*(\d+) failed", re.MULTILINE)
CTEST = re.compile(r"^ *\d+/\d+ Test +#(\d+): (\S+) \.*\s*(\*\*\*)?", re.MULTILINE)


def ctest(preset: str, *choice: str, **environment: str) -> Count:
    """Runs the unit test programs of a build; counts doctest's cases, and a program that broke as one failure."""
    step = run(
        f"{preset}: unit tests",
        ["ctest", "--test-dir", f"build/{preset}", "-V", "-j", JOBS, "--timeout", "3600", "--no-tests=error", *choice],
        **environment,
    )
    return counted(step, count_ctest(step.output))


def count_ctest(output: str) -> Count:
    cases = {number: Count(int(passed), int(failed)) for number, passed, failed in DOCTEST.findall(output)}
    total = Count()
    for number, _, bad in CTEST.findall(output):
        count = cases.get(number, Count() if bad else Count(1))
        total += Count(count.passed, max(count.failed, 1)) if bad else count
    return total


def pytest(title: str, *arguments: str, program: str = "build/release/bin/drawbridge", jobs: str = "2",
           **environment: str) -> Count:  # fmt: skip
    """Runs pytest and counts what its report says; what was skipped was not tested and counts as failed."""
    report = LOGS / "pytest.xml"
    report.unlink(missing_ok=True)
    step = run(
        title,
        ["/usr/bin/python3", "-m", "pytest", "-q", "-ra", "-p", "no:cacheprovider", f"--junit-xml={report}", "-n", jobs,
         *arguments],
        DRAWBRIDGE=str(ROOT / program), PYTHONDONTWRITEBYTECODE="1", **environment,
    )  # fmt: skip
    return counted(step, count_junit(report.read_text(encoding="utf-8")) if report.exists() else Count())


def count_junit(report: str) -> Count:
    total = Count()
    for suite in xml.fromstring(report).iter("testsuite"):
        bad = sum(int(suite.get(key, "0")) for key in ("failures", "errors", "skipped"))
        total += Count(int(suite.get("tests", "0")) - bad, bad)
    return total


def counted(step: Step, count: Count) -> Count:
    """The count of a step, with a failure added where the status tells of one that the count does not."""
    if step.status != 0 and count.failed == 0:
        count += Count(0, 1)
    if count.failed:
        show(step)
    return count


PLAIN = re.compile(r"^(\d+) passed, (\d+) failed$", re.MULTILINE)


def check_cases(version: str) -> Count:
    """Runs the judge of tests/cases over the command line's answers."""
    step = run(
        f"cases: check.py for {version}",
        [str(CHECK_PYTHON), "-B", "tests/cases/check.py", "--drawbridge", "build/release/bin/drawbridge",
         "--kubernetes-version", version],
    )  # fmt: skip
    found = PLAIN.findall(step.output)
    return counted(step, Count(*map(int, found[-1])) if found else Count())


FUZZER = re.compile(r"^fuzz \w+: (?:([1-9]\d*) inputs in \d+ s, nothing found|.*)$", re.MULTILINE)


def fuzz(seconds: int) -> Count:
    """Runs every fuzzer for a while; each is one test, passed if it ran and found nothing."""
    step = run(f"fuzzers, {seconds} s each", ["tests/fuzz/run", str(seconds)])
    print("".join(f"    {line}\n" for line in step.output.splitlines() if line.startswith("fuzz ")), end="", flush=True)
    return counted(step, count_fuzzers(step.output))


def count_fuzzers(output: str) -> Count:
    found = FUZZER.findall(output)
    passed = sum(bool(inputs) for inputs in found)
    return Count(passed, len(found) - passed)


# ---------------------------------------------------------------------------------------------------- parts


def part_format() -> Count:
    """clang-format has nothing to change."""
    tracked = subprocess.run(["git", "ls-files", "*.cpp", "*.hpp"], cwd=ROOT, capture_output=True, text=True, check=True)
    files = tracked.stdout.split()
    step = run("format: clang-format", ["clang-format-14", "--dry-run", "--Werror", *files])
    wrong = set(re.findall(r"^(\S+?):\d+:\d+: error:", step.output, re.MULTILINE))
    return counted(step, Count(len(files) - len(wrong), len(wrong)))


def part_unit() -> Count:
    """Unit and property tests of all folders, layering of includes, headers that compile alone; debug build."""
    build("debug")
    return ctest("debug")


def part_cases() -> Count:
    """Every case of tests/cases, judged by check.py, for Kubernetes 1.36 and 1.35."""
    build("release")
    return check_cases("1.36") + check_cases("1.35")


def part_functional() -> Count:
    """The release binary from outside: command line, HTTPS server, examples, recorded reviews, faults."""
    build("release")
    return pytest("functional tests", "tests/functional")


def part_fuzz() -> Count:
    """Every fuzzer for ten seconds, under AddressSanitizer and UBSan."""
    return fuzz(10)


def part_cluster() -> Count:
    """The webhook as its users install it on a real Kubernetes 1.36: every case, rights, faults, other webhooks."""
    build("release", "drawbridge")
    return cluster_tests("1.36")


CASE = re.compile(r"header_says\[(\S+?)\] (PASSED|FAILED|ERROR)")


def cluster_tests(minor: str, *choice: str) -> Count:
    """Runs tests/cluster/tests on a cluster of its own; its components are built before, once a machine."""
    step = run(f"cluster: components of {minor}", ["tests/cluster/cluster", "build", "--kubernetes", minor])
    if step.status != 0:
        show(step)
        raise Broken("the components of the cluster did not build")
    title = f"cluster tests on {minor}"
    count = pytest(title, "tests/cluster/tests", "--kubernetes", minor, "-vv", *choice, jobs="0")
    for case, result in CASE.findall(log_of(title).read_text(encoding="utf-8", errors="replace")):
        print(f"    {result.lower():<7} {case}", flush=True)
    return count


def part_agent() -> Count:
    """The node agent from outside: fake kubelet and API server, CDI's own library, a real node of Kubernetes 1.36."""
    build("release", "drawbridge-agent")
    build("debug", "drawbridge_preload", "drawbridge_front", "standin_cuda", "standin_nvml", "planted_slots", "planted_tombstone")
    count = pytest("agent: fake kubelet and API server", "tests/agent", "--ignore=tests/agent/real")
    return count + agent_on_cluster("1.36")


def sanitized_agent(preset: str) -> Count:
    """The agent between a fake kubelet and a fake API server, under a sanitizer; a report fails the test that it comes in."""
    build(preset, "drawbridge-agent", "standin_nvml")
    build("debug", "drawbridge_preload", "drawbridge_front", "standin_cuda", "planted_slots", "planted_tombstone")
    return pytest(
        f"{preset}: agent, fake kubelet and API server", "tests/agent", "--ignore=tests/agent/real",
        DRAWBRIDGE_AGENT=str(ROOT / "build" / preset / "bin" / "drawbridge-agent"),
        DRAWBRIDGE_STANDIN=str(ROOT / "build" / preset / "standin"),
        TSAN_OPTIONS=TSAN_BESIDE_GRPC)  # fmt: skip


def agent_on_cluster(minor: str, *choice: str, runtime: str = "containerd") -> Count:
    """Runs the agent's scenarios on a real kubelet and container runtime."""
    kind = ["--kubernetes", minor, "--runtime", runtime]
    on = minor if runtime == "containerd" else f"{minor}, {runtime}"
    step = run(f"agent: components of {on}", ["tests/cluster/cluster", "build", *kind])
    if step.status != 0:
        show(step)
        raise Broken("the components of the cluster did not build")
    build("release", "drawbridge", "drawbridge-agent", "drawbridge_preload", "drawbridge_front")
    build("debug", "dying_agent", "gpu_user", "standin_cuda", "standin_nvml")
    title = f"agent: real node of {on}" + (", long tests" if choice else "")
    return pytest(title, "tests/agent/real", *kind, *choice, jobs="0")


def part_preload() -> Count:
    """The preload library in real processes on the stand-in driver: loading, memory, deaths, damage."""
    build("debug", *PRELOAD)
    count = pytest("preload: tests on the stand-in", "tests/preload")
    return sum((on_older_driver(version, "test_memory.py") for version in ("11.4", "12.4")), count)


def on_older_driver(version: str, *files: str) -> Count:
    """Tests of the preload library on the stand-in as a driver of an older CUDA version."""
    return pytest(f"preload: CUDA {version}", *(f"tests/preload/{name}" for name in files), DRAWBRIDGE_STANDIN_PROFILE=version)


def part_self() -> Count:
    """The counting of this script itself."""
    return pytest("self: how tests are counted", "tests/test_run.py", jobs="0")


PARTS: dict[str, Callable[[], Count]] = {
    "self": part_self,
    "format": part_format,
    "unit": part_unit,
    "cases": part_cases,
    "functional": part_functional,
    "agent": part_agent,
    "preload": part_preload,
    "cluster": part_cluster,
    "fuzz": part_fuzz,
}


# ---------------------------------------------------------------------------------------------------- long forms


def sanitized_preload(preset: str, *files: str) -> Count:
    """The preload library and the stand-in driver under a sanitizer, whose runtime is preloaded into each program before them."""
    tests = [f"tests/preload/{name}" for name in files] or ["tests/preload"]
    build(preset, *PRELOAD)
    runtime = subprocess.run(["gcc", f"-print-file-name=lib{preset}.so"], capture_output=True, text=True, check=True).stdout.strip()
    return pytest(
        f"{preset}: preload library on the stand-in", *tests, "-m", "not long and not plain",
        DRAWBRIDGE_PRELOAD_BUILD=str(ROOT / "build" / preset), DRAWBRIDGE_SANITIZER_RUNTIME=str(Path(runtime).resolve()),
        ASAN_OPTIONS=os.environ["ASAN_OPTIONS"] + ":detect_leaks=0")  # fmt: skip


def trapped_preload() -> Count:
    """The same with UBSan's checks as traps, which need no runtime: also where a sanitizer's is not borne."""
    build("ubsan")
    return pytest("ubsan: preload library on the stand-in", "tests/preload", DRAWBRIDGE_PRELOAD_BUILD=str(ROOT / "build" / "ubsan"))


def long_asan() -> Count:
    """Unit tests, functional tests, agent and preload library from outside under AddressSanitizer and UBSan."""
    build("asan", *UNIT_TESTS, "drawbridge")
    count = ctest("asan", "-E", "layering", DRAWBRIDGE_DIFFERENTIAL_PODS="10000")
    return count + sanitized_agent("asan") + sanitized_preload("asan") + trapped_preload() + pytest(
        "asan: functional tests", "tests/functional", program="build/asan/bin/drawbridge")  # fmt: skip


def long_tsan() -> Count:
    """What has threads, under ThreadSanitizer."""
    build("tsan", "base_test", "kube_client_test", "certs_test", "server_test", "agent_test", "preload_test", "drawbridge")
    folders = ("base", "kube_client", "certs", "server", "preload")
    count = sum((ctest("tsan", "-R", f"^{folder}$") for folder in folders), Count())
    count += ctest("tsan", "-R", "^agent$", TSAN_OPTIONS=TSAN_BESIDE_GRPC) + sanitized_agent("tsan")
    threads = ("test_memory.py", "test_holders.py", "test_races.py", "test_pools.py", "test_compute.py", "test_properties.py", "test_marks.py")
    return count + sanitized_preload("tsan", *threads)


def long_preload() -> Count:
    """A million random steps and a thousand kills under the preload library, and older drivers."""
    build("debug", *PRELOAD)
    older = ["11.4", "11.8", "12.2", "12.4", "12.8"]
    files = ["test_memory.py", "test_compute.py", "test_properties.py", "test_marks.py"]
    return sum((on_older_driver(version, *files) for version in older), pytest("preload: long tests", "tests/preload", "-m", "long"))


def long_differential() -> Count:
    """The oracle against the core on a million generated pods."""
    build("debug", "translate_test")
    return ctest("debug", "-R", "^translate$", DRAWBRIDGE_DIFFERENTIAL_PODS="1000000")


def long_functional() -> Count:
    """The functional tests that take minutes."""
    build("release")
    return pytest("functional: long tests", "tests/functional", "-m", "long")


def long_fuzz() -> Count:
    """Every fuzzer for ten minutes."""
    return fuzz(600)


def long_matrix() -> Count:
    """The cluster tests and the agent's on a real node on every minor, and the builds that are wrong on purpose."""
    build("release", "drawbridge")
    minors = json.loads((ROOT / "tests/cluster/components/pins.json").read_text(encoding="utf-8"))["kubernetes"]
    count = sum((cluster_tests(minor) + agent_on_cluster(minor) for minor in minors), Count())
    return count + cluster_tests("1.36", "-m", "long")


def long_guards() -> Count:
    """The agent without one guard line after the other, in a copy of the tree: the test that is there for it must fail."""
    step = run("guards", ["tests/agent/guards.py"])
    found = PLAIN.findall(step.output)
    return counted(step, Count(*map(int, found[-1])) if found else Count())


def long_agent() -> Count:
    """Ten thousand lives of a node in memory, three hundred with kills; five hundred pods over updates, half an hour of pods."""
    build("debug", "agent_test")
    build("release", "drawbridge-agent")
    count = ctest("debug", "-R", "^agent$", DRAWBRIDGE_AGENT_LIVES="10000")
    count += pytest("agent: lives with kills", "tests/agent", "--ignore=tests/agent/real", "-m", "long")
    return count + agent_on_cluster("1.36", "-m", "long")


def long_crio() -> Count:
    """The agent's tests on a real node of Kubernetes 1.36 with CRI-O in the place of containerd, and that such a cluster leaves nothing."""
    build("release", "drawbridge", "drawbridge-agent")
    count = agent_on_cluster("1.36", runtime="crio")
    return count + pytest("clean: a cluster on CRI-O", "tests/cluster/tests/test_clean.py", "--runtime", "crio", jobs="0")


LONG: dict[str, Callable[[], Count]] = {
    "agent": long_agent,
    "crio": long_crio,
    "guards": long_guards,
    "asan": long_asan,
    "tsan": long_tsan,
    "differential": long_differential,
    "functional": long_functional,
    "fuzz": long_fuzz,
    "matrix": long_matrix,
    "preload": long_preload,
}


@contextlib.contextmanager
def timed(name: str, seconds: dict[str, float]) -> Iterator[None]:
    began = time.monotonic()
    yield
    seconds[name] = time.monotonic() - began


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests/run", description="Run the tests.")
    parser.add_argument("parts", nargs="*", metavar="PART", help="what to run (default: all)")
    parser.add_argument("--list", action="store_true", help="name the parts and end")
    parser.add_argument("--long", action="store_true", help="the long forms instead")
    parser.add_argument("--check", action="store_true", help=argparse.SUPPRESS)  # the arguments, and no more
    options = parser.parse_args()
    parts = LONG if options.long else PARTS
    if unknown := [name for name in options.parts if name not in parts]:
        parser.error(f"no part {', '.join(unknown)}; there are {', '.join(parts)}")
    if options.check:
        return 0
    if options.list:
        for name, part in parts.items():
            print(f"{name:<12} {part.__doc__}")
        return 0
    results: dict[str, Count] = {}
    seconds: dict[str, float] = {}
    for name in options.parts or parts:
        print(f"== {name}: {parts[name].__doc__}", flush=True)
        with timed(name, seconds):
            try:
                results[name] = parts[name]()
            except Broken as reason:
                print(f"  {reason}", flush=True)
                results[name] = Count(0, 1)
            if results[name] == Count():
                print("  no test ran", flush=True)
                results[name] = Count(0, 1)
    print("== result")
    for name, count in results.items():
        print(f"  {name:<12} {count.passed:>6} passed {count.failed:>4} failed {seconds[name]:>6.0f} s")
    total = sum(results.values(), Count())
    print(f"{total.passed} passed, {total.failed} failed")
    return 1 if total.failed else 0


if __name__ == "__main__":
    sys.exit(main())
