"""Long work without a dispatcher: caches, packs, generated sources, and what the library offers by name.

All of it stops within a second at Ctrl-C. progress(done, total, what) is called by one thread at a time."""
from __future__ import annotations

import os
from typing import Any, Callable, Dict, Iterable, List, Optional, Union

from . import _abi
from .problem import Problem

Progress = Optional[Callable[[int, int, str], None]]
Path = Union[str, "os.PathLike[str]"]


def job(name: str, progress: Progress = None, **options: Any) -> Any:
    """Runs the library's job `name` with these options (those that are None are left out) and returns its answer.
    Raises BadInput for unknown names and options."""
    callback = _abi.progress_callback(progress)
    pointer = _abi.PROGRESS() if callback is None else callback.pointer
    text = _abi.options({k: os.fspath(v) if isinstance(v, os.PathLike) else v for k, v in options.items()})
    return _abi.interruptible(lambda: _abi.answer(_abi.library().tsr_job, _abi.encoded(name), text, pointer, None),
                              callback)


def cache(action: str = "stats", cache_dir: Optional[Path] = None, max_bytes: Optional[int] = None) -> Dict[str, Any]:
    """The kernel cache: "stats", "verify", "repair" (deletes bad entries), "collect" (least recently used entries go
    until max_bytes are left) or "clear"."""
    return job("cache", action=action, cache_dir=cache_dir, max_bytes=max_bytes)


def create_pack(path: Path, problems: Iterable[Union[str, Problem]], *, decisions: bool = True,
                thread_counts: Optional[List[int]] = None, cover: Optional[int] = None, add: bool = False,
                max_workers: Optional[int] = None, progress: Progress = None, **dispatcher: Any) -> Dict[str, Any]:
    """Builds the kernels of the problems into one file, for machines without a compiler (Dispatcher(packs=[path])).
    thread_counts: what is chosen with each of them. cover: only the most chosen kernels, enough for this many percent
    of the choices. add: keep what the file holds already. `dispatcher`: device, threads and the other options of a
    Dispatcher. Returns what the pack holds."""
    return job("pack", progress, action="create", path=path, problems=[str(Problem(p)) for p in problems],
               dispatcher=dispatcher, decisions=decisions, thread_counts=thread_counts, cover=cover, add=add,
               jobs=max_workers)


def generate(out: Path, dtypes: List[str], layouts: Optional[List[str]] = None, *, arch: Optional[str] = None,
             variant: Optional[str] = None, set: Optional[str] = None, config_file: Optional[Path] = None,
             max_workers: Optional[int] = None, progress: Progress = None) -> Dict[str, Any]:
    """Writes a set of kernels as sources with a manifest into a directory that is missing or empty."""
    return job("generate", progress, out=out, dtypes=dtypes, layouts=layouts, arch=arch, variant=variant, set=set,
               config_file=config_file, jobs=max_workers)


def tune(problems: Iterable[Union[str, Problem]], *, database: Optional[Path] = None, device: str = "cpu",
         threads: int = 0, candidates: Optional[str] = None, progress: Progress = None, **run: Any) -> Dict[str, Any]:
    """Measures configurations of each problem and stores the winners, which later dispatchers choose before they ask the
    model. candidates: "all", "random:N", "stratified:N" or "guided:N"; database: None for the user's own. `run`: jobs,
    cores (a list), budget_s, limit_s, group, budget_ms, cold, cache_dir, program (docs/tuning.md). Returns {"database",
    "decisions", "skipped", "failed"}: problems without a legal configuration are skipped, those of which none ran right
    have failed. Raises Unsupported where the program `tessera` is not found, in whose processes kernels are measured."""
    return job("tune", progress, problems=[str(Problem(p)) for p in problems], database=database, device=device,
               threads=threads, candidates=candidates, **run)


