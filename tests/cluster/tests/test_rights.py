"""The webhook's rights: each of them is needed, and there is none besides."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml
from bed.accounts import account_kubeconfig, grant, revoke
from bed.serving import Serving, serving
from bed.space import wait_for
from bench import Bench, Names, container, pod
from conftest import ROOT

RULES = next(iter(yaml.safe_load_all((ROOT / "manifests/base/rights.yaml").read_text(encoding="utf-8"))))["rules"]
NUMBERS = itertools.count()


def without(resource: str, verb: str) -> list[dict]:
    """The rules of manifests/base less one right."""
    return [
        rule | {"verbs": [each for each in rule["verbs"] if (rule["resources"], each) != ([resource], verb)]}
        for rule in RULES
    ]


@contextmanager
def server_with(bench: Bench, names: Names, rules: list[dict], tmp_path: Path) -> Iterator[Serving]:
    """The webhook under an account with these rules."""
    name = f"rights-{names.name}-{next(NUMBERS)}"
    grant(bench.cluster, name, names.name, name, rules)
    try:
        kubeconfig = account_kubeconfig(bench.cluster, names.name, name, tmp_path / "kubeconfig")
        with serving(bench.cluster.space, kubeconfig) as server:
            yield server
    finally:
        revoke(bench.cluster, name)


SHAPE = pod("p", container(gpu="1", gpumem="1234"))
SHARE = pod("p", container(gpu="1", gpumem_percentage="50"))


def test_with_all_rights_it_is_ready_and_translates(bench: Bench, names: Names, tmp_path: Path) -> None:
    with server_with(bench, names, RULES, tmp_path) as server:
        wait_for(lambda: server.readiness()[0] == 200, "readiness")
        for made in (SHAPE, SHARE):
            status, response = server.review(made, names.name)
            assert status == 200 and response["allowed"] and response["patch"]


def test_without_create_nothing_is_translated_and_the_answer_says_so(
    bench: Bench, names: Names, tmp_path: Path
) -> None:
    with server_with(bench, names, without("resourceclaimtemplates", "create"), tmp_path) as server:
        wait_for(lambda: "forbidden" in server.readiness()[1], "the probe to be refused")
        status, response = server.review(SHAPE, names.name)
        assert status != 200 or not response["allowed"]
        assert not names.templates()


def test_without_get_a_template_that_is_there_cannot_be_trusted(bench: Bench, names: Names, tmp_path: Path) -> None:
    rules = without("resourceclaimtemplates", "get")
    names.apply(SHAPE)
    (template,) = names.templates()
    # One that the watch does not bring, since it carries no label of ours.
    names.kubectl("label", "resourceclaimtemplate", template, "app.kubernetes.io/managed-by-")
    with server_with(bench, names, rules, tmp_path) as server:
        wait_for(lambda: server.readiness()[0] == 200, "readiness")
        status, text = server.review(SHAPE, names.name)
        assert status >= 500 and "forbidden" in text


def test_without_list_of_slices_percentages_wait_and_all_else_works(bench: Bench, names: Names, tmp_path: Path) -> None:
    with server_with(bench, names, without("resourceslices", "list"), tmp_path) as server:
        wait_for(lambda: server.readiness()[0] == 200, "readiness")
        status, text = server.review(SHARE, names.name)
        assert status == 503 and "memory sizes" in text
        assert "cannot list resource" in server.log.read_text(encoding="utf-8")
        assert server.review(SHAPE, names.name)[1]["allowed"]


def test_without_watch_of_slices_it_is_told(bench: Bench, names: Names, tmp_path: Path) -> None:
    with server_with(bench, names, without("resourceslices", "watch"), tmp_path) as server:
        wait_for(lambda: "cannot watch resource" in server.log.read_text(encoding="utf-8"), "the refusal in the log")


@pytest.mark.parametrize("verb", ["list", "watch"])
def test_without_list_or_watch_of_templates_it_is_told(bench: Bench, names: Names, tmp_path: Path, verb: str) -> None:
    with server_with(bench, names, without("resourceclaimtemplates", verb), tmp_path) as server:
        wait_for(lambda: "forbidden" in server.log.read_text(encoding="utf-8"), "the refusal in the log")


def test_nothing_more_is_granted_than_the_manifest_says(bench: Bench) -> None:
    """What the account may do beyond what every account may."""
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectRulesReview",
        "spec": {"namespace": "default"},
    }

    def rules_of(namespace: str, account: str) -> set[tuple[str, str, str]]:
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
        asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        token = bench.api.call("POST", path, asked)["status"]["token"]
        found = type(bench.api)(bench.cluster.space, token).call(
            "POST", "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", review
        )
        return {(group, resource, verb) for rule in found["status"]["resourceRules"] for group in rule["apiGroups"]
                for resource in rule["resources"] for verb in rule["verbs"]}  # fmt: skip

    granted = rules_of("drawbridge-system", "drawbridge-webhook") - rules_of("default", "default")
    wanted = {(group, resource, verb) for rule in RULES for group in rule["apiGroups"]
              for resource in rule["resources"] for verb in rule["verbs"]}  # fmt: skip
    assert granted == wanted
