"""HTTP as an API server speaks it, and as nobody should: the webhook answers clearly and goes on serving."""

from __future__ import annotations

import contextlib
import json
import resource
import select
import ssl
import time

import pytest
import wire
from conftest import Start
from material import webhook

MIB = 1 << 20


def status_object(body: bytes) -> dict[str, object]:
    document = json.loads(body)
    assert document["kind"] == "Status"
    assert document["status"] == "Failure"
    return document


def test_a_connection_serves_many_reviews(shared: webhook.Webhook) -> None:
    with wire.secure(shared) as connection:
        answers = wire.Answers(connection)
        for _ in range(20):
            connection.sendall(wire.request())
            status, headers, _ = answers.next()
            assert status == 200
            assert "connection" not in headers


def test_pipelined_requests_are_answered_in_order(shared: webhook.Webhook) -> None:
    uids = [f"uid-{number}" for number in range(10)]
    with wire.secure(shared) as connection:
        connection.sendall(b"".join(wire.request(wire.review(uid=uid)) for uid in uids))
        answers = wire.Answers(connection)
        assert [json.loads(answers.next()[2])["response"]["uid"] for _ in uids] == uids


def test_a_request_may_come_in_small_pieces(shared: webhook.Webhook) -> None:
    whole = wire.request() * 2
    with wire.secure(shared) as connection:
        for at in range(0, len(whole), 17):
            connection.sendall(whole[at : at + 17])
        answers = wire.Answers(connection)
        assert [answers.next()[0] for _ in range(2)] == [200, 200]


def test_a_chunked_body_is_read(shared: webhook.Webhook) -> None:
    half = len(wire.SOME_POD) // 2
    chunks = [wire.SOME_POD[:half], wire.SOME_POD[half:], b""]
    body = b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks)
    head = wire.head(0, "Transfer-Encoding: chunked").replace(b"Content-Length: 0\r\n", b"")
    assert wire.exchange(shared, head, body)[0] == 200


def test_who_asks_first_is_told_to_go_on(shared: webhook.Webhook) -> None:
    with wire.secure(shared) as connection:
        answers = wire.Answers(connection)
        connection.sendall(wire.head(len(wire.SOME_POD), "Expect: 100-continue"))
        assert answers.next()[0] == 100
        connection.sendall(wire.SOME_POD)
        assert answers.next()[0] == 200
    assert wire.exchange(shared, wire.head(5, "Expect: a-miracle"))[0] == 417


@pytest.mark.parametrize("hosts", [b"", b"Host: one\r\nHost: two\r\n"], ids=["none", "two"])
def test_a_request_names_one_host(shared: webhook.Webhook, hosts: bytes) -> None:
    status, _, body = wire.exchange(shared, wire.request().replace(b"Host: webhook\r\n", hosts))
    assert status == 400
    assert "Host" in status_object(body)["message"]


def test_a_body_over_the_limit_is_refused_before_it_is_sent(shared: webhook.Webhook) -> None:
    status, headers, body = wire.exchange(shared, wire.head(7 * MIB + 1))
    assert status == 413
    assert headers["connection"] == "close"
    assert "7 MiB" in status_object(body)["message"]
    assert wire.serves(shared)


def test_who_sends_an_oversized_body_still_reads_the_answer(shared: webhook.Webhook) -> None:
    with wire.secure(shared) as connection:
        connection.sendall(wire.head(8 * MIB) + b" " * MIB)
        assert wire.Answers(connection).next()[0] == 413
    assert wire.serves(shared)


def test_a_body_at_the_limit_is_read(shared: webhook.Webhook) -> None:
    body = wire.SOME_POD.rstrip() + b" " * (7 * MIB - len(wire.SOME_POD.rstrip()))
    assert len(body) == 7 * MIB
    assert wire.exchange(shared, wire.request(body))[0] == 200


