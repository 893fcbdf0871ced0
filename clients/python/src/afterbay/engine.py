"""The embedded engine: a data directory, and the process that runs pipelines on it."""

from __future__ import annotations

import collections
import datetime
import json
import os
import re
import subprocess
import tempfile
import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, cast

from . import _program, _tables
from ._tables import Events
from .errors import AfterbayError, of_exit

if TYPE_CHECKING:
    import pandas

StrPath = str | os.PathLike[str]
LOG_LINES_MAX = 1000


@dataclass(frozen=True)
class Record:
    """A record of a topic.

    `value` is its JSON. A value that is not JSON is a dict {"base64": text}. `time` has a zone, in UTC.
    """

    partition: int
    offset: int
    time: datetime.datetime
    key: Any
    headers: dict[str, Any]
    value: Any

    @property
    def id(self) -> str | None:
        """The id of an output or dead letter, for `Engine.explain`."""
        return self.headers.get("afterbay-id")


@dataclass(frozen=True)
class Trial:
    """The result of `Engine.try_`.

    `events` has a row for each event, by its number from 1: `pipeline`, `position`, `key`, `time`, `late`, `dropped`, and
    all names that the pipeline computed. `outputs` has a table for each topic, with the number of the event and the key.
    `dead_letters` has `event`, `stage` and `error`. `summary` is the text that the command prints.
    """

    events: pandas.DataFrame
    outputs: dict[str, pandas.DataFrame]
    dead_letters: pandas.DataFrame
    summary: str


