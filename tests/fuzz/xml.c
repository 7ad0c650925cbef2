/* tests/fuzz/xml.c: XML of any bytes: nothing outside it is read, depth and text stay within their limits, and it ends. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "store/xml.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *copy = malloc(size ? size : 1); /* so that the sanitizer sees each byte too far */
	int64_t depth = 0, events = 0;
	struct sc_xml xml;
	int kind;

	if (!copy)
		abort();
	if (size)
		memcpy(copy, data, size);
	sc_xml_init(&xml, sc_span(copy, size));
	while ((kind = sc_xml_next(&xml, NULL)) > 0) {
		if (++events > (int64_t)size * 2)
			abort();
		if (kind == SC_XML_START)
			depth++;
		if (xml.depth != depth || depth < 1 || depth > SC_XML_DEPTH ||
		    xml.text.len > SC_XML_TEXT)
			abort();
		if (xml.name.len == 0 && memchr(copy, ':', size) == NULL)
			abort();
		if (xml.name.data < copy || xml.name.data + xml.name.len > copy + size)
			abort();
		if (kind == SC_XML_END)
			depth--;
	}
	if (kind == SC_XML_END_OF_DOCUMENT && (depth != 0 || events < 2))
		abort();
	sc_xml_done(&xml);
	free(copy);
	return 0;
}
