#!/usr/bin/env python3
"""Start the built webhook and show what it makes of the pods in examples/. `tools/demo` builds it first and runs this."""

from __future__ import annotations

import argparse
import base64
import json
import os
import re
import signal
import sys
import tempfile
import time
from dataclasses import dataclass, field
from http.client import HTTPSConnection
from pathlib import Path
from typing import Any

import webhook

sys.path.insert(0, str(webhook.ROOT / "tests" / "functional"))
import json_patch  # noqa: E402  (the tests' own implementation of RFC 6902, not the program's)

LEGACY = ("gpu", "gpumem", "gpumem-percentage", "gpucores", "priority")
COLOURS = {"translated": "32", "left alone": "36", "denied": "31", "warning": "33", "dim": "2", "bold": "1"}
WIDTH = 118


def paint(text: str, colour: str) -> str:
    """Coloured on a terminal, plain everywhere else."""
    if not sys.stdout.isatty() or "NO_COLOR" in os.environ:
        return text
    return f"\033[{COLOURS[colour]}m{text}\033[0m"


@dataclass
class Answer:
    """What the webhook said to one review."""

    verdict: str
    milliseconds: float
    before: dict[str, Any]
    after: dict[str, Any]
    denial: str = ""
    warnings: list[str] = field(default_factory=list)


def review(connection: HTTPSConnection, body: bytes) -> Answer:
    """Sends one AdmissionReview and reads the answer."""
    began = time.perf_counter()
    text = webhook.post(connection, body)
    milliseconds = (time.perf_counter() - began) * 1000
    request, response = json.loads(body)["request"], json.loads(text)["response"]
    if response["uid"] != request["uid"]:
        raise webhook.Failure(f"the answer is to {response['uid']}, the question was {request['uid']}")
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
            named = [f"claim {claim} from {sources[claim].get('resourceClaimTemplateName')}" for claim in claims]
            print(f"  after     {container:{width}}  {', '.join(named) or 'as it was'}")
    for template in dict.fromkeys(e.get("resourceClaimTemplateName", "") for e in sources.values()):
        if template in templates:
            devices = templates[template]["spec"]["spec"]["devices"]
            lines = json.dumps(devices, indent=2).splitlines() if full else summary(devices)
            print(f"  template  {template}")
            print("\n".join(paint(f"              {line}", "dim") for line in lines))
    for line in filter(None, answer.denial.split("\n")):
        print(f"  {paint('denied', 'denied')}    {line}")
    for line in answer.warnings:
        print(f"  {paint('warning', 'warning')}   {line}")


def summary(devices: dict[str, Any]) -> list[str]:
    """What a template asks for, one line an alternative, made short for people."""
    lines = []
    for request in devices["requests"]:
        for option in request.get("firstAvailable") or [request["exactly"]]:
            amounts = option.get("capacity", {}).get("requests", {})
            text = ", ".join(f"{key} {value}" for key, value in amounts.items()) or "the whole card"
            if amounts and "slots" not in amounts:
                text += ", nobody else on the card"
            count = f"{option['count']} x " if option.get("count", 1) != 1 else ""
            where = [short(selector["cel"]["expression"]) for selector in option.get("selectors", [])]
            lines.append(f"{request['name']}: {count}{text}" + "".join(f"; where {one}" for one in where))
    for constraint in devices.get("constraints", []):
        lines.append("all of them: " + ", ".join(f"{k} {v}" for k, v in constraint.items() if k != "requests"))
    for entry in devices.get("config", []):
        lines.append("parameters: " + json.dumps(entry["opaque"]["parameters"]))
    return [line if len(line) <= WIDTH else line[: WIDTH - 1] + "…" for line in lines]