def first_data(connections: list[ssl.SSLSocket]) -> bytes:
    """The first bytes that come over any of the connections."""
    while True:
        ready, _, _ = select.select(connections, [], [], wire.PATIENCE)
        assert ready, "no answer came"
        for connection in ready:
            connection.setblocking(False)
            with contextlib.suppress(ssl.SSLWantReadError):  # it was a session ticket
                return connection.recv(65536)


def test_large_bodies_share_their_room_and_small_ones_do_not_need_it(start: Start) -> None:
    hook = start()
    body = wire.SOME_POD.rstrip() + b" " * (7 * MIB - len(wire.SOME_POD.rstrip()))
    with contextlib.ExitStack() as stack:
        held = [stack.enter_context(wire.secure(hook)) for _ in range(10)]  # 70 MiB, of which 64 have room
        for connection in held:
            with contextlib.suppress(ConnectionError):  # refused before it was all sent
                connection.sendall(wire.request(body)[:-1])
        assert first_data(held).startswith(b"HTTP/1.1 503")
        assert wire.serves(hook)
    end = time.monotonic() + wire.PATIENCE
    while wire.exchange(hook, wire.request(body))[0] != 200:
        assert time.monotonic() < end, "the room was not given back"


def test_a_chunked_body_over_the_limit_is_refused(shared: webhook.Webhook) -> None:
    head = wire.head(0, "Transfer-Encoding: chunked").replace(b"Content-Length: 0\r\n", b"")
    with wire.secure(shared) as connection:
        chunk = b"%x\r\n%s\r\n" % (MIB, b" " * MIB)
        connection.sendall(head + chunk * 7 + b"1\r\n \r\n")
        assert wire.Answers(connection).next()[0] == 413


def test_a_head_over_the_limit_is_refused(shared: webhook.Webhook) -> None:
    status, headers, _ = wire.exchange(shared, wire.head(0, "X-Filler: " + "x" * 17000))
    assert status == 431
    assert headers["connection"] == "close"
    assert wire.serves(shared)


@pytest.mark.parametrize(
    ("path", "method", "kind", "expected"),
    [
        ("/", "POST", "application/json", 404),
        ("/mutate/", "POST", "application/json", 404),
        ("/mutate%20", "POST", "application/json", 404),
        ("/metrics", "GET", "application/json", 404),
        ("/mutate", "GET", "application/json", 405),
        ("/mutate", "PUT", "application/json", 405),
        ("/mutate", "POST", "text/plain", 415),
        ("/mutate", "POST", "application/json-patch+json", 415),
        ("/mutate", "POST", "application/json; charset=utf-8", 200),
        ("/mutate", "POST", "Application/JSON", 200),
        ("/mutate?timeout=nonsense", "POST", "application/json", 200),
        ("/mutate?a=b&timeout=1m30s", "POST", "application/json", 200),
    ],
)
def test_path_method_and_type_decide(shared: webhook.Webhook, path: str, method: str, kind: str, expected: int) -> None:
    head = wire.head(len(wire.SOME_POD), path=path).replace(b"POST", method.encode(), 1)
    status, headers, _ = wire.exchange(shared, head.replace(b"application/json", kind.encode()), wire.SOME_POD)
    assert status == expected
    if expected == 405:
        assert headers["allow"] == "POST"


