/*
 * The sources of settings: the file, then the environment, then the flags. Each source overrides
 * the previous ones, so the last source that names a setting takes precedence. Every error names
 * the source: file and line, variable, or flag.
 */
#include "config/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/ascii.h"
#include "base/mem.h"
#include "base/suggest.h"

enum { ENV_NAME_MAX = 64, ITEMS_MAX = 128 };

/* The settings that this source has set already: the first value of a source replaces a list, its
 * further values are added. */
struct named {
    bool items[ITEMS_MAX];
};

/* Whether the source names the setting for the first time: then a list is replaced, otherwise
 * extended. */
static bool is_first_use(struct named *named, const struct config_item *item)
{
    size_t index = (size_t)(item - config_items);
    ASSERT(config_item_count <= ITEMS_MAX && index < config_item_count);
    bool is_first = !named->items[index];
    named->items[index] = true;
    return is_first;
}

/* ---- the file ---- */

struct source_file {
    const char *path;
    bool is_open_to_others;
};

static int line_set(struct config *config, const struct source_file *source, struct named *named,
                    slice line, struct err *err)
{
    if (slice_find_char(line, '=') < 0)
        return err_set(err, ERR_SYNTAX, "expected name = value");
    slice name = slice_trim(slice_split(&line, '='));
    const struct config_item *item = config_item_find(name);
    if (!item) {
        struct suggest suggest;
        suggest_begin(&suggest, name);
        for (size_t i = 0; i < config_item_count; i++)
            suggest_offer(&suggest, slice_cstr(config_items[i].name));
        return err_set(err, ERR_NOTFOUND, "there is no setting \"%.*s\"%s%.*s%s", SLICE_ARG(name),
                       suggest.best.len ? "; did you mean " : "; `sluice serve --help` lists them",
                       SLICE_ARG(suggest.best), suggest.best.len ? "?" : "");
    }
    /* Only for secrets: other settings may be readable by everyone. */
    if (item->kind == CONFIG_SECRET && source->is_open_to_others)
        return err_set(err, ERR_REFUSED,
                       "%s is a secret, and others may read this file: chmod o= %s", item->name,
                       source->path);
    return config_item_set(config, item, slice_trim(line), is_first_use(named, item), err);
}

/* Reads lines of the form `name = value`; # begins a comment line; white space around name and
 * value is ignored. */
static int lines_read(struct config *config, const struct source_file *source, slice text,
                      struct err *err)
{
    struct named named = {.items = {false}};
    for (unsigned number = 1; text.len > 0; number++) {
        slice line = slice_split(&text, '\n');
        /* Files from Windows end lines with CR LF. */
        if (line.len > 0 && line.ptr[line.len - 1] == '\r')
            line.len--;
        line = slice_trim(line);
        if (line.len == 0 || line.ptr[0] == '#')
            continue;
        if (line_set(config, source, &named, line, err) != OK)
            return err_prefix(err, "%s line %u", source->path, number);
    }
    return OK;
}

int config_file_read(struct config *config, const char *path, struct err *err)
{
    FILE *file = fopen(path, "re");
    struct stat info;
    if (!file)
        return err_set(err, ERR_IO, "cannot open the configuration file %s: %s", path,
                       strerror(errno));
    int result = OK;
    char *text = mem_alloc(CONFIG_FILE_BYTES_MAX);
    if (!text) {
        result = err_set(err, ERR_NOMEM, "out of memory reading %s", path);
        goto out;
    }
    size_t len = fread(text, 1, CONFIG_FILE_BYTES_MAX, file);
    if (ferror(file) || fstat(fileno(file), &info) != 0)
        result = err_set(err, ERR_IO, "cannot read the configuration file %s: %s", path,
                         strerror(errno));
    /* The buffer is full, so there may be more. */
    else if (len == CONFIG_FILE_BYTES_MAX)
        result = err_set(err, ERR_LIMIT, "the configuration file %s is larger than %d bytes", path,
                         CONFIG_FILE_BYTES_MAX - 1);
    else
        result = lines_read(config, &(struct source_file){path, (info.st_mode & S_IRWXO) != 0},
                            slice_of(text, len), err);
    /* The text may contain secrets. */
    mem_wipe(text, CONFIG_FILE_BYTES_MAX);
out:
    mem_free(text);
    (void)fclose(file);
    return result;
}

/* ---- the environment ---- */

static const char *variable(const struct config_item *item, char name[ENV_NAME_MAX])
{
    size_t len = (size_t)snprintf(name, ENV_NAME_MAX, "SLUICE_%s", item->name);
    ASSERT(len < ENV_NAME_MAX);
    for (char *c = name; *c; c++)
        *c = *c == '-' ? '_' : ascii_upper(*c);
    const char *value = getenv(name);
    /* An empty variable counts as unset, so that a container can clear one. */
    if (value && value[0])
        return value;
    /* Most platforms set DATABASE_URL; SLUICE_DATABASE_URL takes precedence. */
    if (item->offset != offsetof(struct config, database_url))
        return NULL;
    (void)snprintf(name, ENV_NAME_MAX, "DATABASE_URL");
    return getenv(name);
}

static int environment_read(struct config *config, unsigned scopes, struct err *err)
{
    for (size_t i = 0; i < config_item_count; i++) {
        const struct config_item *item = &config_items[i];
        char name[ENV_NAME_MAX];
        /* Settings of other commands are ignored: one environment serves all. */
        const char *value = item->scopes & scopes ? variable(item, name) : NULL;
        if (!value || !value[0])
            continue;
        if (config_item_set(config, item, slice_cstr(value), true, err) != OK)
            return err_prefix(err, "environment variable %s", name);
    }
    return OK;
}

