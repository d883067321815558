"""Starting, changing and stopping: what a roll-out, a renewed certificate and new settings do to callers (nothing)."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import material
import pytest
import wire
from conftest import Start
from material import webhook

CLIENT = Path(__file__).resolve().parent / "client"  # a certificate for a hundred years


def until(holds: Callable[[], bool], what: str) -> None:
    """Waits for something that comes; a test that waits in vain fails."""
    deadline = time.monotonic() + wire.PATIENCE
    while not holds():
        assert time.monotonic() < deadline, f"in vain: {what}"
        time.sleep(0.02)


@contextlib.contextmanager
def launched(folder: Path, *arguments: str, ready: bool = True) -> Iterator[webhook.Webhook]:
    """A webhook with options of the test's own; `folder/tls/ca.crt` vouches for it."""
    command = [material.program(), "serve", "--listen", "127.0.0.1:0", "--operator-listen", "127.0.0.1:0",
               "--port-file", str(folder / "ports"), "--drain-delay", "0s", *arguments]  # fmt: skip
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    hook = webhook.Webhook(process, folder)
    try:
        if ready:
            webhook.wait_until_ready(hook)
        else:
            until(lambda: (folder / "ports").exists(), "the port file")
            ports = json.loads((folder / "ports").read_text())
            hook.port, hook.operator_port = ports["https"], ports["operator"]
        yield hook
    finally:
        process.kill()
        process.wait()


def replace(source: Path, target: Path) -> None:
    """Puts a file in another's place, as whoever renews it should."""
    waiting = target.with_suffix(".new")
    shutil.copy(source, waiting)
    waiting.rename(target)


class Callers:
    """Clients that never stop asking. Each asks an instance that is ready, over a connection kept until it is told
    to close it; every failed call is kept."""

    def __init__(self, hooks: list[webhook.Webhook], authority: Path, calls: int, kept_alive: bool = True) -> None:
        self.hooks = hooks
        self.context = ssl.create_default_context(cafile=str(authority))
        self.kept_alive = kept_alive
        self.left = calls
        self.lock = threading.Lock()
        self.answered = {hook.port: 0 for hook in hooks}
        self.failures: list[str] = []
        self.stopping = threading.Event()
        self.ready = list(hooks)
        self.threads = [threading.Thread(target=self._ask) for _ in range(4)]
        self.watcher = threading.Thread(target=self._watch)

    def __enter__(self) -> Callers:
        for thread in (self.watcher, *self.threads):
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        for thread in self.threads:
            thread.join()
        self.stopping.set()
        self.watcher.join()

    def _watch(self) -> None:
        """Keeps the list of those that say they are ready, as endpoints of a service are kept."""
        while not self.stopping.wait(0.02):
            ready = []
            for hook in self.hooks:
                with contextlib.suppress(OSError, http.client.HTTPException):
                    if hook.operator("/readyz")[0] == 200:
                        ready.append(hook)
            self.ready = ready

    def _take(self) -> bool:
        with self.lock:
            self.left -= 1
            return self.left >= 0 and not self.stopping.is_set()

    def _ask(self) -> None:
        connection: http.client.HTTPSConnection | None = None
        asked: webhook.Webhook | None = None
        while self._take():
            try:
                if connection is None or asked not in self.ready:
                    if connection:
                        connection.close()
                    until(lambda: bool(self.ready), "an instance that is ready")
                    asked = self.ready[0]
                    connection = http.client.HTTPSConnection("127.0.0.1", asked.port, timeout=wire.PATIENCE, context=self.context)
                connection.request("POST", "/mutate?timeout=5s", wire.SOME_POD, {"Content-Type": "application/json"})
                answer = connection.getresponse()
                body = answer.read()
                assert answer.status == 200, body
                assert json.loads(body)["response"]["allowed"] is True
                with self.lock:
                    self.answered[asked.port] += 1
                if answer.will_close or not self.kept_alive:
                    connection.close()
                    connection = None
            except Exception as failure:
                with self.lock:
                    self.failures.append(repr(failure))
                connection = None

    def answers(self) -> int:
        with self.lock:
            return sum(self.answered.values())


