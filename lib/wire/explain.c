/* sc_refusal_err: a refusal in the words of a client. */
#include <stdio.h>

#include "wire/refusal.h"

/* A number, or "?" when the reason did not hold it. */
static const char *number(const struct sc_refusal *r, unsigned bit, uint64_t value,
			  char ret_text[24])
{
	if (r->has & bit)
		snprintf(ret_text, 24, "%llu", (unsigned long long)value);
	else
		snprintf(ret_text, 24, "?");
	return ret_text;
}

static void field(struct sc_err *err, const struct sc_refusal *r, unsigned bit, const char *name,
		  uint64_t value)
{
	if ((r->has & bit) && value <= INT64_MAX)
		sc_err_field_u64(err, name, value);
}

static int explain_why(const struct sc_refusal *r, const char *tried, struct sc_err *err)
{
	char a[24], b[24], c[24];
	int rc = SC_E_REFUSED;

	number(r, SC_HAS_OFFSET, r->offset, a);
	switch (r->why) {
	case SC_WHY_NOT_DURABLE:
		sc_err_set(err, rc, tried,
			   "the stream has no log, so no offset can be resumed (not_durable)");
		sc_err_next(err, "subscribe without an offset");
		break;
	case SC_WHY_EMPTY:
		sc_err_set(err, rc, tried, "the log holds no row yet (empty)");
		sc_err_next(err, "subscribe without an offset");
		break;
	case SC_WHY_EVICTED:
		sc_err_set(err, rc, tried,
			   "offset %s is no longer held, the earliest is %s (evicted)", a,
			   number(r, SC_HAS_EARLIEST, r->earliest, b));
		sc_err_next(err, "read the gap from the archive, or start at 'earliest' and accept "
				 "the loss");
		break;
	case SC_WHY_AHEAD:
		sc_err_set(err, rc, tried, "offset %s is above the end of the log at %s (ahead)", a,
			   number(r, SC_HAS_END, r->end_offset, b));
		sc_err_next(err, "see whether the log was made anew");
		break;
	case SC_WHY_TOO_OLD:
		sc_err_set(
			err, rc, tried,
			"offset %s is %s rows behind and the server replays at most %s (too_old)",
			a, number(r, SC_HAS_BEHIND, r->behind, b),
			number(r, SC_HAS_MAX_REPLAY, r->max_replay, c));
		sc_err_next(err, "read the gap from the archive, or start at 'earliest' and accept "
				 "the loss");
		break;
	default:
		sc_err_set(err, rc, tried, "the offset was refused%s%s", r->word[0] ? ": " : "",
			   r->word);
	}
	sc_err_field_str(err, "why", r->why ? sc_why_word(r->why) : r->word[0] ? r->word : "?");
	return rc;
}

int sc_refusal_err(const struct sc_refusal *r, const char *tried, struct sc_err *err)
{
	char a[24];
	int rc = SC_E_PROTOCOL;

	switch (r->kind) {
	case SC_REFUSAL_NOT_REPLAYABLE:
		rc = explain_why(r, tried, err);
		break;
	case SC_REFUSAL_NO_SUCH_STREAM:
		rc = sc_err_set(err, SC_E_NOLOG, tried, "the server has no stream of that name");
		if (r->detail[0])
			sc_err_next(err, "it serves: %s", r->detail);
		break;
	case SC_REFUSAL_TOO_SLOW:
		rc = sc_err_set(err, SC_E_BUSY, tried,
				"dropped as too slow: more than %s messages behind",
				number(r, SC_HAS_BACKLOG, r->backlog, a));
		sc_err_next(err, "connect again and resume after the last offset");
		break;
	case SC_REFUSAL_PUBLISH_DISABLED:
		rc = sc_err_set(err, SC_E_NOAUTH, tried, "the server takes no publishers");
		sc_err_next(err, "start it with --publish");
		break;
	case SC_REFUSAL_RETIRED:
		rc = sc_err_set(err, SC_E_REFUSED, tried, "the stream was retired");
		break;
	default:
		rc = sc_err_set(err, SC_E_PROTOCOL, tried, "the server refused the request%s%s",
				r->detail[0] ? ": " : "", r->detail);
	}
	if (r->kind != SC_REFUSAL_NONE)
		sc_err_field_str(err, "refusal", sc_refusal_word(r->kind));
	field(err, r, SC_HAS_OFFSET, "offset", r->offset);
	field(err, r, SC_HAS_END, "end_offset", r->end_offset);
	field(err, r, SC_HAS_EARLIEST, "earliest", r->earliest);
	field(err, r, SC_HAS_BEHIND, "behind", r->behind);
	field(err, r, SC_HAS_MAX_REPLAY, "max_replay", r->max_replay);
	field(err, r, SC_HAS_BACKLOG, "backlog", r->backlog);
	field(err, r, SC_HAS_RESUME, "resume", r->resume);
	return rc;
}