class Run:
    """A process that runs pipelines. `Engine.run` makes it.

    `url` is the address of its HTTP API, and `gateway` that of its gateway (ws://...), if it has one. Leaving the `with`
    block stops it.
    """

    url: str | None = None
    gateway: str | None = None

    def __init__(self, arguments: Sequence[str], timeout: float) -> None:
        self._has_gateway = any(argument.startswith("--gateway=") for argument in arguments)
        self._log: collections.deque[str] = collections.deque(maxlen=LOG_LINES_MAX)
        self._started = threading.Event()
        # In a session of its own: an interrupt of the terminal or notebook ends the cell, not the engine.
        self._process = subprocess.Popen(
            [_program.path(), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=_program.environment(),
            start_new_session=True,
        )
        self._finalizer = weakref.finalize(self, _end, self._process)
        self._reader = threading.Thread(target=_read, args=(weakref.ref(self), self._process, self._started), daemon=True)
        self._reader.start()
        if not self._started.wait(timeout):
            self.kill()
            raise AfterbayError(f"the engine did not start within {timeout:g} s\n{self.log}")
        if self.url is None:
            self._reader.join()
            raise of_exit(self._process.wait(), _program.message(self.log))

    @property
    def log(self) -> str:
        """The newest 1,000 lines of the process."""
        return "\n".join(self._log)

    @property
    def running(self) -> bool:
        """Whether the process runs."""
        return self._process.poll() is None

    def stop(self, timeout: float = 60) -> None:
        """Stop the process and wait until it has committed its work.

        Raise AfterbayError if it ended with an error, or did not end within `timeout` seconds. It is killed then, and the
        next start goes on after the last commit.
        """
        if self.running:
            self._process.terminate()
        try:
            code = self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AfterbayError(f"the engine did not stop within {timeout:g} s and was killed\n{self.log}") from None
        self._reader.join()
        self._finalizer.detach()
        if code != 0:
            raise of_exit(code, _program.message(self.log))

    def kill(self) -> None:
        """Kill the process. Nothing that it committed is lost."""
        self._process.kill()
        self._process.wait()
        self._reader.join()

    def __enter__(self) -> Run:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def _line(self, line: str) -> None:
        self._log.append(line)
        if found := re.search(r"clients connect to (wss?://\S+)", line):
            self.gateway = found[1].rstrip(",;.")
        elif found := re.search(r"listening on (https?://[^\s,;]+)", line):
            self.url = found[1].rstrip(":")


def _read(run: weakref.ref[Run], process: subprocess.Popen[bytes], started: threading.Event) -> None:
    """Read what the process writes, to its end. The reference is weak: the thread does not keep the run."""
    assert process.stdout is not None
    with process.stdout:
        for line in process.stdout:
            text = line.decode(errors="replace").rstrip("\n")
            if (owner := run()) is not None:
                owner._line(text)
                if owner.url is not None and (owner.gateway is not None or not owner._has_gateway):
                    started.set()
            del owner
    started.set()


def _end(process: subprocess.Popen[bytes]) -> None:
    """Stop a process that the program did not stop: at the end of Python, or with the last reference."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


class Engine:
    """The embedded engine on a data directory.

    The directory is made by the first `produce` or `run`. All methods work beside a running process, of this program or of
    another one: they ask the process that holds the directory. Leaving the `with` block stops what `run` started and waits.
    An error of the program is an AfterbayError. Its text names file, line, field and the next step.
    """

    def __init__(self, dir: StrPath = "data") -> None:
        self.dir = Path(dir)
        self._runs: list[Run] = []

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Stop the processes that `run` started, and wait for them. Raise the error of the first that failed."""
        runs, self._runs = self._runs, []
        errors = []
        for run in runs:
            try:
                run.stop()
            except AfterbayError as error:
                errors.append(error)
        if errors:
            raise errors[0]

    def command(self, *arguments: StrPath) -> str:
        """Run any command of the program on the data directory, and return its output.

        For example `engine.command("dlq", "ls", "orders")`.
        """
        return _program.run([*_paths(arguments), *self._data()])[0]

    def try_(
        self,
        pipeline: StrPath,
        events: Events,
        *,
        topic: str | None = None,
        tables: Mapping[str, StrPath] | None = None,
        limit: int | None = None,
    ) -> Trial:
        """Compute events by the pipelines of a file, in memory, and store nothing. Needs pandas.

        `events` is a file, a DataFrame, dicts, or "topic:NAME" for the newest 10,000 records of a topic. `topic` is the
        topic that they go to; the default is the input of the first pipeline. `tables` gives the rows of tables that
        pipelines look up: {"TOPIC:KEY": file}. `limit` bounds the events in the tables; the summary counts all.
        """
        _tables.pandas_needed("try_")
        flags = [*_flags(topic=topic, table=_listed(tables))]
        more = ["--json", *_flags(limit=limit), *flags, *(self._data() if _is_topic(events) else [])]
        if _tables.is_file(events):
            out, err = _program.run(["try", os.fspath(pipeline), os.fspath(cast("StrPath", events)), *more])
        else:
            with _tables.spool(events) as file:
                out, err = _program.run(["try", os.fspath(pipeline), "-", *more], file)
        return _trial([json.loads(line) for line in out.splitlines()], err, lambda name: _types(pipeline, name, flags))

    def dataset(
        self,
        pipeline: StrPath,
        events: Events | None = None,
        *,
        name: str | None = None,
        topic: str | None = None,
        tables: Mapping[str, StrPath] | None = None,
        partitions: int | None = None,
        key: str | None = None,
        columns: Sequence[str] = (),
        since: datetime.datetime | str | None = None,
        until: datetime.datetime | str | None = None,
        labels: Events | None = None,
        on: str | None = None,
        label: str | None = None,
        label_time: str | None = None,
        horizon: str | None = None,
        as_of: datetime.datetime | str | None = None,
        negatives: str | None = None,
        keep: str | None = None,
    ) -> pandas.DataFrame:
        """Return the rows that a pipeline computes, one for each event, sorted by time. Needs pandas.

        `events` is a file, a DataFrame or dicts; without it, the events are those of the data directory. `name` is the
        pipeline that is meant, if the file has several. A model that does not exist yet ends the rows before its
        score. `labels` joins labels by when they were known: `on` names the column that a label has too, `label` its
        field ("fraud" or "fraud:int"), `label_time` when it was known, `horizon` how long after the event ("7d").
        The other options are those of `afterbay dataset`. The digests of the rows are in `frame.attrs["manifest"]`.
        """
        _tables.pandas_needed("dataset")
        flags = _flags(
            pipeline=name, topic=topic, table=_listed(tables), partitions=partitions, key=key, columns=",".join(columns) or None,
            since=_time(since), until=_time(until), on=on, label=label, label_time=label_time, horizon=horizon,
            as_of=_time(as_of), negatives=negatives, keep=keep,
        )  # fmt: skip
        with tempfile.TemporaryDirectory() as folder:
            if labels is not None:
                flags.append(f"--labels={labels if _is_topic(labels) else _tables.save(labels, Path(folder, 'labels.ndjson'))}")
            if events is None:
                return _dataset(pipeline, [f"--from-data={self.dir}", *flags], Path(folder))
            if _tables.is_file(events):
                return _dataset(pipeline, [os.fspath(cast("StrPath", events)), *flags], Path(folder))
            return _dataset(pipeline, [str(_tables.save(events, Path(folder, "events.ndjson"))), *flags], Path(folder))

    def produce(
        self,
        topic: str,
        events: Events,
        *,
        key: str | None = None,
        partitions: int | None = None,
        producer: str | None = None,
    ) -> int:
        """Append events to a topic. Return how many were appended, when they are durable.

        `key` is the field that keys them; the default is the key of the topic. `partitions` makes the topic if it does
        not exist. `producer` numbers the records: the same events appended again under one name are left out. A file has
        its digest for a name; events in memory have none.
        """
        flags = [*_flags(key=key, partitions=partitions, producer=producer), *self._data()]
        if _tables.is_file(events):
            _, err = _program.run(["produce", topic, os.fspath(cast("StrPath", events)), *flags])
        else:
            with _tables.spool(events) as file:
                _, err = _program.run(["produce", topic, *flags], file)
        found = re.search(r"appended (\d+) records", err)
        if not found:
            raise AfterbayError(f"the program did not say how many records it appended: {err}")
        return int(found[1])

    def tail(
        self,
        topic: str,
        *,
        partition: int | None = None,
        start: int | None = None,
        limit: int | None = None,
        follow: bool = False,
    ) -> Iterator[Record]:
        """Yield the records of a topic.

        `start` is the first offset; below 0 it is so many before the end. With `follow` it waits for more, until
        `limit` records were yielded or the iterator is closed.
        """
        flags = _flags(partition=partition, limit=limit, **{"from": start})
        command = [
            _program.path(),
            "tail",
            topic,
            "--headers",
            *flags,
            *(["--follow"] if follow else []),
            *self._data(),
        ]
        with tempfile.TemporaryFile() as stderr:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr, env=_program.environment())
            try:
                assert process.stdout is not None
                for line in process.stdout:
                    yield _record(json.loads(line))
                code = process.wait()
                if code != 0:
                    stderr.seek(0)
                    raise of_exit(code, _program.message(stderr.read().decode(errors="replace")))
            finally:
                if process.poll() is None:
                    process.terminate()
                process.communicate()

    def explain(self, id: str, *pipelines: StrPath) -> dict[str, Any]:
        """Return where an output came from: event, features, models, times.

        `id` is `Record.id` of an output or dead letter, or "topic/partition@offset". With pipeline files it computes the
        row again from the log (`replays`). The fields are those of `afterbay explain --json`.
        """
        out, _ = _program.run(["explain", id, *_paths(pipelines), "--json", *self._data()])
        return cast("dict[str, Any]", json.loads(out))

    def run(self, *pipelines: StrPath, gateway: StrPath | None = None, parallelism: int | None = None, timeout: float = 60) -> Run:
        """Start a process that runs the pipelines of files. Return when it takes events.

        One process at a time holds the data directory. `gateway` is a gateway file, to serve clients too. `parallelism` is
        the members of each pipeline; the default is one per core. It ends by `Run.stop`, with the engine's `with` block,
        or with this program. A killed Python leaves the process running.
        Raise AfterbayError if it does not start, or not within `timeout` seconds.
        """
        flags = _flags(gateway=None if gateway is None else os.fspath(gateway), parallelism=parallelism)
        run = Run(["run", *_paths(pipelines), "--listen=127.0.0.1:0", *flags, *self._data()], timeout)
        self._runs.append(run)
        return run

    def run_until_idle(self, *pipelines: StrPath) -> str:
        """Run the pipelines of files until all events are processed and committed. Return the summary."""
        out, _ = _program.run(["run", *_paths(pipelines), "--listen=none", "--until-idle", *self._data()])
        return out

    def _data(self) -> list[str]:
        return [f"--data={self.dir}"]


