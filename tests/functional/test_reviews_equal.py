"""The server and the command line give the same answer to the same object: verdict, codes, templates, patched object.

All examples, cases and recorded reviews go through the running server over HTTPS; its patches are applied by
json_patch.py, which shares no code with the program.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass
from http.client import HTTPSConnection
from pathlib import Path
from typing import Any

import json_patch
import material
import pytest
from material import webhook


def bodies() -> dict[str, bytes]:
    """Every review: the recorded ones, and those that the pods of examples and cases would send."""
    found = {f"recorded {path.stem}": path.read_bytes() for path in material.RECORDED}
    for manifest in material.EXAMPLES + material.CASES:
        name = manifest.parent.name if manifest.name == "before.yaml" else manifest.stem
        for file, body in material.make_review.reviews(manifest.read_text(encoding="utf-8")).items():
            found[f"{name} {Path(file).stem}"] = body.encode()
    return found


BODIES = bodies()
CREATES = [name for name, body in BODIES.items() if json.loads(body)["request"]["operation"] == "CREATE"]
UPDATES = [name for name in BODIES if name not in CREATES]
# Of tests/reviews/README.md: what the UPDATE is right to come to.
UPDATE_VERDICTS = {
    "recorded 01-memory-round-thousand-update-label": "leave",
    "recorded 01-memory-round-thousand-update-reapply": "leave",
    "recorded reapply-new-label": "strip",
    "recorded reapply-unchanged": "strip",
    "recorded reapply-changed-figure": "leave",
}


@dataclass
class Online:
    """The server's answer to one review."""

    verdict: str
    codes: set[str]
    patched: Any  # the pod with the patch applied; None where it was denied


@dataclass
class Server:
    """The running webhook, asked over one connection."""

    hook: webhook.Webhook
    connection: HTTPSConnection

    def review(self, body: bytes) -> Online:
        request, answer = json.loads(body)["request"], json.loads(webhook.post(self.connection, body))
        assert (answer["kind"], answer["apiVersion"]) == ("AdmissionReview", "admission.k8s.io/v1")
        response = answer["response"]
        assert response["uid"] == request["uid"]
        line = self.logged(request["uid"])
        assert (line["verdict"] == "deny") == (not response["allowed"])
        patched = None
        if response["allowed"]:
            assert ("patch" in response) == (response.get("patchType") == "JSONPatch")
            patched = json_patch.apply(request["object"], json.loads(base64.b64decode(response.get("patch", "W10="))))
        return Online(line["verdict"], set(filter(None, line["codes"].split(","))), patched)

    def logged(self, uid: str) -> dict[str, Any]:
        """The newest log line of a review."""
        lines = [json.loads(line) for line in self.hook.log().splitlines() if uid in line]
        return [line for line in lines if line["msg"] == "admission"][-1]

    def templates(self, namespace: str) -> dict[str, Any]:
        """What is stored for a namespace: name -> spec."""
        items = json.loads(self.hook.operator("/debug/templates")[1])["items"]
        return {item["metadata"]["name"]: item["spec"] for item in items if item["metadata"]["namespace"] == namespace}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("webhook")
    with webhook.started(material.program(), folder, *webhook.IN_MEMORY) as hook:
        connection = hook.connect()
        yield Server(hook, connection)
        connection.close()


@pytest.mark.parametrize("name", CREATES)
def test_server_and_command_line_agree(server: Server, name: str) -> None:
    request = json.loads(BODIES[name])["request"]
    online = server.review(BODIES[name])
    offline = material.offline(request["object"], request["namespace"])
    assert online.verdict == offline.verdict
    assert online.codes == offline.codes
    if offline.verdict == "deny":
        return
    assert online.patched == offline.document
    used = {entry.get("resourceClaimTemplateName") for entry in online.patched["spec"].get("resourceClaims", [])}
    assert set(offline.templates) == {name for name in used if name and name.startswith("drawbridge-")}
    if not request["dryRun"]:
        written = server.templates(request["namespace"])
        assert {name: written[name] for name in offline.templates} == offline.templates


@pytest.mark.parametrize("name", UPDATES)
def test_updates_come_to_what_the_record_says(server: Server, name: str) -> None:
    request = json.loads(BODIES[name])["request"]
    answer = server.review(BODIES[name])
    if UPDATE_VERDICTS[name] == "leave":
        assert answer.patched == request["object"]
    else:
        assert answer.patched["spec"] == request["oldObject"]["spec"]
        assert answer.patched["metadata"] == request["object"]["metadata"]


def test_a_dry_run_writes_nothing(server: Server) -> None:
    body = json.loads(BODIES["recorded 04-memory-half-percent-dry-run"])
    body["request"]["namespace"] = "only-dry-runs"
    assert server.review(json.dumps(body).encode()).verdict == "translate"
    assert server.templates("only-dry-runs") == {}


@pytest.mark.parametrize("case", material.CASES, ids=lambda path: path.stem)
def test_the_reviews_we_make_are_like_the_recorded_ones(case: Path) -> None:
    recorded = material.ROOT / "tests" / "reviews" / f"{case.stem}.json"
    (made,) = material.make_review.reviews(case.read_text(encoding="utf-8")).values()
    assert resources(json.loads(made)), "a pod has containers"
    if recorded.exists():
        assert resources(json.loads(made)) == resources(json.loads(recorded.read_bytes()))


def resources(review: dict[str, Any]) -> list[tuple[str, Any]]:
    spec = review["request"]["object"]["spec"]
    return [(c["name"], c.get("resources")) for key in ("initContainers", "containers") for c in spec.get(key, [])]
