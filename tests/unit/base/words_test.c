/*
 * Goal: text parts into words as a shell would part it, without expansion; an open quote is named
 * with its line. Method: texts against the words joined with '|'.
 */
#include "base/words.h"

#include "../check.h"

static void check_words(const char *text, const char *want)
{
	char got[512] = "";
	struct sc_err err;
	size_t count, len = 0;
	char **words;

	/* Exactly the text, so that a sanitizer sees a read behind it. */
	char *copy = malloc(strlen(text) + 1);

	CHECK(copy != NULL);
	memcpy(copy, text, strlen(text));
	copy = realloc(copy, strlen(text) ? strlen(text) : 1);
	CHECK_OK(sc_words_split(sc_span(copy, strlen(text)), &words, &count, &err), &err);
	free(copy);
	CHECK(words[count] == NULL);
	for (size_t i = 0; i < count; i++)
		len += (size_t)snprintf(got + len, sizeof(got) - len, "%s|", words[i]);
	sc_words_free(words);
	if (strcmp(got, want))
		FAIL("<%s> gives <%s>, not <%s>", text, got, want);
}

TEST(blanks_part_words)
{
	check_words("", "");
	check_words("  \t\n ", "");
	check_words("a", "a|");
	check_words(" a  b\tc\nd\r\n", "a|b|c|d|");
	check_words("a b c d e f g", "a|b|c|d|e|f|g|");
}

TEST(quotes)
{
	check_words("'a b' \"c d\"", "a b|c d|");
	check_words("''", "|");
	check_words("'' \"\" ''", "|||");
	check_words("a'b'\"c\"d", "abcd|");
	check_words("'a\\b'", "a\\b|");
	check_words("\"a\\\"b\\\\c\\$d\\`e\\n\"", "a\"b\\c$d`e\\n|");
	check_words("'it'\\''s'", "it's|");
	check_words("\"two\nlines\"", "two\nlines|");
	check_words("$HOME `x` *", "$HOME|`x`|*|");
}

TEST(backslashes)
{
	check_words("a\\ b", "a b|");
	check_words("a\\\nb", "ab|");
	check_words("a \\\n b", "a|b|");
	check_words("\"a\\\nb\"", "ab|");
	check_words("\\'", "'|");
	check_words("\\\\", "\\|");
	check_words("a\\", "a\\|");
}

TEST(comments)
{
	check_words("# all of it", "");
	check_words("a # b\nc", "a|c|");
	check_words("a#b", "a#b|");
	check_words("'#' \\#", "#|#|");
}

TEST(an_open_quote_is_named)
{
	struct sc_err err;
	size_t count = 7;
	char **words = NULL;

	CHECK_INT(sc_words_split(SC_SPAN("a\nb 'c\nd"), &words, &count, &err), SC_E_USAGE);
	CHECK(strstr(err.reason, "line 2"));
	CHECK(words == NULL && count == 7);
	CHECK_INT(sc_words_split(SC_SPAN("\"a\\\""), &words, &count, &err), SC_E_USAGE);
	CHECK_INT(sc_words_split(SC_SPAN("a\0b"), &words, &count, &err), SC_E_USAGE);
}