def _paths(paths: Sequence[StrPath]) -> list[str]:
    return [os.fspath(path) for path in paths]


def _flags(**values: object) -> list[str]:
    """Return the flags of values that are not None. A list is a flag for each."""
    flags = []
    for name, value in values.items():
        for one in value if isinstance(value, list) else [value]:
            if one is not None:
                flags.append(f"--{name.replace('_', '-')}={one}")
    return flags


def _listed(tables: Mapping[str, StrPath] | None) -> list[str]:
    return [f"{name}={os.fspath(path)}" for name, path in (tables or {}).items()]


def _is_topic(events: object) -> bool:
    return isinstance(events, str) and events.startswith("topic:")


def _time(time: datetime.datetime | str | None) -> str | None:
    return cast("str", _tables.plain(time)) if isinstance(time, datetime.datetime) else time


def _record(line: dict[str, Any]) -> Record:
    time = re.sub(r"(\.\d{6})\d+", r"\1", line["time"]).replace("Z", "+00:00")
    time = re.sub(r"\.(\d+)", lambda m: "." + m[1].ljust(6, "0"), time)
    headers = dict(line.get("headers") or [])
    return Record(
        line["partition"],
        line["offset"],
        datetime.datetime.fromisoformat(time),
        line.get("key"),
        headers,
        line.get("value"),
    )


