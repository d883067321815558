#!/usr/bin/env python3
"""Start the built webhook and show what it makes of the pods in examples/. `tools/demo` builds it first and runs this.

Standard library only, since it must run where nothing but the build's packages is installed.
"""

from __future__ import annotations

import argparse
import base64
import http.client
import json
import os
import signal
import ssl
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "functional"))
import json_patch  # noqa: E402  (the tests' own implementation of RFC 6902, not the program's)

LEGACY = ("gpu", "gpumem", "gpumem-percentage", "gpucores", "priority")
STARTUP_SECONDS = 30.0
COLOURS = {"translated": "32", "left alone": "36", "denied": "31", "warning": "33", "dim": "2", "bold": "1"}


def paint(text: str, colour: str) -> str:
    """Coloured on a terminal, plain everywhere else."""
    if not sys.stdout.isatty() or "NO_COLOR" in os.environ:
        return text
    return f"\033[{COLOURS[colour]}m{text}\033[0m"


class Failure(Exception):
    """The demonstration cannot go on; the text says why."""


@dataclass
class Webhook:
    """A started webhook: where it listens, and the certificate that vouches for it."""

    process: subprocess.Popen[bytes]
    folder: Path
    port: int = 0
    operator_port: int = 0

    @property
    def authority(self) -> Path:
        return self.folder / "tls" / "ca.crt"

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def operator(self, path: str) -> tuple[int, str]:
        """What the operator port answers: status and body."""
        connection = http.client.HTTPConnection("127.0.0.1", self.operator_port, timeout=5)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()


@dataclass
class Answer:
    """What the webhook said to one review."""

    verdict: str
    milliseconds: float
    before: dict[str, Any]
    after: dict[str, Any]
    denial: str = ""
    warnings: list[str] = field(default_factory=list)


def start(program: Path, folder: Path) -> Webhook:
    """Starts the webhook on free ports of the loopback interface and waits until it says that it is ready."""
    ports = folder / "ports"
    log = (folder / "log").open("wb")
    command = [
        str(program), "serve", "--self-signed", str(folder / "tls"), "--store", "memory",
        "--fleet", str(ROOT / "tests" / "cases" / "fleet.yaml"), "--settings", str(ROOT / "examples" / "settings.yaml"),
        "--listen", "127.0.0.1:0", "--operator-listen", "127.0.0.1:0", "--port-file", str(ports),
    ]  # fmt: skip
    # A process group of its own: Ctrl-C in the terminal reaches this program alone, which then stops the webhook.
    webhook = Webhook(subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True), folder)
    try:
        wait_until_ready(webhook, ports)
    except BaseException:
        webhook.stop()
        raise
    return webhook


def wait_until_ready(webhook: Webhook, ports: Path) -> None:
    deadline = time.monotonic() + STARTUP_SECONDS
    reason = "it has not said where it listens"
    while time.monotonic() < deadline:
        if webhook.process.poll() is not None:
            raise Failure(f"the webhook ended at once:\n{(webhook.folder / 'log').read_text()}")
        try:
            known = json.loads(ports.read_text())
            webhook.port, webhook.operator_port = known["listen"], known["operator"]
            status, reason = webhook.operator("/readyz")
            if status == 200:
                return
        except (OSError, ValueError):
            pass
        time.sleep(0.05)
    raise Failure(f"the webhook is not ready after {STARTUP_SECONDS:.0f} s: {reason}")


def review(connection: http.client.HTTPSConnection, body: bytes) -> Answer:
    """Sends one AdmissionReview as an API server does and reads the answer."""
    headers = {"Content-Type": "application/json", "Accept": "application/json, */*"}
    began = time.perf_counter()
    connection.request("POST", "/mutate?timeout=5s", body, headers)
    answer = connection.getresponse()
    text = answer.read()
    milliseconds = (time.perf_counter() - began) * 1000
    if answer.status != 200:
        raise Failure(f"the webhook answered {answer.status}: {text.decode(errors='replace')}")
    request, response = json.loads(body)["request"], json.loads(text)["response"]
    if response["uid"] != request["uid"]:
        raise Failure(f"the answer is to {response['uid']}, the question was {request['uid']}")
    pod = request["object"]
    if not response["allowed"]:
        return Answer("denied", milliseconds, pod, {}, response["status"]["message"])
    patch = json.loads(base64.b64decode(response["patch"])) if "patch" in response else []
    verdict = "translated" if patch else "left alone"
    return Answer(verdict, milliseconds, pod, json_patch.apply(pod, patch), "", response.get("warnings", []))


def containers(pod: dict[str, Any]) -> dict[str, dict[str, Any]]:
    spec = pod["spec"]
    return {entry["name"]: entry for key in ("initContainers", "containers") for entry in spec.get(key, [])}


