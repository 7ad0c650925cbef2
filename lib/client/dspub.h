/*
 * client/dspub.h: publish lines to a stream of a Durable Streams server over HTTP, over any number
 * of connections.
 *
 * Owns      everything it opens, until sc_dspub_run returns.
 * Units     lines of input count from 1; positions as client/dsread.h.
 * Errors    those of the connection, of client/dspost.h, of client/pubrow.h, of sc_ds_status_err;
 *           SC_E_IO and SC_E_BUSY of the state file.
 * Safety    runs a loop of its own in the caller's thread; blocks INT and TERM for the process.
 * Source    man/sc-pub.1, "DURABLE STREAMS".
 */
#ifndef SC_CLIENT_DSPUB_H
#define SC_CLIENT_DSPUB_H

#include "client/publication.h"

/* Stream-Seq: each request says the number of its last row, and the server stores none that is not
 * above what was said before. A row that is refused so: */
enum sc_dspub_seq {
	SC_DSPUB_SEQ_NONE, /* it is not said */
	SC_DSPUB_SEQ_END,  /* ends it: SC_E_REFUSED */
	SC_DSPUB_SEQ_SKIP, /* is there already, and skipped */
};

struct sc_dspub_options {
	const struct sc_publication_options *common; /* without window and ask */
	const char *create;     /* make the stream, of this content type, if it is not there; or NULL */
	bool close;             /* close it when all is stored */
	const char *state;      /* file in which a producer's state is kept; or NULL */
	enum sc_dspub_seq seq;  /* with a producer not SKIP */
};

int sc_dspub_run(const struct sc_dspub_options *options, struct sc_publication_result *ret_result,
		 struct sc_err *err);
/* The number of the last row that is known to be stored, as a state file says it; 0 without one. */
int sc_dspub_last(const char *state, const char *producer, uint64_t *ret_number,
		struct sc_err *err);

#endif
