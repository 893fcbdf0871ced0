"""Events to NDJSON, and NDJSON to pandas."""

from __future__ import annotations

import datetime
import json
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeAlias, cast

if TYPE_CHECKING:
    import pandas

Events: TypeAlias = "str | os.PathLike[str] | pandas.DataFrame | Iterable[Mapping[str, Any]]"
"""A path of an NDJSON or CSV file, a DataFrame, or dicts. A time without a zone is UTC."""


def is_file(events: Events) -> bool:
    """Report whether the events are the path of a file."""
    return isinstance(events, (str, os.PathLike))


def spool(events: Events) -> IO[bytes]:
    """Write events as NDJSON to a temporary file, and return it at its beginning."""
    file = tempfile.TemporaryFile()  # noqa: SIM115 the caller closes it
    write(events, cast("IO[bytes]", file))
    file.seek(0)
    return cast("IO[bytes]", file)


def save(events: Events, path: Path) -> Path:
    """Return the path of a file with the events: their own, or `path`, which is written as NDJSON."""
    if is_file(events):
        return Path(cast("str", events))
    with path.open("wb") as file:
        write(events, file)
    return path


def write(events: Events, file: IO[bytes]) -> None:
    """Write events as NDJSON, a line each."""
    for number, event in enumerate(rows(events), 1):
        try:
            line = json.dumps(event, default=plain, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
        except (TypeError, ValueError) as error:
            raise type(error)(f"event {number}: {error}: {wrong(event)}") from None
        file.write(line.encode() + b"\n")


def rows(events: Events) -> Iterator[Mapping[str, Any]]:
    """Yield events as mappings. A missing value of a DataFrame is left out."""
    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(events, pandas.DataFrame):
        names = [str(name) for name in events.columns]
        columns = [events.iloc[:, i].astype(object) for i in range(len(names))]
        present = [~column.isna() for column in columns]
        for values, there in zip(zip(*columns, strict=True), zip(*present, strict=True), strict=True):
            yield {name: value for name, value, is_there in zip(names, values, there, strict=True) if is_there}
        return
    for number, event in enumerate(cast("Iterable[Mapping[str, Any]]", events), 1):
        if not isinstance(event, Mapping):
            raise TypeError(f"event {number} is a {type(event).__name__}: give a file, a DataFrame, or dicts")
        yield event


def plain(value: Any) -> Any:
    """Return a value of numpy, pandas or datetime as JSON has it."""
    if isinstance(value, datetime.datetime):
        zoned = value if value.tzinfo else value.replace(tzinfo=datetime.timezone.utc)
        return zoned.isoformat().replace("+00:00", "Z")
    if isinstance(value, datetime.date):
        return value.isoformat()
    for method in ("item", "tolist"):  # scalars and arrays of numpy
        if callable(made := getattr(value, method, None)) and getattr(value, "ndim", None) in ((0,) if method == "item" else (1, 2)):
            return made()
    raise TypeError(f"a {type(value).__name__} has no form in JSON")


def wrong(event: Mapping[str, Any]) -> str:
    """Return which field has no form in JSON, and what to do."""
    for name, value in event.items():
        try:
            json.dumps(value, default=plain, allow_nan=False)
        except (TypeError, ValueError):
            return f"field {name!r} is {value!r}: write None, a text, a number, a bool, a list or a dict"
    return "use texts for the names of fields"


def pandas_needed(what: str) -> Any:
    """Return the module pandas, or raise an error that says how to install it."""
    try:
        import pandas
    except ImportError:
        raise ImportError(f"{what} needs pandas: pip install 'afterbay[pandas]'") from None
    return pandas


def frame(rows: Iterable[Mapping[str, Any]], types: Mapping[str, str]) -> pandas.DataFrame:
    """Return rows as a DataFrame.

    `types` gives names their types of a pipeline; the columns stand in this order, and others behind them. The types of
    others are those of their values. An int is Int64 and a bool boolean (both with missing values), a number float64
    with NaN, a text string, a time datetime64[us, UTC], and everything else object.
    """
    pd = pandas_needed("a table")
    columns: dict[str, list[Any]] = {name: [] for name in types}
    count = 0
    for row in rows:
        for name, value in row.items():
            column = columns.get(name)
            if column is None:
                column = columns[name] = []
            column.extend([None] * (count - len(column)))
            column.append(value)
        count += 1
    for column in columns.values():
        column.extend([None] * (count - len(column)))
    index = pd.RangeIndex(count)
    made = {name: series(pd, values, types.get(name) or infer(values), index) for name, values in columns.items()}
    return cast("pandas.DataFrame", pd.DataFrame(made, index=index))


def series(pd: Any, values: list[Any], kind: str, index: Any) -> Any:
    """Return a column of a type of a pipeline."""
    dtypes = {"int": "Int64", "number": "float64", "bool": "boolean", "string": "string"}
    base = kind.removeprefix("optional ")
    if base == "time":
        times = pd.to_datetime(pd.Series(values, index=index, dtype=object), utc=True, format="ISO8601")
        return times.dt.as_unit("us")
    return pd.Series(values, index=index, dtype=dtypes.get(base, "object"))


def infer(values: Iterable[Any]) -> str:
    """Return the type that all values share, "" without such a type."""
    kinds = {type(value) for value in values if value is not None}
    if kinds == {int, float}:
        return "number"
    return {int: "int", float: "number", bool: "bool", str: "string"}.get(kinds.pop(), "") if len(kinds) == 1 else ""