def show(name: str, answer: Answer, templates: dict[str, Any], full: bool) -> None:
    """Prints one example: what the pod asked for, what it says now, and what was said about it."""
    print(f"\n{paint(name, 'bold')}   {paint(answer.verdict, answer.verdict)}   {answer.milliseconds:.2f} ms")
    width = max(map(len, containers(answer.before)))
    for container, entry in containers(answer.before).items():
        limits = entry.get("resources", {}).get("limits", {})
        asked = [f"{key}: {limits[key]}" for key in (f"nvidia.com/{short}" for short in LEGACY) if key in limits]
        print(f"  before    {container:{width}}  {', '.join(asked) or 'no GPU'}")
    sources = {e["name"]: e for e in answer.after.get("spec", {}).get("resourceClaims", [])}
    if answer.verdict == "translated":
        for container, entry in containers(answer.after).items():
            claims = [claim["name"] for claim in entry.get("resources", {}).get("claims", [])]
            named = [f"{claim} = {sources[claim].get('resourceClaimTemplateName', '')}" for claim in claims]
            print(f"  after     {container:{width}}  {', '.join(named) or 'as it was'}")
    for template in dict.fromkeys(e.get("resourceClaimTemplateName", "") for e in sources.values()):
        if template in templates:
            devices = templates[template]["spec"]["spec"]["devices"]
            print(f"  template  {template}")
            print(indent(json.dumps(devices, indent=2)) if full else indent("\n".join(summary(devices))))
    for line in filter(None, answer.denial.split("\n")):
        print(f"  {paint('denied', 'denied')}    {line}")
    for line in answer.warnings:
        print(f"  {paint('warning', 'warning')}   {line}")


def summary(devices: dict[str, Any]) -> list[str]:
    """The requests of a template, one line each."""
    lines = []
    for request in devices["requests"]:
        options = request.get("firstAvailable") or [request["exactly"]]
        for option in options:
            amounts = option.get("capacity", {}).get("requests", {})
            text = ", ".join(f"{key} {value}" for key, value in amounts.items()) or "the whole card"
            count = f"{option['count']} x " if option.get("count", 1) != 1 else ""
            where = " and ".join(selector["cel"]["expression"] for selector in option.get("selectors", []))
            lines.append(f"{request['name']}: {count}{text}" + (f"  where {where}" if where else ""))
    for constraint in devices.get("constraints", []):
        lines.append("constraint: " + ", ".join(f"{k} {v}" for k, v in constraint.items() if k != "requests"))
    for entry in devices.get("config", []):
        lines.append("parameters: " + json.dumps(entry["opaque"]["parameters"]))
    return lines


def indent(text: str) -> str:
    return "\n".join(paint(f"              {line}", "dim") for line in text.splitlines())


def run(webhook: Webhook, options: argparse.Namespace) -> None:
    context = ssl.create_default_context(cafile=str(webhook.authority))
    connection = http.client.HTTPSConnection("127.0.0.1", webhook.port, timeout=30, context=context)
    connection.connect()  # the handshake is not part of any review's time, as an API server keeps connections
    secured = connection.sock
    print(f"Webhook ready at https://127.0.0.1:{webhook.port}/mutate, {secured.version()}, certificate verified.")
    answers: list[tuple[str, Answer]] = []
    for path in sorted((ROOT / "examples").glob("*/review*.json")):
        extra = path.stem.removeprefix("review").removeprefix("-")
        name = path.parent.name + (f" (pod {extra})" if extra else "")
        answers.append((name, review(connection, path.read_bytes())))
    connection.close()
    stored = {item["metadata"]["name"]: item for item in json.loads(webhook.operator("/debug/templates")[1])["items"]}
    for name, answer in answers:
        show(name, answer, stored, options.verbose)
    counts = {verdict: sum(a.verdict == verdict for _, a in answers) for verdict in ("translated", "left alone", "denied")}
    warned = sum(bool(a.warnings) for _, a in answers)
    times = sorted(a.milliseconds for _, a in answers)
    print(f"\n{len(answers)} reviews: " + ", ".join(f"{n} {verdict}" for verdict, n in counts.items())
          + f", {warned} with warnings; {len(stored)} templates written; "
          f"median {times[len(times) // 2]:.2f} ms, slowest {times[-1]:.2f} ms.")  # fmt: skip


def keep(webhook: Webhook) -> None:
    sample = ROOT / "examples" / "01-pytorch-training-job" / "review.json"
    print(f"""
The webhook keeps running until Ctrl-C. Ask it something:

  curl --cacert {webhook.authority} -H 'Content-Type: application/json' \\
      --data-binary @{sample} https://127.0.0.1:{webhook.port}/mutate

  curl http://127.0.0.1:{webhook.operator_port}/debug/templates     templates written so far
  curl http://127.0.0.1:{webhook.operator_port}/metrics             counters and latencies
""", flush=True)  # fmt: skip
    webhook.process.wait()
    raise Failure(f"the webhook ended:\n{(webhook.folder / 'log').read_text()}")


def main() -> int:
    parser = argparse.ArgumentParser(prog="tools/demo", description="Show what the webhook makes of examples/.")
    parser.add_argument("--keep", action="store_true", help="leave the webhook running until Ctrl-C")
    parser.add_argument("-v", "--verbose", action="store_true", help="show the templates in full")
    parser.add_argument("--program", type=Path, default=ROOT / "build" / "release" / "bin" / "drawbridge")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # as Ctrl-C: the webhook is stopped on the way out
    with tempfile.TemporaryDirectory(prefix="drawbridge-demo-") as folder:
        webhook = start(options.program, Path(folder))
        try:
            run(webhook, options)
            if options.keep:
                keep(webhook)
        finally:
            webhook.stop()
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failure as failure:
        print(f"demo: {failure}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        print()
        sys.exit(130)
