"""What goes wrong in a cluster, and what then becomes of pods."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from bed import daemons
from bed.accounts import account_kubeconfig
from bed.api import ApiError
from bed.drawbridge import DEPLOYMENT, NAMESPACE, SERVICE
from bed.proxy import Proxy
from bed.serving import Serving, serving
from bed.space import PATIENCE, wait_for
from bench import Bench, Names, container, legacy_names, own_entries, pod
from test_admission import calls

OURS = pod("p", container(gpu="1", gpumem="1000"))


@contextmanager
def scaled(bench: Bench, replicas: int) -> Iterator[None]:
    """Another number of webhooks, and one again behind it."""

    def scale(count: int) -> None:
        bench.api.call("PATCH", DEPLOYMENT, {"spec": {"replicas": count}}, "application/merge-patch+json")
        wait_for(
            lambda: bench.installation.rolled_out() and len(bench.installation.pods()) == count, f"{count} webhooks"
        )

    scale(replicas)
    try:
        yield
    finally:
        scale(1)
        bench.installation.wait_until_serving()


@pytest.fixture
def api_back(bench: Bench) -> Iterator[None]:
    """Whatever happened to the API server, it answers again before the next test."""
    yield
    release = bench.cluster.release()
    bench.cluster.start(daemons.etcd(bench.cluster.place, release), release)
    bench.cluster.space.signal("etcd", signal.SIGCONT)
    bench.cluster.start(daemons.api_server(bench.cluster.place, release), release)
    wait_for(lambda: bench.api.answers("/readyz"), "the API server")
    bench.installation.wait_until_serving()


def test_without_a_webhook_our_pods_are_refused_and_others_never_notice(bench: Bench, names: Names) -> None:
    with scaled(bench, 0):
        before = calls(bench)
        with pytest.raises(ApiError) as refused:
            names.create(OURS)
        assert 'failed calling webhook "pods.drawbridge.dev"' in refused.value.message
        names.create(pod("other"))
        names.kubectl("label", "pod", "other", "a=b")
        assert not names.templates()
        assert calls(bench) <= before + 1
    names.create(OURS)


def test_where_failures_are_ignored_a_pod_is_taken_as_it_is(bench: Bench, unasked: Names, tmp_path: Path) -> None:
    kubeconfig = account_kubeconfig(bench.cluster, NAMESPACE, SERVICE, tmp_path / "kubeconfig")
    with serving(bench.cluster.space, kubeconfig) as server, bench.asked(unasked.name, server, "Ignore"):
        wait_for(lambda: server.readiness()[0] == 200, "readiness")
        assert not legacy_names(unasked.create(OURS, dry_run=True))
        server.process.kill()
        server.process.wait()
        assert legacy_names(unasked.create(OURS)) == {"nvidia.com/gpu", "nvidia.com/gpumem"}
        assert "nvidia.com/gpu" in unasked.pends("p")
        assert not unasked.templates()


def test_a_controllers_pods_come_once_the_webhook_is_back(bench: Bench, names: Names) -> None:
    spec = {"template": {"metadata": {"labels": {"app": "x"}}, "spec": OURS["spec"]},
            "selector": {"matchLabels": {"app": "x"}}, "replicas": 1}  # fmt: skip
    with scaled(bench, 0):
        names.apply({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "x"}, "spec": spec})
        wait_for(lambda: [e for e in names.listed("events") if e["reason"] == "FailedCreate"], "the refusal")
    (made,) = wait_for(lambda: names.listed("pods"), "the pod")
    assert made["spec"]["resourceClaims"]


def test_after_a_restart_of_the_api_server_all_goes_on(bench: Bench, names: Names, api_back: None) -> None:
    names.create(OURS)
    space, release = bench.cluster.space, bench.cluster.release()
    space.kill("kube-apiserver")
    assert not bench.api.answers("/readyz")
    bench.cluster.start(daemons.api_server(bench.cluster.place, release), release)
    wait_for(lambda: bench.api.answers("/readyz"), "the API server")
    bench.installation.wait_until_serving()
    names.create(pod("q", container(gpu="1", gpumem="1001")))
    assert len(names.templates()) == 2


def test_while_etcd_stands_still_pods_wait_and_are_translated_then(bench: Bench, names: Names, api_back: None) -> None:
    space = bench.cluster.space
    space.signal("etcd", signal.SIGSTOP)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(names.api.exchange, "POST", names.path("pods"), OURS)
        # Nothing can be waited for but that nothing comes: for as long as a review may take, and more.
        with pytest.raises(TimeoutError):
            waiting.result(timeout=10)
        space.signal("etcd", signal.SIGCONT)
        waiting.result(timeout=PATIENCE)
    wait_for(lambda: bench.api.answers("/readyz"), "the API server")

    def taken() -> bool:
        try:
            names.create(OURS)
        except ApiError as error:
            return error.status == 409
        return True

    wait_for(taken, "the pod to be taken")
    assert names.pod("p")["spec"]["resourceClaims"]


@contextmanager
def behind_a_proxy(bench: Bench, tmp_path: Path) -> Iterator[tuple[Proxy, Serving]]:
    """A webhook whose way to the API server can be cut, held and slowed."""
    proxy = Proxy(bench.cluster.space)
    kubeconfig = account_kubeconfig(bench.cluster, NAMESPACE, SERVICE, tmp_path / "behind", proxy.server)
    try:
        with serving(bench.cluster.space, kubeconfig) as server:
            wait_for(lambda: server.readiness()[0] == 200, "readiness")
            yield proxy, server
    finally:
        proxy.close()


def test_cut_off_from_the_api_server_known_shapes_are_answered_and_new_ones_fail(
    bench: Bench, names: Names, tmp_path: Path
) -> None:
    with behind_a_proxy(bench, tmp_path) as (proxy, server):
        assert server.review(OURS, names.name)[1]["allowed"]
        proxy.cut()
        new = pod("q", container(gpu="1", gpumem="1001"))
        status, text = server.review(new, names.name, seconds=2)
        assert status >= 500, text
        assert server.review(OURS, names.name)[1]["patch"]
        proxy.restore()
        wait_for(lambda: server.review(new, names.name)[0] == 200, "a new shape")
        proxy.hold()
        status, text = server.review(pod("r", container(gpu="1", gpumem="1002")), names.name, seconds=1)
        assert status >= 500, text
        assert server.review(OURS, names.name)[1]["patch"]


def test_a_slow_api_server_makes_new_shapes_slow_and_fails_none(bench: Bench, names: Names, tmp_path: Path) -> None:
    with behind_a_proxy(bench, tmp_path) as (proxy, server):
        proxy.slow(0.3)
        assert server.review(OURS, names.name)[1]["patch"]
        assert len(names.templates()) == 1


def test_an_answer_lost_behind_a_written_template_is_made_good_by_the_retry(
    bench: Bench, names: Names, tmp_path: Path
) -> None:
    with behind_a_proxy(bench, tmp_path) as (proxy, server), ThreadPoolExecutor(1) as pool:
        proxy.hold_answers()
        waiting = pool.submit(server.review, OURS, names.name)
        wait_for(names.templates, "the template to be written")
        proxy.cut()
        status, text = waiting.result()
        assert status >= 500, text
        proxy.restore()
        wait_for(lambda: server.review(OURS, names.name)[0] == 200, "the retry to be answered")
        assert len(names.templates()) == 1


def test_a_webhook_killed_between_template_and_answer_is_made_good_by_the_retry(
    bench: Bench, unasked: Names, tmp_path: Path
) -> None:
    names = unasked
    kubeconfig = account_kubeconfig(bench.cluster, NAMESPACE, SERVICE, tmp_path / "other")
    with (
        behind_a_proxy(bench, tmp_path) as (proxy, server),
        serving(bench.cluster.space, kubeconfig) as other,
        bench.asked(names.name, server) as ask,
    ):
        wait_for(lambda: other.readiness()[0] == 200, "readiness")
        proxy.hold_answers()
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(names.api.exchange, "POST", names.path("pods"), OURS)
            wait_for(names.templates, "the template to be written")
            server.process.kill()
            status, _, text = waiting.result()
        assert status >= 500 and 'failed calling webhook "pods.drawbridge.dev"' in json.loads(text)["message"]
        assert not names.listed("pods")
        ask(other)
        names.create(OURS)
        assert own_entries(names.pod("p")).keys() == {"vgpu-0"}
        assert len(names.templates()) == 1


def test_two_replicas_racing_on_one_new_shape_write_one_template(bench: Bench, names: Names, tmp_path: Path) -> None:
    kubeconfig = account_kubeconfig(bench.cluster, NAMESPACE, SERVICE, tmp_path / "kubeconfig")
    space = bench.cluster.space
    with serving(space, kubeconfig) as one, serving(space, kubeconfig) as two, ThreadPoolExecutor(16) as pool:
        for server in (one, two):
            wait_for(lambda server=server: server.readiness()[0] == 200, "readiness")
        answers = list(pool.map(lambda number: (one, two)[number % 2].review(OURS, names.name), range(32)))
    assert all(status == 200 and response["allowed"] for status, response in answers)
    assert len({response["patch"] for _, response in answers}) == 1
    assert len(names.templates()) == 1


def test_a_template_deleted_behind_our_back_is_written_again(bench: Bench, names: Names) -> None:
    names.create(OURS)
    (name,) = names.templates()
    names.api.call("DELETE", names.path("resourceclaimtemplates", name))

    def written() -> bool:
        names.create({**OURS, "metadata": {"generateName": "again-"}})
        return name in names.templates()

    wait_for(written, "the template to be written again")
    names.allocated("p")


def test_a_restored_pod_whose_template_is_gone_gets_it_back(bench: Bench, names: Names) -> None:
    names.create(OURS)
    found = names.pod("p")
    (name,) = names.templates()
    names.delete_pod("p")
    names.api.call("DELETE", names.path("resourceclaimtemplates", name))
    copy = {"apiVersion": "v1", "kind": "Pod", "spec": {**found["spec"], "nodeName": None},
            "metadata": {"name": "p", "annotations": found["metadata"]["annotations"]}}  # fmt: skip

    def restored() -> bool:
        names.api.exchange("POST", names.path("pods"), copy)
        return name in names.templates()

    wait_for(restored, "the template to be written again")
    names.allocated("p")
