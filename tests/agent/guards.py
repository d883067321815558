#!/usr/bin/python3
"""Takes one guard line after the other out of the agent, and sees that the test that is there for it fails.

    tests/agent/guards.py [ROW…]

ROW is a word of the rows to try; without one, all are tried. It works in a copy of this tree, below build/. Each row takes half a
minute or more. docs/testing.md has the list of rows; they are those of node-agent.md 13 and 16 that are tested without a cluster.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "build" / "guards"
BUILD = SOURCE / "build" / "debug"


@dataclass
class Guard:
    row: str
    file: str
    line: str  # what is taken out
    instead: str
    test: str  # a function of tests/agent, or the name of a doctest case


GUARDS = [
    Guard("API server away at prepare", "agent/prepare/prepare_flow.cpp",
          "        if (whole) return answer_of(record);\n        return tl::unexpected(work.lookup.facts.error());",
          "        return tl::unexpected(work.lookup.facts.error());", "test_known_claims_are_answered_while_the_api_server_is_away"),
    Guard("claim deleted and made again", "agent/prepare/prepare_flow.cpp",
          "    if (lookup.facts && lookup.facts->claim.uid != claim.uid) {",
          "    if (lookup.facts && lookup.facts->claim.uid.empty()) {", "test_a_claim_that_was_replaced_is_refused"),
    Guard("claim of several pods", "agent/prepare/prepare.cpp", "if (facts.consumers.empty())", "if (facts.consumers.size() != 1)",
          "test_a_claim_of_two_pods_is_prepared_once"),
    Guard("prepare twice in parallel", "agent/claim/claim_locks.cpp", "    while (!try_lock(file, byte)) {",
          "    while (!try_lock(file, byte) && false) {", "what another instance holds is waited for"),
    Guard("prepare after unprepare", "agent/prepare/prepare_flow.cpp",
          "    if (late || (record != nullptr && !work.lookup.facts))", "    if (!late && record != nullptr && !work.lookup.facts)",
          "test_a_late_prepare_does_not_bring_an_unprepared_claim_back"),
    Guard("crash between CDI file and record", "agent/prepare/prepare_flow.cpp",
          "    if (!text || digest_of(*text) != record.cdi_digest) return std::nullopt;", "    if (!text) return std::nullopt;",
          "a CDI file that is made again as another one is named first"),
    Guard("record damaged", "agent/prepare/prepare_flow.cpp", "    if (!stored->unreadable.empty()) {",
          "    if (stored->unreadable.size() > 99) {",
          "test_a_damaged_record_stops_new_claims_but_not_the_end_of_its_own"),
    Guard("disk full", "agent/prepare/flow_unprepare.cpp", "    if (records_.save(tombstone)) return {};\n    return records_.erase(uid);",
          "    return records_.save(tombstone);", "no life of a node breaks an account, loses a file or keeps one"),
    Guard("reboot", "agent/prepare/prepare_flow.cpp", "record.state == ClaimState::started && record.boot_id == view.boot_id &&",
          "record.state == ClaimState::started && view.boot_id.size() < 99 &&",
          "test_a_reboot_makes_the_same_files_again_and_resets_the_ledger"),
    Guard("kubelet restart", "agent/process/slice_publisher.cpp",
          "    if (!plan_publish(slice_devices(*inventory_, features_), seen, identity_).empty()) wake();",
          "    static_cast<void>(seen);", "test_slices_are_back_after_a_kubelet_wiped_them"),
    Guard("pod deleted by force", "agent/prepare/prepare.cpp",
          "            if (others.*amount <= offer.capacity.*amount - amounts.*amount) continue;",
          "            if (others.*amount >= 0) continue;", "test_a_device_that_is_given_away_twice_is_refused_until_the_first_claim_ends"),
    Guard("CDI file removed", "agent/prepare/flow_upkeep.cpp", "        if (restore_claim(seen, *now.view)) ++restored;",
          "        static_cast<void>(seen);", "test_a_wiped_cdi_folder_is_filled_at_the_next_prepare_and_at_the_next_start"),
    Guard("CDI name of another file", "agent/process/node_checks.cpp", "    remarks.insert(remarks.end(), clashes_.begin(), clashes_.end());",
          "", "test_foreign_cdi_files_of_our_kind_are_told_of"),
    Guard("GPU lost before prepare", "agent/prepare/prepare.cpp", "    if (is_lost(offer->device)) {",
          "    if (is_lost(offer->device) && device.empty()) {", "stored shares are not made anew on a GPU that is lost or another one"),
    Guard("capacity below what is held", "agent/prepare/inventory_keep.cpp",
          "        if (held > offered_memory(device, settings)) raised[device.uuid] = held;", "        static_cast<void>(held);",
          "what claims hold is offered even where the devices have less now"),
    Guard("Node object made anew", "agent/api/publish_plan.cpp", "        if (names.contains(slice.name) && slice.owner_uid == node.uid) {",
          "        if (names.contains(slice.name)) {", "test_a_node_made_anew_gets_slices_of_its_own"),
    Guard("clock set back", "agent/prepare/flow_upkeep.cpp", "        return now - time >= tombstone_seconds || time > now;",
          "        return now - time >= tombstone_seconds;", "a mark that lies ahead of the clock goes"),
    Guard("records that lie elsewhere now", "agent/folder_watch.cpp", "    if (now >= 0 && now == before) return true;",
          "    if (now >= 0 && before >= 0) return true;", "of a folder whose path leads elsewhere anything may have changed"),
    Guard("two agents by mistake", "agent/process/instance_lock.cpp", "        if (::flock(file, LOCK_EX | LOCK_NB) != 0) {",
          "        if (::flock(file, LOCK_EX | LOCK_NB) == 12345) {", "test_a_second_agent_of_the_same_name_waits_for_the_first_to_end"),
    Guard("driver comes late", "agent/nvml/nvml_source.cpp",
          "            if (auto opened = open(); !opened) return tl::unexpected(opened.error());",
          "            static bool tried = false;\n            if (std::exchange(tried, true))\n"
          '                return base::fail(base::ErrorKind::unavailable, "tried");\n'
          "            if (auto opened = open(); !opened) return tl::unexpected(opened.error());",
          "test_a_driver_that_comes_late_is_not_ready_and_an_empty_slice"),
    Guard("device plugin beside", "agent/process/slice_publisher.cpp", "    refused_ = !hooks_.accepts_legacy(facts->legacy_devices);",
          "    refused_ = false;", "test_beside_a_device_plugin_nothing_is_offered_unless_told_so"),
    Guard("no flapping at restart", "agent/api/publish_plan.cpp", "    if (complete && changed.empty()) return {};", "",
          "test_a_restart_writes_nothing"),
    Guard("shares of one GPU in a claim", "agent/claim/claim_record.cpp", '    return fmt::format("{}-{}", claim_uid, index);',
          '    return fmt::format("{}-{}", claim_uid, index * 0);', "test_two_shares_of_one_device_in_one_claim_stay_apart"),
    Guard("device gone before prepare", "agent/prepare/prepare.cpp", "    if (offer == nullptr) {",
          "    if (offer == nullptr && device.empty()) {",
          "test_a_device_that_went_between_allocation_and_prepare_is_named"),
    Guard("UUID changed", "agent/prepare/prepare.cpp", "        if ((*offer)->device.uuid != share.uuid) {",
          "        if ((*offer)->device.uuid.empty()) {", "stored shares are not made anew on a GPU that is lost or another one"),
    Guard("figures of a damaged ledger", "agent/share/ledger_copy.cpp", "    return std::min<std::size_t>(high_water, DRAWBRIDGE_SLOTS);",
          "    return high_water;", "the number of slots is bounded whatever the head says"),
    Guard("taints that stay for ever", "agent/device/fault_tracker.cpp", "    if (state.good >= proof) state.faults.clear();", "",
          "an XID taints the card that it is of, until the card has proved itself"),
    Guard("slots are no resource", "agent/prepare/prepare.cpp",
          "            if (others.*amount <= offer.capacity.*amount - amounts.*amount) continue;",
          '            if (name == "slots" || others.*amount <= offer.capacity.*amount - amounts.*amount) continue;',
          "test_slots_are_counted_too"),
    Guard("image that wants all GPUs", "agent/cdi/enforcement.cpp", '"NVIDIA_VISIBLE_DEVICES=void"', '"NVIDIA_VISIBLE_DEVICES=all"',
          "test_a_share_gets_its_device_its_files_and_its_answer"),
    Guard("publish is tried again", "agent/process/slice_publisher.cpp",
          "            if (!done) again = steady_clock::now() + client::backoff(failures, random());",
          "            if (!done) again = steady_clock::now() + client::backoff(failures, random()) + std::chrono::hours(1);",
          "test_an_outage_during_a_change_loses_nothing"),
    Guard("CDI devices dropped silently", "agent/process/node_checks.cpp",
          "    return worst_of(runtimes_).reason;", "    return std::string();",
          "test_a_runtime_with_cdi_off_gets_no_share"),
    Guard("nodes of MIG", "agent/cdi/driver_files.cpp", '{base + "/access", fmt::format("{}/ci{}/access", base, compute_instance)}',
          '{base + "/access", fmt::format("{}/ci{}/access", base, compute_instance + 7)}',
          "a MIG instance has the nodes of both of its capabilities"),
    Guard("what the library does not count", "agent/share/share_measure.cpp",
          "    if (now.mib != written.mib) write(share, overhead_offset(slot), bytes_of(now.mib));",
          "    if (now.mib == written.mib + 7777777) write(share, overhead_offset(slot), bytes_of(now.mib));",
          "a measured overhead is written for its slot and counts as used"),
    Guard("past the library", "agent/share/share_measure.cpp", "    place.stranger = std::ranges::none_of(place.shares, is_counted);",
          "    place.stranger = place.shares.empty();",
          "test_a_process_that_goes_past_the_library_is_found"),
    Guard("claims that nobody ends", "agent/process/reconciler.cpp", "        if (co_await is_gone(record)) co_await end_orphan(record);",
          "        static_cast<void>(co_await is_gone(record));",
          "test_claims_that_nobody_ends_are_ended_and_those_of_running_containers_are_not"),
    Guard("claim allocated anew", "agent/process/reconciler.cpp", "        !is_same_allocation(record.shares, *facts);",
          "        facts->claim.uid.empty();", "test_a_claim_that_was_allocated_anew_gives_back_what_it_had"),
    Guard("driver that hangs", "agent/process/agent_devices.cpp",
          "    if (!lock || ++silent_rounds_ <= most_silent_rounds) return;", "    if (!lock || ++silent_rounds_ > 0) return;",
          "test_a_driver_that_hangs_keeps_new_pods_away_and_the_agent_from_nothing_else"),
    Guard("another writer of slices", "agent/process/slice_publisher.cpp",
          "    if (!is_contested || contests_ < 2) return calm_time;", "    if (!is_contested || contests_ < 999) return calm_time;",
          "test_another_writer_does_not_drive_the_agent"),
    Guard("containers that run keep their claims", "agent/process/reconciler.cpp",
          "        if (record.state == ClaimState::unprepared || is_used(record, *used)) continue;",
          "        if (record.state == ClaimState::unprepared || (used->empty() && is_used(record, *used))) continue;",
          "test_claims_that_nobody_ends_are_ended_and_those_of_running_containers_are_not"),
    Guard("sharing gate off", "agent/process/slice_publisher.cpp",
          '    if (any("/allowMultipleAllocations") || any("/requestPolicy")) features_.sharing = false;', "",
          "test_without_the_sharing_gate_no_device_is_ever_offered"),
    Guard("node without the front", "agent/prepare/prepare_flow.cpp", "    if (front && libraries_.current(front).empty()) {",
          "    if (front && libraries_.current(front).size() > 99) {", "test_without_the_front_such_a_node_gives_out_nothing"),
    Guard("front by every name", "agent/cdi/enforcement.cpp", "        mount.host_path = front;\n",
          '        if (mount.container_path.ends_with("so.1")) mount.host_path = front;\n',
          "the front stands in the place of every libcuda, and the driver's own where the front finds it"),
    Guard("front stays with its claim", "agent/cdi/library_store.cpp", "    if (build == fronted_ || lies_there(build, {front_name}))",
          "    if (build == fronted_)", "a build with the front is another one, and a claim's build says whether it has it"),
]  # fmt: skip


def run(*command: str | Path, **more: str) -> subprocess.CompletedProcess[str]:
    # The unit tests find the stand-in driver of the build below where they are started.
    return subprocess.run(command, cwd=SOURCE, capture_output=True, text=True, env=os.environ | more)


def prepare() -> None:
    """A copy of the tree with the agent built from it."""
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    SOURCE.mkdir(parents=True, exist_ok=True)
    for name in filter(None, names.decode().split("\0")):
        original, copy = ROOT / name, SOURCE / name
        if original.is_file() and not (copy.exists() and copy.read_bytes() == original.read_bytes()):
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(original, copy)
    subprocess.run(["cmake", "--preset", "debug", "--log-level=WARNING"], cwd=SOURCE, check=True, stdout=subprocess.DEVNULL)
    built = build("drawbridge-agent", "agent_test", "drawbridge_preload", "drawbridge_front", "standin_cuda", "standin_nvml")
    assert built.returncode == 0, built.stdout[-4000:]


def build(*targets: str) -> subprocess.CompletedProcess[str]:
    return run("ninja", "-C", BUILD, "-j2", *targets)


def is_doctest(test: str) -> bool:
    return not test.startswith("test_")


def passes(test: str) -> bool:
    if is_doctest(test):
        # A comma would part two names.
        done = run(BUILD / "bin" / "agent_test", f"--test-case={test.replace(',', '?')}")
        assert re.search(r"test cases: +[1-9]", done.stdout) or done.returncode != 0, f"no such case: {test}"
        return done.returncode == 0
    done = run(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", SOURCE / "tests" / "agent", "-k", test,
               f"--ignore={SOURCE / 'tests' / 'agent' / 'real'}", DRAWBRIDGE_AGENT=str(BUILD / "bin" / "drawbridge-agent"),
               DRAWBRIDGE_STANDIN=str(BUILD / "standin"))  # fmt: skip
    assert done.returncode in (0, 1), done.stdout[-2000:]  # 5: no such test
    return done.returncode == 0


def try_out(guard: Guard) -> str:
    file = SOURCE / guard.file
    text = file.read_text()
    if text.count(guard.line) != 1:
        return "has no such line"
    file.write_text(text.replace(guard.line, guard.instead))
    try:
        if build("agent_test" if is_doctest(guard.test) else "drawbridge-agent").returncode != 0:
            return "does not build without its guard"
        return "passes without its guard" if passes(guard.test) else ""
    finally:
        file.write_text(text)


def main(words: list[str]) -> int:
    chosen = [guard for guard in GUARDS if not words or any(word in guard.row for word in words)]
    prepare()
    wrong = 0
    failing = {guard.test for guard in chosen if not passes(guard.test)}
    for guard in chosen:
        fault = "fails with its guard" if guard.test in failing else try_out(guard)
        wrong += bool(fault)
        print(f"{guard.row}: {guard.test}: {fault or 'seen failing'}", flush=True)
    print(f"{len(chosen) - wrong} passed, {wrong} failed")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
