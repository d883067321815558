"""The webhook with `--store kubernetes` against a fake API server that fails in every way a real one can."""

from __future__ import annotations

import base64
import contextlib
import copy
import http.client
import json
import os
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import fake_api
import material
import pytest
import yaml
from fake_api import SLICES, FakeApi, Fault, Request
from material import webhook

MEMORY = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "4096"}
OTHER_MEMORY = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "5000"}
HALF = {"nvidia.com/gpu": "1", "nvidia.com/gpumem-percentage": "50"}

wait_until_ready = webhook.wait_until_ready  # as it is, whatever a test puts in its place


def is_write(request: Request) -> bool:
    return request.is_write


def is_probe(request: Request) -> bool:
    return request.method == "POST" and not request.is_write


def is_any(_: Request) -> bool:
    return True


def is_watch_of(collection: str) -> Callable[[Request], bool]:
    return lambda request: request.is_watch and request.path.endswith(collection)


def is_list_of(collection: str) -> Callable[[Request], bool]:
    return lambda request: not request.is_watch and request.path.endswith("/v1/" + collection)


class Hook:
    """A running webhook and reviews for it."""

    def __init__(self, hook: webhook.Webhook, api: FakeApi) -> None:
        self.hook = hook
        self.api = api

    def send(self, limits: dict[str, str], namespace: str = "team", timeout: str = "10s", **request: Any) -> tuple[int, Any]:
        """Status and body of the answer to a pod with these limits; the body is the review's response at status 200."""
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": namespace},
               "spec": {"containers": [{"name": "main", "image": "i", "resources": {"limits": limits}}]}}  # fmt: skip
        (body,) = material.make_review.reviews(yaml.safe_dump(pod)).values()
        review = json.loads(body)
        review["request"] |= {"namespace": namespace, **request}
        with contextlib.closing(self.hook.connect()) as connection:
            headers = {"Content-Type": "application/json"}
            connection.request("POST", f"/mutate?timeout={timeout}", json.dumps(review), headers)
            answer = connection.getresponse()
            text = answer.read().decode()
        return answer.status, json.loads(text)["response"] if answer.status == 200 else text

    def template_of(self, limits: dict[str, str], namespace: str = "team", **request: Any) -> str:
        """The template that the pod is pointed at; it must be allowed."""
        status, response = self.send(limits, namespace, **request)
        assert status == 200, response
        assert response["allowed"], response
        (name,) = {
            entry["resourceClaimTemplateName"]
            for operation in json.loads(base64.b64decode(response["patch"]))
            if operation["path"].startswith("/spec/resourceClaims")
            for entry in (operation["value"] if isinstance(operation["value"], list) else [operation["value"]])
        }
        return str(name)

    def writes(self) -> int:
        return len(self.api.seen(is_write))

    def metric(self, result: str) -> int:
        (line,) = [
            line
            for line in self.hook.operator("/metrics")[1].splitlines()
            if line.startswith(f'drawbridge_template_writes_total{{result="{result}"}}')
        ]
        return int(line.rpartition(" ")[2])

    def wait(self, what: Callable[[], object], seconds: float = 30.0) -> None:
        """Waits until something holds that the webhook learns by itself."""
        deadline = time.monotonic() + seconds
        while not what():
            assert time.monotonic() < deadline, self.hook.log()
            time.sleep(0.02)


@contextlib.contextmanager
def serving(api: FakeApi, folder: Path, config: Path | None = None, ready: bool = True) -> Iterator[Hook]:
    """The webhook on the fake API server; with `ready` false it is not waited for."""
    path = config or fake_api.kubeconfig(folder, api.url)
    arguments = ("--store", "kubernetes", "--kubeconfig", str(path), "--settings", str(webhook.SETTINGS))
    with contextlib.ExitStack() as stack:
        if not ready:
            # Started as always, but not waited for: that is the test's own part.
            stack.enter_context(pytest.MonkeyPatch.context()).setattr(webhook, "wait_until_ready", wait_until_listening)
        yield Hook(stack.enter_context(webhook.started(material.program(), folder, *arguments)), api)


def wait_until_listening(hook: webhook.Webhook) -> None:
    deadline = time.monotonic() + webhook.STARTUP_SECONDS
    while time.monotonic() < deadline and hook.process.poll() is None:
        with contextlib.suppress(OSError, ValueError):
            known = json.loads((hook.folder / "ports").read_text())
            hook.port, hook.operator_port = known["https"], known["operator"]
            return
        time.sleep(0.02)
    raise webhook.Failure(f"the webhook does not listen:\n{hook.log()}")