def test_what_is_no_http_is_answered_400(shared: webhook.Webhook) -> None:
    for nonsense in (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\r\n\r\n", b"HELO webhook\r\n\r\n", b"POST /mutate\r\n\r\n"):
        assert wire.exchange(shared, nonsense)[0] == 400
    assert wire.exchange(shared, wire.head(5, "Content-Length: 6") + b"12345")[0] == 400
    assert wire.serves(shared)


def test_a_slow_client_gets_408_and_holds_nobody_up(start: Start) -> None:
    hook = start("--head-timeout", "300ms", "--body-timeout", "300ms", "--threads", "1")
    with wire.secure(hook) as slow_head, wire.secure(hook) as slow_body:
        slow_head.sendall(wire.head(10)[:20])
        slow_body.sendall(wire.request()[:-10])
        assert wire.serves(hook)
        for connection in (slow_head, slow_body):
            answers = wire.Answers(connection)
            status, headers, _ = answers.next()
            assert status == 408
            assert headers["connection"] == "close"
            assert answers.closed()


def test_a_client_that_drips_is_stopped_all_the_same(start: Start) -> None:
    hook = start("--body-timeout", "300ms")
    with wire.secure(hook) as connection:
        body = wire.request()
        connection.sendall(body[:300])
        connection.settimeout(0.02)
        answers = wire.Answers(connection)
        began = time.monotonic()
        for at in range(300, len(body)):
            try:
                connection.sendall(body[at : at + 1])
                answers._more()
            except TimeoutError:
                continue
            except OSError:
                break
            break
        assert answers.buffer.startswith(b"HTTP/1.1 408")
        assert time.monotonic() - began < wire.PATIENCE


def test_silent_connections_end(start: Start) -> None:
    hook = start("--handshake-timeout", "300ms", "--idle-timeout", "300ms")
    with wire.socket.create_connection(("127.0.0.1", hook.port), timeout=wire.PATIENCE) as no_handshake:
        assert wire.Answers(no_handshake).closed()
    with wire.secure(hook) as no_request:
        assert wire.Answers(no_request).closed()
    with wire.secure(hook) as after_one:
        after_one.sendall(wire.request())
        answers = wire.Answers(after_one)
        assert answers.next()[0] == 200
        assert answers.closed()


def test_a_client_that_reads_nothing_is_let_go(start: Start) -> None:
    hook = start("--write-timeout", "300ms", "--threads", "1")
    with wire.secure(hook) as deaf:
        deaf.setsockopt(wire.socket.SOL_SOCKET, wire.socket.SO_RCVBUF, 4096)
        long_answer = wire.request(wire.review(uid="u" * 300_000))
        with pytest.raises(OSError):  # noqa: PT011  (reset, or broken pipe)
            for _ in range(1000):  # answers pile up until no buffer takes more
                deaf.sendall(long_answer)
        assert wire.serves(hook)
        deadline = time.monotonic() + wire.PATIENCE
        while wire.metric(hook, "drawbridge_connections") > 0 and time.monotonic() < deadline:
            time.sleep(0.02)
        assert wire.metric(hook, "drawbridge_connections") == 0


def test_a_connection_cut_before_the_answer_harms_nobody(shared: webhook.Webhook) -> None:
    for size in (0, 1, 50, 400, len(wire.request())):
        for _ in range(10):
            connection = wire.secure(shared)
            connection.sendall(wire.request()[:size])
            # A close with data unread resets the connection.
            connection.setsockopt(wire.socket.SOL_SOCKET, wire.socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            connection.close()
    assert wire.serves(shared)


def test_connections_over_the_cap_are_closed_at_once(start: Start) -> None:
    hook = start("--max-connections", "2")
    with wire.secure(hook) as first, wire.secure(hook) as second:
        with pytest.raises(OSError):  # noqa: PT011  (reset, end of file in the handshake, ...)
            wire.secure(hook)
        for connection in (first, second):
            connection.sendall(wire.request())
            assert wire.Answers(connection).next()[0] == 200
        assert wire.metric(hook, "drawbridge_connections_refused_total") == 1


def test_a_thousand_idle_connections_harm_nobody(start: Start) -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    hook = start()
    idle = []
    try:
        for _ in range(1000):
            idle.append(wire.secure(hook))
        assert wire.metric(hook, "drawbridge_connections") == 1000
        assert wire.serves(hook)
        for connection in idle[::100]:
            connection.sendall(wire.request())
            assert wire.Answers(connection).next()[0] == 200
    finally:
        for connection in idle:
            connection.close()
    assert wire.serves(hook)