def roll_out(start: Start, calls: int) -> None:
    first = start(*webhook.IN_MEMORY, "--drain-delay", "1s")
    second = start(*webhook.IN_MEMORY)
    authority = first.folder / "both.crt"
    authority.write_text(first.authority.read_text() + second.authority.read_text())
    with Callers([first, second], authority, calls) as callers:
        until(lambda: callers.answers() > calls // 4, "some answers")
        first.process.send_signal(signal.SIGTERM)
        assert first.process.wait(timeout=wire.PATIENCE) == 0
    assert callers.failures == []
    assert sum(callers.answered.values()) == calls
    assert all(count > 0 for count in callers.answered.values()), "both served"


def test_a_second_instance_takes_over_without_a_failed_call(start: Start) -> None:
    roll_out(start, 2_000)


@pytest.mark.long
def test_a_second_instance_takes_over_without_a_failed_call_of_ten_thousand(start: Start) -> None:
    roll_out(start, 10_000)


def test_a_drain_says_so_at_once_and_finishes_what_has_begun(start: Start) -> None:
    hook = start("--drain-delay", "500ms")
    request = wire.request()
    with wire.secure(hook) as kept, wire.secure(hook) as begun, wire.secure(hook) as idle:
        for connection in (kept, idle):
            connection.sendall(request)
            assert "connection" not in wire.Answers(connection).next()[1]
        hook.process.send_signal(signal.SIGTERM)
        until(lambda: hook.operator("/readyz")[0] == 503, "word of the drain")
        assert "not ready: draining" in hook.operator("/readyz")[1]
        assert wire.serves(hook), "new callers are served until the delay is over"
        kept.sendall(request)
        answers = wire.Answers(kept)
        assert answers.next()[1]["connection"] == "close"
        assert answers.closed()
        begun.sendall(request[:-5])
        assert wire.Answers(idle).closed(), "who waits for nothing is let go after the delay"
        begun.sendall(request[-5:])
        assert wire.Answers(begun).next()[0] == 200
        assert hook.process.wait(timeout=wire.PATIENCE) == 0


def test_a_drain_does_not_wait_for_ever(start: Start) -> None:
    hook = start("--drain-limit", "200ms", "--body-timeout", "2m")
    with wire.secure(hook) as stuck:
        stuck.sendall(wire.request()[:-5])
        until(lambda: wire.metric(hook, "drawbridge_connections") == 1, "the connection")
        hook.process.send_signal(signal.SIGTERM)
        assert hook.process.wait(timeout=wire.PATIENCE) == 0


def test_a_second_signal_ends_at_once(start: Start) -> None:
    hook = start("--drain-delay", "10m")
    hook.process.send_signal(signal.SIGINT)
    until(lambda: hook.operator("/readyz")[0] == 503, "word of the drain")
    hook.process.send_signal(signal.SIGTERM)
    assert hook.process.wait(timeout=wire.PATIENCE) == 1


def test_a_certificate_is_swapped_under_load(start: Start, tmp_path: Path) -> None:
    old, new = (start().folder / "tls" for _ in range(2))
    tls = tmp_path / "served" / "tls"
    tls.mkdir(parents=True)
    (tls / "ca.crt").write_text((old / "ca.crt").read_text() + (new / "ca.crt").read_text())
    for file in ("tls.crt", "tls.key"):
        shutil.copy(old / file, tls / file)

    def served() -> bytes:
        with wire.secure(hook) as connection:
            return connection.getpeercert(binary_form=True) or b""

    with launched(tls.parent, "--tls-cert", str(tls / "tls.crt"), "--tls-key", str(tls / "tls.key")) as hook:
        before = served()
        with Callers([hook], tls / "ca.crt", 10**9, kept_alive=False) as callers, wire.secure(hook) as kept:
            try:
                until(lambda: callers.answers() > 50, "some answers")
                replace(new / "tls.crt", tls / "tls.crt")  # a moment with a pair that does not match
                replace(new / "tls.key", tls / "tls.key")
                until(lambda: served() != before, "the new certificate")
                after = callers.answers()
                until(lambda: callers.answers() > after + 50, "answers with the new certificate")
                (tls / "tls.crt").write_text("no certificate")
                until(lambda: wire.metric(hook, 'drawbridge_certificate_reloads_total{result="failure"}') >= 1, "a refusal")
                assert served() != before
                kept.sendall(wire.request())
                assert wire.Answers(kept).next()[0] == 200, "a connection outlives its certificate"
            finally:
                callers.stopping.set()
        assert callers.failures == []
        assert wire.metric(hook, 'drawbridge_certificate_reloads_total{result="success"}') == 1
        assert hook.operator("/readyz")[0] == 200


def test_without_a_certificate_the_webhook_waits_for_one(start: Start, tmp_path: Path) -> None:
    pair = start().folder / "tls"
    tls = tmp_path / "served" / "tls"
    tls.mkdir(parents=True)
    shutil.copy(pair / "ca.crt", tls / "ca.crt")
    with launched(tls.parent, "--tls-cert", str(tls / "tls.crt"), "--tls-key", str(tls / "tls.key"), ready=False) as hook:
        status, reasons = hook.operator("/readyz")
        assert (status, reasons.splitlines()[0]) == (503, "not ready: no usable certificate was found yet")
        assert hook.operator("/livez")[0] == 200
        with pytest.raises(OSError):  # noqa: PT011
            wire.secure(hook)
        for file in ("tls.crt", "tls.key"):
            shutil.copy(pair / file, tls / file)
        until(lambda: hook.operator("/readyz")[0] == 200, "readiness")
        assert wire.serves(hook)


def allowed_codes(hook: webhook.Webhook) -> bool:
    """Whether the pod that every test sends is translated."""
    return "patch" in json.loads(wire.exchange(hook, wire.request())[2])["response"]


SETTINGS = "apiVersion: drawbridge.dev/v1\nkind: Settings\nprofile: drawbridge\n"
RENAMED = SETTINGS + "resources:\n  count: example.com/gpu\n  memory: example.com/gpumem\n"


def test_settings_are_swapped_under_load(start: Start, tmp_path: Path) -> None:
    settings = tmp_path / "settings.yaml"
    settings.write_text(SETTINGS)
    hook = start("--settings", str(settings))
    assert allowed_codes(hook)
    with Callers([hook], hook.authority, 10**9) as callers:
        try:
            until(lambda: callers.answers() > 50, "some answers")
            settings.write_text(RENAMED)
            until(lambda: not allowed_codes(hook), "the new settings")
            settings.write_text("resources: [")
            until(lambda: wire.metric(hook, 'drawbridge_settings_reloads_total{result="failure"}') >= 1, "a refusal")
            assert not allowed_codes(hook), "the settings before the bad ones stay"
            settings.unlink()
            until(lambda: wire.metric(hook, 'drawbridge_settings_reloads_total{result="failure"}') >= 2, "a refusal")
            assert not allowed_codes(hook)
            settings.write_text(SETTINGS)
            hook.process.send_signal(signal.SIGHUP)
            until(lambda: allowed_codes(hook), "the first settings")
        finally:
            callers.stopping.set()
    assert callers.failures == []
    assert hook.operator("/readyz")[0] == 200


def test_a_pipe_in_place_of_the_settings_stops_nothing(start: Start, tmp_path: Path) -> None:
    settings = tmp_path / "settings.yaml"
    settings.write_text(SETTINGS)
    hook = start("--settings", str(settings))
    settings.unlink()
    os.mkfifo(settings)
    until(lambda: wire.metric(hook, 'drawbridge_settings_reloads_total{result="failure"}') >= 1, "a refusal")
    assert allowed_codes(hook), "the settings before stay"
    settings.unlink()
    settings.write_text(RENAMED)
    until(lambda: not allowed_codes(hook), "the new settings")


def test_without_valid_settings_the_webhook_is_not_ready_and_answers_5xx(tmp_path: Path) -> None:
    settings = tmp_path / "settings.yaml"
    settings.write_text("profile: nonsense\n")
    with launched(tmp_path, "--self-signed", str(tmp_path / "tls"), "--settings", str(settings), ready=False) as hook:
        until(lambda: "no valid settings" in hook.operator("/readyz")[1], "the reason")
        assert hook.operator("/debug/settings")[0] == 503
        status, headers, body = wire.exchange(hook, wire.request())
        assert status == 503
        assert headers["retry-after"]
        assert "settings" in json.loads(body)["message"]
        settings.write_text(SETTINGS)
        until(lambda: hook.operator("/readyz")[0] == 200, "readiness")
        assert allowed_codes(hook)


def test_callers_can_be_asked_for_a_certificate(start: Start) -> None:
    hook = start("--client-ca", str(CLIENT / "ca.crt"))
    stranger = hook.folder / "tls"

    def answered(*pair: Path) -> bool:
        try:
            with wire.secure(hook, *pair) as connection:
                connection.sendall(wire.request())
                return wire.Answers(connection).next()[0] == 200
        except (OSError, EOFError):
            return False

    assert answered(CLIENT / "client.crt", CLIENT / "client.key")
    assert not answered(stranger / "tls.crt", stranger / "tls.key")
    assert not answered()


def test_authorities_of_clients_that_are_missing_are_told_and_taken_when_they_come(tmp_path: Path) -> None:
    authorities = tmp_path / "clients.crt"
    with launched(tmp_path, "--self-signed", str(tmp_path / "tls"), "--client-ca", str(authorities), ready=False) as hook:
        until(lambda: "--client-ca" in hook.operator("/readyz")[1], "the reason")
        authorities.write_bytes((CLIENT / "ca.crt").read_bytes())
        until(lambda: hook.operator("/readyz")[0] == 200, "readiness")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_oldest_protocol_is_tls_1_2(shared: webhook.Webhook) -> None:
    for version, spoken in [(ssl.TLSVersion.TLSv1_2, "TLSv1.2"), (ssl.TLSVersion.TLSv1_3, "TLSv1.3")]:
        context = ssl.create_default_context(cafile=str(shared.authority))
        context.minimum_version = context.maximum_version = version
        context.set_alpn_protocols(["h2", "http/1.1"])
        with socket.create_connection(("127.0.0.1", shared.port)) as plain, context.wrap_socket(plain, server_hostname="localhost") as tls:
            assert (tls.version(), tls.selected_alpn_protocol()) == (spoken, "http/1.1")
    context = ssl.create_default_context(cafile=str(shared.authority))
    context.set_ciphers("DEFAULT:@SECLEVEL=0")
    context.minimum_version = ssl.TLSVersion.TLSv1
    context.maximum_version = ssl.TLSVersion.TLSv1_1
    with socket.create_connection(("127.0.0.1", shared.port)) as plain, pytest.raises(OSError):  # noqa: PT011
        context.wrap_socket(plain, server_hostname="localhost")


def test_a_self_signed_certificate_is_kept_over_a_restart(tmp_path: Path) -> None:
    tls = tmp_path / "tls"
    for _ in range(2):
        with launched(tmp_path, "--self-signed", str(tls)) as hook:
            seen = (tls / "tls.crt").read_bytes(), (tls / "ca.crt").read_bytes()
            assert wire.serves(hook)
            assert wire.metric(hook, 'drawbridge_certificate_expiry_seconds{kind="leaf"}') > time.time()
            assert wire.metric(hook, 'drawbridge_certificate_expiry_seconds{kind="ca"}') > time.time()
        (tmp_path / "ports").unlink()
        assert ((tls / "tls.crt").read_bytes(), (tls / "ca.crt").read_bytes()) == seen
    assert (tls / "tls.key").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ([], "--self-signed"),
        (["--self-signed", "{tmp}/tls", "--listen", "nowhere"], "nowhere"),
        (["--self-signed", "{tmp}/tls", "--listen", "127.0.0.1:99999"], "99999"),
        (["--self-signed", "{tmp}/file/tls"], "file"),
        (["--self-signed", "{tmp}/tls", "--tls-cert", "a", "--tls-key", "b"], "--tls-cert"),
        (["--tls-cert", "a"], "--tls-key"),
        (["--self-signed", "{tmp}/tls", "--store", "disk"], "disk"),
        (["--self-signed", "{tmp}/tls", "--kubernetes-version", "1.x"], "1.x"),
        (["--self-signed", "{tmp}/tls", "--device-memory", "24GB"], "24GB"),
        (["--self-signed", "{tmp}/tls", "--fleet", "{tmp}/missing"], "missing"),
        (["--self-signed", "{tmp}/tls", "--idle-timeout", "soon"], "soon"),
        (["--self-signed", "{tmp}/tls", "--store", "kubernetes", "--device-memory", "24Gi"], "--device-memory"),
        (["--self-signed", "{tmp}/tls", "--store", "kubernetes", "--kubeconfig", "{tmp}/missing"], "missing"),
        (["--self-signed", "{tmp}/tls", "--nonsense"], "--nonsense"),
    ],
)
def test_what_cannot_work_is_refused_at_the_start(tmp_path: Path, arguments: list[str], reason: str) -> None:
    (tmp_path / "file").write_text("")
    told = [argument.replace("{tmp}", str(tmp_path)) for argument in arguments]
    # Free ports first: what follows wins.
    command = [material.program(), "serve", "--listen", "127.0.0.1:0", "--operator-listen", "127.0.0.1:0", *told]
    outcome = subprocess.run(command, capture_output=True, text=True, timeout=wire.PATIENCE, check=False)
    assert outcome.returncode == 1, outcome.stderr
    assert reason in outcome.stderr + outcome.stdout


def test_a_port_in_use_is_refused_at_the_start(shared: webhook.Webhook, tmp_path: Path) -> None:
    command = [material.program(), "serve", "--self-signed", str(tmp_path), "--operator-listen", "127.0.0.1:0",
               "--listen", f"127.0.0.1:{shared.port}"]  # fmt: skip
    outcome = subprocess.run(command, capture_output=True, text=True, timeout=wire.PATIENCE, check=False)
    assert outcome.returncode == 1
    assert str(shared.port) in outcome.stderr


def test_help_is_no_failure() -> None:
    outcome = subprocess.run([material.program(), "serve", "--help"], capture_output=True, text=True, env=os.environ, check=False)
    assert outcome.returncode == 0
    assert "--drain-delay" in outcome.stdout
