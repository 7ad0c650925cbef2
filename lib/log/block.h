/*
 * log/block.h: one block of a journal, as bytes: header, extensions, lines.
 *
 * Owns      nothing; spans borrow.
 * Units     sizes and positions in bytes; offsets count rows from 1; times in us since 1970 UTC.
 * Errors    parse and check answer with a bool; any bytes are safe input.
 * Safety    pure functions, any thread.
 * Source    man/sc-log.5, "Blocks" and "Extensions".
 */
#ifndef SC_LOG_BLOCK_H
#define SC_LOG_BLOCK_H

#include <stdbool.h>

#include "base/bytes.h"
#include "base/err.h"

#define SC_BLOCK_HEAD 88
#define SC_BLOCK_MAGIC_LEN 8
#define SC_HASH_LEN 16
#define SC_BLOCK_EXT_MAX (16u << 20)
#define SC_NAME_MAX 255 /* of a source or producer */
extern const char sc_block_magic[SC_BLOCK_MAGIC_LEN];

struct sc_hash {
	unsigned char bytes[SC_HASH_LEN];
};

struct sc_block {
	struct sc_hash hash, prev;
	uint64_t first, last;    /* last = first - 1 in a block without rows */
	int64_t appended_us;
	uint64_t commit;         /* number of the commit, the same in all its blocks */
	uint32_t rows, body_len, ext_len;
	bool more;               /* another block of the same commit follows */
};

static inline size_t sc_block_size(const struct sc_block *b)
{
	return SC_BLOCK_HEAD + (size_t)b->ext_len + b->body_len;
}

/*
 * A header whose numbers fit together; its hash is not looked at. DATA holds at least
 * SC_BLOCK_HEAD bytes.
 */
bool sc_block_parse(const char *data, struct sc_block *ret_block);
/* DATA is the whole block: is it what was written? */
bool sc_block_check(const char *data, const struct sc_block *block);
/*
 * Write the header in front of extensions and body that stand at DATA + SC_BLOCK_HEAD; fills
 * block->hash.
 */
void sc_block_seal(char *data, struct sc_block *block);

/*
 * What the first block of a log chains to: a hash of the stream's id, so that a foreign journal
 * never fits.
 */
struct sc_hash sc_block_genesis(const char *stream_id);
bool sc_hash_same(const struct sc_hash *a, const struct sc_hash *b);
void sc_hash_text(const struct sc_hash *hash, char ret_text[2 * SC_HASH_LEN + 1]);
bool sc_hash_parse(struct sc_span text, struct sc_hash *ret_hash);

enum sc_ext_kind { SC_EXT_ANCHOR = 1, SC_EXT_SOURCE = 2, SC_EXT_PRODUCER = 3, SC_EXT_SCHEMA = 4 };

/* The first block of each journal: what came before it. */
struct sc_anchor {
	struct sc_span stream_id;
	uint64_t rows, bytes;    /* of all rows ever appended before this journal */
	uint64_t prev_journal;   /* first offset (name) of the journal before; 0 = none */
	uint64_t prev_end;       /* where its last block ends */
};
struct sc_producer {
	uint64_t epoch;
	uint64_t seq_first, seq_last; /* of its last commit */
	uint64_t first, last;         /* the offsets it got */
	uint64_t commit;
};
/* The schema in force, in a log whose schema was changed: behind each anchor, and in the first
 * commit under it. */
struct sc_schema_mark {
	uint64_t version, from;  /* counted from 1; the first offset that is checked by it */
	struct sc_span text;     /* published form; empty = none */
};
struct sc_ext {
	int kind;
	struct sc_span name;      /* source or producer */
	struct sc_schema_mark schema;
	uint64_t source_offset;
	struct sc_producer producer;
	struct sc_anchor anchor;
};
int sc_ext_put_anchor(struct sc_bytes *out, const struct sc_anchor *anchor);
int sc_ext_put_source(struct sc_bytes *out, struct sc_span name, uint64_t offset);
int sc_ext_put_producer(struct sc_bytes *out, struct sc_span name,
		const struct sc_producer *producer);
int sc_ext_put_schema(struct sc_bytes *out, const struct sc_schema_mark *mark);
/* Take the next extension off *REST; false at the end. Kinds that are not known are skipped. */
bool sc_ext_next(struct sc_span *rest, struct sc_ext *ret_ext);

#endif
