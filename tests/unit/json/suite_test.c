/*
 * Goal: the scanner decides every JSONTestSuite file as RFC 8259 demands. Method: scan each file,
 * as it is and again from memory that ends exactly behind it (so that a read past the end is seen
 * by a sanitizer). SC_JSONTESTSUITE names the folder; the default is right from the top of the
 * source tree.
 */
#include <dirent.h>

#include "base/bytes.h"
#include "base/file.h"
#include "json/scan.h"
#include "../check.h"

/* The files that may go either way, and which way they go here. */
static const struct {
	const char *name;
	bool accepted;
	const char *why;
} either[] = {
	{ "i_number_double_huge_neg_exp.json", true, "numbers are digits, not doubles" },
	{ "i_number_huge_exp.json", true, "" },
	{ "i_number_neg_int_huge_exp.json", true, "" },
	{ "i_number_pos_double_huge_exp.json", true, "" },
	{ "i_number_real_neg_overflow.json", true, "" },
	{ "i_number_real_pos_overflow.json", true, "" },
	{ "i_number_real_underflow.json", true, "" },
	{ "i_number_too_big_neg_int.json", true, "" },
	{ "i_number_too_big_pos_int.json", true, "" },
	{ "i_number_very_big_negative_int.json", true, "" },
	{ "i_object_key_lone_2nd_surrogate.json", false, "an unpaired surrogate is no character" },
	{ "i_string_1st_surrogate_but_2nd_missing.json", false, "" },
	{ "i_string_1st_valid_surrogate_2nd_invalid.json", false, "" },
	{ "i_string_UTF-16LE_with_BOM.json", false, "the encoding is UTF-8" },
	{ "i_string_UTF-8_invalid_sequence.json", false, "invalid UTF-8" },
	{ "i_string_UTF8_surrogate_U+D800.json", false, "invalid UTF-8" },
	{ "i_string_incomplete_surrogate_and_escape_valid.json", false, "an unpaired surrogate" },
	{ "i_string_incomplete_surrogate_pair.json", false, "" },
	{ "i_string_incomplete_surrogates_escape_valid.json", false, "" },
	{ "i_string_invalid_lonely_surrogate.json", false, "" },
	{ "i_string_invalid_surrogate.json", false, "" },
	{ "i_string_invalid_utf-8.json", false, "invalid UTF-8" },
	{ "i_string_inverted_surrogates_U+1D11E.json", false, "an unpaired surrogate" },
	{ "i_string_iso_latin_1.json", false, "invalid UTF-8" },
	{ "i_string_lone_second_surrogate.json", false, "an unpaired surrogate" },
	{ "i_string_lone_utf8_continuation_byte.json", false, "invalid UTF-8" },
	{ "i_string_not_in_unicode_range.json", false, "" },
	{ "i_string_overlong_sequence_2_bytes.json", false, "" },
	{ "i_string_overlong_sequence_6_bytes.json", false, "" },
	{ "i_string_overlong_sequence_6_bytes_null.json", false, "" },
	{ "i_string_truncated-utf-8.json", false, "" },
	{ "i_string_utf16BE_no_BOM.json", false, "the encoding is UTF-8" },
	{ "i_string_utf16LE_no_BOM.json", false, "" },
	{ "i_structure_500_nested_arrays.json", true, "512 levels are allowed" },
	{ "i_structure_UTF-8_BOM_empty_object.json", false,
	  "a byte order mark is not white space" },
};

static bool wanted(const char *name)
{
	if (name[0] != 'i')
		return name[0] == 'y';
	for (size_t i = 0; i < sizeof(either) / sizeof(either[0]); i++) {
		if (strcmp(either[i].name, name) == 0)
			return either[i].accepted;
	}
	FAIL("'%s' is not in the table", name);
}

static bool accepted(struct sc_span text, struct sc_err *err)
{
	char *tight = malloc(text.len ? text.len : 1);
	struct sc_json value, again;
	int rc = sc_json_scan(text, &value, err), rc_tight;

	if (text.len)
		memcpy(tight, text.data, text.len);
	rc_tight = sc_json_scan(sc_span(tight, text.len), &again, NULL);
	free(tight);
	CHECK_INT(rc, rc_tight);
	return rc == 0;
}

TEST(every_file_is_decided)
{
	const char *folder = getenv("SC_JSONTESTSUITE");
	struct sc_bytes text;
	struct sc_err err = { 0 };
	struct dirent *entry;
	int seen = 0, wrong = 0;
	DIR *dir;

	if (!folder)
		folder = "tests/jsontestsuite/test_parsing";
	dir = opendir(folder);
	CHECK(dir);
	sc_bytes_init(&text, 1 << 20);
	while ((entry = readdir(dir))) {
		char path[512];

		if (!strstr(entry->d_name, ".json"))
			continue;
		snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
		CHECK_OK(sc_read_file(path, &text, &err), &err);
		seen++;
		if (accepted(sc_span(text.data, text.len), &err) != wanted(entry->d_name)) {
			printf("%s: wrong; %s\n", entry->d_name, err.reason);
			wrong++;
		}
	}
	closedir(dir);
	sc_bytes_done(&text);
	CHECK_INT(seen, 318);
	CHECK_INT(wrong, 0);
}
