"""Kernel configurations."""
from __future__ import annotations

import json
from typing import Any, Dict, Union

from . import _abi


class KernelConfig:
    """One kernel's knobs, from its text form. Every knob is an attribute (tessera.library()["knobs"] lists them):

        config = KernelConfig("cpu_packed block=96x512x256 tile=6x64 inst=1x16x1")
        config.block_m, config.family, config.replace(tile_m=8)

    Raises BadInput where a word is unknown or a value wrong. Whether it is legal is a matter of the problem:
    Dispatcher.correct."""

    __slots__ = ("text", "knobs")

    def __init__(self, text: Union[str, "KernelConfig", Dict[str, Any]]) -> None:
        facts = _abi.describe("config", json.dumps(text) if isinstance(text, dict) else str(text))
        self.text: str = facts["config"]
        self.knobs: Dict[str, Any] = facts["knobs"]

    def replace(self, **knobs: Any) -> "KernelConfig":
        """The same config with some knobs changed."""
        return KernelConfig({**self.knobs, **knobs})

    def __getattr__(self, name: str) -> Any:
        if name in KernelConfig.__slots__:
            raise AttributeError(name)
        try:
            return self.knobs[name]
        except KeyError:
            raise AttributeError(f"no knob is called {name!r}; one of {' '.join(self.knobs)}") from None

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"KernelConfig({self.text!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KernelConfig) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)
