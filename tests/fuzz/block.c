/*
 * tests/fuzz/block.c: any bytes as a journal: the walk stays inside them, and what it accepts is a
 * block that was sealed.
 *
 * The bytes are also sealed as a block's front and extensions, so that the decoders behind the hash
 * are reached.
 */
#include <stdint.h>
#include <stdlib.h>

#include "log/block.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void walk_exts(const char *block, const struct sc_block *b)
{
	struct sc_span rest = sc_span(block + SC_BLOCK_HEAD, b->ext_len);
	struct sc_ext ext;

	while (sc_ext_next(&rest, &ext)) {
		const char *end = ext.name.data + ext.name.len;

		if (ext.name.len > SC_NAME_MAX || ext.name.data < block + SC_BLOCK_HEAD ||
		    end > block + SC_BLOCK_HEAD + b->ext_len)
			abort();
		if (ext.kind == SC_EXT_SCHEMA &&
		    ext.schema.text.data + ext.schema.text.len > block + SC_BLOCK_HEAD + b->ext_len)
			abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sc_block b, again;
	char *copy = malloc(SC_BLOCK_HEAD + size);
	size_t at = 0;

	if (!copy)
		return 0;
	memcpy(copy, data, size);
	while (size - at >= SC_BLOCK_HEAD && sc_block_parse(copy + at, &b)) {
		if (sc_block_size(&b) > size - at || !sc_block_check(copy + at, &b))
			break;
		walk_exts(copy + at, &b);
		at += sc_block_size(&b);
	}
	memset(copy, 0, SC_BLOCK_HEAD);
	memcpy(copy + SC_BLOCK_HEAD, data, size);
	b = (struct sc_block){ .first = 1, .last = 0, .ext_len = (uint32_t)size };
	if (size <= SC_BLOCK_EXT_MAX) {
		sc_block_seal(copy, &b);
		if (!sc_block_parse(copy, &again) || !sc_block_check(copy, &again) ||
		    again.ext_len != size || again.last != 0)
			abort();
		walk_exts(copy, &again);
	}
	free(copy);
	return 0;
}
