"""The embedded engine, on the program of the installed wheel or of AFTERBAY_PROGRAM."""

import datetime
import json
import os
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import pandas

import afterbay

PIPELINE = """
pipeline: orders
input:
  topic: orders
  key: customer
  partitions: 2
  time: {field: at, unit: ms, lateness: 5s}
  fields: {order: string, customer: string, amount: number, at: int,
    big: optional int, gift: optional bool, country: optional string, due: optional time}
steps:
  - features:
      spend: {value: amount, decimals: 2, windows: [1m], aggregates: [count, sum]}
  - decide: {action: 'spend.sum_1m > 45 ? "block" : "allow"'}
  - emit: {topic: decisions, value: [order, spend.sum_1m, action, meta.time]}
"""
EVENTS = [
    {
        "order": "o1",
        "customer": "c1",
        "amount": 40,
        "at": 1767258001045,
        "gift": True,
        "country": "US",
        "due": "2026-02-01T00:00:00Z",
    },
    {"order": "o2", "customer": "c1", "amount": 7.5, "at": 1767258001046, "big": 9007199254740993, "country": ""},
    {"order": "o3", "customer": "c2", "amount": "x", "at": 1767258004209},
]


class EngineTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.dir = Path(folder.name)
        self.pipeline = self.dir / "orders.yaml"
        self.pipeline.write_text(PIPELINE)
        self.engine = afterbay.Engine(self.dir / "data")
        self.addCleanup(self.engine.close)

    def test_try_keeps_types(self):
        trial = self.engine.try_(self.pipeline, EVENTS)
        events = trial.events
        self.assertEqual(
            {name: str(events[name].dtype) for name in ("time", "late", "at", "amount", "gift", "country", "due", "spend.sum_1m")},
            {"time": "datetime64[us, UTC]", "late": "boolean", "at": "Int64", "amount": "float64", "gift": "boolean",
             "country": "string", "due": "datetime64[us, UTC]", "spend.sum_1m": "float64"},
        )  # fmt: skip
        self.assertEqual(events["big"][2], 9007199254740993)  # no float64 has it
        self.assertEqual(events["time"][1], pandas.Timestamp("2026-01-01T09:00:01.045Z"))
        self.assertTrue(pandas.isna(events["gift"][2]))
        self.assertEqual(events["country"][2], "")
        decisions = trial.outputs["decisions"]
        self.assertEqual(list(decisions["event"]), [1, 2])
        self.assertEqual(list(decisions["action"]), ["allow", "block"])
        self.assertEqual(str(decisions["meta_time"].dtype), "datetime64[us, UTC]")
        self.assertEqual(list(trial.dead_letters["stage"]), ["decode"])
        self.assertIn('field "amount"', trial.dead_letters["error"][0])
        self.assertIn("2 outputs", trial.summary)

    def test_a_dataframe_file_and_dicts_are_the_same_events(self):
        frame = pandas.DataFrame(
            {"order": ["o1", "o2"], "customer": ["c1", "c1"], "amount": [40.25, 7.5], "at": [1767258001045, 1767258001046],
             "gift": pandas.array([True, None], dtype="boolean"), "due": [pandas.Timestamp("2026-02-01"), pandas.NaT]}
        )  # fmt: skip
        dicts = [
            {"order": "o1", "customer": "c1", "amount": 40.25, "at": 1767258001045, "gift": True,
             "due": datetime.datetime(2026, 2, 1, tzinfo=datetime.timezone.utc)},
            {"order": "o2", "customer": "c1", "amount": 7.5, "at": 1767258001046},
        ]  # fmt: skip
        file = self.dir / "events.ndjson"
        file.write_text("".join(json.dumps(event, default=lambda time: time.isoformat()) + "\n" for event in dicts))
        tables = [self.engine.dataset(self.pipeline, events) for events in (frame, dicts, file)]
        for table in tables[1:]:
            pandas.testing.assert_frame_equal(table, tables[0])
        self.assertEqual(list(tables[0]["spend.sum_1m"]), [40.25, 47.75])
        self.assertEqual(str(tables[0]["due"][0]), "2026-02-01 00:00:00+00:00")
        self.assertEqual(tables[0].attrs["manifest"]["rows"]["count"], 2)

    def test_labels_are_joined_by_when_they_were_known(self):
        labels = pandas.DataFrame({"order": ["o1"], "fraud": [1], "known": ["2026-01-01T10:00:00Z"]})
        options = {"on": "order", "label": "fraud:int", "label_time": "known", "as_of": datetime.datetime(2026, 1, 3)}
        events = [{**event, "amount": 1, "at": 1767258001045 + n} for n, event in enumerate(EVENTS)]
        for horizon, want in (("2h", [1, None, None]), ("30m", [None, None, None])):
            rows = self.engine.dataset(self.pipeline, events, labels=labels, horizon=horizon, **options)
            self.assertEqual([None if pandas.isna(x) else x for x in rows["fraud"]], want)
            self.assertEqual(str(rows["fraud"].dtype), "Int64")

    def test_runs_beside_a_process_and_stops_it(self):
        with self.engine as engine:
            self.assertEqual(engine.produce("orders", EVENTS, key="customer", partitions=2), 3)
            run = engine.run(self.pipeline)
            self.assertRegex(run.url, r"^http://127\.0\.0\.1:\d+$")
            first, second = engine.tail("decisions", follow=True, limit=2)
            self.assertEqual((first.key, first.value["order"], second.value["order"]), ("c1", "o1", "o2"))
            self.assertEqual(first.time, datetime.datetime(2026, 1, 1, 9, 0, 1, 45000, tzinfo=datetime.timezone.utc))
            (replay,) = engine.explain(first.id, self.pipeline)["replays"]
            self.assertTrue(replay)
            engine.produce("orders", [{"order": "o4", "customer": "c9", "amount": 1, "at": 1767258001045}])
            last = next(record for record in engine.tail("decisions", follow=True) if record.value["order"] == "o4")
            self.assertEqual(last.key, "c9")
            self.assertEqual(len(engine.dataset(self.pipeline)), 3)
            self.assertTrue(run.running)
        self.assertFalse(run.running)
        self.assertIn("4 events, 3 outputs, 1 dead letters", run.log)
        self.assertIn("0 events, 0 outputs", engine.run_until_idle(self.pipeline))

    def test_a_producer_repeats_nothing(self):
        for want in (2, 0):
            self.assertEqual(self.engine.produce("orders", EVENTS[:2], key="customer", partitions=1, producer="me"), want)
        self.assertEqual([record.offset for record in self.engine.tail("orders", start=-1)], [1])

    def test_errors_name_file_line_field_and_next_step(self):
        wrong = self.dir / "wrong.yaml"
        wrong.write_text(PIPELINE.replace("spend.sum_1m > 45", "spend.sum1m > 45"))
        for call in (
            lambda: self.engine.try_(wrong, EVENTS),
            lambda: self.engine.run(wrong),
            lambda: self.engine.dataset(wrong, EVENTS),
        ):
            with self.assertRaisesRegex(afterbay.InvalidFileError, r"wrong.yaml:\d+:\d+: .*spend.sum1m.*did you mean spend.sum_1m"):
                call()
        self.engine.produce("orders", EVENTS, key="customer", partitions=2)
        with self.assertRaisesRegex(afterbay.AfterbayError, "unknown topic"):
            list(self.engine.tail("none"))
        with self.assertRaisesRegex(ValueError, "event 2: .*field 'amount' is nan: write None"):
            self.engine.produce("orders", [EVENTS[0], {"amount": float("nan")}])
        with self.assertRaisesRegex(TypeError, "event 1 is a int"):
            self.engine.try_(self.pipeline, [7])

    def test_one_process_holds_the_directory(self):
        self.engine.produce("orders", EVENTS, key="customer", partitions=2)
        run = self.engine.run(self.pipeline)
        with self.assertRaisesRegex(afterbay.LockedError, "data"):
            self.engine.run(self.pipeline)
        run.stop()

    def test_a_process_that_fails_is_an_error_of_stop(self):
        self.engine.produce("orders", EVENTS, key="customer", partitions=2)
        run = self.engine.run(self.pipeline)
        os.kill(run._process.pid, signal.SIGKILL)
        with self.assertRaises(afterbay.AfterbayError):
            self.engine.close()
        self.assertEqual(self.engine._runs, [])

    def test_the_end_of_python_stops_the_process(self):
        self.engine.produce("orders", EVENTS, key="customer", partitions=2)
        program = "import sys, afterbay; print(afterbay.Engine(sys.argv[1]).run(sys.argv[2])._process.pid)"
        done = subprocess.run([sys.executable, "-c", program, self.dir / "data", self.pipeline], stdout=subprocess.PIPE, check=True)
        with self.assertRaises(ProcessLookupError):
            os.kill(int(done.stdout), 0)

    def test_a_tail_that_is_left_ends_its_process(self):
        self.engine.produce("orders", EVENTS, key="customer", partitions=2)
        with self.engine.run(self.pipeline):
            tail = self.engine.tail("orders", follow=True)
            self.assertEqual(next(tail).value["order"], "o1")
            tail.close()

    def test_a_program_that_is_missing_is_named(self):
        old = os.environ.get("AFTERBAY_PROGRAM")
        os.environ["AFTERBAY_PROGRAM"] = "/nowhere/afterbay"
        try:
            with self.assertRaisesRegex(afterbay.AfterbayError, "/nowhere/afterbay is no program: install a wheel"):
                self.engine.command("topics", "ls")
        finally:
            os.environ.pop("AFTERBAY_PROGRAM") if old is None else os.environ.update(AFTERBAY_PROGRAM=old)


if __name__ == "__main__":
    unittest.main()
