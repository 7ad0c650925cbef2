/* base/usage_man.c: the parts of a man page that come from the option tables, as mdoc(7). */
#include "base/usage.h"

#include <ctype.h>
#include <string.h>

/* Text on its own line: no request at its start, no escape in it. */
static void text_line(FILE *out, const char *text)
{
	bool starts = true; /* a word, where "--x" is an option and "-" no hyphen */

	if (*text == '.' || *text == '\'')
		fputs("\\&", out);
	for (; *text; text++) {
		if (*text == '-' && starts) {
			fputs("\\-", out);
			continue;
		}
		starts = strchr(" (\n'", *text) != NULL;
		if (*text == '\\')
			fputs("\\e", out);
		else if (*text == '\n')
			fputc(' ', out);
		else
			fputc(*text, out);
	}
	fputc('\n', out);
}

/* A macro's argument: a word that would be a macro itself, or punctuation, is told apart. */
static void argument(FILE *out, const char *text)
{
	size_t len = strlen(text);
	bool macro = (len == 2 || len == 3) && isupper((unsigned char)text[0]) &&
		     islower((unsigned char)text[1]);
	bool quoted = strpbrk(text, " \t\"") != NULL;

	if (quoted)
		fputc('"', out);
	if (macro || (len == 1 && ispunct((unsigned char)*text)))
		fputs("\\&", out);
	for (; *text; text++) {
		if (*text == '\\')
			fputs("\\e", out);
		else if (*text == '-')
			fputs("\\-", out);
		else if (*text == '"')
			fputs("\"\"", out);
		else
			fputc(*text, out);
	}
	if (quoted)
		fputc('"', out);
}

/* Sentences: a capital first, a full stop last. */
static void sentence(FILE *out, const char *text)
{
	char copy[1100];

	snprintf(copy, sizeof(copy), "%s.", text);
	copy[0] = (char)toupper((unsigned char)copy[0]);
	text_line(out, copy);
}

static void option(FILE *out, const struct sc_opt *o)
{
	char arg[80] = "", text[1024];

	if (sc_opt_has_value(o))
		sc_usage_arg(o, arg, sizeof(arg));
	fputs(".It ", out);
	if (o->letter)
		fprintf(out, "Fl %c , ", o->letter);
	fputs("Fl \\-", out);
	argument(out, o->name);
	if (*arg) {
		fputs(o->bare ? " Op Ar " : " Ar ", out);
		argument(out, arg);
	}
	fputc('\n', out);
	sc_usage_text(o, text, sizeof(text));
	sentence(out, text);
}

void sc_usage_man_options(FILE *out, const struct sc_usage *u, int verb)
{
	const struct sc_opt *table = verb < 0 ? u->common : u->tables[verb];
	bool in_list = false;

	for (const struct sc_opt *o = table; o->name; o++) {
		/* A named verb's block leaves the common options to the program's own. */
		if (verb >= 0 && u->program->verbs[verb].name && o->kind == SC_OPT_TITLE &&
		    strcmp(o->name, u->common->name) == 0)
			break;
		if (o->hidden)
			continue;
		if (o->kind == SC_OPT_TITLE) {
			if (in_list)
				fputs(".El\n", out);
			in_list = false;
			if (o != table)
				fputs(".Pp\n", out);
			fputs(".Sy ", out);
			fprintf(out, "\"%s\"\n", o->name);
			continue;
		}
		if (!in_list)
			fputs(".Bl -tag -width Ds\n", out);
		in_list = true;
		option(out, o);
	}
	if (in_list)
		fputs(".El\n", out);
	else if (verb >= 0)
		fputs("None besides the common ones.\n", out);
}

static void status(FILE *out, const struct sc_usage *u, int number)
{
	fprintf(out, ".It %d\n", number);
	sentence(out, sc_usage_status(u->program, number));
}

void sc_usage_man_statuses(FILE *out, const struct sc_usage *u)
{
	const int *s;

	fputs(".Bl -tag -width 128+n\n", out);
	status(out, u, 0);
	for (s = u->program->statuses; s && *s; s++)
		if (*s < 64)
			status(out, u, *s);
	status(out, u, 64);
	for (s = u->program->statuses; s && *s; s++)
		if (*s > 64)
			status(out, u, *s);
	fputs(".It 128+n\nEnded by signal n.\n.El\n", out);
}
