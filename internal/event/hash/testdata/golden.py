#!/usr/bin/env python3
"""Writes golden.json: values, salts and their hashes, by the definition in docs/howto/share.md. It needs the standard library alone.

    golden.py > golden.json
"""
import hashlib
import json
import random
import struct
from datetime import datetime, timedelta, timezone
from decimal import Decimal


def text(kind, x):
    if kind == "bool":
        return "true" if x else "false"
    if kind == "time":
        return (datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(microseconds=x)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    if kind == "number":
        if x.is_integer() and -(2**63) <= x < 2**63:
            return str(int(x))
        if 1e-6 <= abs(x) < 1e21:
            return format(Decimal(repr(x)), "f").removesuffix(".0")
        mantissa, exponent = repr(x).split("e")
        return f"{mantissa.removesuffix('.0')}e{int(exponent):+d}"
    return str(x)


def hash53(x: bytes, salt: bytes) -> int:
    digest = hashlib.sha256(b"%d:%s%s" % (len(salt), salt, x)).digest()
    return int.from_bytes(digest, "big") >> (256 - 53)


def row(kind, x, salt):
    if kind == "bytes":
        return {"kind": kind, "value": x.hex(), "text": "", "salt": salt, "hash": hash53(x, salt.encode())}
    as_text = text(kind, x)
    value = x.hex() if kind == "number" else str(x)
    return {"kind": kind, "value": value, "text": as_text, "salt": salt, "hash": hash53(as_text.encode(), salt.encode())}


def values(random):
    for x in ["", "a", "card-1", "card-2", "0", "1", "true", "é", "漢字", "e\u0301", "a\0b", "1:a", ":", "x" * 200, "x" * 253, "x" * 254, "x" * 255, "x" * 256, "日" * 400]:
        yield "string", x
    for x in [0, 1, -1, 7, 10**6, 2**53 - 1, 2**53, 2**53 + 1, 2**63 - 1, -(2**63)]:
        yield "int", x
    for x in [0.0, -0.0, 1.0, -1.0, 7.0, 0.1, -0.5, 1e6, 2.0**53, 2.0**62, 2.0**63, -(2.0**63), 1e20, 1e21, 123456789012345678901234.0, 1e-6, 9.99e-7, 1e-7, 1.5e-7, 5e-324,
              1.7976931348623157e308, 0.1 + 0.2, 1 / 3, 100.5, 123456.789]:
        yield "number", x
    for _ in range(20):
        x = struct.unpack(">d", random.randbytes(8))[0]
        if x == x and abs(x) != float("inf"):
            yield "number", x
    for x in [False, True]:
        yield "bool", x
    for x in [0, 1, -1, 1_764_151_200_000_000, 1_764_151_200_123_456]:
        yield "time", x
    for x in [b"", b"card-1", b"\x00\xff", bytes(range(256))]:
        yield "bytes", x


if __name__ == "__main__":
    random = random.Random(1)
    salts = ["", "dataset", "skew", "é", "1:", "s" * 300]
    rows = [row(kind, x, salts[n % 3]) for n, (kind, x) in enumerate(values(random))]
    rows += [row("string", x, salt) for x in ["card-1", "", "a"] for salt in salts]
    print("[\n" + ",\n".join(json.dumps(r, ensure_ascii=True) for r in rows) + "\n]")
