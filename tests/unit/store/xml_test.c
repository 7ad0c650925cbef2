/* Goal: S3's XML is read to the letter, and nothing else. Method: documents against what they mean, and malformed ones. */
#include "store/xml.h"

#include "../check.h"

/* "START NAME DEPTH;END NAME DEPTH TEXT;...", or "ERROR". */
static const char *events(const char *text, size_t len)
{
	static char out[4096];
	struct sc_xml xml;
	size_t at = 0;
	int kind;

	out[0] = 0;
	sc_xml_init(&xml, sc_span(text, len));
	while ((kind = sc_xml_next(&xml, NULL)) > 0) {
		int n = snprintf(out + at, sizeof(out) - at, "%c%.*s%d%s%.*s;",
				 kind == SC_XML_START ? '+' : '-', (int)xml.name.len, xml.name.data,
				 xml.depth, kind == SC_XML_END && xml.text.len ? "=" : "",
				 kind == SC_XML_END ? (int)xml.text.len : 0,
				 xml.text.data ? xml.text.data : "");

		at += (size_t)n < sizeof(out) - at ? (size_t)n : 0;
	}
	sc_xml_done(&xml);
	return kind < 0 ? "ERROR" : out;
}

#define READS(TEXT, WANT) CHECK_STR(events(TEXT, sizeof(TEXT) - 1), WANT)

TEST(reads_what_s3_sends)
{
	READS("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>SlowDown</Code>\n "
	      "<Message>a &lt;b&gt; &#38; "
	      "&#x26;&quot;&apos;</Message><Empty/></Error>\n",
	      "+Error1;+Code2;-Code2=SlowDown;+Message2;-Message2=a <b> & "
	      "&\"';+Empty2;-Empty2;-Error1;");
	READS("<a xmlns='x' b = \"1>2\" ><!-- <no> --><s:b x='\"'/><![CDATA[<c>&amp;]]></a >",
	      "+a1;+b2;-b2;-a1=<c>&amp;;");
	READS("\xef\xbb\xbf<a>\xc3\xa9&#233;&#x1d11e;</a>",
	      "+a1;-a1=\xc3\xa9\xc3\xa9\xf0\x9d\x84\x9e;");
}

TEST(refuses_what_is_not_well_formed)
{
	static const char *const wrong[] = {
		"",
		" ",
		"text",
		"<a>",
		"<a></b>",
		"<a><b></a></b>",
		"</a>",
		"<a/><b/>",
		"<a/>text",
		"<a>&nbsp;</a>",
		"<a>&#0;</a>",
		"<a>&#xd800;</a>",
		"<a>&#x110000;</a>",
		"<a>&#;</a>",
		"<a>&#x;</a>",
		"<a>&#99999999999;</a>",
		"<a>&lt</a>",
		"<a>& </a>",
		"<a b/>",
		"<a b=c/>",
		"<a b='c/>",
		"<a b='<'/>",
		"<1/>",
		"< a/>",
		"<a",
		"<a ",
		"<a/",
		"<!DOCTYPE a><a/>",
		"<a><!-- </a>",
		"<a><![CDATA[</a>",
		"<![CDATA[x]]>",
		"<a>\x01</a>",
		"<?xml <a/>",
		"<a>]",
		"<a></a",
		"<a></a x>",
	};

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		if (strcmp(events(wrong[i], strlen(wrong[i])), "ERROR") != 0)
			FAIL("taken: %s", wrong[i]);
	READS("<a>\0</a>", "ERROR");
	/* 16 deep is taken, 17 is not */
	READS("<a><b><c><d><e><f><g><h><i><j><k><l><m><n><o><p><q/>", "ERROR");
	CHECK(strcmp(events("<a><a><a><a><a><a><a><a><a><a><a><a><a><a><a><a/></a></a></a></a></"
			    "a></a></a></a></a></a></a>"
			    "</a></a></a></a>",
			    15 * 3 + 4 + 15 * 4),
		     "ERROR"));
}

TEST(a_text_has_a_limit)
{
	char *text = malloc(SC_XML_TEXT + 8);

	CHECK(text);
	memset(text, 'x', SC_XML_TEXT + 8);
	memcpy(text, "<a>", 3);
	memcpy(text + SC_XML_TEXT + 3, "</a>", 4);
	CHECK(strcmp(events(text, SC_XML_TEXT + 7), "ERROR") != 0);
	memcpy(text + SC_XML_TEXT + 3, "x</a>", 5);
	CHECK_STR(events(text, SC_XML_TEXT + 8), "ERROR");
	free(text);
}
