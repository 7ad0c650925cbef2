/* base/words.c: text into words, with a shell's quoting. */
#include "base/words.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/file.h"

/* Where the reader is, and where the words go: a pointer each in front, their bytes behind. */
struct split {
	const char *at, *end;
	unsigned line;
	char **words;
	size_t count;
	char *out;
};

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static char take(struct split *s)
{
	if (*s->at == '\n')
		s->line++;
	return *s->at++;
}

/* In front of a word, or at the end. */
static void skip(struct split *s)
{
	while (s->at < s->end) {
		if (is_blank(*s->at)) {
			take(s);
		} else if (*s->at == '#') {
			while (s->at < s->end && *s->at != '\n')
				s->at++;
		} else if (*s->at == '\\' && s->end - s->at >= 2 && s->at[1] == '\n') {
			take(s);
			take(s);
		} else {
			return;
		}
	}
}

/* Behind an opening QUOTE, up to the closing one; false when there is none. */
static bool quoted(struct split *s, char quote)
{
	while (s->at < s->end) {
		char c = take(s);

		if (c == quote)
			return true;
		if (quote == '"' && c == '\\' && s->at < s->end && memchr("\\\"$`\n", *s->at, 5)) {
			c = take(s);
			if (c == '\n')
				continue;
		}
		*s->out++ = c;
	}
	return false;
}

static int word(struct split *s, struct sc_err *err)
{
	s->words[s->count++] = s->out;
	while (s->at < s->end && !is_blank(*s->at)) {
		unsigned line = s->line;
		char c = take(s);

		if (c == '\'' || c == '"') {
			if (!quoted(s, c))
				return sc_err_set(err, SC_E_USAGE, "cannot read the words",
						  "the quote %c opened in line %u is never closed",
						  c, line);
			continue;
		}
		if (c == '\\' && s->at < s->end) {
			c = take(s);
			if (c == '\n')
				continue;
		}
		*s->out++ = c;
	}
	*s->out++ = '\0';
	return 0;
}

int sc_words_split(struct sc_span text, char ***ret_words, size_t *ret_count, struct sc_err *err)
{
	struct split s = { .at = text.data, .end = text.data + text.len, .line = 1 };
	size_t pointers = text.len / 2 + 2; /* a word and its blank take two bytes at least */
	int rc;

	if (text.len && memchr(text.data, '\0', text.len))
		return sc_err_set(err, SC_E_USAGE, "cannot read the words",
				  "there is a NUL byte in the text");
	if (text.len > SIZE_MAX / 32)
		return sc_err_nomem(err, "cannot read the words");
	s.words = sc_malloc(pointers * sizeof(*s.words) + text.len + 2);
	if (!s.words)
		return sc_err_nomem(err, "cannot read the words");
	s.out = (char *)(s.words + pointers);
	for (skip(&s); s.at < s.end; skip(&s)) {
		rc = word(&s, err);
		if (rc < 0) {
			free(s.words);
			return rc;
		}
	}
	s.words[s.count] = NULL;
	*ret_words = s.words;
	*ret_count = s.count;
	return 0;
}

void sc_words_free(char **words)
{
	free(words);
}
