"""Problems, dispatchers, registries and jobs."""
import copy
import json
import pickle
import threading

import numpy as np
import pytest

import tessera

PROBLEM = "gemm m=33 n=20 k=17 dtype=f32 layout=rrr"


def operands():
    return np.ones((33, 17), np.float32), np.full((17, 20), 2, np.float32), np.zeros((33, 20), np.float32)


def test_problems_and_configs_are_their_text():
    p = tessera.Problem("gemm", m=64, n=80, k=48, dtype="fp32", epilogue="bias,relu")
    assert str(p) == "gemm m=64 n=80 k=48 dtype=f32 layout=rcr epilogue=bias,relu"
    assert eval(repr(p), {"Problem": tessera.Problem}) == p
    assert p.fields["n"] == "80" and p.flops == 2 * 64 * 80 * 48 and p.op == "gemm"
    assert [t.name for t in p.tensors] == ["a", "b", "c", "d0"]
    assert p.tensors[1].shape == (48, 80) and p.tensors[1].strides == (1, 48)
    assert p.replace(m=3, epilogue=None).text == "gemm m=3 n=80 k=48 dtype=f32 layout=rcr"
    c = tessera.KernelConfig("cpu_packed block=96x512x256 tile=6x64 inst=1x16x1")
    assert (c.family, c.block_n, c.tile_m) == ("cpu_packed", 512, 6)
    assert tessera.KernelConfig(c.knobs) == c and c.replace(tile_m=8).tile_m == 8
    with pytest.raises(tessera.BadInput, match="did you mean"):
        tessera.Problem("gemm m=1 n=1 k=1 dtipe=f32")
    with pytest.raises(tessera.BadInput, match="not Unicode"):
        tessera.Problem("gemm m=\udcff")
    with pytest.raises(AttributeError, match="no knob"):
        c.tiles


@pytest.mark.parametrize("argument,use", [
    ("epilogue", lambda a, w: tessera.gemm(a, a, epilogue="relu alpha=2")),
    ("epilogue", lambda a, w: tessera.gemm(a, a, epilogue="bias, relu", d=[a[0]])),
    ("epilogue", lambda a, w: tessera.gemm(a, a, epilogue="relu\u00a0")),
    ("epilogue", lambda a, w: tessera.gemm(a, a, epilogue="relu=1")),
    ("out_dtype", lambda a, w: tessera.gemm(a, a, out_dtype="f32\talpha=2")),
    ("activation", lambda a, w: tessera.linear(a, a, a[0], activation="relu alpha=2")),
    ("epilogue", lambda a, w: tessera.conv(w, w, epilogue="relu alpha=2")),
    ("out_dtype", lambda a, w: tessera.conv(w, w, out_dtype="f32 alpha=2")),
    ("stride", lambda a, w: tessera.conv(w, w, stride=(1, "1 alpha=2"))),
    ("padding", lambda a, w: tessera.conv(w, w, padding=(0, "0 alpha=2"))),
    ("dilation", lambda a, w: tessera.conv(w, w, dilation=(1, "1 alpha=2"))),
    ("in_size", lambda a, w: tessera.conv_bwd_data(w, w, (5, "5 alpha=2"))),
    ("filter_size", lambda a, w: tessera.conv_bwd_weight(w, w, (1, "1 alpha=2"))),
    ("k", lambda a, w: tessera.Problem("gemm", m=3, n=3, k="3 alpha=2", dtype="f32")),
    ("layout", lambda a, w: tessera.Problem(PROBLEM).replace(layout="rcr alpha=2")),
    ("the name of a field", lambda a, w: tessera.Problem("gemm m=3 n=3 k=3", **{"alpha=2 dtype": "f32"})),
])
def test_a_field_is_one_word(argument, use):
    with pytest.raises(tessera.BadInput, match=f"bad_input: {argument} has white space or '=' in it"):
        use(np.ones((3, 3), np.float32), np.ones((1, 3, 3, 1), np.float32))