def plan_sweep(directory: Path, problems: Iterable[Union[str, Problem]] = (), *, generate: Optional[List[str]] = None,
               dtypes: Optional[List[str]] = None, layouts: Optional[List[str]] = None, extra: Optional[str] = None,
               seed: Optional[int] = None, candidates: Optional[str] = None, only: Optional[str] = None,
               device: str = "cpu", threads: int = 0) -> Dict[str, Any]:
    """Writes down which configurations are to be measured on which problems, given ones and generated ones ("wide:200").
    Returns {"directory", "arch", "problems", "configs", "pairs", "skipped"}."""
    return job("sweep", action="plan", directory=directory, problems=[str(Problem(p)) for p in problems],
               generate=generate, dtypes=dtypes, layouts=layouts, extra=extra, seed=seed, candidates=candidates,
               only=only, device=device, threads=threads)


def sweep(directory: Path, *, shard: Optional[int] = None, shards: Optional[int] = None,
          retry: Optional[List[str]] = None, progress: Progress = None, **run: Any) -> Dict[str, Any]:
    """Measures what plan_sweep() wrote down, from where it was stopped on. shard: this process's of so many shards, from 0;
    retry: outcomes to measure again; `run` as of tune(). Returns {"pairs", "left", "stopped", "compiled"}, and under each
    outcome's name how many ended so: "left" are not measured, "stopped" says whether the budget ended it, "compiled" how
    many kernels the compiler was run for. Ctrl-C stops it within a second and loses at most what was being measured.
    Raises BadInput on another architecture than the plan's, Unsupported as tune()."""
    return job("sweep", progress, action="run", directory=directory, shard=shard, shards=shards, retry=retry, **run)


def sweep_status(directory: Path) -> Dict[str, Any]:
    """What is measured so far: {"pairs", "left", "arch", "records"} with every measurement, and counts by outcome."""
    return job("sweep", action="status", directory=directory)


def store_sweep(directory: Path, database: Optional[Path] = None, *, decide: bool = False) -> Dict[str, Any]:
    """Adds a sweep's measurements to a database (None: the user's own); decide=True: the fastest configuration of every
    problem in it becomes its decision. Returns {"database", "added", "decisions"}. Raises IoError where the directory has
    no measurements or the database cannot be written, Corrupt where it is none, BadInput without a database."""
    return job("sweep", action="store", directory=directory, database=database, decide=decide)


def train(out: Path, *, database: Optional[Path] = None, arch: Optional[str] = None, operation: str = "gemm",
          units: Optional[int] = None, start: Optional[Path] = None, rounds: Optional[int] = None,
          depth: Optional[int] = None, rate: Optional[float] = None, seed: Optional[int] = None,
          progress: Progress = None) -> Dict[str, Any]:
    """Trains a model of one operation on the measurements of a database (None: the user's own) and writes it to `out`, for
    Dispatcher(model=out), and its manifest to `out`.json. units: cores of the measurements, where there are several;
    start: a model whose trees come first. Returns the manifest with the scores of each fold. Raises Unsupported where
    XGBoost's shared library is not found, which is loaded then (`./dev deps train`), BadInput without measurements,
    IoError without a database."""
    return job("train", progress, out=out, database=database, arch=arch, operation=operation, units=units, rounds=rounds,
               depth=depth, rate=rate, seed=seed, **{"from": start})


def evaluate(model: Optional[Path] = None, *, database: Optional[Path] = None, operation: str = "gemm", fold: str = "",
             units: Optional[int] = None, device: str = "cpu", peer: Optional[str] = None, csv: Optional[Path] = None,
             html: Optional[Path] = None, progress: Progress = None, **run: Any) -> Dict[str, Any]:
    """Judges a model's choices against the best configurations on the problems of a fold ("test", "valid", "train";
    "": test, or valid where that has none) of a database (None: the user's own), all timed afresh and in turn. model:
    None for the shipped one, "analytic" or a file; units: cores of the measurements, where there are several; peer:
    another library to time beside the choices, of those in TESSERA_PEER_PATH; csv, html: files to write rows and a
    report to; `run` as of tune(). Returns {"model", "problems", "left_out", "choice", "top3", "analytic", "fixed",
    "regimes", "rows"}, with a peer also "peer", of a learned model "importance": scores are best time / time of the
    choice. Raises BadInput where the fold has no measured problem, Unsupported as tune()."""
    return job("evaluate", progress, model=model, database=database, operation=operation, fold=fold, units=units,
               device=device, peer=peer, csv=csv, html=html, **run)
