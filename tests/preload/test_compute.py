"""The launch gate in a real process on the stand-in's clock. Only bounds are checked that a slow machine cannot break;
shares and throughput are measured on a virtual clock in gate_test.cpp."""

from __future__ import annotations

import subprocess
from pathlib import Path

from conftest import HERE, SECONDS, STANDIN, TREE, Bench
from share import MIB, OBSERVE_ONLY, Share

DEFAULT, FORCE, DISABLE = 0, 1, 2
LIMIT = 3000 * MIB
HEAD = f"import sys, json, os, time; sys.path.insert(0, {str(TREE / 'tests/preload/record')!r}); from driver import *; cu = Driver(); cu.start(); "
KERNEL = """
function = ctypes.c_void_p(); cu.call('cuModuleGetFunction', ctypes.byref(function), 0, 0)
def launch(blocks, stream=0, name='cuLaunchKernel'):
    return getattr(cu.library, name)(function, blocks, 1, 1, 1, 1, 1, 0, ctypes.c_void_p(stream), None, None)
def work(total_ms, blocks=1000, name='cuLaunchKernel'):
    began = time.monotonic()
    statuses = {launch(blocks, name=name) for _ in range(total_ms * 1000 // blocks)}
    cu.must('cuCtxSynchronize')
    return [sorted(statuses), time.monotonic() - began]
"""


def policy(share: Share, value: int) -> None:
    share.write("limits", 148, "<I", value)


def forced(bench: Bench, permille: int) -> Share:
    share = bench.share(LIMIT, permille=permille)
    policy(share, FORCE)
    return share


def test_work_at_a_part_takes_its_time(bench: Bench) -> None:
    """400 ms of GPU work at a quarter last at least 1.6 s, less the credit of 2 x 50 ms and what is queued ahead."""
    share = forced(bench, 250)
    statuses, seconds = bench.python(HEAD + KERNEL + "print(json.dumps(work(400)))")  # type: ignore[misc]
    assert statuses == [0]
    assert seconds >= 1.6 - 0.1 - 0.16
    slot = share.slot(0)
    assert slot["launches"] > 350 and slot["probes"] > 0 and slot["throttle_ns"] > 10**9 and slot["gate_closures"] > 0
    assert 300 * 10**6 <= slot["busy_ns"] <= 420 * 10**6, slot


def test_per_thread_streams_and_extended_launches_pass_the_same_gate(bench: Bench) -> None:
    share = forced(bench, 250)
    statuses, seconds = bench.python(HEAD + KERNEL + "print(json.dumps(work(200, name='cuLaunchKernel_ptsz')))")  # type: ignore[misc]
    assert statuses == [0] and seconds >= 0.8 - 0.1 - 0.16
    assert share.slot(0)["probes"] > 0


MANY = """
import struct
cu.must('cuCtxSetCurrent', cu.must_out('cuDevicePrimaryCtxRetain', 1)); second = cu.must_out('cuStreamCreate', 0)
cu.must('cuCtxSetCurrent', cu.must_out('cuDevicePrimaryCtxRetain', 0)); first = cu.must_out('cuStreamCreate', 0)
kernels = b''.join(struct.pack('<Q8IQQ', 1, 1000, *[1] * 7, stream, 0) for stream in (first, second))
began = time.monotonic()
statuses = [cu.call('cuLaunchCooperativeKernelMultiDevice', kernels, 2, 0) for _ in range(200)]
cu.must('cuCtxSynchronize'); print(json.dumps([statuses == [0] * 200, time.monotonic() - began, cu.must_out('cuCtxGetDevice')]))
"""


def test_a_kernel_on_several_cards_passes_the_gate_of_each(bench: Bench) -> None:
    """The call of the oldest of such interfaces; here the card that is not the current one is limited."""
    first, second = bench.share(LIMIT, "a", 0), bench.share(LIMIT, "b", 1, permille=250)
    policy(second, FORCE)
    statuses, seconds, current = bench.python(HEAD + MANY, DRAWBRIDGE_STANDIN_DEVICES="2")  # type: ignore[misc]
    assert statuses and current == 0
    assert seconds >= 0.8 - 0.1 - 0.16
    assert (first.slot(0)["probes"], second.slot(0)["probes"] > 0) == (0, True)


def test_without_a_limit_no_event_is_made(bench: Bench) -> None:
    share = bench.share(LIMIT)
    policy(share, FORCE)
    calls = "calls = cu.library.standin_calls; calls.restype, calls.argtypes = ctypes.c_ulong, [ctypes.c_char_p];"
    got = bench.python(HEAD + calls + KERNEL + "work(100); print(json.dumps([calls(b'cuEventRecord'), calls(b'cuLaunchKernel')]))")
    assert got == [0, 100]
    assert share.slot(0)["throttle_ns"] == 0


def test_a_disabled_policy_and_an_observed_share_are_not_held(bench: Bench) -> None:
    first = bench.share(LIMIT, permille=100)
    policy(first, DISABLE)
    bench.python(HEAD + KERNEL + "print(json.dumps(work(200)))")
    assert first.slot(0)["throttle_ns"] == 0
    other = Bench(bench.folder / "other")
    second = other.share(LIMIT, permille=100, flags=OBSERVE_ONLY)
    policy(second, FORCE)
    other.python(HEAD + KERNEL + "print(json.dumps(work(200)))")
    assert second.slot(0)["throttle_ns"] == 0


