/* msg/ulid.c: ULIDs. */
#include <string.h>

#include "base/clock.h"
#include "msg/ulid.h"

static const char letters[] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";

static uint64_t time_of(const struct sc_ulid *ulid)
{
	uint64_t ms = 0;

	for (int i = 0; i < 6; i++)
		ms = ms << 8 | ulid->bytes[i];
	return ms;
}

struct sc_ulid sc_ulid_make(struct sc_ulid_maker *maker, int64_t wall_ms)
{
	uint64_t ms = wall_ms < 0 ? 0 : (uint64_t)wall_ms & 0xffffffffffff;
	struct sc_ulid *u = &maker->last;

	if (ms > time_of(u)) {
		for (int i = 0; i < 6; i++)
			u->bytes[i] = (unsigned char)(ms >> 8 * (5 - i));
		sc_random(u->bytes + 6, SC_ULID_BYTES - 6);
		return *u;
	}
	/* a carry out of the random part goes into the time: still larger */
	for (int i = SC_ULID_BYTES - 1; i >= 0 && ++u->bytes[i] == 0; i--)
		;
	return *u;
}

void sc_ulid_text(const struct sc_ulid *ulid, char ret_text[SC_ULID_TEXT])
{
	/* 130 bits in 26 letters: the two highest are zero */
	for (int i = 0; i < 26; i++) {
		unsigned value = 0;

		for (int bit = i * 5 - 2; bit < i * 5 + 3; bit++) {
			unsigned one = bit < 0 ? 0 : ulid->bytes[bit / 8] >> (7 - bit % 8) & 1;

			value = value << 1 | one;
		}
		ret_text[i] = letters[value];
	}
	ret_text[26] = '\0';
}

static int value_of(char c)
{
	const char *at;

	if (c >= 'a' && c <= 'z')
		c = (char)(c - 'a' + 'A');
	at = c ? strchr(letters, c) : NULL;
	return at ? (int)(at - letters) : -1;
}

bool sc_ulid_parse(struct sc_span text, struct sc_ulid *ret_ulid)
{
	struct sc_ulid ulid = { { 0 } };

	if (text.len != 26)
		return false;
	for (int i = 0; i < 26; i++) {
		int value = value_of(text.data[i]);

		if (value < 0 || (i == 0 && value > 7))
			return false;
		for (int b = 0; b < 5; b++) {
			int bit = i * 5 - 2 + b;

			if (bit >= 0 && value >> (4 - b) & 1)
				ulid.bytes[bit / 8] |= (unsigned char)(0x80 >> bit % 8);
		}
	}
	*ret_ulid = ulid;
	return true;
}