/* ---- the flags ---- */

static int unknown_flag(const struct config_args *args, slice name, struct err *err)
{
    struct suggest suggest;
    suggest_begin(&suggest, name);
    /* The command's own options and its settings are both candidates. */
    for (size_t i = 0; i < args->option_count; i++)
        suggest_offer(&suggest, slice_cstr(args->options[i].name));
    for (size_t i = 0; i < config_item_count; i++)
        if (config_items[i].scopes & args->scopes)
            suggest_offer(&suggest, slice_cstr(config_items[i].name));
    if (suggest.best.len == 0)
        return err_set(err, ERR_NOTFOUND, "there is no flag --%.*s", SLICE_ARG(name));
    return err_set(err, ERR_NOTFOUND, "there is no flag --%.*s; did you mean --%.*s?",
                   SLICE_ARG(name), SLICE_ARG(suggest.best));
}

struct flag {
    slice name;
    slice value;    /* ptr NULL: none yet */
    char *wipeable; /* the value in argv */
};

static struct flag flag_split(char *text)
{
    struct flag flag = {.name = slice_cstr(text + 2)};
    ptrdiff_t equals = slice_find_char(flag.name, '=');
    if (equals < 0)
        return flag;
    /* Kept writable: a secret is overwritten in argv after it was read. */
    flag.wipeable = text + 2 + equals + 1;
    flag.value = slice_cstr(flag.wipeable);
    flag.name = slice_first(flag.name, (size_t)equals);
    return flag;
}

/* The value follows '=', or is the next argument. */
static int flag_value(struct config_args *args, int *index, struct flag *flag, struct err *err)
{
    if (flag->value.ptr)
        return OK;
    if (*index + 1 >= args->argc)
        return err_set(err, ERR_INVALID, "--%.*s needs a value", SLICE_ARG(flag->name));
    flag->wipeable = args->argv[++*index];
    flag->value = slice_cstr(flag->wipeable);
    return OK;
}

/* Returns true if it is one of the command's own options; *result says whether its value is
 * valid. */
static bool option_read(struct config_args *args, int *index, struct flag *flag, int *result,
                        struct err *err)
{
    for (size_t i = 0; i < args->option_count; i++) {
        if (!slice_eq_cstr(flag->name, args->options[i].name))
            continue;
        if (args->options[i].value_name)
            *result = flag_value(args, index, flag, err);
        else if (flag->value.ptr)
            *result = err_set(err, ERR_INVALID, "--%s takes no value", args->options[i].name);
        else
            flag->value = SLICE("");
        args->values[i] = flag->value;
        return true;
    }
    return false;
}

static int flag_read(struct config *config, struct config_args *args, struct named *named,
                     int *index, struct err *err)
{
    struct flag flag = flag_split(args->argv[*index]);
    int result = OK;
    if (option_read(args, index, &flag, &result, err))
        return result;
    bool is_file = slice_eq_cstr(flag.name, "config");
    const struct config_item *item = is_file ? NULL : config_item_find(flag.name);
    if (!is_file && (!item || !(item->scopes & args->scopes)))
        return unknown_flag(args, flag.name, err);
    if (flag_value(args, index, &flag, err) != OK)
        return (int)err->code;
    /* config_read has read the file already; here its flag is only skipped. */
    if (is_file)
        return OK;
    result = config_item_set(config, item, flag.value, is_first_use(named, item), err);
    if (result == OK && item->kind == CONFIG_SECRET)
        /* `ps` prints argv; the value is copied already. */
        memset(flag.wipeable, '*', flag.value.len);
    return result;
}

static int flags_read(struct config *config, struct config_args *args, struct err *err)
{
    struct named named = {.items = {false}};
    bool is_over = false;
    for (int i = 0; i < args->argc; i++) {
        char *text = args->argv[i];
        if (!is_over && strcmp(text, "--") == 0) {
            is_over = true;
            /* A single dash is an argument: it means stdin. */
        } else if (is_over || text[0] != '-' || text[1] == '\0') {
            args->argv[args->positional++] = text;
        } else if (text[1] != '-') {
            return err_set(err, ERR_NOTFOUND, "there is no flag %s; flags begin with two dashes",
                           text);
        } else if (flag_read(config, args, &named, &i, err) != OK) {
            return (int)err->code;
        }
    }
    return OK;
}

static const char *file_path(const struct config_args *args)
{
    const char *path = getenv("SLUICE_CONFIG");
    /* This flag is found before the others are read, since the file is the first source. */
    for (int i = 0; i < args->argc && strcmp(args->argv[i], "--") != 0; i++) {
        if (strncmp(args->argv[i], "--config=", 9) == 0)
            path = args->argv[i] + 9;
        else if (strcmp(args->argv[i], "--config") == 0 && i + 1 < args->argc)
            path = args->argv[i + 1];
    }
    return path && path[0] ? path : NULL;
}

int config_read(struct config *config, struct config_args *args, struct err *err)
{
    ASSERT(args->option_count <= CONFIG_OPTIONS_MAX);
    args->positional = 0;
    memset(args->values, 0, sizeof(args->values));
    const char *path = file_path(args);
    /* The order of these calls is the precedence of the sources, lowest first. */
    if (path && config_file_read(config, path, err) != OK)
        return (int)err->code;
    if (environment_read(config, args->scopes, err) != OK)
        return (int)err->code;
    return flags_read(config, args, err);
}
