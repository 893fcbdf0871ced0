#!/usr/bin/env python3
"""The work as most begin it: a consumer, a dict of users, XGBoost by the batch.

    worker.py MODEL INPUT OUTPUT BROKER GROUP

A batch is 64 events, or what came within 50 ms. It is scored in one call, since a
call a row costs some 300 us: an event does not see the scores of those of its user
that came with it. Once a second, when the results so far are written, offsets are
committed (at least once); the users are in memory alone.
"""
import json
import signal
import sys
import time

import numpy as np
import xgboost as xgb
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer

COUNTRY = {c: i for i, c in enumerate(["US", "GB", "DE", "FR", "BR", "IN", "NG", "PL", "JP", "ZA"])}
CHANNEL = {c: i for i, c in enumerate(["web", "app", "api", "partner"])}
DEVICE = {c: i for i, c in enumerate(["ios", "android", "desktop", "other"])}
WINDOWS = ((5_000, 12), (30_000, 10), (60_000, 60))  # pane ms, panes
BATCH, WAIT, COMMIT = 64, 0.05, 1.0  # events, seconds, seconds


class User:
    __slots__ = ("windows", "last", "scores")

    def __init__(self):
        self.windows = ({}, {}, {})  # by pane: count, sum and most of cents
        self.last = -1
        self.scores = []

    def add(self, event):
        """Takes an event in and returns its 16 features."""
        ts, cents = event["ts"], round(event["amount"] * 100)
        row = []
        for panes, (pane, n) in zip(self.windows, WINDOWS):
            i = ts // pane
            seen = panes.get(i)
            if seen is not None:
                seen[0] += 1
                seen[1] += cents
                if cents > seen[2]:
                    seen[2] = cents
            else:
                oldest = max(i, max(panes, default=i)) - n
                if i > oldest:
                    for ended in [k for k in panes if k <= oldest]:
                        del panes[ended]
                    panes[i] = [1, cents, cents]
            count = total = most = 0
            for k, seen in panes.items():
                if k <= i:
                    count += seen[0]
                    total += seen[1]
                    if seen[2] > most:
                        most = seen[2]
            row += (count, total / 100.0, total / 100.0 / count if count else 0.0, most / 100.0)
        since = -1.0 if self.last < 0 else max(0.0, (ts - self.last) / 1000.0)
        self.last = max(self.last, ts)
        mean = sum(self.scores) / len(self.scores) if self.scores else 0.0
        code = COUNTRY[event["country"]] * 16 + CHANNEL[event["channel"]] * 4 + DEVICE[event["device"]]
        row += (cents / 100.0, since, mean, code)
        return row

    def scored(self, score):
        self.scores.append(score)
        if len(self.scores) > 10:
            del self.scores[0]


def decision(score):
    return "block" if score >= 0.9 else "review" if score >= 0.5 else "allow"


def write(producer, topic, value, key):
    while True:
        try:
            producer.produce(topic, value, key)
        except BufferError:  # the broker is behind
            producer.poll(0.1)
            continue
        producer.poll(0)
        return


def commit(consumer, producer):
    producer.flush()
    try:
        consumer.commit(asynchronous=False)
    except KafkaException as e:
        if e.args[0].code() != KafkaError._NO_OFFSET:  # nothing came since
            raise


def main():
    model, topic_in, topic_out, broker, group = sys.argv[1:]
    booster = xgb.Booster(params={"nthread": 1})
    booster.load_model(model)
    consumer = Consumer({"bootstrap.servers": broker, "group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False})
    producer = Producer({"bootstrap.servers": broker, "acks": "all"})
    consumer.subscribe([topic_in])
    stopped = []
    signal.signal(signal.SIGTERM, lambda *_: stopped.append(True))
    users = {}
    committed = time.monotonic()
    while not stopped:
        if time.monotonic() - committed > COMMIT:
            commit(consumer, producer)
            committed = time.monotonic()
        messages = [m for m in consumer.consume(BATCH, WAIT) if not m.error()]
        if not messages:
            continue
        events = [json.loads(m.value()) for m in messages]
        states = []
        for event in events:
            user = users.get(event["user_id"])
            if user is None:
                user = users[event["user_id"]] = User()
            states.append(user)
        rows = np.array([user.add(event) for user, event in zip(states, events)], np.float32)
        scores = booster.inplace_predict(rows).tolist()
        for user, event, score in zip(states, events, scores):
            user.scored(score)
            result = {"event_id": event["event_id"], "score": score, "decision": decision(score), "model_version": "fraud-v1"}
            write(producer, topic_out, json.dumps(result), event["user_id"])
    commit(consumer, producer)
    consumer.close()


main()