def test_a_closed_dispatcher_says_so():
    d = tessera.Dispatcher(threads=1)
    plan = d.get(PROBLEM)
    call = plan.bind(*operands())
    d.close()
    d.close()
    for use in (call, plan.info, d.info, lambda: d.get(PROBLEM), lambda: d.explain(PROBLEM)):
        with pytest.raises(tessera.BadInput, match="closed"):
            use()


def test_closing_beside_calls_ends_them_in_order():
    a, b, c = operands()
    for _ in range(10):
        d = tessera.Dispatcher(threads=1)
        call, said = d.get(PROBLEM).bind(a, b), []

        def work():
            with pytest.raises(tessera.BadInput, match="closed"):
                while True:
                    call()
            said.append(True)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for t in threads:
            t.start()
        d.close()
        for t in threads:
            t.join()
        assert len(said) == 4


def test_handles_are_not_copied(dispatcher):
    plan = dispatcher.get(PROBLEM)
    for thing in (dispatcher, plan, plan.bind(*operands()), tessera.Registry("one")):
        for copied in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match="belongs to this process"):
                copied(thing)
    for value in (plan.problem, plan.config):
        assert pickle.loads(pickle.dumps(value)) == copy.deepcopy(value) == value


def test_a_plan_outlives_its_dispatcher():
    a, b, c = operands()
    call = tessera.Dispatcher(threads=1).get(PROBLEM).bind(a, b, c)
    call()
    assert (c == 34).all()


def test_policies(dispatcher):
    rows = dispatcher.explain(PROBLEM)["candidates"]
    with tessera.Dispatcher(threads=1, config=rows[-1]["config"]) as d:
        assert d.get(PROBLEM).config.text == rows[-1]["config"]
        assert d.info()["policy"] == "explicit"
    with tessera.Dispatcher(threads=1, policy="model_topk", top_k=2, background=False) as d:
        assert d.get(PROBLEM).info()["source"] == "measured"
    with tessera.Dispatcher("null:gfx942") as d:
        assert d.explain("gemm m=512 n=512 k=512 dtype=f16")["candidates"]
    for options, match in (({"policy": "best"}, "unknown policy"), ({"policy": "explicit"}, "without a config"),
                           ({"device": "tpu"}, "unknown device"), ({"threads": -1}, "threads")):
        with pytest.raises(tessera.BadInput, match=match):
            tessera.Dispatcher(**options)


@pytest.fixture
def two():
    """A registry of the best and the worst predicted kernel, of which the worst comes first; and their configs."""
    problem = "gemm m=384 n=384 k=384 dtype=f32 layout=rrr"
    with tessera.Dispatcher(threads=1, database="none") as d:
        rows = sorted(d.explain(problem)["candidates"], key=lambda row: row["predicted_us"])
    registry = tessera.Registry("two")
    registry.add(rows[0]["config"], exact=True)
    registry.add(rows[-1]["config"], exact=True, priority=1)
    return problem, registry, rows[-1]["config"], rows[0]["config"]


def test_model_topk_answers_at_once_and_improves(two):
    problem, registry, slow, fast = two
    a, b = np.ones((384, 384), np.float32), np.ones((384, 384), np.float32)
    with tessera.Dispatcher(threads=1, policy="model_topk", top_k=2, registry=registry, database="none") as d:
        first = d.get(problem)
        assert (first.config.text, first.source) == (slow, "model")
        assert (tessera.gemm(a, b, dispatcher=d) == 384).all()
        assert d.settle() and d.info()["refining"] == 0
        then = d.get(problem)
        assert (then.config.text, then.source) == (fast, "measured")
        assert d.get(problem) is then and first.config.text == slow
        for run in (first, then, lambda a, b: d.run(problem, a, b), lambda a, b: tessera.gemm(a, b, dispatcher=d)):
            assert (run(a, b) == 384).all()
        assert {call._kernel.value for call in d._calls.values()} == {then._handle.value}


