/*
 * metric: families in order of first use, each with its list of series; one map finds a series by
 * family and labels. Limits: METRIC_SERIES_MAX series per family, METRIC_LABELS_MAX bytes of
 * labels. Labels that do not fit or are malformed are counted under other="true", so that a hostile
 * label can neither grow the process nor break the page for the scraper.
 */
#include "base/metric.h"

#include <math.h>

#include "base/ascii.h"
#include "base/map.h"
#include "base/mem.h"

enum {
    METRIC_FAMILIES_MAX = 256,
    SLOTS = METRIC_BUCKETS + 1, /* the last slot counts values above all bounds */
};

/* Upper bounds of the buckets. They are round numbers because promises and alarms use round
 * numbers: whether 99 of 100 requests take less than 5 ms is visible only with a bound at 5 ms. */
#define DECADE(ns) UINT64_C(ns), UINT64_C(ns) * 2, UINT64_C(ns) * 5
static const uint64_t bounds_ns[METRIC_BUCKETS] = {
    UINT64_C(50000),   DECADE(100000),     DECADE(1000000),     DECADE(10000000),
    DECADE(100000000), DECADE(1000000000), DECADE(10000000000), UINT64_C(100000000000),
};

struct metric_series {
    struct metric *metric; /* NULL: the spare */
    struct metric_series *next;
    double value;
    uint64_t slots[SLOTS]; /* histograms: observations by bucket, not cumulative */
    uint64_t sum_ns;
    size_t key_len;
    char key[]; /* the family's address, then the labels: the key in the map */
};

static struct metric *families, *families_last;
static size_t family_count;
static struct map series_by_key;
/* This series is in neither the map nor a family. It receives the values of all series that could
 * not be stored. */
static struct metric_series spare;

static const slice other_labels = SLICE_INIT("other=\"true\"");

static slice series_labels(const struct metric_series *series)
{
    return slice_from(slice_of(series->key, series->key_len), sizeof(uintptr_t));
}

/* Label names of the text format are [a-zA-Z_][a-zA-Z0-9_]*, without a colon. */
static bool is_name_char(char c, bool is_first)
{
    bool is_digit = ascii_is_digit(c);
    return ascii_is_letter(c) || c == '_' || (is_digit && !is_first);
}

/* Consumes name="value" from the front of *text. */
static bool take_label(slice *text)
{
    size_t at = 0;
    while (at < text->len && is_name_char(text->ptr[at], at == 0))
        at++;
    if (at == 0 || !slice_starts_with(slice_from(*text, at), SLICE("=\"")))
        return false;
    for (at += 2; at < text->len && text->ptr[at] != '"'; at++) {
        if (text->ptr[at] == '\n')
            return false;
        if (text->ptr[at] != '\\')
            continue;
        at++;
        /* These are the only escapes that the text format has in label values. strchr would also
         * find the NUL. */
        if (at == text->len || !strchr("\\\"n", text->ptr[at]) || text->ptr[at] == '\0')
            return false;
    }
    if (at == text->len)
        return false;
    *text = slice_from(*text, at + 1);
    return true;
}

static bool are_labels(slice labels)
{
    if (labels.len == 0)
        return true;
    if (!slice_is_utf8(labels, NULL))
        return false;
    while (take_label(&labels)) {
        if (labels.len == 0)
            return true;
        if (labels.ptr[0] != ',')
            return false;
        labels = slice_from(labels, 1);
    }
    return false;
}

static void register_family(struct metric *metric)
{
    if (metric->is_registered)
        return;
    /* Families are static structs of the program, so their number is known at build time. */
    ASSERT(family_count < METRIC_FAMILIES_MAX);
    if (!families) {
        /* The map's maximum is the sum of what the checks below allow, so it is never reached
         * (series_new handles it anyway). */
        map_init(&series_by_key, (size_t)METRIC_FAMILIES_MAX * (METRIC_SERIES_MAX + 1));
        families = metric;
    } else {
        families_last->next = metric;
    }
    families_last = metric;
    family_count++;
    metric->is_registered = true;
}