def test_a_silent_agent_makes_the_default_policy_strict(bench: Bench) -> None:
    share = bench.share(LIMIT, permille=250)
    policy(share, DEFAULT)
    _, seconds = bench.python(HEAD + KERNEL + "print(json.dumps(work(200)))")  # type: ignore[misc]
    assert seconds >= 0.8 - 0.1 - 0.16


def test_a_living_agent_lets_a_lone_container_run(bench: Bench) -> None:
    share = bench.share(LIMIT, permille=250)
    policy(share, DEFAULT)
    script = HEAD + KERNEL + """
share = os.open(sys.argv[1], os.O_RDWR)
os.pwrite(share, time.monotonic_ns().to_bytes(8, 'little'), 160)
print(json.dumps(work(200)))
"""
    bench.python(script, str(share.folder / "limits"))
    assert share.slot(0)["throttle_ns"] == 0


def test_a_pause_holds_launches_and_lapses(bench: Bench) -> None:
    share = bench.share(LIMIT)
    script = HEAD + KERNEL + """
share = os.open(sys.argv[1], os.O_RDWR)
os.pwrite(share, (time.monotonic_ns() + 700_000_000).to_bytes(8, 'little'), 176)
print(json.dumps(work(1)))
"""
    statuses, seconds = bench.python(script, str(share.folder / "limits"))  # type: ignore[misc]
    assert statuses == [0] and seconds >= 0.6
    assert share.slot(0)["throttle_ns"] >= 6 * 10**8


def test_a_limit_that_comes_under_a_running_program_holds_its_device_alone(bench: Bench) -> None:
    """One share after the other is limited while the program launches on both: 200 ms at a quarter last 0.8 s."""
    shares = [bench.share(LIMIT), bench.share(LIMIT, name="claim-1", device=1)]
    for share in shares:
        policy(share, FORCE)
    script = HEAD + KERNEL + """
contexts = [cu.must_out('cuDevicePrimaryCtxRetain', device) for device in (0, 1)]
limits = [os.open(path + '/limits', os.O_RDWR) for path in sys.argv[1:]]
def at(device):
    cu.must('cuCtxSetCurrent', contexts[device])
    return work(200)[1]
def limited(device):
    os.pwrite(limits[device], (250).to_bytes(4, 'little'), 144)
    at(1 - device)
    held = at(device)
    os.pwrite(limits[device], (1000).to_bytes(4, 'little'), 144)
    return held
at(0); at(1)
print(json.dumps([limited(0), limited(1), at(0), at(1)]))
"""
    seconds = bench.python(script, *(str(share.folder) for share in shares), DRAWBRIDGE_STANDIN_DEVICES="2")
    assert min(seconds[:2]) >= 0.8 - 0.1 - 0.16  # type: ignore[index]
    for share in shares:
        # Of a program that nothing holds no launch is counted: those under the limit alone.
        assert share.slot(0)["throttle_ns"] > 0 and 0 < share.slot(0)["launches"] <= 200


def test_a_thread_that_is_cancelled_while_a_launch_waits_ends_behind_it(bench: Bench, tmp_path: Path) -> None:
    """The driver's launch is no place where a cancelled thread ends; here it would end with a lock in its hands."""
    share = forced(bench, 10)
    program = str(tmp_path / "cancelled")
    subprocess.run(["gcc", "-w", "-pthread", "-o", program, HERE / "programs" / "cancelled.c", STANDIN / "libcuda.so.1"], check=True)
    with subprocess.Popen([program], env=bench.environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdin and child.stdout and child.stdout.readline() == "cancelled\n"
        share.write("limits", 144, "<I", 1000)
        assert child.communicate("\n", timeout=SECONDS)[0] == "1 0\n"


def test_a_capture_sees_no_event_and_no_wait(bench: Bench) -> None:
    share = forced(bench, 10)
    calls = "calls = cu.library.standin_calls; calls.restype, calls.argtypes = ctypes.c_ulong, [ctypes.c_char_p];"
    script = HEAD + calls + KERNEL + """
stream = cu.must_out('cuStreamCreate', 1)
cu.must('cuStreamBeginCapture_v2', stream, 0)
before = calls(b'cuEventRecord')
statuses = {launch(1000, stream) for _ in range(100)}
graph = ctypes.c_uint64()
print(json.dumps([calls(b'cuEventRecord') - before, sorted(statuses), cu.call('cuStreamEndCapture', stream, ctypes.byref(graph))]))
"""
    assert bench.python(script) == [0, [0], 0]
    assert share.slot(0)["throttle_ns"] == 0


def test_processes_of_one_share_have_one_clock(bench: Bench) -> None:
    """Two processes with 200 ms each at a quarter: together 1.6 s."""
    share = forced(bench, 250)
    script = HEAD + KERNEL + """
import subprocess
if len(sys.argv) == 1:
    began = time.monotonic()
    child = subprocess.Popen([sys.executable, '-c', open('/proc/self/cmdline').read().split(chr(0))[2], 'child'], stdout=subprocess.DEVNULL)
    work(200); child.wait()
    print(json.dumps(time.monotonic() - began))
else:
    work(200); print(1)
"""
    assert bench.python(script) >= 1.6 - 0.1 - 2 * 0.16  # type: ignore[operator]
    assert share.read("ledger", 64, "<Q")[0] > 0
