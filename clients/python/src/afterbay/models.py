"""Models that are functions of Python.

    @afterbay.model
    def risk(amount: float, country: str) -> float:
        return amount / 100 if country == "US" else 0.5

The hints are the inputs and outputs of the model. `export_model` writes its manifest, and the engine runs the function in
processes of its own (kind process).
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, ParamSpec, TypeVar, overload

P = ParamSpec("P")
R = TypeVar("R")
INPUTS = {float: "number", int: "number", bool: "number", str: "string", bytes: "bytes"}
HINTS = "use float, str or bytes for a function of one row; list[float], list[str], list[bytes] or numpy.ndarray for a function of a batch"


class ModelError(TypeError):
    """The hints of a function say no model, or an object is no model that the engine scores."""


@dataclass(frozen=True)
class Input:
    """An input: its type in a manifest (number, string, bytes), and the form that the function takes."""

    type: str
    form: str  # row, list or array


class Model(Generic[P, R]):
    """A function that is a model. It is called as the function is."""

    def __init__(self, function: Callable[P, R], output: str, pure: bool) -> None:
        self.function = function
        self.pure = pure
        self.output = output
        self.__name__ = getattr(function, "__name__", "model")
        self.__doc__ = function.__doc__
        self.__module__ = function.__module__
        hints = typing.get_type_hints(function, include_extras=True)
        parameters = list(inspect.signature(function).parameters)
        self.inputs = {name: self._input(name, hints.get(name)) for name in parameters}
        if not self.inputs:
            raise ModelError(f"{self.__name__}: it has no inputs: give it a parameter for each")
        self.by_row = {i.form for i in self.inputs.values()} == {"row"}
        if not self.by_row and any(i.form == "row" for i in self.inputs.values()):
            raise ModelError(f"{self.__name__}: it takes values of a row and of a batch: {HINTS}")
        self.outputs = self._outputs(hints.get("return"))

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function."""
        return self.function(*args, **kwargs)

    def _input(self, name: str, hint: Any) -> Input:
        if name == "values":
            raise ModelError(f"{self.__name__}: input 'values': the engine has this name for all numbers: choose another one")
        origin = typing.get_origin(hint)
        if hint in INPUTS:
            return Input(INPUTS[hint], "row")
        if origin is list and typing.get_args(hint)[0] in INPUTS:
            return Input(INPUTS[typing.get_args(hint)[0]], "list")
        if is_array(origin or hint):
            return Input("number", "array")
        raise ModelError(f"{self.__name__}: input {name!r} has the hint {shown(hint)}: {HINTS}")

    def _outputs(self, hint: Any) -> dict[str, int | str]:
        """Return the outputs by name: how many numbers, or string or bytes."""
        if typing.is_typeddict(hint):
            return {name: self._result(name, one) for name, one in typing.get_type_hints(hint, include_extras=True).items()}
        return {self.output: self._result(self.output, hint)}

    def _result(self, name: str, hint: Any) -> int | str:
        size = 1
        if typing.get_origin(hint) is typing.Annotated:
            hint, size = typing.get_args(hint)[:2]
            if type(size) is not int or size < 1 or typing.get_origin(hint) is not list:
                raise ModelError(f"{self.__name__}: output {name!r}: write how many numbers it has: Annotated[list[float], 384]")
            if self.by_row:
                hint = typing.get_args(hint)[0]
        if not self.by_row:
            hint = self._element(hint, size)
        if hint not in INPUTS:
            want = "float, str or bytes" if self.by_row else "a list of float, str or bytes, or numpy.ndarray"
            raise ModelError(f"{self.__name__}: output {name!r}: return {want}, or a TypedDict of those")
        kind = INPUTS[hint]
        return size if kind == "number" else kind

    @staticmethod
    def _element(hint: Any, size: int) -> Any:
        """Return the hint of a value of a batch."""
        if is_array(typing.get_origin(hint) or hint):
            return float
        for _ in range(1 if size == 1 else 2):  # several numbers of each row are lists in a list
            hint = typing.get_args(hint)[0] if typing.get_origin(hint) is list else None
        return hint

    def predict(self, values: Any = None, **texts: Sequence[bytes]) -> Any:
        """Score a batch as worker.py of the engine asks for it.

        `values` is a memoryview of float32, [rows, numbers] with NaN for a missing number; a text is a list of bytes.
        Return the outputs by name, a list or array each.
        """
        columns = {}
        numbers = [name for name, one in self.inputs.items() if one.type == "number"]
        for name, one in self.inputs.items():
            if one.type == "number":
                columns[name] = column(values, numbers.index(name), one.form)
            else:
                columns[name] = [text.decode() for text in texts[name]] if one.type == "string" else list(texts[name])
        call: Callable[..., Any] = self.function
        if not self.by_row:
            result = call(**columns)
            return result if isinstance(result, Mapping) else {self.output: result}
        count = len(next(iter(columns.values())))
        results = [call(**{name: columns[name][i] for name in columns}) for i in range(count)]
        if results and isinstance(results[0], Mapping):
            return {name: [result[name] for result in results] for name in self.outputs}
        return {self.output: results}


def column(values: Any, at: int, form: str) -> Any:
    """Return a column of numbers, as a list or as an array of numpy that copies nothing."""
    if form == "array":
        import numpy

        return numpy.asarray(values)[:, at]
    return [row[at] for row in values.tolist()]


def is_array(kind: Any) -> bool:
    """Report whether a hint is an array of numpy, which need not be installed."""
    return getattr(kind, "__module__", "") == "numpy" and getattr(kind, "__name__", "") == "ndarray"


def shown(hint: Any) -> str:
    """Return a hint as it is written."""
    return "no type" if hint is None else getattr(hint, "__name__", str(hint))


@overload
def model(function: Callable[P, R], /) -> Model[P, R]: ...
@overload
def model(*, output: str = "score", pure: bool = False) -> Callable[[Callable[P, R]], Model[P, R]]: ...
def model(function: Callable[P, R] | None = None, /, *, output: str = "score", pure: bool = False) -> Any:
    """Make a model of a function with type hints.

    A parameter is an input. float is a number (NaN if it is missing), str a text and bytes other content. The function
    scores one row then. With list[float], list[str], list[bytes] or numpy.ndarray (numbers of shape [rows], float32) it
    scores a batch.

    It returns a float, a str or bytes for the row, or a list or numpy.ndarray of those for the batch. A TypedDict names
    several outputs; without it the only one is called `output`. Annotated[list[float], 384] is an output of 384 numbers.

    `pure` says that each row is computed alone and that the function does nothing else: the engine may score events
    before they are durable. What the function raises refuses the rows, and is the reason in the dead letter.
    Raise ModelError if the hints say no model.
    """

    def wrap(function: Callable[P, R]) -> Model[P, R]:
        return Model(function, output, pure)

    return wrap if function is None else wrap(function)
