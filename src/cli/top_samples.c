/*
 * Series of /metrics; see top_samples.h. Each number takes a search of some thousand lines, which
 * is fast enough for a screen that a person reads every few seconds.
 */
#include "cli/top_samples.h"

#include <stdio.h>
#include <stdlib.h>

enum { BYTES_MAX = 64 * 1024 * 1024, BUCKETS_MAX = 64 };

void samples_init(struct samples *samples)
{
    *samples = (struct samples){.count = 0};
    arena_init(&samples->arena, BYTES_MAX);
}

void samples_deinit(struct samples *samples)
{
    arena_deinit(&samples->arena);
}

static double number_of(slice text)
{
    char copy[40];
    (void)snprintf(copy, sizeof(copy), "%.*s", SLICE_ARG(text));
    return strtod(copy, NULL);
}

/* Adds a line of the form "name{labels} value" or "name value"; sluice's label values contain no
 * brace. */
static bool add_line(struct samples *samples, slice line)
{
    if (samples->count == samples->cap) {
        size_t cap = samples->cap ? 2 * samples->cap : 256;
        struct sample *items = ARENA_ARRAY(&samples->arena, struct sample, cap);
        if (!items)
            return false;
        if (samples->count)
            memcpy(items, samples->items, samples->count * sizeof(*items));
        samples->items = items;
        samples->cap = cap;
    }
    struct sample *sample = &samples->items[samples->count++];
    ptrdiff_t brace = slice_find_char(line, '{');
    slice value = line;
    if (brace < 0) {
        sample->name = slice_split(&value, ' ');
        sample->labels = SLICE("");
    } else {
        sample->name = slice_split(&value, '{');
        sample->labels = slice_split(&value, '}');
    }
    sample->value = number_of(slice_trim(value));
    return true;
}

bool samples_add(struct samples *samples, slice text)
{
    text = arena_dup(&samples->arena, text);
    if (!text.ptr)
        return false;
    while (text.len) {
        slice line = slice_split(&text, '\n');
        if (line.len > 0 && line.ptr[0] != '#' && !add_line(samples, line))
            return false;
    }
    return true;
}

double samples_sum(const struct samples *samples, const char *name, slice label)
{
    double sum = 0;
    for (size_t i = 0; i < samples->count; i++)
        if (slice_eq_cstr(samples->items[i].name, name) &&
            (label.len == 0 || slice_find(samples->items[i].labels, label) >= 0))
            sum += samples->items[i].value;
    return sum;
}

double samples_max(const struct samples *samples, const char *name)
{
    double max = 0;
    for (size_t i = 0; i < samples->count; i++)
        if (slice_eq_cstr(samples->items[i].name, name) && samples->items[i].value > max)
            max = samples->items[i].value;
    return max;
}

/* The next series of processor time, starting at *at, or NULL. Each process has one. */
static const struct sample *next_process(const struct samples *samples, size_t *at)
{
    while (*at < samples->count) {
        const struct sample *sample = &samples->items[(*at)++];
        if (slice_eq_cstr(sample->name, "process_cpu_seconds_total"))
            return sample;
    }
    return NULL;
}

bool samples_continue(const struct samples *now, const struct samples *before)
{
    size_t at = 0, before_at = 0;
    for (;;) {
        const struct sample *is = next_process(now, &at), *was = next_process(before, &before_at);
        if (!is || !was)
            return is == was;
        if (is->value < was->value)
            return false;
    }
}

double samples_growth(const struct samples *now, const struct samples *before, const char *name,
                      slice label)
{
    double is = samples_sum(now, name, label), was = samples_sum(before, name, label);
    return is < was ? is : is - was;
}

slice samples_label(const struct sample *sample, const char *name)
{
    slice rest = sample->labels;
    while (rest.len) {
        slice key = slice_split(&rest, '=');
        if (rest.len == 0 || rest.ptr[0] != '"')
            break;
        rest = slice_from(rest, 1);
        slice value = slice_split(&rest, '"');
        if (slice_eq_cstr(key, name))
            return value;
        (void)slice_split(&rest, ',');
    }
    return SLICE_NONE;
}

/* Cumulative counts by upper bound, as in the format; +Inf comes last. */
struct buckets {
    double bounds[BUCKETS_MAX], counts[BUCKETS_MAX];
    size_t count;
};

static void add_buckets(struct buckets *buckets, const struct samples *samples, const char *name,
                        slice label, double sign)
{
    for (size_t i = 0; i < samples->count; i++) {
        const struct sample *sample = &samples->items[i];
        if (!slice_eq_cstr(sample->name, name) ||
            (label.len && slice_find(sample->labels, label) < 0))
            continue;
        double bound = number_of(samples_label(sample, "le"));
        size_t at = 0;
        while (at < buckets->count && buckets->bounds[at] < bound)
            at++;
        if (at == buckets->count || buckets->bounds[at] > bound) {
            if (buckets->count == BUCKETS_MAX)
                return;
            for (size_t k = buckets->count++; k > at; k--) {
                buckets->bounds[k] = buckets->bounds[k - 1];
                buckets->counts[k] = buckets->counts[k - 1];
            }
            buckets->bounds[at] = bound;
            buckets->counts[at] = 0;
        }
        buckets->counts[at] += sign * sample->value;
    }
}

double samples_quantile(const struct samples *now, const struct samples *before, const char *name,
                        slice label, double quantile)
{
    struct buckets buckets = {.count = 0};
    char full[96];
    (void)snprintf(full, sizeof(full), "%s_bucket", name);
    add_buckets(&buckets, now, full, label, 1);
    add_buckets(&buckets, before, full, label, -1);
    double all = buckets.count ? buckets.counts[buckets.count - 1] : 0;
    if (all <= 0)
        return -1;
    size_t at = 0;
    while (at + 1 < buckets.count && buckets.counts[at] < quantile * all)
        at++;
    double low = at ? buckets.bounds[at - 1] : 0, below = at ? buckets.counts[at - 1] : 0;
    /* +Inf has no width, so the last finite bound is the best known value. */
    if (at + 1 == buckets.count)
        return low;
    double in_bucket = buckets.counts[at] - below;
    return low +
           (buckets.bounds[at] - low) * (in_bucket > 0 ? (quantile * all - below) / in_bucket : 1);
}