def test_ends_of_a_dispatcher_at_work_in_the_background(python, tmp_path):
    slow = tmp_path / "slow-c++"  # the first kernel is compiled; each later one takes a minute
    slow.write_text(f'#!/bin/sh\ncase "$*" in *" -o "*) ;; *) exec g++ "$@" ;; esac\n'
                    f'if mkdir {tmp_path}/once 2>/dev/null; then exec g++ "$@"; fi\n: >{tmp_path}/at-work\nexec sleep 60\n')
    slow.chmod(0o700)
    python(f"""
import os, signal, sys, time, tessera
def begin():
    d = tessera.Dispatcher(threads=1, policy="model_topk", top_k=2, database="none")
    plan = d.get("gemm m=24 n=16 k=8 dtype=f16")
    assert plan.source == "model", plan.source
    while not os.path.exists({str(tmp_path / 'at-work')!r}):
        assert d.info()["refining"]
        time.sleep(0.005)
    return d
d = begin()
assert not d.settle(timeout=0.01)
pid = os.fork()
if pid == 0:
    signal.alarm(20)  # nothing here waits for the thread that the parent has
    try:
        d.info()
        os._exit(3)
    except tessera.DeviceError:
        pass
    d.close()
    sys.exit(0)
assert os.waitpid(pid, 0)[1] == 0
start = time.monotonic()
d.close()
assert time.monotonic() - start < 20, "close waited for the compiler"
""", timeout=50, TESSERA_CXX=str(slow), TESSERA_CACHE_DIR=str(tmp_path / "cache"), TESSERA_PACK_PATH="")


