"""tune and sweep: measurements in child processes, stored and used."""
import os

import pytest

import tessera

PROBLEM = "gemm m=17 n=19 k=23 dtype=f32 layout=rcr"


def test_a_tuned_problem_is_chosen_by_its_decision(tmp_path):
    database = tmp_path / "tune.sqlite"
    calls = []
    answer = tessera.tune([PROBLEM], database=database, threads=1, candidates="guided:3", budget_ms=2,
                          progress=lambda *row: calls.append(row))
    assert [d["problem"] for d in answer["decisions"]] == [PROBLEM] and calls
    with tessera.Dispatcher(threads=1, database=database) as d:
        plan = d.get(PROBLEM)
        assert plan.info()["source"] == "tuned" and plan.config.text == answer["decisions"][0]["config"]
    with tessera.Dispatcher(threads=1, database="none") as d:
        assert d.get(PROBLEM).info()["source"] == "model"
    with tessera.Dispatcher(threads=1, database=database, policy="tuned") as d:
        with pytest.raises(tessera.Unsupported, match="never measured"):
            d.get("gemm m=18 n=19 k=23 dtype=f32")


def test_a_sweep_is_planned_run_and_stored(tmp_path):
    folder = tmp_path / "sweep"
    made = tessera.plan_sweep(folder, [PROBLEM], candidates="random:4", threads=1, seed=2)
    assert made["problems"] == 1 and made["pairs"] == 4
    done = tessera.sweep(folder, budget_ms=1, shard=0, shards=1, cores=sorted(os.sched_getaffinity(0)))
    assert done["left"] == 0 and done["ok"] == 4
    status = tessera.sweep_status(folder)
    assert len(status["records"]) == 4 and all(r["outcome"] == "ok" for r in status["records"])
    stored = tessera.store_sweep(folder, tmp_path / "db.sqlite", decide=True)
    assert stored["added"] == 4 and len(stored["decisions"]) == 1
    best = min(status["records"], key=lambda r: r["median_us"])
    assert stored["decisions"][0]["config"] == best["config"]
    assert tessera.sweep(folder)["left"] == 0  # nothing is measured twice


def test_kernels_of_large_problems_are_timed_more_than_once(tmp_path):
    folder = tmp_path / "sweep"  # all take several times as long as the kernel that is timed beside them
    tessera.plan_sweep(folder, ["gemm m=384 n=384 k=384 dtype=f32"], candidates="random:3", threads=1, seed=3)
    assert tessera.sweep(folder, budget_ms=50)["ok"] == 3
    for record in tessera.sweep_status(folder)["records"]:
        assert len(record["samples"]) >= 3, record


def test_training_and_models(tmp_path):
    tessera.tune([PROBLEM], database=tmp_path / "db", threads=1, candidates="guided:3", budget_ms=1)
    try:
        manifest = tessera.train(tmp_path / "some.model", database=tmp_path / "db", rounds=2)
        with tessera.Dispatcher(threads=1, model=tmp_path / "some.model", database="none") as d:
            assert d.get(PROBLEM) and manifest
    except (tessera.Unsupported, tessera.BadInput) as e:  # no XGBoost, or too little to learn from: said
        assert "XGBoost" in str(e) or "measure" in str(e) or "fold" in str(e) or "problem" in str(e), e
    with tessera.Dispatcher(threads=1, model="analytic", database="none") as d:
        assert d.explain(PROBLEM)["candidates"]
    with pytest.raises(tessera.Error):
        tessera.Dispatcher(threads=1, model=tmp_path / "nothing").get(PROBLEM)
    with pytest.raises(tessera.Error):
        tessera.train(tmp_path / "m", database=tmp_path / "nothing")


def test_a_model_is_judged(tmp_path):
    problems = ["gemm m=21 n=32 k=16 dtype=f32 layout=rrr", "gemm m=22 n=40 k=16 dtype=f32 layout=rrr"]
    for attempt in range(4):  # times of a core that others shared are left out, and a busy machine shares its cores
        database = tmp_path / f"db{attempt}"
        tessera.tune(problems, database=database, threads=1, candidates="guided:2", budget_ms=1)
        if judged_everywhere(database, problems, tmp_path):
            break
    else:
        raise AssertionError("a problem was left out, again and again")
    with pytest.raises(tessera.BadInput, match="unknown fold 'all'"):
        tessera.evaluate(database=database, fold="all")
    with pytest.raises(tessera.BadInput, match="no database"):
        tessera.evaluate(database="none")
    with pytest.raises(tessera.BadInput, match="folds"):
        tessera.evaluate(database=database, folds="test")
    with pytest.raises(tessera.Error):
        tessera.evaluate(tmp_path / "nothing.model", database=database, fold="train")


def judged_everywhere(database, problems, tmp_path):
    """Whether every problem is judged in one of the folds; what is judged is as it should be."""
    calls = []
    judged, folds = [], 0
    for fold in ("train", "valid", "test"):  # a problem's shape says in which of them it is
        try:
            answer = tessera.evaluate("analytic", database=database, fold=fold, budget_ms=1, csv=tmp_path / f"{fold}.csv",
                                      html=tmp_path / f"{fold}.html", progress=lambda *row: calls.append(row))
        except tessera.BadInput as e:
            assert f"fold '{fold}'" in str(e)
            continue
        folds += 1
        assert answer["model"] == "analytic" and answer["choice"]["problems"] == answer["problems"] == len(answer["rows"])
        for row in answer["rows"]:
            assert 0 < row["best_us"] <= row["choice_us"] and 0 < row["efficiency"] <= 1
        judged += [row["problem"] for row in answer["rows"]]
        assert len((tmp_path / f"{fold}.csv").read_text().splitlines()) == 1 + len(answer["rows"])
        assert "id=\"scores\"" in (tmp_path / f"{fold}.html").read_text()
    assert set(judged) <= set(problems) and bool(judged) == bool(folds) == bool(calls)
    return sorted(judged) == problems


def test_what_cannot_be_measured_is_said(tmp_path):
    with pytest.raises(tessera.BadInput, match="no problems"):
        tessera.tune([], database=tmp_path / "x")
    with pytest.raises(tessera.BadInput, match="no database"):
        tessera.tune([PROBLEM], database="none")
    with pytest.raises(tessera.Unsupported, match="TESSERA_PROGRAM"):
        tessera.tune([PROBLEM], database=tmp_path / "x", program="/nonexistent")
    with pytest.raises(tessera.Error):
        tessera.sweep(tmp_path / "nothing")
    with pytest.raises(tessera.BadInput, match="candidates|strategy"):
        tessera.plan_sweep(tmp_path / "s", [PROBLEM], candidates="best")


def test_ctrl_c_stops_a_sweep(python, tmp_path):
    python(f"""
import os, signal, threading, time, tessera
folder = {str(tmp_path / 'sweep')!r}
tessera.plan_sweep(folder, generate=["wide:3"], candidates="random:6", threads=1)
def seconds_to_stop():
    times = []
    def stop(done, total, what):
        if not what.startswith("measur") or times:
            return
        times.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)
    try:
        tessera.sweep(folder, progress=stop, budget_ms=1000, jobs=2)
        raise SystemExit("was not stopped")
    except KeyboardInterrupt:
        return time.monotonic() - times[0]
took = []  # a busy machine may hold up one of three
while not took or (took[-1] >= 1 and len(took) < 3):
    took.append(seconds_to_stop())
assert took[-1] < 1, took
status = tessera.sweep_status(folder)
assert status["left"] > 0 and tessera.Problem({PROBLEM!r})
""", timeout=200)
