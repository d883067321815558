"""The operator port: health, metrics, and what a person looks at when something hangs."""

from __future__ import annotations

import http.client
import json
import re

import material
import wire
from conftest import Start
from material import webhook

GOLDEN = material.ROOT / "tests" / "golden" / "metrics.txt"
VERSION_LABEL = re.compile(r'version="[^"]*"')


def call(hook: webhook.Webhook, method: str, path: str, body: str = "") -> tuple[int, dict[str, str], str]:
    connection = http.client.HTTPConnection("127.0.0.1", hook.operator_port, timeout=wire.PATIENCE)
    connection.request(method, path, body)
    answer = connection.getresponse()
    return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read().decode()


def test_the_metrics_of_a_fresh_process_are_those_of_the_golden_file(start: Start) -> None:
    page = start().operator("/metrics")[1]
    series = [VERSION_LABEL.sub('version="*"', line.rpartition(" ")[0] if line[0] != "#" else line)
              for line in page.splitlines() if not line.startswith("# HELP")]  # fmt: skip
    assert series == GOLDEN.read_text().splitlines()


def test_every_metric_is_described(start: Start) -> None:
    described = (material.ROOT / "docs" / "metrics.md").read_text()
    for line in GOLDEN.read_text().splitlines():
        if line.startswith("# TYPE"):
            assert f"`{line.split()[2]}" in described


def test_reviews_are_counted(start: Start) -> None:
    hook = start(*webhook.IN_MEMORY)
    names = ["01-memory-round-thousand", "07-byte-style-memory", "30-opt-out-label", "11-cores-over-hundred"]
    for name in names:
        assert wire.exchange(hook, wire.request((material.ROOT / "tests" / "reviews" / f"{name}.json").read_bytes()))[0] == 200
    assert wire.exchange(hook, wire.request(b"{}"))[0] == 400
    assert wire.exchange(hook, wire.head(0, path="/elsewhere"))[0] == 404
    for series, value in {
        'drawbridge_reviews_total{verdict="translate",code="none"}': 1,
        'drawbridge_reviews_total{verdict="deny",code="memory-unit"}': 1,
        'drawbridge_reviews_total{verdict="leave",code="opted-out"}': 1,
        'drawbridge_reviews_total{verdict="translate",code="cores-clamped"}': 1,
        'drawbridge_reviews_total{verdict="error",code="undecodable"}': 1,
        'drawbridge_diagnostics_total{code="memory-unit"}': 1,
        "drawbridge_review_duration_seconds_count": 4,
        'drawbridge_review_duration_seconds_bucket{le="+Inf"}': 4,
        'drawbridge_http_failures_total{status="400"}': 1,
        'drawbridge_http_failures_total{status="404"}': 1,
        "drawbridge_reviews_in_flight": 0,
    }.items():
        assert wire.metric(hook, series) == value, series


def test_every_review_is_one_line_of_json_in_the_log(start: Start) -> None:
    hook = start(*webhook.IN_MEMORY)
    wire.exchange(hook, wire.request())
    wire.exchange(hook, wire.request((material.ROOT / "tests" / "reviews" / "17-deployment-unnamed-pods.json").read_bytes()))
    wire.exchange(hook, wire.request(wire.review(name='odd "\n', namespace="é\u0001")))
    lines = [json.loads(line) for line in hook.log().splitlines()]
    reviews = [line for line in lines if line["msg"] == "admission"]
    assert [line["verdict"] for line in reviews] == ["translate"] * 3
    assert reviews[0]["name"] == "train"
    assert reviews[0]["uid"] == json.loads(wire.SOME_POD)["request"]["uid"]
    assert reviews[1]["owner"].startswith("ReplicaSet/")
    assert reviews[1]["generate_name"]
    assert (reviews[2]["name"], reviews[2]["namespace"]) == ('odd "\n', "é\u0001")
    keys = ["ts", "level", "msg", "uid", "namespace", "name", "owner", "operation", "verdict", "codes", "templates", "micros", "dry_run"]
    assert list(reviews[0]) == keys


def test_health_and_methods(shared: webhook.Webhook) -> None:
    assert call(shared, "GET", "/livez")[0] == 200
    assert call(shared, "GET", "/readyz?verbose")[::2] == (200, "ok\ntemplates are kept in memory\n")
    assert call(shared, "HEAD", "/readyz")[2] == ""
    assert call(shared, "POST", "/readyz")[1]["allow"] == "GET, HEAD"
    assert call(shared, "GET", "/nowhere")[0] == 404
    assert call(shared, "GET", "/metrics")[1]["content-type"].startswith("text/plain; version=0.0.4")


def test_the_settings_in_effect_can_be_read(shared: webhook.Webhook) -> None:
    status, body = shared.operator("/debug/settings")
    assert status == 200
    assert json.loads(body)["profile"] == "drawbridge"


def test_the_log_level_can_be_changed(start: Start) -> None:
    hook = start()
    assert call(hook, "GET", "/debug/loglevel")[2] == "info\n"
    assert call(hook, "PUT", "/debug/loglevel", "loud")[0] == 400
    assert call(hook, "PUT", "/debug/loglevel", "error\n")[0] == 200
    assert call(hook, "GET", "/debug/loglevel")[2] == "error\n"
    before = hook.log()
    assert wire.serves(hook)
    assert hook.log() == before


def test_nothing_is_in_flight_when_nobody_asks(shared: webhook.Webhook) -> None:
    assert json.loads(shared.operator("/debug/inflight")[1]) == {"items": []}


def test_a_bad_request_to_the_operator_port_harms_nobody(shared: webhook.Webhook) -> None:
    for nonsense in (b"\x00" * 100, b"GET\r\n\r\n", b"GET / HTTP/1.1\r\nX: " + b"x" * 20000 + b"\r\n\r\n"):
        with wire.socket.create_connection(("127.0.0.1", shared.operator_port), timeout=wire.PATIENCE) as connection:
            connection.sendall(nonsense)
            wire.Answers(connection).closed()
    assert shared.operator("/livez")[0] == 200
