/*
 * The command line.
 */
#include "load/options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

static const char help[] =
    "usage: sluice-bench --base URL [--scenario NAME[:WEIGHT][,...]] [options]\n"
    "\n"
    "Loads a sluice server and reports throughput and latencies.\n"
    "\n"
    "  --base URL           the server: http://127.0.0.1:8080, https://...\n"
    "  --ca-file FILE       trust roots for https (the system's)\n"
    "  --key KEY            the API key; or, hidden from other users, in the variable\n"
    "                       SLUICE_KEY or in a file:\n"
    "  --key-file FILE\n"
    "  --scenario LIST      what to do: names (--list) or files, with weights for a mix (read)\n"
    "  --var NAME=TEXT      a value that a scenario needs, such as task_parent; may be repeated\n"
    "  --connections N      connections, all processes together (64)\n"
    "  --rate R             open loop: R operations a second, latencies counted from when each "
    "was\n"
    "                       due; without it each connection begins the next when one has ended\n"
    "  --duration S         seconds that are measured (10); without --rate, more if the first\n"
    "                       operation takes longer\n"
    "  --warmup S           seconds before them (2)\n"
    "  --processes N        load processes (1)\n"
    "  --json FILE          the figures as JSON\n"
    "  --html FILE          a report of one file: percentiles, histogram, time line\n"
    "  --quiet              no progress line\n"
    "  --list               the scenarios that are compiled in\n"
    "  --help\n"
    "\n"
    "Exit status: 0 when all operations succeeded, 2 when some failed (it ends early where all "
    "do),\n"
    "1 when it could not run.\n";

void load_options_print_help(void)
{
    (void)fputs(help, stdout);
}

static int parse_number(const char *name, const char *text, uint64_t min, uint64_t max,
                        uint64_t *value, struct err *err)
{
    if (slice_to_u64(slice_cstr(text), max, value) && *value >= min)
        return OK;
    return err_set(err, ERR_INVALID, "%s is a number from %llu to %llu, not %s", name,
                   (unsigned long long)min, (unsigned long long)max, text);
}

static int parse_rate(const char *text, double *rate, struct err *err)
{
    char *end = NULL;
    *rate = strtod(text, &end);
    if (end != text && *end == 0 && *rate > 0 && *rate <= 1e6)
        return OK;
    return err_set(err, ERR_INVALID, "--rate is above 0 and at most 1000000, not %s", text);
}

static int parse_var(struct load_options *options, const char *text, struct err *err)
{
    slice rest = slice_cstr(text);
    slice name = slice_split(&rest, '=');
    if (!rest.ptr || name.len == 0)
        return err_set(err, ERR_INVALID, "--var is NAME=TEXT, not %s", text);
    if (options->var_count == LOAD_VARS_MAX)
        return err_set(err, ERR_LIMIT, "at most %d --var", LOAD_VARS_MAX);
    options->vars[options->var_count].name = name;
    options->vars[options->var_count++].text = rest;
    return OK;
}

/* Parses one scenario of the list: "read" or "write:2". */
static int parse_scenario(struct load_options *options, slice word, struct err *err)
{
    uint64_t weight = 1;
    char name[512];
    ptrdiff_t colon = slice_find_char(word, ':');
    slice part = colon < 0 ? word : slice_first(word, (size_t)colon);
    (void)snprintf(name, sizeof(name), "%.*s", SLICE_ARG(part));
    if (colon >= 0 &&
        (!slice_to_u64(slice_from(word, (size_t)colon + 1), 1000, &weight) || weight == 0))
        return err_set(err, ERR_INVALID, "a weight is a number from 1 to 1000: %.*s",
                       SLICE_ARG(word));
    if (options->scenario_count == SCENARIOS_MAX)
        return err_set(err, ERR_LIMIT, "at most %d scenarios in a mix", SCENARIOS_MAX);
    options->weights[options->scenario_count] = (unsigned)weight;
    return scenario_load(&options->scenarios[options->scenario_count++], name, err);
}

static int parse_scenarios(struct load_options *options, slice list, struct err *err)
{
    int status = OK;
    while (status == OK && list.ptr)
        status = parse_scenario(options, slice_split(&list, ','), err);
    return status;
}

