/*
 * The settings of a process. One list (settings.h) drives flags, environment, file and help:
 * a setting `drain-timeout` is the flag --drain-timeout, the variable SLUICE_DRAIN_TIMEOUT and the
 * key drain-timeout of the file. Precedence, lowest first: default, file, environment,
 * flag.
 */
#ifndef CONFIG_CONFIG_H
#define CONFIG_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/slice.h"
#include "config/settings.h"

enum {
    CONFIG_LIST_MAX = 64,    /* every built-in app may need an origin override */
    CONFIG_OPTIONS_MAX = 10, /* per command */
    CONFIG_FILE_BYTES_MAX = 256 * 1024,
};

struct config_list {
    slice items[CONFIG_LIST_MAX];
    size_t count;
};

/* The C type of each kind of setting. */
typedef slice config_TEXT, config_SECRET;
typedef uint64_t config_COUNT, config_MS, config_BYTES;
typedef struct config_list config_TEXTS;

struct config {
    struct arena arena; /* owns all texts */
#define CONFIG_MEMBER(member, name, kind, ...) config_##kind member;
    CONFIG_SETTINGS(CONFIG_MEMBER)
#undef CONFIG_MEMBER
};

/* The groups of commands that a setting belongs to. */
enum config_scope {
    CONFIG_SERVE = 1,
    CONFIG_DEV = 2,
    CONFIG_DATABASE = 4,  /* all commands that open the database */
    CONFIG_KEYRING = 8,   /* all that open credentials */
    CONFIG_CATALOG = 16,  /* all that read manifests */
    CONFIG_OUTBOUND = 32, /* all that call apps */
    CONFIG_EVENTS = 64,   /* all that change endpoints of events */
    CONFIG_SERVERS = CONFIG_SERVE | CONFIG_DEV,
};

enum config_kind {
    CONFIG_TEXT,
    CONFIG_SECRET, /* text whose value is never printed */
    CONFIG_COUNT,
    CONFIG_MS,    /* 500ms, 30s, 5m, 2h; a bare number is in seconds */
    CONFIG_BYTES, /* 65536, 64k, 8m */
    CONFIG_TEXTS, /* may be given several times; in environment and file, commas separate values */
};

struct config_item {
    const char *name;
    enum config_kind kind;
    unsigned scopes;
    size_t offset; /* offset in struct config */
    const char *default_text;
    uint64_t min, max; /* limits of a count, ms or bytes */
    const char *value_name, *help;
};

extern const struct config_item config_items[];
extern const size_t config_item_count;

/* A flag of one command that is not a setting: the file has no key and the environment no
 * variable for it. */
struct config_option {
    const char *name;
    const char *value_name; /* NULL: a switch */
    const char *help;
};

struct config_args {
    unsigned scopes;                     /* settings that may be given */
    const struct config_option *options; /* further flags; may be NULL */
    size_t option_count;                 /* at most CONFIG_OPTIONS_MAX */
    int argc;
    /* Positional arguments are moved to the front. The texts of CONFIG_SECRET flags are
     * overwritten, so that `ps` shows them only for a moment. */
    char **argv;
    /* out */
    int positional;
    slice values[CONFIG_OPTIONS_MAX]; /* values in the order of options; ptr NULL: not given; a
                                       * switch is empty */
};

/* Sets all settings to their defaults. */
int config_init(struct config *config, struct err *err) MUST_CHECK;
void config_deinit(struct config *config);
/* Reads the file of --config or SLUICE_CONFIG if given, then the environment, then the flags of
 * args->argv: `--name value` or `--name=value`; arguments after `--` are positional. An empty
 * variable counts as unset. A flag that is neither an option nor in scope is ERR_NOTFOUND; err
 * names the nearest one. A file with a secret that others may read is ERR_REFUSED. Call it once. */
int config_read(struct config *config, struct config_args *args, struct err *err) MUST_CHECK;
/* Reads the lines of a file over the settings read before; a secret that others may read is
 * ERR_REFUSED. */
int config_file_read(struct config *config, const char *path, struct err *err) MUST_CHECK;
/* Sets a setting by name, as a flag would; for tests and dev. A list is replaced. */
int config_set(struct config *config, slice name, slice value, struct err *err) MUST_CHECK;
/* As config_set, but adds values that a list (CONFIG_TEXTS) does not have yet. */
int config_add(struct config *config, slice name, slice value, struct err *err) MUST_CHECK;
/* Parses a duration: "90d", "30s", "500ms"; a bare number is in seconds. Returns false if the text
 * does not have this form. */
bool config_parse_ms(slice text, uint64_t *ms) MUST_CHECK;
/* help.c: prints the settings of these scopes, wrapped for a terminal. */
void config_print_help(FILE *out, unsigned scopes);
void config_print_options(FILE *out, const struct config_option *options, size_t count);
/* Prints the words of text, wrapped at 78 columns after an indent. */
void config_print_wrapped(FILE *out, int indent, const char *text);

#endif