def _dataset(pipeline: StrPath, flags: list[str], folder: Path) -> pandas.DataFrame:
    """Run the command, and read its file by the types in its manifest."""
    file = folder / "rows.ndjson"
    _program.run(["dataset", os.fspath(pipeline), *flags, f"--out={file}"])
    manifest = json.loads(Path(f"{file}.manifest.json").read_text())
    types = {column["name"]: column["type"] for column in manifest["schema"]["columns"]}
    with file.open("rb") as lines:
        frame = _tables.frame((json.loads(line) for line in lines), types)
    frame.attrs["manifest"] = manifest
    return frame


def _types(pipeline: StrPath, name: str, flags: list[str]) -> dict[str, str]:
    """Return the types of all names of a pipeline: those of the rows that it would write of no events."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "none.ndjson")
        _program.run(["dataset", os.fspath(pipeline), "-", f"--pipeline={name}", f"--out={file}", *flags])
        columns = json.loads(Path(f"{file}.manifest.json").read_text())["schema"]["columns"]
    return {column["name"]: column["type"] for column in columns}


def _trial(lines: list[dict[str, Any]], summary: str, types_of: Any) -> Trial:
    """Return the tables of the lines of `afterbay try --json`."""
    types: dict[str, str] = {}
    for name in dict.fromkeys(line["pipeline"] for line in lines):
        types.update(types_of(name))
    # A dot of a name is an underline in the fields of an output.
    fields = {name.replace(".", "_"): kind for name, kind in types.items()}
    head = {
        "event": "int",
        "pipeline": "string",
        "position": "string",
        "key": "string",
        "time": "time",
        "late": "bool",
        "dropped": "bool",
    }
    names = {name: kind for name, kind in types.items() if not name.startswith("meta.")}
    events, dead = [], []
    outputs: dict[str, list[dict[str, Any]]] = {}
    for line in lines:
        row = {name: line.get(name, False if kind == "bool" else None) for name, kind in head.items()}
        for stage in line["names"].values():
            row.update(stage)
        events.append(row)
        for output in line.get("outputs", []):
            value = output["value"] if isinstance(output["value"], dict) else {"value": output["value"]}
            outputs.setdefault(output["topic"], []).append({"event": line["event"], "key": output.get("key"), **value})
        dead += [{"event": line["event"], **letter} for letter in line.get("dead_letters", [])]
    return Trial(
        _tables.frame(events, {**head, **names}).set_index("event"),
        {topic: _output(rows, fields) for topic, rows in outputs.items()},
        _tables.frame(dead, {"event": "int", "stage": "string", "error": "string"}),
        summary,
    )


def _output(rows: list[dict[str, Any]], fields: Mapping[str, str]) -> pandas.DataFrame:
    """Return the table of a topic's outputs, in the order of the fields that it has."""
    there = dict.fromkeys(name for row in rows for name in row)
    return _tables.frame(rows, {"event": "int", "key": "string", **{name: fields.get(name, "") for name in there}})