FLEET = yaml.safe_load(webhook.FLEET.read_text())["items"]


def slices() -> list[dict[str, Any]]:
    return list(copy.deepcopy(FLEET))


@pytest.fixture
def api() -> Iterator[FakeApi]:
    with FakeApi() as running:
        for document in slices():
            running.put(SLICES, document)
        yield running


@pytest.fixture
def hook(api: FakeApi, tmp_path: Path) -> Iterator[Hook]:
    with serving(api, tmp_path) as running:
        yield running


# ---------------------------------------------------------------------------------------- templates


def test_a_template_is_written_once_and_then_known(hook: Hook) -> None:
    name = hook.template_of(MEMORY)
    assert hook.api.keys() == [f"team/{name}"]
    stored = hook.api.get(f"team/{name}")
    assert stored["metadata"]["labels"] == {"app.kubernetes.io/managed-by": "drawbridge"}
    (written,) = hook.api.seen(is_write)
    assert written.headers["user-agent"].startswith("drawbridge/")
    before = len(hook.api.requests)
    assert [hook.template_of(MEMORY) for _ in range(5)] == [name] * 5
    later = hook.api.requests[before:]
    assert [request for request in later if not request.is_watch] == [], "a warm review makes no call"
    assert hook.template_of(MEMORY, "other") == name
    assert hook.api.keys() == [f"other/{name}", f"team/{name}"]
    assert hook.metric("created") == 2


def test_a_dry_run_writes_nothing_and_foretells_a_conflict(hook: Hook) -> None:
    name = hook.template_of(MEMORY, dryRun=True)
    assert hook.api.keys() == []
    squatted = {"metadata": {"namespace": "team", "name": name}, "spec": {"spec": {"devices": {"requests": []}}}}
    hook.api.put(fake_api.TEMPLATES, squatted)
    status, response = hook.send(MEMORY, dryRun=True)
    assert (status, response["allowed"]) == (200, False)
    assert hook.writes() == 0


def test_an_equal_template_of_someone_else_serves_though_written_otherwise(hook: Hook) -> None:
    name = hook.template_of(MEMORY, "one")
    equal = hook.api.get(f"one/{name}")
    assert "4Gi" in json.dumps(equal), "the API server has rewritten 4096Mi"
    equal["metadata"] = {"namespace": "two", "name": name}
    hook.api.put(fake_api.TEMPLATES, equal)
    assert hook.template_of(MEMORY, "two") == name
    assert hook.metric("exists") == 1


def test_a_template_with_other_content_is_refused_by_name(hook: Hook) -> None:
    name = hook.template_of(MEMORY, "one")
    other = hook.api.get(f"one/{name}")
    other["metadata"] = {"namespace": "two", "name": name, "labels": {"app.kubernetes.io/managed-by": "drawbridge"}}
    other["spec"]["spec"]["devices"]["requests"][0]["exactly"]["capacity"]["requests"]["memory"] = "1Mi"
    hook.api.put(fake_api.TEMPLATES, other)
    for _ in range(2):
        status, response = hook.send(MEMORY, "two")
        assert (status, response["allowed"]) == (200, False)
        assert name in response["status"]["message"]
    assert hook.metric("conflict") == 2


def test_a_deleted_template_is_written_again(hook: Hook) -> None:
    name = hook.template_of(MEMORY)
    hook.wait(lambda: "drawbridge_templates 1" in hook.hook.operator("/metrics")[1])
    hook.api.delete(fake_api.TEMPLATES, f"team/{name}")
    hook.wait(lambda: "drawbridge_templates 0" in hook.hook.operator("/metrics")[1])
    assert hook.template_of(MEMORY) == name
    assert hook.api.keys() == [f"team/{name}"]


def test_many_pods_of_one_new_shape_are_one_write(hook: Hook) -> None:
    release = threading.Event()
    hook.api.rule(is_write, Fault(hold=release))
    with ThreadPoolExecutor(24) as pool:
        answers = [pool.submit(hook.template_of, MEMORY) for _ in range(24)]
        hook.api.wait_for(is_write)
        hook.wait(lambda: "drawbridge_reviews_in_flight 24" in hook.hook.operator("/metrics")[1])
        release.set()
        assert len({answer.result() for answer in answers}) == 1
    assert hook.writes() == 1
    assert hook.metric("created") == 1


