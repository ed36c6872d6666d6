"""Dispatchers: a problem in, the fastest legal kernel out."""
from __future__ import annotations

import ctypes
import os
import threading
import time
from typing import Any, Callable, Dict, Iterable, List, Optional, Sequence, Tuple, Union

from . import _abi
from .calls import Call
from .config import KernelConfig
from .errors import BadInput
from .plan import Plan
from .problem import Problem
from .registry import Registry

# (problem, [(config, predicted microseconds), ...]) -> indices, best first.
Rank = Callable[[str, Sequence[Tuple[str, float]]], Sequence[int]]


def _rank_callback(rank: Rank) -> _abi.Callback:
    def call(problem: bytes, candidates: Any, count: int, order: Any) -> int:
        rows = [(candidates[i].config.decode(), candidates[i].predicted_us) for i in range(count)]
        chosen = list(rank(problem.decode(), rows))
        if len(chosen) > count:
            raise BadInput(f"bad_input: the rank function returned {len(chosen)} indices for {count} candidates")
        for i, index in enumerate(chosen):
            order[i] = index if 0 <= index < count else count  # out of range: refused by the library
        return len(chosen)

    return _abi.Callback(_abi.RANK, call, lambda _problem, _candidates, count, _order: count + 1)


class Native(_abi.OfThisProcess):
    """A C dispatcher and what it calls back; plans hold it too, so that it outlives them."""

    def __init__(self, options: Dict[str, Any], registry: Optional[Registry], rank: Optional[Rank]) -> None:
        self.handle: Optional[ctypes.c_void_p] = None
        self.rank = None if rank is None else _rank_callback(rank)
        out = ctypes.c_void_p()
        _abi.check(_abi.library().tsr_dispatcher_create(
            _abi.options(options), None if registry is None else registry._handle,
            _abi.RANK() if self.rank is None else self.rank.pointer, None, ctypes.byref(out)))
        self.handle = out
        self.destroy = _abi.library().tsr_dispatcher_destroy

    def close(self) -> None:
        handle, self.handle = self.handle, None
        if handle is not None:
            self.destroy(handle)

    def __del__(self) -> None:
        self.close()