def short(expression: str) -> str:
    """A selector without what every one of them begins with, and its attributes by their short names."""
    text = re.sub(r'^device\.driver == "[^"]*" && ', "", expression)
    text = re.sub(r'"\w+" in device\.(?:capacity|attributes)\["[^"]*"\] && ', "", text)
    text = re.sub(r'device\.(?:capacity|attributes)\["[^"]*"\]\["(\w+)"\]', r"\1", text)
    text = re.sub(r"cel\.bind\(name, .*, (\[.*\])\.exists\(part, name\.contains\(part\)\)\)", r"the type contains one of \1", text)
    text = re.sub(r'^!\("productName" in device\.attributes\["[^"]*"\] && (.*)\)$', r"not \1", text)
    return re.sub(r'(\w+)\.compareTo\(quantity\("(\w+)"\)\) == 0', r"the card has \1 \2", text)


def reviews() -> dict[str, bytes]:
    """The reviews of all examples, by the name to show."""
    found = {}
    for folder in sorted(path for path in (webhook.ROOT / "examples").iterdir() if path.is_dir()):
        paths = sorted(folder.glob("review*.json"), key=lambda path: (len(path.name), path.name))
        for number, path in enumerate(paths, 1):
            found[folder.name + (f" (pod {number} of {len(paths)})" if len(paths) > 1 else "")] = path.read_bytes()
    return found


def run(hook: webhook.Webhook, options: argparse.Namespace) -> None:
    connection = hook.connect()  # the handshake is part of no review's time, as an API server keeps its connections
    print(f"Webhook ready at https://127.0.0.1:{hook.port}/mutate, {connection.sock.version()}, certificate verified.")
    answers = {name: review(connection, body) for name, body in reviews().items()}
    connection.close()
    stored = {item["metadata"]["name"]: item for item in json.loads(hook.operator("/debug/templates")[1])["items"]}
    for name, answer in answers.items():
        show(name, answer, stored, options.verbose)
    verdicts = [answer.verdict for answer in answers.values()]
    counts = ", ".join(f"{verdicts.count(verdict)} {verdict}" for verdict in ("translated", "left alone", "denied"))
    warned = sum(bool(answer.warnings) for answer in answers.values())
    times = sorted(answer.milliseconds for answer in answers.values())
    print(f"\n{len(answers)} reviews: {counts}, {warned} with warnings. {len(stored)} templates. "
          f"Median {times[len(times) // 2]:.2f} ms, slowest {times[-1]:.2f} ms.")  # fmt: skip


def keep(hook: webhook.Webhook) -> None:
    sample = webhook.ROOT / "examples" / "01-pytorch-training-job" / "review.json"
    print(f"""
The webhook keeps running until Ctrl-C. Ask it something:

  curl --cacert {hook.authority} -H 'Content-Type: application/json' \\
      --data-binary @{sample} https://127.0.0.1:{hook.port}/mutate

  curl http://127.0.0.1:{hook.operator_port}/debug/templates     the templates written so far
  curl http://127.0.0.1:{hook.operator_port}/metrics             counters and latencies
""", flush=True)  # fmt: skip
    hook.process.wait()
    raise webhook.Failure(f"the webhook ended:\n{hook.log()}")


def main() -> int:
    parser = argparse.ArgumentParser(prog="tools/demo", description="Show what the webhook makes of examples/.")
    parser.add_argument("--keep", action="store_true", help="leave the webhook running until Ctrl-C")
    parser.add_argument("-v", "--verbose", action="store_true", help="show the templates in full")
    program = webhook.ROOT / "build" / "release" / "bin" / "drawbridge"
    parser.add_argument("--program", type=Path, default=program, help="another build of drawbridge")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # as Ctrl-C: the webhook is stopped on the way out
    with tempfile.TemporaryDirectory(prefix="drawbridge-demo-") as folder:
        with webhook.started(options.program, Path(folder), *webhook.IN_MEMORY) as hook:
            run(hook, options)
            if options.keep:
                keep(hook)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (webhook.Failure, OSError) as failure:
        print(f"demo: {failure}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        print()
        sys.exit(130)
