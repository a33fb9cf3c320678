"""A process whose threads decode the same type for the first time at once: without preparation it ends with SIGSEGV."""

from __future__ import annotations

import subprocess
import sys

RACE = """
import sys, threading, types, msgspec
from migrator.model.prepared_types import prepare_types
sys.setswitchinterval(1e-6)

def a_type(number):
    module = types.ModuleType(f"made_{number}")
    sys.modules[module.__name__] = module
    kind = lambda below, n: f"S{below} | None" if below >= 0 and n == 0 else "dict[str, int] | None"
    fields = lambda below: "".join(f"    f{n}: {kind(below, n)} = None\\n" for n in range(12))
    classes = (f"class S{n}(msgspec.Struct, frozen=True):\\n{fields(n - 1)}" for n in range(8))
    exec("import msgspec\\n" + "\\n".join(classes), module.__dict__)
    return module.S7

for number in range(150):
    kind, start = a_type(number), threading.Barrier(6)
    assert prepare_types() >= 8
    def decode():
        start.wait()
        msgspec.convert({"f0": {"f0": {"f1": {"a": 1}}}}, kind)
    threads = [threading.Thread(target=decode) for _ in range(6)]
    [each.start() for each in threads]
    [each.join() for each in threads]
    del sys.modules[kind.__module__]
"""


def test_threads_that_decode_a_type_at_once_end_no_process_once_it_is_prepared() -> None:
    done = subprocess.run([sys.executable, "-c", RACE], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