/* The spare receives the values of series for which there is no memory; it is never exported. */
static struct metric_series *series_new(struct metric *metric, slice key)
{
    struct metric_series *series = mem_zalloc(sizeof(*series) + key.len);
    if (!series)
        return &spare;
    series->metric = metric;
    series->key_len = key.len;
    memcpy(series->key, key.ptr, key.len);
    if (map_put(&series_by_key, slice_of(series->key, key.len), series, NULL) < 0) {
        mem_free(series);
        return &spare;
    }
    if (metric->series_last)
        metric->series_last->next = series;
    else
        metric->series = series;
    metric->series_last = series;
    metric->series_count++;
    return series;
}

/* The spare is not remembered: the next call tries again to allocate the series. */
static struct metric_series *remember_series(struct metric *metric, struct metric_series *series)
{
    if (series != &spare)
        metric->recent = series;
    return series;
}

struct metric_series *metric_series(struct metric *metric, slice labels)
{
    /* Most calls have the labels of the previous call; a compare is cheaper than a hash. */
    if (metric->recent && slice_eq(series_labels(metric->recent), labels))
        return metric->recent;
    /* The family's address is part of the key, so that one map serves all families. */
    const uintptr_t family = (uintptr_t)metric;
    char key[sizeof(family) + METRIC_LABELS_MAX];
    register_family(metric);
    bool is_other = labels.len > METRIC_LABELS_MAX;
    /* At most two rounds: the second is with other="true", which is always allowed. */
    for (;;) {
        if (is_other)
            labels = other_labels;
        memcpy(key, &family, sizeof(family));
        if (labels.len)
            memcpy(key + sizeof(family), labels.ptr, labels.len);
        slice whole = slice_of(key, sizeof(family) + labels.len);
        struct metric_series *series = map_get(&series_by_key, whole);
        if (series)
            return remember_series(metric, series);
        /* Labels are checked only when a series is made: those in the map are valid. */
        if (is_other || (metric->series_count < METRIC_SERIES_MAX && are_labels(labels)))
            return remember_series(metric, series_new(metric, whole));
        is_other = true;
    }
}

static void check_kind(const struct metric_series *series, bool is_histogram)
{
    ASSERT(!series->metric || (series->metric->kind == METRIC_HISTOGRAM) == is_histogram);
}

void metric_add(struct metric_series *series, double value)
{
    check_kind(series, false);
    ASSERT(!series->metric || series->metric->kind == METRIC_GAUGE || value >= 0);
    series->value += value;
}

void metric_set(struct metric_series *series, double value)
{
    check_kind(series, false);
    series->value = value;
}

double metric_get(const struct metric_series *series)
{
    if (!series->metric || series->metric->kind != METRIC_HISTOGRAM)
        return series->value;
    uint64_t count = 0;
    for (size_t i = 0; i < SLOTS; i++)
        count += series->slots[i];
    return (double)count;
}

/* Returns the first bucket whose bound is not below ns. */
static size_t bucket_of(uint64_t ns)
{
    size_t bucket = 0;
    while (bucket < METRIC_BUCKETS && ns > bounds_ns[bucket])
        bucket++;
    return bucket;
}

void metric_observe_ns(struct metric_series *series, uint64_t ns)
{
    check_kind(series, true);
    series->slots[bucket_of(ns)]++;
    series->sum_ns += ns;
}

/* The spare is not remembered: the next call tries again to allocate the series. */
static struct metric_series *plain_series(struct metric *metric)
{
    if (!metric->plain) {
        struct metric_series *series = metric_series(metric, SLICE_NONE);
        if (series == &spare)
            return series;
        metric->plain = series;
    }
    return metric->plain;
}

void metric_inc(struct metric *metric)
{
    metric_add(plain_series(metric), 1);
}

void metric_time(struct metric *metric, uint64_t ns)
{
    metric_observe_ns(plain_series(metric), ns);
}

/* Appends text with the escapes that the text format requires. */
static void append_escaped(struct buf *out, slice text, bool is_label)
{
    while (text.len) {
        size_t len = slice_utf8_first(text);
        char c = text.ptr[0];
        if (len == 0)
            buf_append(out, SLICE("\xEF\xBF\xBD"));
        else if (c == '\n')
            buf_append(out, SLICE("\\n"));
        else if (c == '\\' || (is_label && c == '"'))
            buf_printf(out, "\\%c", c);
        else
            buf_append(out, slice_first(text, len));
        text = slice_from(text, len ? len : 1);
    }
}

void metric_label(struct buf *out, const char *name, slice value)
{
    if (out->len)
        buf_append_char(out, ',');
    buf_append_cstr(out, name);
    buf_append(out, SLICE("=\""));
    append_escaped(out, value, true);
    buf_append_char(out, '"');
}

