"""with_ctypes.py RUNTIME MIB [MIB]: takes so much with NVIDIA's CUDA runtime by ctypes, has a child of its own take the second
figure and be killed, and asks for 1 MiB more, as the child does. Prints what each step answered, as JSON."""

import ctypes
import json
import os
import signal
import subprocess
import sys

runtime = ctypes.CDLL(sys.argv[1])
own, *of_child = sys.argv[2:]


def report():
    left, total = ctypes.c_size_t(), ctypes.c_size_t()
    assert runtime.cudaMemGetInfo(ctypes.byref(left), ctypes.byref(total)) == 0
    return left.value, total.value


def allocate(mib):
    block = ctypes.c_void_p()
    return runtime.cudaMalloc(ctypes.byref(block), ctypes.c_size_t(int(mib) << 20))


left, total = report()
found = {"left": left, "total": total, "status": allocate(own)}
if of_child:
    child = subprocess.run([sys.executable, __file__, sys.argv[1], *of_child], stdout=subprocess.PIPE, check=False)
    found["child"] = json.loads(child.stdout) | {"killed": child.returncode == -signal.SIGKILL}
found["beyond"] = allocate(1)
print(json.dumps(found), flush=True)
if not of_child:
    os.kill(os.getpid(), signal.SIGKILL)