static int read_key(struct load_options *options, const char *path, struct err *err)
{
    FILE *file = fopen(path, "re");
    if (!file)
        return err_set(err, ERR_IO, "%s: %s", path, strerror(errno));
    bool is_read = fgets(options->key_text, sizeof(options->key_text), file);
    (void)fclose(file);
    options->key_text[strcspn(options->key_text, "\r\n")] = 0;
    if (!is_read || options->key_text[0] == 0)
        return err_set(err, ERR_INVALID, "%s: holds no key", path);
    options->key = options->key_text;
    return OK;
}

/* Copies the key and overwrites it in argv, which ps prints. */
static int take_key(struct load_options *options, char *key, struct err *err)
{
    size_t len = strlen(key);
    if (len == 0 || len >= sizeof(options->key_text))
        return err_set(err, ERR_INVALID, "--key is an API key of 1 to %zu characters",
                       sizeof(options->key_text) - 1);
    memcpy(options->key_text, key, len + 1);
    memset(key, '*', len);
    options->key = options->key_text;
    return OK;
}

/* Parses one option and its value. */
static int parse_one(struct load_options *options, const char *name, char *value, struct err *err)
{
    const struct {
        const char *name;
        uint64_t min, max;
        uint64_t *value;
    } numbers[] = {
        {"--connections", 1, LOAD_CONNECTIONS_MAX, &options->connections},
        {"--processes", 1, LOAD_PROCESSES_MAX, &options->processes},
        {"--duration", 1, 86400, &options->duration_s},
        {"--warmup", 0, 3600, &options->warmup_s},
    };
    const struct {
        const char *name;
        const char **value;
    } texts[] = {
        {"--base", &options->base},
        {"--ca-file", &options->ca_file},
        {"--json", &options->json_file},
        {"--html", &options->html_file},
    };
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
        if (strcmp(name, numbers[i].name) == 0)
            return parse_number(name, value, numbers[i].min, numbers[i].max, numbers[i].value, err);
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        if (strcmp(name, texts[i].name) == 0) {
            *texts[i].value = value;
            return OK;
        }
    }
    if (strcmp(name, "--rate") == 0)
        return parse_rate(value, &options->rate, err);
    if (strcmp(name, "--key") == 0)
        return take_key(options, value, err);
    if (strcmp(name, "--key-file") == 0)
        return read_key(options, value, err);
    if (strcmp(name, "--var") == 0)
        return parse_var(options, value, err);
    if (strcmp(name, "--scenario") == 0)
        return parse_scenarios(options, slice_cstr(value), err);
    return err_set(err, ERR_INVALID, "%s is not an option. See --help", name);
}

static int check_options(struct load_options *options, struct err *err)
{
    int status = OK;
    if (!options->base)
        return err_set(err, ERR_INVALID, "--base is needed: the server's URL");
    if (!options->key)
        options->key = getenv("SLUICE_KEY");
    if (!options->key || !*options->key)
        return err_set(err, ERR_INVALID, "no API key: give --key or --key-file, or set SLUICE_KEY");
    if (options->scenario_count == 0)
        status = parse_scenarios(options, SLICE("read"), err);
    for (size_t s = 0; status == OK && s < options->scenario_count; s++)
        for (size_t i = 0; status == OK && i < options->var_count; i++)
            status = scenario_set(&options->scenarios[s], options->vars[i].name,
                                  options->vars[i].text, err);
    for (size_t s = 0; status == OK && s < options->scenario_count; s++)
        status = scenario_check(&options->scenarios[s], err);
    if (status == OK && options->processes > options->connections)
        options->processes = options->connections;
    return status;
}

int load_options_parse(struct load_options *options, int argc, char **argv, bool *is_help,
                       struct err *err)
{
    options->connections = 64;
    options->processes = 1;
    options->duration_s = 10;
    options->warmup_s = 2;
    *is_help = false;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0) {
            *is_help = true;
            return OK;
        }
        if (strcmp(argv[i], "--list") == 0) {
            options->lists = true;
            return OK;
        }
        if (strcmp(argv[i], "--quiet") == 0) {
            options->is_quiet = true;
            continue;
        }
        if (i + 1 == argc)
            return err_set(err, ERR_INVALID, "%s: see --help", argv[i]);
        int status = parse_one(options, argv[i], argv[i + 1], err);
        if (status != OK)
            return status;
        i++;
    }
    return check_options(options, err);
}