static void render_double(struct buf *out, double value)
{
    const double exact = 9007199254740992.0; /* 2^53: integers up to here are exact */
    bool is_small = value > -exact && value < exact;
    if (isnan(value))
        buf_append(out, SLICE("NaN"));
    else if (isinf(value))
        buf_append_cstr(out, value > 0 ? "+Inf" : "-Inf");
    else if (is_small && value == (double)(int64_t)value)
        buf_append_i64(out, (int64_t)value);
    else
        buf_printf(out, "%.17g", value);
}

/* Writes nanoseconds as seconds, without trailing zeros. */
static void render_seconds(struct buf *out, uint64_t ns)
{
    char digits[9];
    uint64_t fraction = ns % 1000000000u;
    size_t len = 0;
    /* The loop goes from the last digit to the first: the fraction ends at the last digit that is
     * not 0. */
    for (size_t i = sizeof(digits); i-- > 0; fraction /= 10) {
        digits[i] = (char)('0' + fraction % 10);
        if (len == 0 && digits[i] != '0')
            len = i + 1;
    }
    buf_append_u64(out, ns / 1000000000u);
    if (len) {
        buf_append_char(out, '.');
        buf_append(out, slice_of(digits, len));
    }
}

/* Writes name_suffix{labels} and a space. */
static void render_sample(struct buf *out, const struct metric_series *series, const char *suffix)
{
    slice labels = series_labels(series);
    buf_append_cstr(out, series->metric->name);
    buf_append_cstr(out, suffix);
    if (labels.len) {
        buf_append_char(out, '{');
        buf_append(out, labels);
        buf_append_char(out, '}');
    }
    buf_append_char(out, ' ');
}

static void render_bucket(struct buf *out, const struct metric_series *series, size_t bucket)
{
    slice labels = series_labels(series);
    buf_append_cstr(out, series->metric->name);
    buf_append(out, SLICE("_bucket{"));
    buf_append(out, labels);
    buf_append_cstr(out, labels.len ? ",le=\"" : "le=\"");
    if (bucket < METRIC_BUCKETS)
        render_seconds(out, bounds_ns[bucket]);
    else
        buf_append(out, SLICE("+Inf"));
    buf_append(out, SLICE("\"} "));
}

static void render_histogram(struct buf *out, const struct metric_series *series)
{
    uint64_t count = 0;
    for (size_t i = 0; i < SLOTS; i++) {
        /* Buckets of the text format are cumulative; those of a series are not, so that an
         * observation changes only one bucket. */
        count += series->slots[i];
        render_bucket(out, series, i);
        buf_append_u64(out, count);
        buf_append_char(out, '\n');
    }
    render_sample(out, series, "_sum");
    render_seconds(out, series->sum_ns);
    buf_append_char(out, '\n');
    render_sample(out, series, "_count");
    buf_append_u64(out, count);
    buf_append_char(out, '\n');
}

static void render_family(struct buf *out, const struct metric *metric)
{
    static const char *const kinds[] = {"counter", "gauge", "histogram"};
    buf_printf(out, "# HELP %s ", metric->name);
    append_escaped(out, slice_cstr(metric->help), false);
    buf_printf(out, "\n# TYPE %s %s\n", metric->name, kinds[metric->kind]);
    for (const struct metric_series *series = metric->series; series; series = series->next) {
        if (metric->kind == METRIC_HISTOGRAM) {
            render_histogram(out, series);
            continue;
        }
        render_sample(out, series, "");
        render_double(out, series->value);
        buf_append_char(out, '\n');
    }
}

void metric_render(struct buf *out)
{
    for (const struct metric *metric = families; metric; metric = metric->next)
        render_family(out, metric);
}

void metric_deinit(void)
{
    for (struct metric *metric = families, *next; metric; metric = next) {
        next = metric->next;
        for (struct metric_series *series = metric->series, *after; series; series = after) {
            after = series->next;
            mem_free(series);
        }
        /* The struct is static and may be used again (in tests), so it is reset to METRIC_INIT. */
        *metric = (struct metric){.name = metric->name, .help = metric->help, .kind = metric->kind};
    }
    if (families)
        map_deinit(&series_by_key);
    families = families_last = NULL;
    family_count = 0;
    memset(&spare, 0, sizeof(spare));
}