def test_a_new_process_knows_what_an_earlier_one_wrote(api: FakeApi, tmp_path: Path) -> None:
    for run in ("first", "second"):
        folder = tmp_path / run
        folder.mkdir()
        with serving(api, folder) as hook:
            hook.api.wait_for(is_watch_of(fake_api.TEMPLATES), 1 if run == "first" else 2)
            hook.template_of(MEMORY)
    assert len(api.seen(is_write)) == 1


# ---------------------------------------------------------------------------------------- faults of a write


@pytest.mark.parametrize(
    ("fault", "result", "said"),
    [
        (Fault(403, "not allowed to create"), "refused", "not allowed to create"),
        (Fault(403, "exceeded quota: objects, requested: 1"), "refused", "quota count/resourceclaimtemplates"),
        (Fault(403, "namespace team is being terminated"), "refused", "being terminated"),
        (Fault(404, 'namespaces "team" not found'), "refused", "not found"),
        (Fault(422, "is invalid"), "refused", "is invalid"),
        (Fault(500, "etcd is gone"), "failed", "etcd is gone"),
        (Fault(503), "failed", "made to fail"),
        (Fault(504), "timed_out", "made to fail"),
        (Fault(429, "too many", {"Retry-After": "3600"}), "failed", "too many"),
        (Fault(401), "refused", "401"),
        (Fault(cut=True), "failed", "closed before the answer"),
        (Fault(raw=b"HTTP/1.1 201 Created\r\nContent-Length: 1000\r\n\r\n{"), "failed", "closed before the answer"),
        (Fault(raw=b"SSH-2.0-OpenSSH_9.2\r\n"), "failed", ""),
        (Fault(raw=b"HTTP/1.1 201 Created\r\nX: " + b"x" * 100_000), "failed", ""),
        (Fault(raw=b"HTTP/1.1 201 Created\r\nContent-Length: 99999999\r\n\r\n"), "failed", "too large"),
    ],
    ids=lambda value: f"{value.status}-{value.message[:12]}" if isinstance(value, Fault) else "",
)
def test_a_write_that_fails_is_never_a_success(hook: Hook, fault: Fault, result: str, said: str) -> None:
    rule = hook.api.rule(is_write, fault, -1)
    status, text = hook.send(MEMORY)
    assert status >= 500
    assert said in text
    assert hook.metric(result) == 1
    assert hook.api.keys() == []
    hook.api.drop(rule)
    assert f"team/{hook.template_of(MEMORY)}" in hook.api.keys()


def test_a_slow_write_ends_at_the_deadline_of_the_review_and_holds_nobody_else_up(hook: Hook) -> None:
    release = threading.Event()
    rule = hook.api.rule(lambda request: request.is_write and "/slow/" in request.path, Fault(hold=release), -1)
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(hook.send, MEMORY, "slow", "1s")
        hook.api.wait_for(is_write)
        hook.template_of(MEMORY, "quick")
        status, _ = slow.result()
    assert status in (503, 504)
    assert hook.metric("timed_out") == 1
    release.set()
    hook.api.drop(rule)
    hook.template_of(MEMORY, "slow")


def test_a_server_that_asks_to_wait_is_asked_again(hook: Hook) -> None:
    hook.api.rule(is_write, Fault(429, "later", {"Retry-After": "1"}), 2)
    hook.template_of(MEMORY)
    assert hook.writes() == 3


def test_idle_connections_that_the_server_closed_are_no_failure(hook: Hook) -> None:
    hook.template_of(MEMORY, "one")
    for namespace in ("two", "three"):
        hook.api.cut_connections()
        hook.template_of(MEMORY, namespace)


def test_a_template_that_vanishes_between_the_two_calls_is_written_again(hook: Hook) -> None:
    hook.api.rule(is_write, Fault(409, "already exists"))
    name = hook.template_of(MEMORY)
    assert hook.api.keys() == [f"team/{name}"]
    assert hook.writes() == 2


def test_a_strange_namespace_never_becomes_a_path(hook: Hook) -> None:
    before = len(hook.api.requests)
    status, _ = hook.send(MEMORY, "../../nodes?x=")
    assert status != 200 or before == len([request for request in hook.api.requests if "nodes" not in request.path])
    assert hook.api.seen(lambda request: "nodes" in request.path) == []


# ---------------------------------------------------------------------------------------- start, credentials


