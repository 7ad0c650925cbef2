"""Check a segment against the descriptions of its formats, with nothing of ours: seekable.py [--index] FILE LINES.

Without --index: zstd's frames and contrib/seekable_format. With it: man/sc-log.5, "Segments".
"""
import json
import struct
import sys

import xxhash
import zstandard

ZSTD, SKIP_FIRST, SEEK, FOOT = 0xFD2FB528, 0x184D2A50, 0x184D2A5E, 0x8F92EAB1
TABLE, INDEX = 0x184D2A5C, 0x184D2A5D


def seek_table(data):
    """(position, packed size, unpacked size, checksum) of each frame before the table, and where the table begins."""
    count, descriptor, magic = struct.unpack("<IBI", data[-9:])
    assert magic == FOOT, hex(magic)
    assert descriptor & 0x7C == 0, "reserved bits"
    assert descriptor & 0x80, "no checksums"
    length = count * 12 + 9
    begin = len(data) - length - 8
    assert struct.unpack("<II", data[begin:begin + 8]) == (SEEK, length)
    at, entries = 0, []
    for number in range(count):
        packed, size, check = struct.unpack_from("<III", data, begin + 8 + number * 12)
        entries.append((at, packed, size, check))
        at += packed
    assert at == begin, "the sizes do not lead to the table"
    return entries, begin


def unpack(frame):
    magic = struct.unpack_from("<I", frame)[0]
    if magic & 0xFFFFFFF0 == SKIP_FIRST:
        assert struct.unpack_from("<I", frame, 4)[0] == len(frame) - 8, "a skippable frame's size"
        return b""
    assert magic == ZSTD, hex(magic)
    assert zstandard.get_frame_parameters(frame).has_checksum
    one = zstandard.ZstdDecompressor().decompressobj()
    out = one.decompress(frame)
    assert one.eof and not one.unused_data, "not exactly one frame"
    return out


def varints(data):
    value = shift = 0
    for byte in data:
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            yield value
            value = shift = 0
    assert shift == 0


def commits(frame, first_us):
    assert struct.unpack_from("<I", frame)[0] == TABLE
    plain = frame[9:]
    if frame[8] == 1:
        plain = zstandard.ZstdDecompressor().decompress(plain)
    else:
        assert frame[8] == 0
    numbers = list(varints(plain))
    count = numbers[0]
    assert len(numbers) == 2 * count
    times = [first_us]
    for more in numbers[1 + count:]:
        times.append(times[-1] + more)
    return numbers[1:1 + count], times


def check_index(data, lines):
    entries, _ = seek_table(data)
    at, packed, _, _ = entries[-1]
    head, text = data[at:at + 32], data[at + 32:at + packed]
    assert struct.unpack("<II", head[:8]) == (INDEX, packed - 8)
    assert head[8:16] == b"SCSEGIX\x01" and text.endswith(b"}\n")
    assert head[16:] == xxhash.xxh3_128_digest(text)
    index = json.loads(text)
    assert index["format"] == 1 and len(index["stream_id"]) == 36
    rows = [json.loads(line) for line in lines.splitlines()]
    assert (index["first"], index["last"], index["rows"], index["bytes"]) == (
        rows[0][0], rows[-1][0], len(rows), len(lines))
    assert index["hash"] == xxhash.xxh3_128_hexdigest(lines)
    assert index["after"]["next"] > index["last"]
    assert len(entries) == 2 * len(index["frames"]) + 1
    row = last_us = 0
    for number, frame in enumerate(index["frames"]):
        at, packed, table, size, check, count, first, last, first_us, end_us, digest = frame
        assert entries[2 * number] == (at, packed, size, check)
        assert entries[2 * number + 1][:2] == (at + packed, table)
        assert digest == xxhash.xxh3_64_hexdigest(data[at:at + packed + table])
        assert (first, last) == (rows[row][0], rows[row + count - 1][0])
        assert size <= 262144 or count == 1
        per_commit, times = commits(data[at + packed:at + packed + table], first_us)
        assert sum(per_commit) == count and times[-1] == end_us and first_us >= last_us
        last_us = end_us
        row += count
    assert row == len(rows)
    assert (index["first_us"], index["last_us"]) == (index["frames"][0][8], last_us)
    check_columns(index, [message for _, message in rows])


def check_columns(index, messages):
    names = list(index["schema"]["properties"])
    assert [column[0] for column in index["columns"]] == names
    for name, least, greatest, nulls in index["columns"]:
        values = [message[name] for message in messages if message[name] is not None]
        assert nulls == len(messages) - len(values)
        if not values:
            assert least is None and greatest is None
        elif isinstance(values[0], str):
            values = [value.encode() for value in values]
            for bound, value in (least, min(values)), (greatest, max(values)):
                if isinstance(bound, dict):
                    assert value.startswith(bound["prefix"].encode()) and len(value) > 64
                else:
                    assert value == bound.encode()
        else:
            assert (least, greatest) == (min(values), max(values)), name


def main():
    index = sys.argv[1] == "--index"
    packed, plain = sys.argv[1 + index:]
    with open(packed, "rb") as file:
        data = file.read()
    with open(plain, "rb") as file:
        lines = file.read()
    if index:
        check_index(data, lines)
        return
    out = b""
    entries, _ = seek_table(data)
    for at, size, unpacked_size, check in entries:
        unpacked = unpack(data[at:at + size])
        assert len(unpacked) == unpacked_size
        assert xxhash.xxh64_intdigest(unpacked) & 0xFFFFFFFF == check
        out += unpacked
    assert out == lines


main()
