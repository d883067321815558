"""The counting of tests/run.py: a failure, a crash or an empty run must never look like success."""

from __future__ import annotations

from pathlib import Path

import run

GREEN = """\
1: [doctest] doctest version is "2.4.9"
1: [doctest] test cases: 12 | 12 passed | 0 failed | 0 skipped
1: [doctest] assertions: 99 | 99 passed | 0 failed |
1/3 Test #1: base .............................   Passed    0.10 sec
"""
RED = """\
2: [doctest] test cases:  7 |  5 passed | 2 failed | 0 skipped
2/3 Test #2: kube .............................***Failed    0.10 sec
"""
CRASHED = """\
3: [doctest] doctest version is "2.4.9"
3/3 Test #3: kube/client ......................***Exception: SegFault  0.10 sec
"""
LEAKED = """\
4: [doctest] test cases:  3 |  3 passed | 0 failed | 0 skipped
4: ==1==ERROR: LeakSanitizer: detected memory leaks
1/1 Test #4: server ...........................***Failed    0.10 sec
"""
SCRIPT = "1/1 Test #5: layering ....................   Passed    0.10 sec\n"
TIMED_OUT = "1/1 Test #6: cli ..............................***Timeout   600.00 sec\n"


def test_doctest_cases_are_counted_one_by_one() -> None:
    assert run.count_ctest(GREEN + RED) == run.Count(17, 2)


def test_a_program_that_crashes_counts_as_a_failure() -> None:
    assert run.count_ctest(GREEN + CRASHED) == run.Count(12, 1)


def test_a_program_that_times_out_counts_as_a_failure() -> None:
    assert run.count_ctest(TIMED_OUT) == run.Count(0, 1)


def test_a_leak_behind_passed_cases_counts_as_a_failure() -> None:
    assert run.count_ctest(LEAKED) == run.Count(3, 1)


def test_a_test_that_is_no_doctest_program_counts_once() -> None:
    assert run.count_ctest(SCRIPT) == run.Count(1, 0)


def test_a_fuzzer_that_found_something_or_did_not_run_counts_as_failed() -> None:
    output = (
        "fuzz quantity: 123 inputs in 10 s, nothing found\n"
        "fuzz review: FAILED, see build/fuzz/review.log:\n==1==ERROR: AddressSanitizer\n"
        "fuzz manifest:  inputs in 10 s, nothing found\n"
    )
    assert run.count_fuzzers(output) == run.Count(1, 2)


def test_skipped_tests_of_pytest_count_as_failed() -> None:
    report = '<testsuites><testsuite tests="5" failures="1" errors="1" skipped="1"/></testsuites>'
    assert run.count_junit(report) == run.Count(2, 3)


def test_a_status_that_the_count_does_not_explain_adds_a_failure(capsys: object) -> None:
    step = run.Step(139, "Segmentation fault", run.LOGS / "x.log")
    assert run.counted(step, run.Count(3, 0)) == run.Count(3, 1)
    assert run.counted(step, run.Count(3, 2)) == run.Count(3, 2)


def test_only_the_plain_closing_line_of_check_py_is_read() -> None:
    assert run.PLAIN.findall("ok 1 passed, 2 failed\nFAIL x: 3 passed, 4 failed\n34 passed, 2 failed\n") == [("34", "2")]


def test_each_part_says_what_it_is_for() -> None:
    assert all(part.__doc__ for part in (*run.PARTS.values(), *run.LONG.values()))


def test_the_copies_equal_their_originals_where_those_are_at_hand() -> None:
    shared = run.ROOT.parent / "shared"
    for folder in ("cases", "reviews"):
        original, copy = shared / folder, run.ROOT / "tests" / folder
        if original.is_dir():
            # Cases of our own stand beside them.
            assert contents(original).items() <= contents(copy).items(), f"tests/{folder} lacks what is in {original}"
    assert contents(run.ROOT / "tests" / "cases")


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
