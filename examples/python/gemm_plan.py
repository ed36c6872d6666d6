"""Plans: get once, bind to memory, call often; the memory may be anything that holds floats."""
import array

import tessera


def floats(rows, cols, value):
    return memoryview(array.array("f", [value]) * (rows * cols)).cast("B").cast("f", (rows, cols))


with tessera.Dispatcher(threads=1) as dispatcher:
    plan = dispatcher.get(tessera.Problem("gemm", m=16, n=24, k=8, dtype="f32", layout="rrr"))
    print(plan, plan.info()["build"])
    for tensor in plan.problem.tensors:
        print(f"  {tensor.name}: {tensor.dtype} {tensor.shape}, {tensor.bytes} bytes")
    x, w, y = floats(16, 8, 2.0), floats(8, 24, 0.5), floats(16, 24, 0.0)
    step = plan.bind(x, w, y)
    for _ in range(1000):
        step()
    assert y.tolist() == [[8.0] * 24] * 16
    x[0, 0] = 10.0  # bound memory is read at each call
    assert step()[0, 0] == 12.0
    assert plan(x, w, alpha=2.0)[1, 0] == 16.0
