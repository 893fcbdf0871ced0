"""The client of a gateway: sends events and receives each result once, in order.

    async with Client("wss://gateway.example", token=new_token) as client:
        await client.send("order-7", {"amount": 12.5})
        async for item in client:
            ...

It connects again when a connection ends, sends unanswered events again with their ids, and goes on after the newest result.
Needs the package websockets: pip install 'afterbay[gateway]'.
"""

from __future__ import annotations

import asyncio
import collections
import datetime
import inspect
import json
import random
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from . import _tables

CONNECT_TIMEOUT = 10.0  # seconds until the gateway says that the client is connected
STABLE = 10.0  # seconds of a connection that held: the next failure is a first one
BACKOFF_FIRST, BACKOFF_MAX = 0.5, 20.0
RENEW_MIN = 10.0  # seconds between tries to bring another token
ACK_EVERY = 32  # results
ATTEMPTS_MAX = 4096  # events with a known attempt of partial results
MESSAGE_MAX = 64 << 20  # bytes of a frame that is received
FINAL_STATUSES = (400, 401, 403, 404)


class EventError(Exception):
    """The gateway refuses an event, a token or a cursor. `code` says why, `retryable` whether a later try can succeed."""

    def __init__(self, code: str, message: str, event_id: str | None = None, retryable: bool = False) -> None:
        super().__init__(f"{code}: {message}")
        self.code, self.event_id, self.retryable = code, event_id, retryable


