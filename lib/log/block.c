/* block.c: bytes to blocks and back. All numbers are little endian. */
#include "log/block.h"

#include <endian.h>
#include <xxhash.h>

#include "log/log.h"

/* 0xff never occurs in UTF-8, so no line can hold this. The last byte is the version. */
const char sc_block_magic[SC_BLOCK_MAGIC_LEN] = "\xffSCJBLK\x01";

enum {
	AT_HASH = 8,
	AT_PREV = 24,
	AT_FIRST = 40,
	AT_LAST = 48,
	AT_TIME = 56,
	AT_COMMIT = 64,
	AT_ROWS = 72,
	AT_BODY = 76,
	AT_EXT = 80,
	AT_FLAGS = 84
};
#define HASHED_FROM AT_PREV
#define FLAG_MORE 1u
#define EXT_HEAD 8

static void put32(char *at, uint32_t value)
{
	value = htole32(value);
	memcpy(at, &value, sizeof(value));
}

static void put64(char *at, uint64_t value)
{
	value = htole64(value);
	memcpy(at, &value, sizeof(value));
}

static uint32_t get32(const char *at)
{
	uint32_t value;

	memcpy(&value, at, sizeof(value));
	return le32toh(value);
}

static uint64_t get64(const char *at)
{
	uint64_t value;

	memcpy(&value, at, sizeof(value));
	return le64toh(value);
}

static struct sc_hash hash_of(const void *data, size_t len)
{
	XXH128_canonical_t canonical;
	struct sc_hash hash;

	XXH128_canonicalFromHash(&canonical, XXH3_128bits(data, len));
	memcpy(hash.bytes, canonical.digest, sizeof(hash.bytes));
	return hash;
}

bool sc_block_parse(const char *data, struct sc_block *ret_block)
{
	struct sc_block b;

	if (memcmp(data, sc_block_magic, SC_BLOCK_MAGIC_LEN) != 0)
		return false;
	memcpy(b.hash.bytes, data + AT_HASH, SC_HASH_LEN);
	memcpy(b.prev.bytes, data + AT_PREV, SC_HASH_LEN);
	b.first = get64(data + AT_FIRST);
	b.last = get64(data + AT_LAST);
	b.appended_us = (int64_t)get64(data + AT_TIME);
	b.commit = get64(data + AT_COMMIT);
	b.rows = get32(data + AT_ROWS);
	b.body_len = get32(data + AT_BODY);
	b.ext_len = get32(data + AT_EXT);
	b.more = get32(data + AT_FLAGS) & FLAG_MORE;
	/*
	 * a body is at most SC_BLOCK_BODY_MAX, or one longer line; a line "[1,0]" and LF is 6
	 * bytes
	 */
	if (b.first == 0 || b.ext_len > SC_BLOCK_EXT_MAX || b.body_len > SC_MESSAGE_MAX + 64 ||
	    (b.body_len > SC_BLOCK_BODY_MAX && b.rows != 1) || b.body_len / 6 < b.rows ||
	    (b.body_len && !b.rows))
		return false;
	/* LAST is FIRST - 1 or above, and there is room for the rows */
	if (b.last == UINT64_MAX || b.last + 1 < b.first || b.last + 1 - b.first < b.rows ||
	    (b.rows == 0 && b.last + 1 != b.first))
		return false;
	*ret_block = b;
	return true;
}

bool sc_block_check(const char *data, const struct sc_block *block)
{
	struct sc_hash hash = hash_of(data + HASHED_FROM, sc_block_size(block) - HASHED_FROM);

	return sc_hash_same(&hash, &block->hash);
}

void sc_block_seal(char *data, struct sc_block *block)
{
	memcpy(data, sc_block_magic, SC_BLOCK_MAGIC_LEN);
	memcpy(data + AT_PREV, block->prev.bytes, SC_HASH_LEN);
	put64(data + AT_FIRST, block->first);
	put64(data + AT_LAST, block->last);
	put64(data + AT_TIME, (uint64_t)block->appended_us);
	put64(data + AT_COMMIT, block->commit);
	put32(data + AT_ROWS, block->rows);
	put32(data + AT_BODY, block->body_len);
	put32(data + AT_EXT, block->ext_len);
	put32(data + AT_FLAGS, block->more ? FLAG_MORE : 0);
	block->hash = hash_of(data + HASHED_FROM, sc_block_size(block) - HASHED_FROM);
	memcpy(data + AT_HASH, block->hash.bytes, SC_HASH_LEN);
}

struct sc_hash sc_block_genesis(const char *stream_id)
{
	return hash_of(stream_id, strlen(stream_id));
}

bool sc_hash_same(const struct sc_hash *a, const struct sc_hash *b)
{
	return memcmp(a->bytes, b->bytes, SC_HASH_LEN) == 0;
}

