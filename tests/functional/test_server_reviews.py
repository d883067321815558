"""Reviews over HTTPS: the recorded ones come to what their table says, and broken ones are told what is wrong."""

from __future__ import annotations

import base64
import json
import re
from typing import Any

import json_patch
import material
import pytest
import wire
from conftest import Start
from material import webhook

REVIEWS = material.ROOT / "tests" / "reviews"
LEGACY = {f"nvidia.com/{name}" for name in ("gpu", "gpumem", "gpumem-percentage", "gpucores", "priority")}


def expectations() -> dict[str, str]:
    """The table of tests/reviews/README.md: file -> what is right."""
    rows = re.findall(r"^\| `([^`]+\.json)` \|.*\| ([^|]+) \|$", (REVIEWS / "README.md").read_text(), re.MULTILINE)
    return dict(rows)


EXPECTED = expectations()


def ask(hook: webhook.Webhook, body: bytes) -> dict[str, Any]:
    status, headers, answer = wire.exchange(hook, wire.request(body))
    assert status == 200, answer
    assert headers["content-type"] == "application/json"
    document = json.loads(answer)
    assert (document["apiVersion"], document["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    response = document["response"]
    assert ("patch" in response) == ("patchType" in response)
    return response


def patched(body: bytes, response: dict[str, Any]) -> Any:
    pod = json.loads(body)["request"]["object"]
    if "patch" not in response:
        return pod
    assert response["patchType"] == "JSONPatch"
    operations = json.loads(base64.b64decode(response["patch"], validate=True))
    assert operations, "an empty patch is no patch"
    return json_patch.apply(pod, operations)


def legacy_left(pod: dict[str, Any]) -> set[str]:
    containers = pod["spec"]["containers"] + (pod["spec"].get("initContainers") or [])
    lists = [(container.get("resources") or {}).get(kind) or {} for container in containers for kind in ("limits", "requests")]
    return LEGACY & {name for names in lists for name in names}


def test_the_table_and_the_folder_agree() -> None:
    assert set(EXPECTED) == {path.name for path in REVIEWS.glob("*.json")}


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_a_recorded_review_comes_to_what_the_table_says(shared: webhook.Webhook, name: str) -> None:
    body = (REVIEWS / name).read_bytes()
    response = ask(shared, body)
    assert response["uid"] == json.loads(body)["request"]["uid"]
    expected = EXPECTED[name]
    assert response["allowed"] == (expected != "reject")
    pod = patched(body, response)
    if expected == "reject":
        assert response["status"]["code"] in (403, 422)
        assert response["status"]["reason"] == {403: "Forbidden", 422: "Invalid"}[response["status"]["code"]]
        assert 'container "' in response["status"]["message"] or "nodeName" in response["status"]["message"] \
            or "annotation" in response["status"]["message"]  # fmt: skip
    elif expected.startswith("leave"):
        assert "patch" not in response
    elif expected.startswith("no claim"):
        assert not pod["spec"].get("resourceClaims")
    elif expected.startswith("strip"):
        assert not legacy_left(pod)
        old = json.loads(body)["request"]["oldObject"]["spec"]
        assert pod["spec"] == old, "what remains is what the pod has"
    else:
        assert expected in ("translate", "warn", "translate, nothing written")
        assert not legacy_left(pod)
        assert pod["spec"]["resourceClaims"]
        assert bool(response.get("warnings")) or expected != "warn"


def templates(hook: webhook.Webhook) -> list[dict[str, Any]]:
    status, body = hook.operator("/debug/templates")
    assert status == 200
    document = json.loads(body)
    assert (document["apiVersion"], document["kind"]) == ("v1", "List")
    return document["items"]


def test_a_template_is_written_once_a_namespace_and_never_in_a_dry_run(start: Start) -> None:
    hook = start(*webhook.IN_MEMORY)
    for dry_run, namespace, expected in [(True, "a", 0), (False, "a", 1), (False, "a", 1), (True, "b", 1), (False, "b", 2)]:
        response = ask(hook, wire.review(dryRun=dry_run, namespace=namespace))
        assert "patch" in response
        assert len(templates(hook)) == expected
        assert wire.metric(hook, "drawbridge_templates") == expected
    assert wire.metric(hook, 'drawbridge_template_writes_total{result="created"}') == 2
    assert [item["metadata"]["namespace"] for item in templates(hook)] == ["a", "b"]


def test_a_pod_that_names_a_lost_template_is_healed_or_denied(start: Start) -> None:
    hook = start(*webhook.IN_MEMORY)
    elsewhere = start(*webhook.IN_MEMORY)
    pod = patched(wire.SOME_POD, ask(elsewhere, wire.SOME_POD))
    again = wire.review(object=pod)
    assert ask(hook, again) == {"uid": json.loads(again)["request"]["uid"], "allowed": True}
    assert templates(hook) == templates(elsewhere)
    del pod["metadata"]["annotations"]["drawbridge.dev/original"]
    response = ask(start(*webhook.IN_MEMORY), wire.review(object=pod))
    assert response["allowed"] is False
    assert pod["spec"]["resourceClaims"][0]["resourceClaimTemplateName"] in response["status"]["message"]


@pytest.mark.parametrize("uid", ["x", "9091c6ae-5822-4c60-8134-6752634ab522", 'quote " and \\ and / and é\U0001f600', "\u0001\n", "u" * 5000])
def test_the_uid_comes_back_exactly(shared: webhook.Webhook, uid: str) -> None:
    assert ask(shared, wire.review(uid=uid))["uid"] == uid


@pytest.mark.parametrize(
    "changes",
    [
        {"operation": "DELETE", "object": None},
        {"operation": "CONNECT"},
        {"subResource": "status"},
        {"resource": {"group": "", "version": "v1", "resource": "configmaps"}},
        {"resource": {"group": "apps", "version": "v1", "resource": "pods"}},
        {"resource": None},
    ],
)
def test_what_is_no_pod_to_create_is_allowed_untouched(shared: webhook.Webhook, changes: dict[str, Any]) -> None:
    body = wire.review(**changes)
    assert ask(shared, body) == {"uid": json.loads(body)["request"]["uid"], "allowed": True}


def broken(**changes: Any) -> bytes:
    return json.dumps(json.loads(wire.SOME_POD) | changes).encode()


BROKEN = {
    "nothing": (b"", ""),
    "no JSON": (b"uid=1", ""),
    "half a review": (wire.SOME_POD[:2000], ""),
    "two reviews": (wire.SOME_POD * 2, ""),
    "an array": (b"[]", "object"),
    "null": (b"null", "object"),
    "another version": (broken(apiVersion="admission.k8s.io/v1beta1"), "/apiVersion"),
    "another kind": (broken(kind="ConversionReview"), "/kind"),
    "no request": (broken(request=None), "/request"),
    "no uid": (wire.review(uid=None), "/request/uid"),
    "an empty uid": (wire.review(uid=""), "/request/uid"),
    "a number as uid": (wire.review(uid=7), "/request/uid"),
    "a text as dryRun": (wire.review(dryRun="yes"), "/request/dryRun"),
    "no object": (wire.review(object=None), "/request/object"),
    "a text as object": (wire.review(object="pod"), "/request/object"),
    "an update without the old object": (wire.review(operation="UPDATE"), "/request/oldObject"),
    "a member twice": (wire.SOME_POD.replace(b'"uid":', b'"uid":"first","uid":', 1), "uid"),
    "invalid UTF-8": (wire.SOME_POD.replace(b'"train"', b'"tr\xff\xfein"', 1), ""),
    "half a surrogate": (wire.SOME_POD.replace(b'"train"', b'"tr\\ud800in"', 1), ""),
    "deep arrays": (b"[" * 3_000_000, ""),
    "deep objects": (b'{"a":' * 1_000_000, ""),
    "a deep pod": (wire.review(object={"spec": json.loads('{"a":' * 200 + "1" + "}" * 200)}), ""),
}  # fmt: skip


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_review_is_told_what_is_wrong_with_it(shared: webhook.Webhook, what: str) -> None:
    body, place = BROKEN[what]
    status, _, answer = wire.exchange(shared, wire.request(body))
    assert status == 400
    document = json.loads(answer)
    assert document["kind"] == "Status"
    assert place in document["message"]
    assert len(document["message"]) < 1000
    assert wire.serves(shared)


def test_a_connection_survives_a_broken_review(shared: webhook.Webhook) -> None:
    with wire.secure(shared) as connection:
        answers = wire.Answers(connection)
        connection.sendall(wire.request(b"{}") + wire.request())
        assert [answers.next()[0] for _ in range(2)] == [400, 200]


def test_long_and_foreign_text_stays_within_the_limits_of_the_api(shared: webhook.Webhook) -> None:
    pod = json.loads(wire.SOME_POD)["request"]["object"]
    container = pod["spec"]["containers"][0]
    pod["spec"]["containers"] = [
        container | {"name": f"c{number}\n\u0007" + "é" * 200, "resources": {"limits": {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "8Gi"}}}
        for number in range(100)
    ]  # fmt: skip
    response = ask(shared, wire.review(object=pod))
    message = response["status"]["message"]
    assert response["allowed"] is False
    assert len(message.encode()) <= 8192
    assert re.search(r"^\+\d+ more$", message, re.MULTILINE)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", message)
    for container in pod["spec"]["containers"]:
        container["resources"] = {"limits": {"nvidia.com/gpu": "1", "nvidia.com/gpucores": "150"}}
    warnings = ask(shared, wire.review(object=pod))["warnings"]
    assert all(len(warning.encode()) <= 256 for warning in warnings)
    assert sum(len(warning.encode()) for warning in warnings) <= 4096
    assert re.fullmatch(r"\+\d+ more", warnings[-1])
    assert not re.search(r"[\x00-\x1f\x7f]", "".join(warnings))
