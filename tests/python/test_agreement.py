"""The same problem gives the same choice and bits from Python, C and the program; C and C++ agree in tests/capi."""
import json
import os
import subprocess

import numpy as np
import pytest

import tessera
from conftest import case_lines
from tessera import arrays

STORAGE = {"f32": "f4", "f16": "f2", "bf16": "u2", "f8e4m3": "u1", "f8e5m2": "u1", "i8": "i1", "u8": "u1", "i32": "i4"}


def random_bytes(rng, tensor):
    """Small integers of the tensor's type, so that nothing overflows."""
    count = tensor.bytes // arrays.BYTES[tensor.dtype]
    values = rng.integers(-4, 5, count)
    if tensor.dtype == "bf16":
        return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    if tensor.dtype.startswith("f8"):
        return rng.integers(0, 48, count).astype(np.uint8)  # positive and finite in either encoding
    return np.abs(values).astype("u1") if tensor.dtype == "u8" else values.astype(STORAGE[tensor.dtype])


@pytest.mark.parametrize("line", case_lines(7))
def test_choice_and_checksum_are_the_programs(dispatcher, line):
    done = subprocess.run([os.environ["TESSERA_PROGRAM"], "run", line, "--json", "--quiet", "--threads", "1",
                           "--budget-ms", "0", "--seed", "3"], capture_output=True, text=True, timeout=120)
    if done.returncode != 0:
        text = next(x for x in done.stderr.splitlines() if x.startswith("error: "))[len("error: "):]
        with pytest.raises(tessera.Error) as caught:
            dispatcher.measure(line, budget_ms=0, seed=3)
        assert str(caught.value) == text
        return
    theirs = json.loads(done.stdout)
    ours = dispatcher.measure(line, budget_ms=0, seed=3)
    for key in ("problem", "arch", "config", "source", "predicted_us", "verified", "max_err", "bound", "checksum"):
        assert ours[key] == theirs[key], key
    assert ours["verified"]


@pytest.mark.parametrize("line", [x for x in case_lines(9) if "prepack" not in x and "bias_grad" not in x])
def test_bits_are_those_of_a_c_program(dispatcher, line, tmp_path):
    plan = dispatcher.get(line)
    rng = np.random.default_rng(1)
    data = [random_bytes(rng, t) for t in plan.problem.tensors]
    for i, x in enumerate(data):
        x.tofile(tmp_path / str(i))
    files = [str(tmp_path / str(i)) for i in (2, 0, 1, *range(3, len(data)))]
    done = subprocess.run([os.environ["TESSERA_C_PROGRAM"], plan.problem.text, *files], capture_output=True, text=True,
                          timeout=120)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["config"] == plan.config.text
    # Flat arrays that hold a tensor's memory stand for it, whatever its strides.
    plan(data[0], data[1], data[2], data[3:])
    assert (tmp_path / "2").read_bytes() == data[2].tobytes()


@pytest.mark.parametrize("text", ["", "gemm", "gemm m=1 n=1 k=1 dtype=half", "conf m=1", "gemm m=0 n=1 k=1 dtype=f32",
                                  "gemm m=1 n=1 k=1 dtype=f32 lda=0", "gemm m=99999999999999999999 n=1 k=1 dtype=f32"])
def test_errors_have_the_programs_text(dispatcher, text):
    done = subprocess.run([os.environ["TESSERA_PROGRAM"], "run", text], capture_output=True, text=True, timeout=60)
    with pytest.raises(tessera.BadInput) as caught:
        dispatcher.get(text)
    if text:
        assert f"error: {caught.value}\n" in done.stderr
