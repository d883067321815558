"""Measures the webhook and the preload library against the figures they have to reach, and stores the result in docs/performance.md.

Everything runs on this machine, over the loopback interface, with certificates verified. Figures of another machine
differ; ratios (to a bare server on the same stack, to nginx, to the size of the input) should not.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools"))
sys.path.insert(0, str(ROOT / "tests" / "functional"))
import driver_calls  # noqa: E402
import fake_api  # noqa: E402
import webhook  # noqa: E402

BIN = ROOT / "build" / "benchmark" / "bin"
REPORT = ROOT / "docs" / "performance.md"
CONNECTIONS = 8
REVIEWS = 40_000
THREADS = 2  # of each server; our default
TEMPLATES = 10_000


@dataclass
class Row:
    """One figure: what was measured, how much it came to, and how much it may come to."""

    what: str
    value: float
    unit: str
    limit: float | None = None

    def line(self) -> str:
        limit = "" if self.limit is None else f"≤ {self.limit:g} {self.unit}".strip()
        verdict = "" if self.limit is None else ("reached" if self.value <= self.limit else "**missed**")
        value = f"{self.value:,.0f}" if self.value >= 1000 else f"{self.value:.3g}"
        return f"| {self.what} | {value} {self.unit} | {limit} | {verdict} |".replace("  ", " ")


# ---------------------------------------------------------------------------------------------------- servers


@dataclass
class Server:
    """A running HTTPS server: its port, its processes, the authority that vouches for it."""

    port: int
    processes: list[int]
    authority: Path


@contextlib.contextmanager
def ended(process: subprocess.Popen[Any]) -> Iterator[None]:
    try:
        yield
    finally:
        process.terminate()
        process.wait(timeout=30)


@contextlib.contextmanager
def drawbridge(folder: Path, *arguments: str) -> Iterator[Server]:
    """Our webhook with a certificate of its own, ready to be asked."""
    with webhook.started(BIN / "drawbridge", folder, *arguments) as hook:
        yield Server(hook.port, [hook.process.pid], hook.authority)


@contextlib.contextmanager
def bare(tls: Path, answer_bytes: int, threads: int) -> Iterator[Server]:
    """The bare server on the same stack."""
    command = [str(BIN / "benchmark_echo"), str(tls / "tls.crt"), str(tls / "tls.key"), str(answer_bytes), str(threads)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    with ended(process):
        yield Server(int(process.stdout.readline()), [process.pid], tls / "ca.crt")


NGINX = """
daemon off; worker_processes {workers}; pid {folder}/nginx.pid; error_log stderr warn;
events {{ worker_connections 1024; }}
http {{
    access_log off; keepalive_requests 100000000; keepalive_timeout 120s; default_type application/json;
    client_body_buffer_size 7m; client_max_body_size 7m;
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
    server {{
        listen 127.0.0.1:{port} ssl; ssl_certificate {tls}/tls.crt; ssl_certificate_key {tls}/tls.key;
{answer}
    }}
}}
"""


def quoted_parts(size: int) -> str:
    """An answer of a size in directives of nginx, whose parameters are below 4096 bytes."""
    parts = [min(3000, size - start) for start in range(0, size, 3000)]
    sets = " ".join(f'set $part{number} "{"x" * part}";' for number, part in enumerate(parts))
    text = "".join(f"$part{number}" for number in range(len(parts)))
    return f'        location / {{ {sets} return 200 "{text}"; }}'


@contextlib.contextmanager
def nginx(folder: Path, tls: Path, answer_bytes: int, workers: int) -> Iterator[Server]:
    """nginx, which reads the request, drops it and answers with a fixed text."""
    with socket.socket() as probe:  # nginx cannot tell which free port it took, so one is chosen for it
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    settings = folder / "nginx.conf"
    settings.write_text(NGINX.format(folder=folder, port=port, tls=tls, workers=workers, answer=quoted_parts(answer_bytes)))
    process = subprocess.Popen(["/usr/sbin/nginx", "-e", "stderr", "-p", str(folder), "-c", str(settings)])
    with ended(process):
        while not reachable(port):
            if process.poll() is not None:
                raise SystemExit("nginx ended")
            time.sleep(0.05)
        yield Server(port, children(process.pid), tls / "ca.crt")


def reachable(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def children(parent: int) -> list[int]:
    return [int(text) for text in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()]


# ---------------------------------------------------------------------------------------------------- load


def load(server: Server, bodies: list[Path], *arguments: str, connections: int = CONNECTIONS) -> dict[str, float]:
    """Sends reviews and returns what the load generator measured."""
    command = [str(BIN / "benchmark_load"), "--port", str(server.port), "--ca", str(server.authority),
               "--connections", str(connections)]  # fmt: skip
    for process in server.processes:
        command += ["--pid", str(process)]
    outcome = subprocess.run([*command, *arguments, *map(str, bodies)], capture_output=True, text=True, check=False)
    if outcome.returncode != 0:
        raise SystemExit(f"{' '.join(command)}: {outcome.stderr}")
    return json.loads(outcome.stdout)


def resident(process: int) -> float:
    """Resident memory of a process in MiB."""
    status = Path(f"/proc/{process}/status").read_text()
    (line,) = [line for line in status.splitlines() if line.startswith("VmRSS:")]
    return int(line.split()[1]) / 1024


def ten_kibibytes(folder: Path) -> Path:
    """A recorded review whose pod is made 10 KiB by environment variables, as big pods are."""
    review = json.loads((ROOT / "tests" / "reviews" / "10-two-cards-deployment.json").read_text())
    pod = review["request"]["object"]
    variables = pod["spec"]["containers"][0].setdefault("env", [])
    while len(json.dumps(pod, separators=(",", ":"))) < 10 * 1024 - 70:
        variables.append({"name": f"SERVICE_{len(variables):03}", "value": "some-service.namespace.svc:8080"})
    path = folder / "ten.json"
    path.write_text(json.dumps(review, separators=(",", ":")) + "\n")
    return path


def recorded() -> list[Path]:
    """All recorded reviews of new pods."""
    paths = sorted((ROOT / "tests" / "reviews").glob("*.json"))
    return [path for path in paths if json.loads(path.read_text())["request"]["operation"] == "CREATE"]


# ---------------------------------------------------------------------------------------------------- measurements


def measure_core() -> list[Row]:
    """Decode, translate and encode, without a network."""
    outcome = subprocess.run([str(BIN / "benchmark_core")], capture_output=True, text=True, check=True)
    rows = []
    for line in outcome.stdout.splitlines():
        found = json.loads(line)
        rows.append(Row(found["what"], found["value"], found["unit"], found.get("limit")))
    return rows


def measure_reviews(folder: Path) -> list[Row]:
    """Warm reviews over TLS, against a bare server of the same stack and nginx, in one run."""
    body, count = ten_kibibytes(folder), ("--reviews", str(REVIEWS))
    with drawbridge(folder, *webhook.IN_MEMORY) as server:
        load(server, recorded() + [body], "--reviews", "2000")
        mixed = load(server, recorded(), *count)
        ours = load(server, [body], *count)
    size = int(ours["answer_bytes"])
    with bare(folder / "tls", size, THREADS) as server:
        load(server, [body], "--reviews", "2000")
        stack = load(server, [body], *count)
    with nginx(folder, folder / "tls", size, THREADS) as server:
        load(server, [body], "--reviews", "2000")
        other = load(server, [body], *count)
    cpu, stack_cpu, nginx_cpu = (found["server_cpu_us"] for found in (ours, stack, other))
    return [
        Row("recorded reviews, p50", mixed["p50_us"] / 1000, "ms", 0.5),
        Row("recorded reviews, p99", mixed["p99_us"] / 1000, "ms", 2),
        Row("recorded reviews, server CPU each", mixed["server_cpu_us"], "µs", 125),
        Row("10 KiB pod, p50", ours["p50_us"] / 1000, "ms", 0.5),
        Row("10 KiB pod, p99", ours["p99_us"] / 1000, "ms", 2),
        Row("10 KiB pod, reviews a second (load generator on the same 2 cores)", REVIEWS / ours["seconds"], "/s"),
        Row("10 KiB pod, server CPU each", cpu, "µs", 125),
        Row("bare server, same sizes, CPU each", stack_cpu, "µs"),
        Row("nginx, same sizes, CPU each", nginx_cpu, "µs"),
        Row("our CPU against the bare server", cpu / stack_cpu, "×", 1.5),
        Row("our CPU against nginx", cpu / nginx_cpu, "×", 1.8),
    ]


def shapes(folder: Path, count: int) -> list[Path]:
    """Reviews that each need another template."""
    text = (ROOT / "tests" / "reviews" / "01-memory-round-thousand.json").read_text()
    made = folder / "shapes"
    made.mkdir()
    for number in range(count):
        review = text.replace('"nvidia.com/gpumem":"3k"', f'"nvidia.com/gpumem":"{1000 + number}"')
        (made / f"{number}.json").write_text(review)
    return sorted(made.iterdir())


def measure_memory(folder: Path, seconds: int) -> list[Row]:
    """Memory with 75 connections and 10,000 cached templates in a (fake) cluster, at rest and after load."""
    with fake_api.FakeApi() as api:
        kubeconfig = fake_api.kubeconfig(folder, api.url)
        with drawbridge(folder, "--store", "kubernetes", "--kubeconfig", str(kubeconfig)) as server:
            (process,) = server.processes
            started = resident(process)
            load(server, shapes(folder, TEMPLATES), "--reviews", str(TEMPLATES))
            known = len(api.keys())
            body = [ten_kibibytes(folder)]
            with ThreadPoolExecutor() as pool:
                loaded = pool.submit(load, server, body, "--seconds", str(seconds), "--rate", "2000", connections=75)
                time.sleep(5)
                full = resident(process)
                time.sleep(seconds - 10)
                after = resident(process)
                loaded.result()
    return [
        Row("templates in the cluster", known, ""),
        Row("resident after start", started, "MiB"),
        Row("resident, 75 connections, 10,000 cached templates", full, "MiB", 24),
        Row(f"growth over {seconds - 10} s of 2,000 reviews a second", after - full, "MiB", 0.5),
    ]


def write_report(sections: dict[str, list[Row]]) -> None:
    cpu = next(line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line)
    lines = [
        "# Performance", "",
        "Written by `tests/benchmark/run`; nothing in the tests depends on it. "
        f"Measured on {os.cpu_count()} cores ({cpu}), Linux {platform.release().split('-')[0]}, release build, loopback, "
        "the load generator on the same cores.", "",
    ]  # fmt: skip
    for title, rows in sections.items():
        lines += [f"## {title}", "", "| What | Measured | Figure | |", "|---|---|---|---|", *(row.line() for row in rows), ""]
    notes = (Path(__file__).parent / "notes.md").read_text(encoding="utf-8")
    REPORT.write_text("\n".join([*lines, notes]), encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests/benchmark/run")
    parser.add_argument("--long", action="store_true", help="ten minutes of load for the memory figure")
    options = parser.parse_args()
    sections: dict[str, list[Row]] = {}
    with tempfile.TemporaryDirectory(prefix="drawbridge-benchmark-") as name:
        work = {
            "Core": measure_core,
            "Reviews over TLS, 8 connections": lambda: measure_reviews(made(Path(name) / "reviews")),
            "The preload library, CPU time on the stand-in driver": lambda: [Row(*row) for row in driver_calls.measure()],
            "Memory": lambda: measure_memory(made(Path(name) / "memory"), 600 if options.long else 30),
        }
        for title, measure in work.items():
            print(f"== {title}", flush=True)
            sections[title] = measure()
            for row in sections[title]:
                print(f"  {row.line()}", flush=True)
    write_report(sections)
    print(f"written to {REPORT.relative_to(ROOT)}")
    return 0


def made(folder: Path) -> Path:
    folder.mkdir()
    return folder


if __name__ == "__main__":
    sys.exit(main())