def test_it_is_ready_only_after_the_first_answer_and_says_why(api: FakeApi, tmp_path: Path) -> None:
    down = api.rule(is_any, Fault(cut=True), -1)
    with serving(api, tmp_path, ready=False) as hook:
        api.wait_for(is_any, 2)
        status, text = hook.hook.operator("/readyz")
        assert status == 503
        assert "no answer from the API server yet" in text
        assert hook.hook.operator("/livez")[0] == 200
        status, text = hook.send(MEMORY)
        assert status == 503
        api.drop(down)
        wait_until_ready(hook.hook)
        hook.template_of(MEMORY)


def test_a_server_that_goes_away_leaves_known_shapes_working(api: FakeApi, hook: Hook) -> None:
    hook.template_of(MEMORY)
    hook.wait(lambda: "drawbridge_templates 1" in hook.hook.operator("/metrics")[1])
    down = api.rule(is_any, Fault(cut=True), -1)
    api.cut_connections()
    hook.template_of(MEMORY)
    assert hook.send(OTHER_MEMORY)[0] >= 500
    assert hook.hook.operator("/readyz")[0] == 200, "the known result stays"
    api.drop(down)
    hook.template_of(OTHER_MEMORY)


def test_a_token_that_was_exchanged_is_read_again(api: FakeApi, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("old\n")
    api.tokens = {"old"}
    config = fake_api.kubeconfig(tmp_path, api.url, user={"tokenFile": str(token)})
    with serving(api, tmp_path, config) as hook:
        token.write_text("new\n")
        api.tokens = {"new"}
        hook.template_of(MEMORY)
        assert [request.headers["authorization"] for request in api.seen(is_write)] == ["Bearer old", "Bearer new"]


def test_an_exec_plugin_gives_the_token(api: FakeApi, tmp_path: Path) -> None:
    plugin = tmp_path / "plugin"
    plugin.write_text(
        "#!/bin/sh\n"
        """printf '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"%s"}}' "$1"\n"""
    )
    plugin.chmod(0o755)
    api.tokens = {"a b"}
    execute = {"apiVersion": "client.authentication.k8s.io/v1", "command": "./plugin", "args": ["tok en"]}
    config = fake_api.kubeconfig(tmp_path, api.url, user={"exec": execute})
    with serving(api, tmp_path, config, ready=False) as hook:
        hook.wait(lambda: "token" in hook.hook.operator("/readyz")[1])
    api.tokens = {"token"}
    execute["args"] = ["token"]
    config = fake_api.kubeconfig(tmp_path, api.url, user={"exec": execute})
    (tmp_path / "ports").unlink()
    with serving(api, tmp_path, config) as hook:
        hook.template_of(MEMORY)


def openssl(folder: Path, *arguments: str) -> None:
    subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def authority(tmp_path: Path) -> Path:
    """A folder with ca.crt, and server.* and client.* signed by it."""
    folder = tmp_path / "pki"
    folder.mkdir()
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2")
    openssl(folder, "req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.crt", "-subj", "/CN=ca")
    for name, subject in (("server", "/CN=kube-apiserver"), ("client", "/O=system:masters/CN=admin")):
        openssl(folder, "req", "-x509", *key, "-keyout", f"{name}.key", "-out", f"{name}.crt", "-subj", subject,
                "-CA", "ca.crt", "-CAkey", "ca.key", "-addext", "subjectAltName=IP:127.0.0.1,DNS:kubernetes")  # fmt: skip
    return folder


@pytest.fixture
def secure_api(authority: Path) -> Iterator[FakeApi]:
    """An API server that wants a client certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority / "server.crt", authority / "server.key")
    context.load_verify_locations(authority / "ca.crt")
    context.verify_mode = ssl.CERT_REQUIRED
    with FakeApi(context) as running:
        yield running


def inline(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


def test_client_certificates_work_from_files_and_inline(secure_api: FakeApi, authority: Path, tmp_path: Path) -> None:
    forms = {
        "files": ({"certificate-authority": "pki/ca.crt"},
                  {"client-certificate": "pki/client.crt", "client-key": "pki/client.key"}),
        "inline": ({"certificate-authority-data": inline(authority / "ca.crt")},
                   {"client-certificate-data": inline(authority / "client.crt"),
                    "client-key-data": inline(authority / "client.key")}),
        "name": ({"certificate-authority": "pki/ca.crt", "tls-server-name": "kubernetes"},
                 {"client-certificate": "pki/client.crt", "client-key": "pki/client.key"}),
    }  # fmt: skip
    for form, (cluster, user) in forms.items():
        folder = tmp_path / form
        folder.mkdir()
        with serving(secure_api, folder, fake_api.kubeconfig(tmp_path, secure_api.url, cluster, user)) as hook:
            hook.template_of(MEMORY, form)


@pytest.mark.parametrize(
    ("cluster", "said"),
    [
        ({"certificate-authority-data": "client"}, "not trusted"),
        ({}, "not trusted"),
        ({"certificate-authority": "pki/ca.crt", "tls-server-name": "other.example"}, "not trusted"),
    ],
)
def test_a_server_that_cannot_be_trusted_is_not_talked_to(
    secure_api: FakeApi, authority: Path, tmp_path: Path, cluster: dict[str, str], said: str
) -> None:
    if "certificate-authority-data" in cluster:
        cluster = {"certificate-authority-data": inline(authority / "client.crt")}
    config = fake_api.kubeconfig(tmp_path, secure_api.url, cluster, {"token": "secret"})
    with serving(secure_api, tmp_path, config, ready=False) as hook:
        hook.wait(lambda: said in hook.hook.operator("/readyz")[1])
        assert secure_api.requests == []


def test_bad_credentials_end_the_start_with_the_place(api: FakeApi, tmp_path: Path) -> None:
    config = fake_api.kubeconfig(tmp_path, api.url, {"proxy-url": "http://proxy:3128"})
    outcome = subprocess.run(
        [material.program(), "serve", "--self-signed", str(tmp_path / "tls"), "--listen", "127.0.0.1:0",
         "--operator-listen", "127.0.0.1:0", "--store", "kubernetes", "--kubeconfig", str(config)],
        capture_output=True, text=True, timeout=60, check=False, env=os.environ | {"HOME": str(tmp_path)},
    )  # fmt: skip
    assert outcome.returncode == 1
    assert "/clusters/0/cluster/proxy-url is not supported" in outcome.stderr


# ---------------------------------------------------------------------------------------- features


@pytest.mark.parametrize(
    ("minor", "gates", "code", "said"),
    [
        ("34", fake_api.ALL_GATES, "server-too-old", "1.34 is too old"),
        ("36", frozenset({"DRAPrioritizedList"}), "gate-off", "drops capacity.requests (DRAConsumableCapacity)"),
        ("36", frozenset({"DRAConsumableCapacity"}), "gate-off", "drops firstAvailable (DRAPrioritizedList)"),
    ],
)
def test_a_server_that_cannot_do_it_is_told_and_nothing_is_translated(
    api: FakeApi, tmp_path: Path, minor: str, gates: frozenset[str], code: str, said: str
) -> None:
    api.minor, api.gates = minor, gates
    with serving(api, tmp_path) as hook:
        assert said in hook.hook.operator("/readyz")[1]
        status, response = hook.send(MEMORY)
        assert (status, response["allowed"]) == (200, False)
        assert f'"codes":"{code}"' in hook.hook.log()
        assert hook.writes() == 0


@pytest.mark.parametrize(("minor", "requests"), [("35", 8), ("35+", 8), ("36", 1), ("36+", 1), ("40", 1)])
def test_the_shape_follows_the_minor(api: FakeApi, tmp_path: Path, minor: str, requests: int) -> None:
    api.minor = minor
    with serving(api, tmp_path) as hook:
        name = hook.template_of(MEMORY | {"nvidia.com/gpu": "8"})
        assert len(api.get(f"team/{name}")["spec"]["spec"]["devices"]["requests"]) == requests


def test_a_probe_that_is_refused_leaves_the_process_ready_and_says_why(api: FakeApi, tmp_path: Path) -> None:
    api.rule(is_probe, Fault(403, "may not create"), -1)
    with serving(api, tmp_path) as hook:
        assert "may not create" in hook.hook.operator("/readyz")[1]
        status, response = hook.send(MEMORY)
        assert (status, response["allowed"]) == (200, False)


def test_a_refused_write_leads_to_a_new_probe(hook: Hook) -> None:
    hook.api.gates = frozenset()
    hook.api.rule(is_write, Fault(422, "unknown field"))
    assert hook.send(MEMORY)[0] >= 500
    hook.wait(lambda: "drops" in hook.hook.operator("/readyz")[1])
    assert hook.send(MEMORY)[1]["allowed"] is False


# ---------------------------------------------------------------------------------------- the fleet


def sizes(hook: Hook, namespace: str = "team") -> int:
    """How many memory sizes the webhook knows, as a percentage shows them."""
    name = hook.template_of(HALF, namespace)
    (request,) = hook.api.get(f"{namespace}/{name}")["spec"]["spec"]["devices"]["requests"]
    return len(request.get("firstAvailable", [request]))


def extra_slice(name: str, memory: str) -> dict[str, Any]:
    document = slices()[0]
    document["metadata"]["name"] = name
    document["spec"]["pool"]["name"] = name
    del document["spec"]["devices"][1:]
    document["spec"]["devices"][0]["capacity"]["memory"]["value"] = memory
    return document


def test_percentages_follow_the_slices_through_every_fault_of_a_watch(api: FakeApi, hook: Hook) -> None:
    api.put(SLICES, extra_slice("always", "500Mi"))
    for document in slices():
        api.delete(SLICES, document["metadata"]["name"])
    known = 1
    hook.wait(lambda: sizes(hook) == known)
    api.put(SLICES, extra_slice("more-1", "1000Mi"))
    hook.wait(lambda: sizes(hook) == known + 1)
    api.close_watches()
    api.put(SLICES, extra_slice("more-2", "2000Mi"))
    hook.wait(lambda: sizes(hook) == known + 2)
    api.put(SLICES, extra_slice("more-3", "3000Mi"))
    api.forget_history()
    api.close_watches()
    hook.wait(lambda: sizes(hook) == known + 3)
    api.rule(is_watch_of(SLICES), Fault(410, "too old"))
    api.close_watches()
    api.delete(SLICES, "more-1")
    hook.wait(lambda: sizes(hook) == known + 2)
    api.rule(is_watch_of(SLICES), Fault(raw=b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\ngarbage\n"))
    api.close_watches()
    api.delete(SLICES, "more-2")
    hook.wait(lambda: sizes(hook) == known + 1)
    hook.wait(lambda: hook.hook.operator("/readyz")[0] == 200)


def test_slices_of_other_drivers_and_bad_ones_do_not_count(api: FakeApi, hook: Hook) -> None:
    known = sizes(hook)
    foreign = extra_slice("foreign", "1000Mi")
    foreign["spec"]["driver"] = "gpu.example.com"
    api.put(SLICES, foreign)
    bad = extra_slice("bad", "1000Mi")
    bad["spec"]["devices"][0]["capacity"]["memory"]["value"] = "much"
    api.put(SLICES, bad)
    api.put(SLICES, extra_slice("good", "1500Mi"))
    hook.wait(lambda: sizes(hook) == known + 1)
    assert "ResourceSlice bad" in hook.hook.log()


def test_many_slices_come_in_pages(api: FakeApi, tmp_path: Path) -> None:
    devices = [device for item in slices() for device in item["spec"]["devices"]]
    for number in range(250):
        api.put(SLICES, extra_slice(f"node-{number:03}", f"{1000 + number % 2}Mi"))
    with serving(api, tmp_path) as hook:
        assert sizes(hook) == 2 + len({device["capacity"]["memory"]["value"] for device in devices})
    lists = api.seen(is_list_of(SLICES))
    assert len(lists) == 3
    assert all(request.query["fieldSelector"] == "spec.driver=gpu.drawbridge.dev" for request in lists)


def test_percentages_wait_for_the_first_list_and_nothing_else_does(api: FakeApi, tmp_path: Path) -> None:
    refused = api.rule(lambda request: request.path.endswith(SLICES), Fault(403, "may not list"), -1)
    with serving(api, tmp_path) as hook:
        assert hook.send(HALF)[0] == 503
        hook.template_of(MEMORY)
        api.drop(refused)
        hook.wait(lambda: hook.send(HALF)[0] == 200)


# ---------------------------------------------------------------------------------------- the end


def test_it_ends_at_once_though_watches_are_open(hook: Hook) -> None:
    hook.api.wait_for(is_watch_of(SLICES))
    hook.api.wait_for(is_watch_of(fake_api.TEMPLATES))
    hook.hook.process.terminate()
    assert hook.hook.process.wait(timeout=20) == 0


def test_it_ends_though_a_write_hangs(hook: Hook) -> None:
    release = threading.Event()
    hook.api.rule(is_write, Fault(hold=release), -1)
    with ThreadPoolExecutor(1) as pool:
        pending = pool.submit(hook.send, MEMORY, "team", "1s")
        hook.api.wait_for(is_write)
        hook.hook.process.terminate()
        with contextlib.suppress(OSError, http.client.HTTPException):
            assert pending.result()[0] >= 500
        assert hook.hook.process.wait(timeout=20) == 0
    release.set()
