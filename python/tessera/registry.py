"""Registries: which kernels a dispatcher may choose from."""
from __future__ import annotations

import ctypes
import json
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, Iterator, List, NamedTuple, Optional, Union

from . import _abi
from .config import KernelConfig
from .errors import BadInput, Unsupported
from .problem import Problem, one_word

if TYPE_CHECKING:
    from .dispatcher import Dispatcher


class Declaration(NamedTuple):
    """One declaration: a config (exact) or a pattern of one, and globs over what it applies to."""
    config: str
    exact: bool
    dtype: str
    layout: str
    arch: str
    priority: int


class Registry(_abi.OfThisProcess):
    """Kernels declared exactly or by pattern, with priorities. Thread-safe.

        r = Registry("mine")
        r.add("cpu_packed tile=*x64", dtype="f32", priority=10)
        d = r.build(["gemm m=64 n=64 k=64 dtype=f32"], max_workers=2)

    `text`: lines of declarations, or what json() gave."""

    def __init__(self, name: str = "default", text: str = "") -> None:
        self._handle: Optional[ctypes.c_void_p] = None
        self._destroy = _abi.library().tsr_registry_destroy
        out = ctypes.c_void_p()
        _abi.check(_abi.library().tsr_registry_create(_abi.encoded(name), _abi.encoded(text), ctypes.byref(out)))
        self._handle = out

    def add(self, config: Union[str, KernelConfig], *, exact: bool = False, dtype: str = "*", layout: str = "*",
            arch: str = "*", priority: int = 0) -> bool:
        """Declares one config, or with exact=False every config that has the knobs named and anything ('*') in the
        others. False when the same was there with at least this priority. Raises BadInput for unknown words."""
        words = {"dtype": dtype, "layout": layout, "arch": arch}
        for name, word in words.items():
            one_word(word, name)
        if any(c in f"{config} {' '.join(words.values())}" for c in "#\n\r"):
            raise BadInput(f"bad_input: a declaration is one line: {str(config)!r}")
        return self.add_text(f"{'exact' if exact else 'any'} {config} dtype={dtype} layout={layout} arch={arch} "
                             f"priority={int(priority)}") > 0

    def add_text(self, text: str) -> int:
        """Adds lines of declarations, or a registry's JSON; all of them or, with BadInput, none."""
        count = ctypes.c_size_t()
        _abi.check(_abi.library().tsr_registry_add(self._handle, _abi.encoded(text), ctypes.byref(count)))
        return count.value

    def merge(self, other: "Registry") -> int:
        """Adds another's declarations. Returns how many came in or rose in priority."""
        return self.add_text(other.json())

    def filter(self, keep: Callable[[Declaration], bool]) -> int:
        """Keeps the declarations that keep() accepts; returns how many were dropped. When it raises, none is."""
        doomed = {d for d in self if not keep(d)}
        count = ctypes.c_size_t()
        callback = _abi.KEEP(lambda _user, text: Declaration(**json.loads(text)) not in doomed)
        _abi.check(_abi.library().tsr_registry_filter(self._handle, callback, None, ctypes.byref(count)))
        return count.value

    def json(self, indent: Optional[int] = None) -> str:
        """{"version", "name", "statistics", "kernels"} as text; Registry(name, text) declares the same."""
        return json.dumps(self.to_dict(), indent=indent)

    def to_dict(self) -> Dict[str, Any]:
        """{"version", "name", "statistics", "kernels"}, as json() prints it. A copy."""
        return _abi.answer(_abi.library().tsr_registry_json, self._handle)

    @staticmethod
    def from_json(text: str) -> "Registry":
        """What json() gave. Raises BadInput for unknown keys."""
        try:
            name = json.loads(text)["name"]
        except (ValueError, TypeError, KeyError):
            raise BadInput("bad_input: this is no registry in JSON") from None
        return Registry(name, text)

    def select(self, problem: Union[str, Problem], **options: Any) -> KernelConfig:
        """The config a dispatcher with this registry chooses; `options` as of Dispatcher. Compiles nothing. Raises
        Unsupported when the registry declares nothing legal."""
        from .dispatcher import Dispatcher
        with Dispatcher(registry=self, **options) as d:
            explained = d.explain(problem)
        if explained["choice"] is None:
            raise Unsupported(explained["why_none"])
        return KernelConfig(explained["choice"]["config"])

    def build(self, problems: Iterable[Union[str, Problem]], max_workers: Optional[int] = None,
              progress: Optional[Callable[[int, int, str], None]] = None, **options: Any) -> "Dispatcher":
        """A dispatcher with this registry whose kernels for `problems` are compiled. As Dispatcher.build."""
        from .dispatcher import Dispatcher
        d = Dispatcher(registry=self, **options)
        try:
            d.build(problems, max_workers=max_workers, progress=progress)
        except BaseException:
            d.close()
            raise
        return d

    def declarations(self) -> List[Declaration]:
        """What is declared, in the order of json(). A copy, as is what iterating gives."""
        return [Declaration(**k) for k in self.to_dict()["kernels"]]

    def __iter__(self) -> Iterator[Declaration]:
        return iter(self.declarations())

    def __len__(self) -> int:
        return self.to_dict()["statistics"]["total"]

    def __repr__(self) -> str:
        facts = self.to_dict()
        return f"<Registry {facts['name']!r}, {facts['statistics']['total']} declarations>"

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            self._destroy(self._handle)
