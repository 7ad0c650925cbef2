#!/usr/bin/env python3
"""Make tests/data/msgpack-json.tsv: msgpack values as the `msgpack` package of Python packs them, and the JSON text that
msg/json.h gives for each, spelt here a second time from the specification. Deterministic.

    msgpack_vectors.py >tests/data/msgpack-json.tsv

A line is HEX, a tab, JSON text, a tab, and `same` where packing the text gives these bytes again (`value`: the same value in
another form, which prints as the same text).
"""
import base64
import json
import math
import random
import struct
import sys

import msgpack

NAMES = ("$bin", "$str", "$ext", "$float", "$map")


class Raw(bytes):
    """The bytes of a str that need not be UTF-8."""


class Pairs(list):
    """A map, whatever its keys."""


class Stamp(bytes):
    """What an ext of type -1 holds."""


def b64(data):
    return base64.b64encode(data).decode()


def text(value):
    """JSON text of a str: only what must be escaped is."""
    short = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
    return '"' + "".join(short.get(c) or (f"\\u{ord(c):04x}" if c < " " else c) for c in value) + '"'


def number(value):
    if math.isnan(value):
        return '{"$float":"nan"}'
    if math.isinf(value):
        return '{"$float":"%s"}' % ("inf" if value > 0 else "-inf")
    for digits in range(1, 18):
        spelt = "%.*g" % (digits, value)
        if float(spelt) == value:
            break
    return spelt if "." in spelt or "e" in spelt else spelt + ".0"


def to_json(value):
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return number(value)
    if isinstance(value, Raw):
        return '{"$str":"%s"}' % b64(value)
    if isinstance(value, Stamp):
        return '{"$ext":[-1,"%s"]}' % b64(value)
    if isinstance(value, bytes):
        return '{"$bin":"%s"}' % b64(value)
    if isinstance(value, str):
        return text(value)
    if isinstance(value, msgpack.ExtType):
        return '{"$ext":[%d,"%s"]}' % (value.code, b64(value.data))
    if isinstance(value, Pairs):
        keys = [k for k, _ in value]
        plain = all(isinstance(k, str) for k in keys) and len(set(map(str, keys))) == len(keys)
        if plain and not (len(keys) == 1 and keys[0] in NAMES):
            return "{" + ",".join(text(k) + ":" + to_json(v) for k, v in value) + "}"
        return '{"$map":[' + ",".join("[" + to_json(k) + "," + to_json(v) + "]" for k, v in value) + "]}"
    return "[" + ",".join(map(to_json, value)) + "]"


def pack(value, single=False):
    packer = msgpack.Packer(use_bin_type=True, use_single_float=single)
    if isinstance(value, Raw):
        n = len(value)
        head = bytes([0xA0 | n]) if n < 32 else b"\xd9" + bytes([n]) if n < 256 else b"\xda" + struct.pack(">H", n)
        return head + bytes(value)
    if isinstance(value, Pairs):
        return packer.pack_map_header(len(value)) + b"".join(pack(k) + pack(v) for k, v in value)
    if isinstance(value, list):
        return packer.pack_array_header(len(value)) + b"".join(map(pack, value))
    return packer.pack(value)


rng = random.Random(20261130)
LETTERS = 'ab"\\/\n\x01\x7fé😀 \u2028$0'


def word(limit=12):
    return "".join(rng.choice(LETTERS) for _ in range(rng.randrange(limit)))


