/* chunks.c: the chunked coding. */
#include "net/chunks.h"

enum {
	SIZE,
	SIZE_BLANK,
	EXTENSION,
	SIZE_LF,
	DATA,
	DATA_CR,
	DATA_LF,
	TRAILER,
	TRAILER_LINE,
	TRAILER_LF,
	LAST_LF
};

static int hex(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = (char)(c | 0x20);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* A byte behind the digits: blanks, then an extension or the end of the line. */
static bool take_behind(struct sc_chunks *c, char byte)
{
	if (byte == '\r')
		c->state = SIZE_LF;
	else if (byte == ';')
		c->state = EXTENSION;
	else
		c->state = SIZE_BLANK;
	return c->state != SIZE_BLANK || byte == ' ' || byte == '\t';
}

/* A byte of a chunk's size. */
static bool take_size(struct sc_chunks *c, char byte)
{
	int digit = hex(byte);

	if (digit >= 0) {
		if (++c->digits > 16 || c->left >> 60)
			return false;
		c->left = c->left << 4 | (unsigned)digit;
		return true;
	}
	return c->digits > 0 && take_behind(c, byte);
}

static void end_size(struct sc_chunks *c)
{
	c->state = c->left ? DATA : TRAILER;
	if (c->left)
		c->overhead = 0;
	c->digits = 0;
	c->line = 0;
}

/* A byte that is no data. */
static bool take(struct sc_chunks *c, char byte)
{
	if (++c->line > SC_CHUNK_LINE_MAX || ++c->overhead > SC_CHUNK_TRAILERS_MAX)
		return false;
	switch (c->state) {
	case SIZE:
		return take_size(c, byte);
	case SIZE_BLANK:
		return take_behind(c, byte);
	case EXTENSION:
	case TRAILER_LINE:
		if (byte == '\r')
			c->state = c->state == EXTENSION ? SIZE_LF : TRAILER_LF;
		return byte != '\n' && byte != 0;
	case DATA_CR:
		c->state = DATA_LF;
		return byte == '\r';
	case DATA_LF:
		c->state = SIZE;
		c->line = 0;
		return byte == '\n';
	case TRAILER:
		c->state = byte == '\r' ? LAST_LF : TRAILER_LINE;
		return byte != '\n' && byte != 0;
	case TRAILER_LF:
		c->state = TRAILER;
		c->line = 0;
		return byte == '\n';
	case LAST_LF:
		c->done = true;
		return byte == '\n';
	default: /* SIZE_LF */
		end_size(c);
		return byte == '\n';
	}
}

int sc_chunks_next(struct sc_chunks *c, struct sc_span *input, struct sc_span *ret_data)
{
	while (input->len && !c->done) {
		if (c->state == DATA) {
			size_t len = input->len < c->left ? input->len : (size_t)c->left;

			*ret_data = sc_span(input->data, len);
			*input = sc_span(input->data + len, input->len - len);
			c->left -= len;
			if (c->left == 0)
				c->state = DATA_CR;
			return 1;
		}
		if (!take(c, input->data[0]))
			return -1;
		*input = sc_span(input->data + 1, input->len - 1);
	}
	return 0;
}