void sc_hash_text(const struct sc_hash *hash, char ret_text[2 * SC_HASH_LEN + 1])
{
	static const char digits[] = "0123456789abcdef";

	for (int i = 0; i < SC_HASH_LEN; i++) {
		ret_text[2 * i] = digits[hash->bytes[i] >> 4];
		ret_text[2 * i + 1] = digits[hash->bytes[i] & 15];
	}
	ret_text[2 * SC_HASH_LEN] = 0;
}

bool sc_hash_parse(struct sc_span text, struct sc_hash *ret_hash)
{
	struct sc_hash hash = { { 0 } };

	if (text.len != 2 * SC_HASH_LEN)
		return false;
	for (size_t i = 0; i < text.len; i++) {
		char c = text.data[i];
		int digit = c >= '0' && c <= '9'   ? c - '0'
			    : c >= 'a' && c <= 'f' ? c - 'a' + 10
						   : -1;

		if (digit < 0)
			return false;
		hash.bytes[i / 2] = (unsigned char)(hash.bytes[i / 2] << 4 | digit);
	}
	*ret_hash = hash;
	return true;
}

/* An extension: u32 kind, u32 length of what follows, numbers, then a name to the end. */
static int put_ext(struct sc_bytes *out, uint32_t kind, const uint64_t *numbers, size_t count,
		   struct sc_span name)
{
	char head[EXT_HEAD + 6 * 8];
	size_t len = EXT_HEAD + count * 8;

	put32(head, kind);
	put32(head + 4, (uint32_t)(count * 8 + name.len));
	for (size_t i = 0; i < count; i++)
		put64(head + EXT_HEAD + i * 8, numbers[i]);
	if (sc_bytes_reserve(out, len + name.len) < 0)
		return SC_E_NOMEM;
	sc_bytes_put(out, head, len);
	return sc_bytes_put(out, name.data, name.len);
}

int sc_ext_put_anchor(struct sc_bytes *out, const struct sc_anchor *anchor)
{
	uint64_t numbers[] = { anchor->rows, anchor->bytes, anchor->prev_journal,
			       anchor->prev_end };

	return put_ext(out, SC_EXT_ANCHOR, numbers, 4, anchor->stream_id);
}

int sc_ext_put_source(struct sc_bytes *out, struct sc_span name, uint64_t offset)
{
	return put_ext(out, SC_EXT_SOURCE, &offset, 1, name);
}

int sc_ext_put_producer(struct sc_bytes *out, struct sc_span name, const struct sc_producer *p)
{
	uint64_t numbers[] = { p->epoch, p->seq_first, p->seq_last, p->first, p->last, p->commit };

	return put_ext(out, SC_EXT_PRODUCER, numbers, 6, name);
}

int sc_ext_put_schema(struct sc_bytes *out, const struct sc_schema_mark *mark)
{
	uint64_t numbers[] = { mark->version, mark->from };

	return put_ext(out, SC_EXT_SCHEMA, numbers, 2, mark->text);
}

static bool read_ext(uint32_t kind, const char *data, size_t len, struct sc_ext *ret_ext)
{
	static const size_t counts[] = {
		[SC_EXT_ANCHOR] = 4,
		[SC_EXT_SOURCE] = 1,
		[SC_EXT_PRODUCER] = 6,
		[SC_EXT_SCHEMA] = 2,
	};
	uint64_t n[6] = { 0 };
	size_t count;

	if (kind < SC_EXT_ANCHOR || kind > SC_EXT_SCHEMA)
		return false;
	count = counts[kind];
	if (len < count * 8 || (kind != SC_EXT_SCHEMA && len - count * 8 > SC_NAME_MAX))
		return false;
	for (size_t i = 0; i < count; i++)
		n[i] = get64(data + i * 8);
	memset(ret_ext, 0, sizeof(*ret_ext));
	ret_ext->kind = (int)kind;
	ret_ext->name = sc_span(data + count * 8, len - count * 8);
	if (kind == SC_EXT_ANCHOR)
		ret_ext->anchor = (struct sc_anchor){ ret_ext->name, n[0], n[1], n[2], n[3] };
	else if (kind == SC_EXT_SOURCE)
		ret_ext->source_offset = n[0];
	else if (kind == SC_EXT_PRODUCER)
		ret_ext->producer = (struct sc_producer){ n[0], n[1], n[2], n[3], n[4], n[5] };
	else {
		ret_ext->schema = (struct sc_schema_mark){ n[0], n[1], ret_ext->name };
		ret_ext->name.len = 0;
	}
	return true;
}

bool sc_ext_next(struct sc_span *rest, struct sc_ext *ret_ext)
{
	while (rest->len >= EXT_HEAD) {
		const char *data = rest->data + EXT_HEAD;
		uint32_t kind = get32(rest->data);
		size_t len = get32(rest->data + 4);

		if (len > rest->len - EXT_HEAD)
			break;
		*rest = sc_span(data + len, rest->len - EXT_HEAD - len);
		if (read_ext(kind, data, len, ret_ext))
			return true;
	}
	rest->len = 0;
	return false;
}