class Dispatcher(_abi.OfThisProcess):
    """Selects, compiles, caches and runs. Thread-safe; use it as a context manager or close() it.

    device: "cpu", "cpu:THREADS", "cuda:N" or "null:ARCH" (plans, runs nothing). threads: of a CPU, 0 = all cores.
    policy: "model" (default), "model_topk" (time the top_k best predicted, None: as many
    as the model may confuse; keep the fastest), "tuned", "explicit" (with config), "first_legal",
    "callback" (with rank). rank: (problem, [(config, predicted_us)]) -> indices, best first. registry: the kernels to
    choose from. packs: files of prebuilt kernels. model: what predicts, the shipped one when None, "analytic" or a file.
    database: of measured decisions (tune()), which come before the model; None: the user's own, "none": none.
    background: whether model_topk answers with the best predicted at once (None: yes) and times the others on a thread of
    its own; from then on get() gives the plan of the fastest, while plans got before stay what they are. settle() waits.

    Raises BadInput for unknown words, Unsupported where the device is not there."""

    def __init__(self, device: str = "cpu", *, threads: int = 0, policy: Optional[str] = None,
                 top_k: Optional[int] = None, background: Optional[bool] = None,
                 config: Union[str, KernelConfig, None] = None,
                 cache_dir: Union[str, "os.PathLike[str]", None] = None, packs: Optional[Iterable[str]] = None,
                 model: Union[str, "os.PathLike[str]", None] = None,
                 database: Union[str, "os.PathLike[str]", None] = None, registry: Optional[Registry] = None,
                 rank: Optional[Rank] = None) -> None:
        self.options: Dict[str, Any] = {
            "device": device, "threads": threads, "policy": policy, "top_k": top_k, "background": background,
            "config": None if config is None else str(config),
            "cache_dir": None if cache_dir is None else os.fspath(cache_dir),
            "packs": None if packs is None else [os.fspath(p) for p in packs],
            "model": None if model is None else os.fspath(model),
            "database": None if database is None else os.fspath(database)}
        self._refines = policy == "model_topk" and background is not False
        self.registry = registry
        self._plans: Dict[Any, Plan] = {}  # by problem text, and by the shapes that gemm() and conv() saw
        self._calls: Dict[Any, Call] = {}
        self._native = Native(self.options, registry, rank)

    # -- Life -------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Frees its kernels. Plans that are still held raise BadInput from then on."""
        self._plans.clear()
        self._calls.clear()
        self._native.close()

    @property
    def _handle(self) -> Optional[ctypes.c_void_p]:
        return self._native.handle

    def __enter__(self) -> "Dispatcher":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def _call(self, work: Callable[[], Any], progress: Optional[_abi.Callback] = None) -> Any:
        """work(), with what the rank function raised in its place."""
        try:
            return _abi.interruptible(work, progress)
        except Exception:
            if self._native.rank is not None:
                self._native.rank.raise_error()
            raise

    # -- Kernels ----------------------------------------------------------------------------------------------------

    def get(self, problem: Union[str, Problem]) -> Plan:
        """The plan of a problem; the first call selects and compiles. Raises Unsupported (nothing legal; the text says
        why), CompileFailed, BadInput."""
        key = problem.text if isinstance(problem, Problem) else problem
        plan = self._plans.get(key)
        if plan is not None and not plan._provisional:
            return plan
        p = Problem(problem) if plan is None else plan.problem
        out = ctypes.c_void_p()
        text = _abi.encoded(p.text)

        def get() -> None:
            _abi.check(_abi.library().tsr_get(self._handle, text, ctypes.byref(out)))

        if plan is None:
            self._call(get)
        else:  # compiled already, perhaps another by now
            get()
            if out.value == plan._handle.value:
                return plan
        plan = Plan(self._native, self.options["device"], p, out)
        plan._provisional = self._refines and plan.source == "model"
        self._remember(key, plan)
        return plan

    def _remember(self, key: Any, plan: Plan) -> None:
        if len(self._plans) >= 4096:
            self._plans.clear()  # they come back for the price of a look-up
        self._plans[key] = plan

    plan = get

    def run(self, problem: Union[str, Problem], a: Any, b: Any, out: Any = None, d: Sequence[Any] = (),
            **options: Any) -> Any:
        """get() and call: runs to completion on a CPU, enqueues on a GPU. Arguments as of Plan.bind. Returns the
        output."""
        return self.get(problem)(a, b, out, d, **options)

    def build(self, problems: Iterable[Union[str, Problem]], max_workers: Optional[int] = None,
              progress: Optional[Callable[[int, int, str], None]] = None) -> List[str]:
        """Compiles what the problems need, max_workers at a time (None: all cores). progress(done, total, problem) is
        called by one thread at a time; what it raises stops the work. Returns one error text per problem, "" where it
        went well. Ctrl-C stops it within a second."""
        text = _abi.encoded("\n".join(Problem(p).text for p in problems))
        callback = _abi.progress_callback(progress)
        pointer = _abi.PROGRESS() if callback is None else callback.pointer
        return self._call(lambda: _abi.answer(_abi.library().tsr_build, self._handle, text, max_workers or 0, pointer,
                                              None), callback)

    # -- Answers ----------------------------------------------------------------------------------------------------

    def explain(self, problem: Union[str, Problem], rejected: bool = False) -> Dict[str, Any]:
        """{"problem", "arch", "choice", "why_none", "model", "select_us", "candidates", "rejected"}: every candidate with
        its predicted time, in the policy's order, and with rejected=True every other with the rule and reason. Where
        nothing can be chosen "choice" is None and "why_none" says why. "model" is what predicted."""
        return self._call(lambda: _abi.answer(_abi.library().tsr_explain, self._handle, _abi.encoded(str(problem)),
                                              _abi.options({"rejected": rejected})))

    def correct(self, problem: Union[str, Problem], config: Union[str, KernelConfig]) -> Dict[str, Any]:
        """{"problem", "arch", "config", "legal", "rule", "reason", "suggestion", "changes"}: whether a config may run the
        problem, and the nearest that may (None where its family has none)."""
        return _abi.answer(_abi.library().tsr_explain, self._handle, _abi.encoded(str(problem)),
                           _abi.options({"suggest": str(config)}))

    def emit(self, problem: Union[str, Problem], whole: bool = False) -> str:
        """The chosen kernel's generated source; whole=True: with its headers in place. Raises Unsupported where nothing
        is legal, and for AMD's GPUs, whose kernels are planned only."""
        return self._call(lambda: _abi.text(_abi.library().tsr_emit, self._handle, _abi.encoded(str(problem)),
                                            int(whole)))

    def measure(self, problem: Union[str, Problem], *, seed: int = 1, integers: bool = False, verify: bool = True,
                budget_ms: float = 200, cold: bool = False) -> Dict[str, Any]:
        """Runs the problem on data of its own, checks the result and times it: {"time_us", "gflops", "verified",
        "max_err", "bound", "config", "checksum", ...}. verify=False: "verified", "max_err" and "bound" are None,
        and so are "checked", how many elements were, and "complete", whether those are all."""
        options = _abi.options({"seed": seed, "integers": integers, "verify": verify, "budget_ms": budget_ms,
                                "cold": cold})
        return self._call(lambda: _abi.answer(_abi.library().tsr_measure, self._handle, _abi.encoded(str(problem)),
                                              options))

    def info(self) -> Dict[str, Any]:
        """{"device", "arch", "threads", "compiler", "cache_dir", "policy", "refining"}."""
        return _abi.answer(_abi.library().tsr_dispatcher_info, self._handle)

    def settle(self, timeout: Optional[float] = None) -> bool:
        """Waits until nothing is left to be timed in the background, for so many seconds at most (None: no limit).
        Returns whether nothing is."""
        end = None if timeout is None else time.monotonic() + timeout
        while self.info()["refining"]:
            if end is not None and time.monotonic() >= end:
                return False
            time.sleep(0.005)
        return True

    def __repr__(self) -> str:
        given = ", ".join(f"{k}={v!r}" for k, v in self.options.items() if v)
        return f"Dispatcher({given})" if self._handle else "<Dispatcher, closed>"


_defaults: Dict[str, Dispatcher] = {}
_defaults_lock = threading.Lock()


def default_dispatcher(device: str = "cpu") -> Dispatcher:
    """The dispatcher of gemm() and conv() for a device, made on first use."""
    found = _defaults.get(device)
    if found is None or found._handle is None:
        with _defaults_lock:
            found = _defaults.get(device)
            if found is None or found._handle is None:
                found = _defaults[device] = Dispatcher(device)
    return found
