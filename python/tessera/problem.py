"""Problems: what is to be computed."""
from __future__ import annotations

from typing import Any, Dict, Mapping, NamedTuple, Tuple, Union

from . import _abi
from .errors import BadInput


class Tensor(NamedTuple):
    """One buffer of a problem. Strides are in elements; a packed tensor's bytes are its kernel's."""
    name: str
    dtype: str
    shape: Tuple[int, ...]
    strides: Tuple[int, ...]
    bytes: int
    written: bool
    packed: bool
    step: str


def _value_text(value: Any) -> str:
    if isinstance(value, (tuple, list)):
        return "x".join(map(str, value))
    return str(value)


def one_word(text: str, name: str) -> str:
    """The text, which may become a part of a problem's: with white space or '=' it would be further fields."""
    if "=" in text or any(c.isspace() for c in text):
        raise BadInput(f"bad_input: {name} has white space or '=' in it, {text!r}; leave them out")
    return text


def text_of(start: str, fields: Mapping[str, Any], arguments: Mapping[str, str] = {}) -> str:
    """A problem's text: its start and the fields that are not None. Raises BadInput where one is not a single word, and
    calls it what the caller's argument is called by `arguments`."""
    words = [start]
    for key, value in fields.items():
        if value is not None:
            words.append(f"{one_word(key, 'the name of a field')}="
                         f"{one_word(_value_text(value), arguments.get(key, key))}")
    return " ".join(words)


class Problem:
    """A problem from its text form, or from an operation and fields:

        Problem("gemm m=64 n=80 k=48 dtype=f32 layout=rrr")
        Problem("gemm", m=64, n=80, k=48, dtype="f32", epilogue="bias,relu")

    str() is the normal text; equal problems have equal texts. Raises BadInput with the reason where the text or a
    field is wrong."""

    __slots__ = ("text", "_facts")

    def __init__(self, text: Union[str, "Problem"], **fields: Any) -> None:
        self._facts: Dict[str, Any] = _abi.describe("problem", text_of(str(text), fields))
        self.text: str = self._facts["problem"]

    @property
    def op(self) -> str:
        """The operation, which is the first word of the text: gemm, conv_fwd, conv_bwd_data or conv_bwd_weight."""
        return self._facts["op"]

    @property
    def fields(self) -> Dict[str, str]:
        """The words of the text: {"m": "64", ...}."""
        return dict(word.split("=", 1) for word in self.text.split()[1:])

    @property
    def flops(self) -> float:
        """Operations, 2 for each multiply-add."""
        return self._facts["flops"]

    @property
    def tensors(self) -> Tuple[Tensor, ...]:
        """Its buffers in the order a, b, c, d0, ..."""
        return tuple(Tensor(t["name"], t["dtype"], tuple(t["shape"]), tuple(t["strides"]), t["bytes"], t["written"],
                            t["packed"], t.get("step", "")) for t in self._facts["tensors"])

    def replace(self, **fields: Any) -> "Problem":
        """The same problem with some fields changed; None takes a field away."""
        merged = {**self.fields, **fields}
        return Problem(self.op, **merged)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Problem({self.text!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Problem) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)