class CloseError(Exception):
    """A connection ended. Codes 4000 to 4499 and 1009 end the client, also the HTTP statuses 400, 401, 403 and 404."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(f"the connection was closed: {code} {reason}".rstrip())
        self.code, self.reason = code, reason

    @property
    def final(self) -> bool:
        """Whether another connection would end in the same way."""
        return 4000 <= self.code < 4500 or self.code == 1009 or self.code in FINAL_STATUSES


@dataclass(frozen=True)
class Result:
    """The result of an event.

    `seq` counts from 1 without holes among the results of a client. `cursor` is the position after this result: keep both
    with the effect of the result. An event ends once, in `status` ok, rejected, dead_lettered or expired; partial results
    come before, and error is the status of an id that was used for another event. `attempt` counts from 1: a later attempt
    replaces the partial results of the one before. `duplicate` says that the event was sent twice and had a result before.
    """

    seq: int
    cursor: str
    event_id: str
    status: str
    payload: Any = None
    error: dict[str, Any] | None = None
    attempt: int | None = None
    duplicate: bool = False
    causal_id: str | None = None
    model: str | None = None
    timestamp: str | None = None
    correlation_id: str | None = None


@dataclass(frozen=True)
class Gap:
    """Results are missing: they are no longer retained. `after` is the newest `seq` before, `next` the first after it.

    Each is 0 if it is not known.
    """

    after: int
    next: int


@dataclass
class Metrics:
    """Counts of a client since it was made."""

    connects: int = 0
    resent: int = 0
    backpressure: int = 0
    results: int = 0
    repeats: int = 0
    gaps: int = 0
    behind: int = 0
    renewals: int = 0
    errors: int = 0


@dataclass(frozen=True)
class Answer:
    """The answer to an event: accepted, an error, or to be sent again after some seconds."""

    error: EventError | None = None
    again: bool = False
    sent: bool = False
    after: float = 0


@dataclass
class Sent:
    """An event that waits for its answer."""

    message: str
    answer: asyncio.Future[Answer] = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    def reply(self, answer: Answer) -> None:
        """Give the answer, unless there is one."""
        if not self.answer.done():
            self.answer.set_result(answer)


class Client:
    """Is connected to a gateway, or on its way to the next connection.

    `address` is that of a gateway, such as wss://gateway.example; its path is /v1/stream if it has none. `token` is a token,
    or a function (async too) that returns one that is valid now. `cursor` and `seq` are those of the newest result that the
    application has; without them it gets results from now on, or all that are retained with `earliest`. `session_id`: the
    newest connection of a session ends the others at the same gateway. `buffer` is how many results wait for the
    application (10,000); beyond it they stay in the log.

    All methods belong to one event loop. Leaving the `async with` block closes the client.
    """

    def __init__(
        self,
        address: str,
        *,
        token: str | Callable[[], str | Awaitable[str]],
        cursor: str | None = None,
        seq: int = 0,
        earliest: bool = False,
        session_id: str | None = None,
        buffer: int = 10_000,
        on_connection: Callable[[bool], None] | None = None,
    ) -> None:
        if not re.match(r"(ws|http)s?://", address):
            raise ValueError(f"address {address}: use ws:// or wss://")
        if buffer < 1:
            raise ValueError(f"buffer {buffer}: use 1 or more")
        if (seq and not cursor) or (cursor and earliest):
            raise ValueError("give seq with the cursor of the same result, and earliest only without a cursor")
        address = re.sub(r"^http", "ws", address)
        self._address = address if re.match(r"wss?://[^/]+/.", address) else address.rstrip("/") + "/v1/stream"
        self._token, self._cursor, self._seq = token, cursor, seq
        self._earliest, self._session_id, self._buffer, self._on_connection = earliest, session_id, buffer, on_connection
        self.metrics = Metrics()
        self._link: _Link | None = None
        self._task: asyncio.Task[None] | None = None
        self._failure: Exception | None = None
        self._closed = self._ended = self._behind = False
        self._changed = asyncio.Condition()
        self._sending: set[str] = set()
        self._items: collections.deque[Result | Gap] = collections.deque()
        self._attempts: collections.OrderedDict[str, int] = collections.OrderedDict()

    async def connect(self) -> None:
        """Connect, and wait until the client is connected. Raise the error that ends it."""
        if self._task is None:
            self._task = asyncio.create_task(self._run())
        await self._ready()

    async def close(self) -> None:
        """End the client. Senders get a CloseError, and results end."""
        self._closed = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._finish(None)

    async def __aenter__(self) -> Client:
        await self.connect()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    async def send(
        self,
        event_id: str,
        payload: Any,
        *,
        sequence: int | None = None,
        causal_id: str | None = None,
        timestamp: datetime.datetime | str | None = None,
        priority: int | None = None,
        traceparent: str | None = None,
        correlation_id: str | None = None,
    ) -> None:
        """Send an event, and return when it is durable in the log, so that it will have one result.

        `event_id` is 1 to 128 of A-Z a-z 0-9 . _ : @ -. Make it before the first try: the same id and payload are the same
        event. The event is sent again if the connection ends or the gateway is busy. After a cancelled call it may be in
        the log or not: send it again. Raise EventError if the event is wrong, or the error that ended the client.
        """
        frame = {
            "type": "event", "eventId": event_id, "sequence": sequence, "causalId": causal_id, "timestamp": timestamp,
            "priority": priority, "traceparent": traceparent, "correlationId": correlation_id,
        }  # fmt: skip
        frame = {name: value for name, value in frame.items() if value is not None}
        try:
            message = json.dumps({**frame, "payload": payload}, default=_tables.plain, allow_nan=False, ensure_ascii=False)
        except (TypeError, ValueError) as error:
            raise EventError("bad_event", str(error), event_id) from None
        await self._deliver(event_id, message)

    async def cancel(self, event_id: str) -> None:
        """Give up an event that was sent, and return when that is durable. Wait for `send` first.

        An event without a result ends as rejected, with the code cancelled. An event with a result keeps it.
        """
        await self._deliver(event_id, json.dumps({"type": "cancel", "eventId": event_id}))

    async def __aiter__(self) -> AsyncIterator[Result | Gap]:
        """Yield results and gaps until the client is closed. Raise the error that ends it."""
        while True:
            async with self._changed:
                await self._changed.wait_for(lambda: self._items or self._ended)
            if not self._items:
                if self._failure is not None:
                    raise self._failure
                return
            item = self._items.popleft()
            if self._behind and len(self._items) <= self._buffer // 2:
                self._behind = False
                if self._link is not None:
                    self._link.reopen()
            yield item

    async def _deliver(self, event_id: str, message: str) -> None:
        """Send a message about an event until it is answered."""
        if not re.fullmatch(r"[A-Za-z0-9._:@-]{1,128}", event_id):
            raise EventError("bad_event", f"event_id {event_id!r}: use 1 to 128 of A-Z a-z 0-9 . _ : @ -", event_id)
        if event_id in self._sending:
            raise EventError("bad_event", "it is being sent: wait for that, or give each event its own id", event_id)
        self._sending.add(event_id)
        try:
            tries = 0
            while True:
                link = await self._ready()
                try:
                    answer = await link.submit(event_id, message)
                finally:
                    link.forget(event_id)
                if answer.error is not None:
                    raise answer.error
                if not answer.again:
                    return
                self.metrics.resent += answer.sent
                if answer.after > 0:
                    await asyncio.sleep(max(answer.after, min(1, answer.after * 2 ** min(tries, 10))) * (1 + random.random()))
                tries += 1
        finally:
            self._sending.discard(event_id)

    async def _ready(self) -> _Link:
        async with self._changed:
            await self._changed.wait_for(lambda: self._ended or (self._link is not None and self._link.limit > 0))
        if self._ended or self._link is None:
            raise self._failure or CloseError(1000, "by the client")
        return self._link

    async def _run(self) -> None:
        """Keep one connection after the other until the client ends."""
        failures = 0
        loop = asyncio.get_running_loop()
        while True:
            link = self._link = _Link(self, self._behind)
            why: Exception
            try:
                why = await link.run()
            except Exception as error:
                why = error
            finally:
                link.lose()
                self._link = None
                if link.since is not None and self._on_connection is not None:
                    self._on_connection(False)
            if self._closed:
                return
            if isinstance(why, (EventError, ImportError)) or (isinstance(why, CloseError) and why.final):
                return await self._finish(why)
            if link.reopened:
                failures = 0
                continue
            if link.since is not None and loop.time() - link.since >= STABLE:
                failures = 0
            bound = min(BACKOFF_MAX, BACKOFF_FIRST * 2 ** min(failures, 10))
            await asyncio.sleep(max(link.retry_after, random.random() * bound))
            failures += 1

    async def _finish(self, failure: Exception | None) -> None:
        if not self._ended:
            self._ended, self._failure = True, failure
        await self._notify()

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def _text(self) -> str:
        token = self._token() if callable(self._token) else self._token
        return await token if inspect.isawaitable(token) else token

    async def _connected(self, cursor: str | None) -> None:
        self.metrics.connects += 1
        self._cursor = self._cursor or cursor
        if self._on_connection is not None:
            self._on_connection(True)
        await self._notify()

    async def _take(self, link: _Link, frame: dict[str, Any]) -> bool:
        """Give a result to the application, unless it has it. Return whether there was room."""
        seq, event_id, attempt = frame["seq"], frame.get("eventId", ""), frame.get("attempt")
        if self._seq and seq <= self._seq:
            self.metrics.repeats += 1
            return True
        if self._seq and seq > self._seq + 1:
            if not await self._push(link, Gap(self._seq, seq)):
                return False
            self.metrics.gaps += 1
            self._seq = seq - 1
        partial = frame["status"] == "partial"
        known = self._attempts.get(event_id, 0)
        if not (partial and attempt is not None and attempt < known) and not await self._push(link, _result(frame)):
            return False
        if not partial:
            self._attempts.pop(event_id, None)
        elif attempt is not None and attempt > known:
            self._attempts[event_id] = attempt
            if len(self._attempts) > ATTEMPTS_MAX:
                self._attempts.popitem(last=False)
        self._seq, self._cursor = seq, frame["cursor"]
        self.metrics.results += 1
        return True

    async def _skip(self, link: _Link, frame: dict[str, Any]) -> None:
        """Give the application a gap that the gateway reports."""
        if await self._push(link, Gap(self._seq, 0)):
            self.metrics.gaps += 1
            self._seq, self._cursor = 0, frame.get("earliest")
            self._attempts.clear()

    async def _push(self, link: _Link, item: Result | Gap) -> bool:
        if len(self._items) >= self._buffer:
            self.metrics.behind += 1
            self._behind = link.dropping = True
            return False
        self._items.append(item)
        await self._notify()
        return True


def _result(frame: dict[str, Any]) -> Result:
    names = {"eventId": "event_id", "causalId": "causal_id", "correlationId": "correlation_id"}
    known = Result.__dataclass_fields__
    return Result(**{names.get(name, name): value for name, value in frame.items() if names.get(name, name) in known})


class _Link:
    """One connection. `dropping` says that results are dropped: only answers to events matter."""

    def __init__(self, client: Client, dropping: bool) -> None:
        self.client, self.dropping = client, dropping
        self.limit = 0  # events that wait for an answer; 0 before the client is connected
        self.since: float | None = None
        self.retry_after = 0.0
        self.reopened = False
        self._bytes = 0
        self._idle = CONNECT_TIMEOUT
        self._queue: collections.OrderedDict[str, Sent] = collections.OrderedDict()
        self._waiting: dict[str, Sent] = {}
        self._out: asyncio.Queue[str | None] = asyncio.Queue()  # bounded by limit, and frames of the link
        self._unacked = 0
        self._why: Exception | None = None
        self._expires: str | None = None
        self._renewal: asyncio.Task[None] | None = None
        self._lost = False

    async def run(self) -> Exception:
        """Connect, and serve the connection until it ends. Return why it ended."""
        try:
            from websockets import exceptions
            from websockets.asyncio.client import connect
        except ImportError:
            raise ImportError("the client of a gateway needs websockets: pip install 'afterbay[gateway]'") from None
        client = self.client
        first: dict[str, Any] = {"type": "connect", "id": 1, "ackEvery": 0 if self.dropping else ACK_EVERY, "token": await client._text()}
        if client._session_id is not None:
            first["sessionId"] = client._session_id
        if not self.dropping and (client._cursor or client._earliest):
            first["resume"] = {"cursor": client._cursor} if client._cursor else {"from": "earliest"}
        try:
            async with connect(
                client._address,
                subprotocols=["afterbay.v1"],  # type: ignore[list-item]
                ping_interval=None,
                open_timeout=CONNECT_TIMEOUT,
                close_timeout=1,
                max_size=MESSAGE_MAX,
            ) as socket:
                self._send(first)
                writer = asyncio.create_task(self._write(socket))
                try:
                    while True:
                        await self._receive(json.loads(await asyncio.wait_for(socket.recv(), self._idle)))
                        # Before Python 3.12 wait_for loses a cancellation that meets a message: ask for both.
                        if self.reopened or client._closed:
                            return CloseError(1000, "to go on with results")
                finally:
                    writer.cancel()
                    if self._renewal is not None:
                        self._renewal.cancel()
                    await asyncio.gather(writer, return_exceptions=True)
        except exceptions.InvalidStatus as error:
            after = error.response.headers.get("Retry-After", "")
            self.retry_after = min(float(after), BACKOFF_MAX) if after.isdecimal() else 0.0
            return CloseError(error.response.status_code, error.response.reason_phrase)
        except exceptions.ConnectionClosed as error:
            return self._why or CloseError(error.rcvd.code if error.rcvd else 1006, error.rcvd.reason if error.rcvd else "")
        except (OSError, TimeoutError, asyncio.TimeoutError, exceptions.WebSocketException) as error:
            return self._why or error

    async def _write(self, socket: Any) -> None:
        while (message := await self._out.get()) is not None:
            await socket.send(message)
        await socket.close()

    def lose(self) -> None:
        """Have all events sent again by the next connection."""
        self._lost = True
        for event in self._waiting.values():
            event.reply(Answer(again=True, sent=True))
        for event in self._queue.values():
            event.reply(Answer(again=True))

    def reopen(self) -> None:
        """End the connection, so that another one goes on where results were dropped."""
        self.reopened = True
        self._out.put_nowait(None)
        self._why = CloseError(1000, "to go on with results")

    async def submit(self, event_id: str, message: str) -> Answer:
        """Send an event, and wait for its answer."""
        if self._lost:
            return Answer(again=True)
        if (size := len(message.encode())) > self._bytes:
            return Answer(error=EventError("too_large", f"it has {size} bytes, the gateway takes {self._bytes}", event_id))
        event = self._queue[event_id] = Sent(message)
        self._flush()
        return await event.answer

    def forget(self, event_id: str) -> None:
        """Forget an event without a caller."""
        self._queue.pop(event_id, None)
        if self._waiting.pop(event_id, None) is not None:
            self._flush()

    def _flush(self) -> None:
        while self._queue and len(self._waiting) < self.limit:
            event_id, event = self._queue.popitem(last=False)
            self._waiting[event_id] = event
            self._out.put_nowait(event.message)

    def _reply(self, event_id: str | None, answer: Answer) -> bool:
        event = self._waiting.pop(event_id or "", None)
        if event is None:
            return False
        event.reply(answer)
        self._flush()
        return True

    def _send(self, frame: dict[str, Any]) -> None:
        self._out.put_nowait(json.dumps(frame))

    async def _receive(self, frame: dict[str, Any]) -> None:
        kind, event_id = frame.get("type"), frame.get("eventId")
        if kind == "connected":
            await self._connected(frame)
        elif kind == "accepted":
            self._reply(event_id, Answer())
        elif kind == "backpressure":
            self.client.metrics.backpressure += 1
            self._reply(event_id, Answer(again=True, sent=True, after=frame["retryAfterMs"] / 1000))
        elif kind == "result":
            await self._result(frame)
        elif kind == "error":
            await self._problem(frame)
        elif kind == "ping":
            self._send({"type": "pong"})
        elif kind == "refreshed":
            self._renew(frame.get("expiresAt"))
        elif kind == "gap":
            if not self.dropping:
                await self.client._skip(self, frame)
        elif kind == "disconnect":
            self.retry_after = min(frame.get("retryAfterMs", 0) / 1000, BACKOFF_MAX)
            self._why = CloseError(frame["code"], frame.get("reason", ""))
        else:
            raise CloseError(4000, f"the gateway sent a frame of type {kind!r}, which is not one of afterbay.v1")

    async def _connected(self, frame: dict[str, Any]) -> None:
        self.limit = max(1, frame["pendingLimit"])
        self._bytes = frame["maxMessageBytes"]
        self._idle = (frame["pingMs"] + frame["pongTimeoutMs"]) / 1000
        self.since = asyncio.get_running_loop().time()
        self._renew(frame.get("expiresAt"))
        await self.client._connected(frame.get("cursor"))

    def _renew(self, expires: str | None) -> None:
        """Bring another token when three quarters of the time of this one are over."""
        self._expires = expires
        if expires is not None and callable(self.client._token):
            end = datetime.datetime.fromisoformat(expires.replace("Z", "+00:00"))
            left = (end - datetime.datetime.now(datetime.timezone.utc)).total_seconds()
            self._renewal = asyncio.create_task(self._refresh(max(RENEW_MIN, left * 0.75)))

    async def _refresh(self, wait: float) -> None:
        while True:
            await asyncio.sleep(wait)
            try:
                token = await self.client._text()
            except Exception:  # tried again; at its end the gateway asks for another connection
                wait = RENEW_MIN
                continue
            self.client.metrics.renewals += 1
            self._send({"type": "refresh", "id": 2, "token": token})
            return

    async def _problem(self, frame: dict[str, Any]) -> None:
        said = frame["error"]
        error = EventError(said["code"], said["message"], said.get("eventId"), said.get("retryable", False))
        if frame.get("seq"):
            await self._result({**frame, "eventId": said.get("eventId"), "status": "error"})
        elif self.limit == 0:
            raise error  # the token or the cursor is refused
        elif not self._reply(error.event_id, Answer(again=True, sent=True, after=1) if error.retryable else Answer(error=error)):
            self.client.metrics.errors += 1
            if frame.get("id") == 2:
                self._renew(self._expires)

    async def _result(self, frame: dict[str, Any]) -> None:
        self._reply(frame.get("eventId"), Answer())  # it is in the log
        if self.dropping or not await self.client._take(self, frame):
            return
        self._unacked += 1
        if self._unacked >= ACK_EVERY:
            self._unacked = 0
            self._send({"type": "ack", "cursor": frame["cursor"]})
