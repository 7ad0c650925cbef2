/*
 * store/xml.h: the XML of S3's answers, read strictly, in one pass.
 *
 * Owns      the text of the element at hand, until the next call; names are spans of the input, which outlives the reader.
 * Units     sizes in bytes.
 * Errors    SC_E_PROTOCOL: not well formed, nested deeper than SC_XML_DEPTH, a text longer than SC_XML_TEXT, or a document type
 *           (which S3 never sends, and which is how XML is made to hurt).
 * Safety    any bytes; time and memory are bounded by the input. One thread a reader.
 * Source    XML 1.0 (fifth edition), without document types; namespaces: a prefix is dropped from names.
 */
#ifndef SC_STORE_XML_H
#define SC_STORE_XML_H

#include "base/bytes.h"
#include "base/err.h"

#define SC_XML_DEPTH 16
#define SC_XML_TEXT 65536

enum sc_xml_kind { SC_XML_END_OF_DOCUMENT, SC_XML_START, SC_XML_END };

struct sc_xml {
	const char *at, *end;
	struct sc_span open[SC_XML_DEPTH]; /* names as written, prefix and all */
	int depth;                         /* of the element that began or ended: 1 is the root */
	struct sc_span name;               /* its name, without a prefix */
	struct sc_bytes text;              /* at SC_XML_END: the characters directly before the end tag, since the last tag */
	bool seen_root, leave, empty;      /* leave, empty: what the next call does first */
};

void sc_xml_init(struct sc_xml *xml, struct sc_span input);
void sc_xml_done(struct sc_xml *xml);
/* An enum sc_xml_kind, or negative. */
int sc_xml_next(struct sc_xml *xml, struct sc_err *err);

#endif
