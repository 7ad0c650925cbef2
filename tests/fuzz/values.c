/*
 * Goal: no text in an options file, the environment or an argument breaks the readers of words and
 * values. Method: the input is split into words; each word is read as every kind of value. What is
 * taken must be in range.
 */
#include <stdlib.h>
#include <string.h>

#include "base/parse.h"
#include "base/words.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_word(const char *word)
{
	struct sc_err err = { 0 };
	char line[1200];
	uint64_t bytes;
	int64_t ms, us;
	double factor;

	if (sc_parse_size(word, &bytes, &err) < 0 && (err.code != SC_E_USAGE || !err.next[0]))
		abort();
	if (sc_parse_duration(word, &ms, &err) == 0 && (ms < 0 || ms > INT64_MAX / 1000))
		abort();
	if (sc_parse_time(word, 1796000000000000, &us, &err) < 0)
		sc_err_line(&err, line, sizeof(line));
	if (sc_parse_factor(word, &factor, &err) == 0 && !(factor > 0))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sc_err err = { 0 };
	char **words;
	size_t count;

	if (sc_words_split(sc_span((const char *)data, size), &words, &count, &err) < 0)
		return 0;
	for (size_t i = 0; i < count; i++)
		read_word(words[i]);
	if (words[count])
		abort();
	sc_words_free(words);
	return 0;
}