def some(depth):
    pick = rng.randrange(14 if depth else 10)
    if pick < 2:
        return rng.choice((None, True, False))
    if pick < 4:
        bits = rng.randrange(1, 65)
        value = rng.getrandbits(bits)
        return value if rng.random() < 0.6 or value > 1 << 63 else -value
    if pick == 4:
        return rng.choice((rng.uniform(-1e6, 1e6), rng.gauss(0, 1) * 10.0 ** rng.randrange(-300, 300), float(rng.randrange(-99, 99))))
    if pick == 5:
        return rng.randbytes(rng.choice((0, 1, 3, 16, 256)))
    if pick == 6:
        return msgpack.ExtType(rng.randrange(0, 128), rng.randbytes(rng.choice((0, 1, 2, 3, 4, 8, 16, 17, 256))))
    if pick == 7:
        return Raw(b"\xff" + rng.randbytes(rng.choice((0, 3, 40, 300))))
    if pick < 10:
        return word(40)
    if pick < 12:
        return [some(depth - 1) for _ in range(rng.choice((0, 1, 3, 17)))]
    kinds = (lambda: word(), lambda: word(), lambda: word(), lambda: rng.choice(NAMES), lambda: some(depth - 1))
    kind = rng.choice(kinds)
    return Pairs([(kind(), some(depth - 1)) for _ in range(rng.choice((0, 1, 1, 2, 5, 20)))])


fixed = [
    0, 1, 127, 128, 255, 256, 65535, 65536, 2**32 - 1, 2**32, 2**53, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1,
    -1, -32, -33, -128, -129, -32768, -32769, -(2**31), -(2**31) - 1, -(2**63), -(2**53) - 1,
    0.0, -0.0, 1.0, -1.0, 0.1, 1 / 3, 9.5, 1e15, 1e16, 1e21, 1e22, 1e100, 5e-324, 2.2250738585072014e-308, 1.7976931348623157e308,
    math.inf, -math.inf, math.nan, "", "a" * 31, "b" * 32, "c" * 255, "d" * 256, "\x00\x1f\x20\x7f\x80", "\ufeff", b"", b"\x00",
    [], [[]], list(range(15)), list(range(16)), Pairs([]), Pairs([("", None)]), Pairs([("a", 1), ("a", 2)]), Pairs([(1, 2)]),
    Pairs([(b"__datetime__", True), (b"as_str", "20261130T01:02:03.000000")]), Pairs([(None, None), ("x", 1)]),
    Pairs([(Raw(b"\xff"), 1)]), Pairs([([1, Pairs([("k", 2)])], [3])]), Pairs([(Pairs([(Pairs([(1, 2)]), 3)]), 4)]),
    Pairs([("a", Pairs([(1, Pairs([("b", Pairs([]))]))])), ("c", [])]), Pairs([("$bin", "x"), ("y", 1)]), Pairs([("$other", 1)]),
    msgpack.ExtType(5, b"hello"), msgpack.Timestamp(1764435591, 680000000),
]
fixed += [Pairs([(name, "eHg=")]) for name in NAMES]
fixed += [Pairs([(str(i), i) for i in range(15)]), Pairs([(str(i), i) for i in range(16)]), Pairs([(str(i % 39), i) for i in range(40)])]


def line(packed, value, same):
    print(packed.hex(), to_json(value), "same" if same else "value", sep="\t")


sys.stdout.reconfigure(encoding="utf-8", newline="\n")
for value in fixed:
    if isinstance(value, msgpack.Timestamp):
        line(pack(value), Stamp(pack(value)[2:]), True)
    else:
        line(pack(value), value, True)
for value in (1.5, 0.1, 3.0, -math.inf):
    line(pack(value, single=True), struct.unpack("f", struct.pack("f", value))[0], False)
for packed, value in (
    (b"\xcc\x01", 1), (b"\xd3" + b"\xff" * 8, -1), (b"\xd9\x01a", "a"), (b"\xdb\0\0\0\x01a", "a"), (b"\xc6\0\0\0\x01a", b"a"),
    (b"\xdc\0\x01\x01", [1]), (b"\xdd\0\0\0\0", []), (b"\xde\0\x01\xa1k\x01", Pairs([("k", 1)])), (b"\xdf\0\0\0\0", Pairs([])),
    (b"\xc7\x01\x02z", msgpack.ExtType(2, b"z")), (b"\xcb\xff\xf8\0\0\0\0\0\x01", math.nan),
):
    line(packed, value, False)
for _ in range(60):
    value = some(4)
    line(pack(value), value, True)
