"""Long work without a dispatcher: caches, packs, generated sources, and what the library offers by name.

All of it stops within a second at Ctrl-C. progress(done, total, what) is called by one thread at a time."""
from __future__ import annotations

import os
from typing import Any, Callable, Dict, Iterable, List, Optional, Union

from . import _abi
from .problem import Problem

Progress = Optional[Callable[[int, int, str], None]]
Path = Union[str, os.PathLike]


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
                max_workers: Optional[int] = None, progress: Progress = None, **dispatcher: Any) -> Dict[str, Any]:
    """Builds the kernels of the problems into one file, for machines without a compiler (Dispatcher(packs=[path])).
    `dispatcher`: device, threads and the other options of a Dispatcher. Returns what the pack holds."""
    return job("pack", progress, action="create", path=path, problems=[str(Problem(p)) for p in problems],
               dispatcher=dispatcher, decisions=decisions, jobs=max_workers)


def generate(out: Path, dtypes: List[str], layouts: Optional[List[str]] = None, *, arch: Optional[str] = None,
             variant: Optional[str] = None, set: Optional[str] = None, config_file: Optional[Path] = None,
             max_workers: Optional[int] = None, progress: Progress = None) -> Dict[str, Any]:
    """Writes a set of kernels as sources with a manifest into a directory that is missing or empty."""
    return job("generate", progress, out=out, dtypes=dtypes, layouts=layouts, arch=arch, variant=variant, set=set,
               config_file=config_file, jobs=max_workers)