def test_a_heuristic_of_ones_own():
    seen = []

    def widest(problem, candidates):
        seen.append(problem)
        widths = [tessera.KernelConfig(config).tile_n for config, _ in candidates]
        return sorted(range(len(widths)), key=lambda i: -widths[i])

    a, b, c = operands()
    with tessera.Dispatcher(threads=1, rank=widest) as d:
        plan = d.get(PROBLEM)
        assert seen == [PROBLEM] and plan.info()["source"] == "callback"
        assert plan.config.tile_n == max(tessera.KernelConfig(r["config"]).tile_n
                                         for r in d.explain(PROBLEM)["candidates"])
        assert (plan(a, b) == 34).all()
    with tessera.Dispatcher(threads=1, rank=lambda p, c: 1 // 0) as d:
        with pytest.raises(ZeroDivisionError):
            d.get(PROBLEM)
        with pytest.raises(ZeroDivisionError):  # and again, not an older error
            d.explain(PROBLEM)
    for answer, match in (([10 ** 6], "out of range"), ([-1], "out of range")):
        with tessera.Dispatcher(threads=1, rank=lambda p, c: answer) as d:
            with pytest.raises(tessera.BadInput, match=match):
                d.get(PROBLEM)
    with tessera.Dispatcher(threads=1, rank=lambda p, c: []) as d:
        with pytest.raises(tessera.Unsupported, match="chose none"):
            d.get(PROBLEM)


def test_explain_correct_and_emit(dispatcher):
    e = dispatcher.explain(PROBLEM, rejected=True)
    assert e["choice"]["config"] == e["candidates"][0]["config"]
    assert all(r["rule"] and r["reason"] for r in e["rejected"])
    c = dispatcher.correct(PROBLEM, e["rejected"][0]["config"])
    assert not c["legal"] and c["rule"] == e["rejected"][0]["rule"]
    assert c["suggestion"] is None or dispatcher.correct(PROBLEM, c["suggestion"])["legal"]
    assert "#include" in dispatcher.emit(PROBLEM)
    assert len(dispatcher.emit(PROBLEM, whole=True)) > len(dispatcher.emit(PROBLEM))


def test_build(dispatcher):
    calls = []
    problems = [f"gemm m={m} n=20 k=17 dtype=f32 layout=rrr" for m in (33, 34, 35)]
    assert dispatcher.build(problems, max_workers=2, progress=lambda *row: calls.append(row)) == ["", "", ""]
    assert [row[:2] for row in calls] == [(1, 3), (2, 3), (3, 3)] and {row[2] for row in calls} == set(problems)

    def stop(done, total, what):
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        dispatcher.build(problems, max_workers=1, progress=stop)
    assert dispatcher.build(problems) == ["", "", ""]  # usable afterwards


def test_registries(tmp_path):
    r = tessera.Registry("mine")
    assert r.add("cpu_packed tile=*x64", dtype="f32", priority=2) and not r.add("cpu_packed tile=*x64", dtype="f32")
    r.add("cpu_direct", arch="x86_*")
    r.add("cpu_dot", arch="gfx*")
    assert len(r) == 3 and [d.config for d in r][1] == "cpu_direct" and "mine" in repr(r)
    assert r.filter(lambda d: d.arch != "gfx*") == 1 and len(r) == 2
    again = tessera.Registry.from_json(r.json(indent=2))
    assert again.declarations() == r.declarations()
    other = tessera.Registry("other", "any cpu_dot priority=1\n")
    assert other.merge(r) == 2 and other.merge(r) == 0
    only = tessera.Registry()
    only.add("cpu_direct")
    assert only.select(PROBLEM, threads=1).family == "cpu_direct"
    a, b, c = operands()
    with only.build([PROBLEM], max_workers=1, threads=1) as d:
        assert (d.run(PROBLEM, a, b) == 34).all() and d.get(PROBLEM).config.family == "cpu_direct"
    for bad in ("nothing", "cpu_packed tile=0", "cpu_packed\nany cpu_dot", "cpu_packed tiles=1x1"):
        with pytest.raises(tessera.BadInput):
            tessera.Registry().add(bad)
    with pytest.raises(tessera.BadInput, match="dtype"):
        tessera.Registry().add("cpu_dot", dtype="f32 tile=8x8")
    with pytest.raises(tessera.BadInput, match="unknown key"):
        tessera.Registry.from_json(json.dumps({**r.to_dict(), "extra": 1}))
    with pytest.raises(ZeroDivisionError):
        r.filter(lambda d: 1 // 0)
    assert len(r) == 2
    with pytest.raises(tessera.Unsupported, match="declares none"):
        tessera.Registry("none", "any cpu_dot priority=1 dtype=i8").select(PROBLEM, threads=1)


def test_jobs(tmp_path):
    facts = tessera.create_pack(tmp_path / "some.pack", [PROBLEM], threads=1)
    checked = tessera.job("pack", action="check", path=tmp_path / "some.pack")
    assert facts["kernels"] == 1 and checked["damaged"] == [] and checked["of_this_build"]
    with tessera.Dispatcher(threads=1, packs=[tmp_path / "some.pack"], cache_dir=tmp_path / "cache") as d:
        assert d.get(PROBLEM).info()["build"]["from"] == "pack"
    assert tessera.cache(cache_dir=tmp_path / "cache")["entries"] == 0
    seen = []
    made = tessera.generate(tmp_path / "set", ["f32"], arch="x86_avx2", progress=lambda *row: seen.append(row))
    assert made["kernels"] > 0 and len(seen) == made["kernels"]
    for name, options, match in (("nothing", {}, "unknown job"), ("cache", {"action": "burn"}, "burn"),
                                 ("cache", {"acton": "stats"}, "act"), ("pack", {"action": "list", "path": "/x"}, "/x")):
        with pytest.raises(tessera.Error, match=match):
            tessera.job(name, **options)


def test_a_zero_byte_ends_no_text(tmp_path):
    path = f"{tmp_path}/x\0y"
    for name, use in (("cache_dir", lambda: tessera.Dispatcher(threads=1, cache_dir=path)),
                      ("packs", lambda: tessera.Dispatcher(threads=1, packs=[path])),
                      ("cache_dir", lambda: tessera.cache(cache_dir=path)),
                      ("dispatcher", lambda: tessera.create_pack(tmp_path / "p", [PROBLEM], threads=1, cache_dir=path)),
                      ("options", lambda: tessera.job("cache", options={"a\0": 1}))):
        with pytest.raises(tessera.BadInput, match=f"{name} has a zero byte"):
            use()
    assert not list(tmp_path.iterdir())


def test_library_facts():
    facts = tessera.library()
    assert tessera.version() == tessera.__version__ == facts["version"]
    assert {"f32", "bf16", "i8"} <= {t["name"] for t in facts["dtypes"]}
    assert tessera.device()["threads"] >= 1
    assert len(tessera.suite("cpu_gemm")) > 50
    assert dir(tessera) and all(getattr(tessera, name) is not None for name in tessera.__all__)
