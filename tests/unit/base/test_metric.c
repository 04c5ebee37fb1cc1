/* base/metric: a strict reader of the text format 0.0.4 reads the page, which is compared with the
 * counts; limits of series and labels; hostile label values. */
#include "testing.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/metric.h"

/* ---- the reader ---- */

struct sample {
    char name[100], labels[1200]; /* labels unescaped, as name=value; */
    double value;
};

static char page[4 << 20];
static struct sample samples[4000];
static size_t sample_count;

static size_t name_len(const char *at)
{
    return strspn(at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_:0123456789");
}

/* Reads {name="value",...} into sample->labels, and returns the text after it. */
static const char *read_labels(const char *at, struct sample *sample)
{
    char *out = sample->labels;
    if (*at != '{')
        return at;
    do {
        at++;
        size_t len = name_len(at);
        assert_true(len > 0 && !(*at >= '0' && *at <= '9'));
        memcpy(out, at, len);
        out += len;
        at += len;
        assert_true(at[0] == '=' && at[1] == '"');
        *out++ = '=';
        for (at += 2; *at != '"'; at++) {
            assert_true(*at && *at != '\n');
            if (*at == '\\')
                assert_non_null(strchr("\\\"n", *++at));
            *out++ = at[-1] == '\\' && *at == 'n' && at[-2] != '\\' ? '\n' : *at;
        }
        *out++ = ';';
        at++;
    } while (*at == ',');
    assert_int_equal(*at, '}');
    *out = '\0';
    return at + 1;
}

static void read_sample(const char *line, const char *family)
{
    struct sample *sample = &samples[sample_count++];
    assert_true(sample_count < ARRAY_LEN(samples));
    memset(sample, 0, sizeof(*sample));
    size_t len = name_len(line);
    memcpy(sample->name, line, len);
    assert_memory_equal(sample->name, family, strlen(family)); /* the samples of a family are
                                                                * together */
    const char *at = read_labels(line + len, sample);
    assert_int_equal(*at, ' ');
    char *end;
    sample->value = strtod(at + 1, &end);
    assert_true(end > at + 1);
    assert_int_equal(*end, '\n');
}

/* Renders and parses the page. */
static void read_page(void)
{
    struct buf buf;
    char family[100] = "";
    sample_count = 0;
    buf_init(&buf, sizeof(page) - 1);
    metric_render(&buf);
    assert_true(buf_is_ok(&buf));
    assert_true(slice_is_utf8(buf_slice(&buf), NULL));
    if (buf.len) /* the page is empty if there are no families */
        memcpy(page, buf.ptr, buf.len);
    page[buf.len] = '\0';
    buf_deinit(&buf);
    for (const char *line = page; *line; line = strchr(line, '\n') + 1) {
        assert_non_null(strchr(line, '\n'));
        if (strncmp(line, "# HELP ", 7) == 0) {
            size_t len = name_len(line + 7);
            memcpy(family, line + 7, len);
            family[len] = '\0';
            assert_int_equal(line[7 + len], ' ');
        } else if (strncmp(line, "# TYPE ", 7) == 0) {
            char name[100], kind[20];
            assert_int_equal(sscanf(line, "# TYPE %99s %19s", name, kind), 2);
            assert_string_equal(name, family);
            assert_true(!strcmp(kind, "counter") || !strcmp(kind, "gauge") ||
                        !strcmp(kind, "histogram"));
        } else {
            read_sample(line, family);
        }
    }
}

static double value_of(const char *name, const char *labels)
{
    for (size_t i = 0; i < sample_count; i++)
        if (!strcmp(samples[i].name, name) && !strcmp(samples[i].labels, labels))
            return samples[i].value;
    fail_msg("no sample %s{%s}", name, labels);
    return 0;
}

/* ---- tests ---- */

static struct metric requests = METRIC_INIT("t_requests_total", "Requests.", METRIC_COUNTER);
static struct metric open_now = METRIC_INIT("t_open", "Open \\ now,\nin all.", METRIC_GAUGE);
static struct metric took = METRIC_INIT("t_took_seconds", "Took.", METRIC_HISTOGRAM);

static void counts_and_gauges(void **state)
{
    (void)state;
    read_page();
    assert_int_equal(sample_count, 0);
    struct metric_series *ok = metric_series(&requests, SLICE("method=\"GET\",status=\"200\""));
    assert_ptr_equal(ok, metric_series(&requests, SLICE("method=\"GET\",status=\"200\"")));
    for (int i = 0; i < 1000; i++)
        metric_add(ok, 1);
    metric_add(ok, 0.5);
    metric_inc(&requests);
    metric_inc(&requests);
    assert_true(metric_get(metric_series(&requests, SLICE_NONE)) == 2);
    metric_set(metric_series(&open_now, SLICE("")), -3);
    metric_add(metric_series(&open_now, SLICE("")), -4);
    metric_set(metric_series(&open_now, SLICE("a=\"\"")), 1e300);
    metric_set(metric_series(&open_now, SLICE("a=\"1\"")), NAN);
    metric_set(metric_series(&open_now, SLICE("a=\"2\"")), -INFINITY);
    metric_set(metric_series(&open_now, SLICE("a=\"3\"")), 9007199254740993.0);
    metric_set(metric_series(&open_now, SLICE("a=\"4\"")), 0.1);
    read_page();
    assert_true(value_of("t_requests_total", "method=GET;status=200;") == 1000.5);
    assert_true(value_of("t_requests_total", "") == 2);
    assert_true(value_of("t_open", "") == -7);
    assert_true(value_of("t_open", "a=;") == 1e300);
    assert_true(isnan(value_of("t_open", "a=1;")));
    assert_true(value_of("t_open", "a=2;") == -INFINITY);
    assert_true(value_of("t_open", "a=3;") == 9007199254740993.0);
    assert_true(value_of("t_open", "a=4;") == 0.1);
    assert_non_null(strstr(page, "# HELP t_open Open \\\\ now,\\nin all.\n# TYPE t_open gauge\n"));
    assert_non_null(strstr(page, "t_requests_total 2\n"));
    assert_non_null(strstr(page, "t_open{a=\"1\"} NaN\n"));
    metric_deinit();
}

static uint64_t random_ns(struct chance *chance)
{
    static const uint64_t digits[] = {1, 2, 5};
    uint64_t bound = 10000 * digits[chance_below(chance, 3)];
    for (uint64_t decades = chance_below(chance, 9); decades > 0; decades--)
        bound *= 10;
    switch (chance_below(chance, 4)) {
    case 0:
        return bound - 1 + chance_below(chance, 3); /* on an edge */
    case 1:
        return chance_below(chance, 60000);
    default:
        return chance_u64(chance) % bound;
    }
}

/* Compares every bucket with a count of the observations that are not above its bound. */
static void histograms_are_cumulative(void **state)
{
    (void)state;
    enum { COUNT = 5000 };
    struct chance chance = {12};
    uint64_t *seen = mem_calloc(COUNT, sizeof(*seen)), sum = 0;
    static const char *const labels[] = {"", "route=\"x\""};
    static const char *const prefixes[] = {"", "route=x;"};
    for (size_t i = 0; i < COUNT; i++) {
        seen[i] = random_ns(&chance);
        sum += seen[i];
        metric_time(&took, seen[i]);
        metric_observe_ns(metric_series(&took, slice_cstr(labels[1])), seen[i]);
    }
    read_page();
    for (size_t l = 0; l < ARRAY_LEN(labels); l++) {
        double last_bound = 0;
        size_t buckets = 0;
        for (size_t i = 0; i < sample_count; i++) {
            const char *le = strstr(samples[i].labels, "le=");
            if (!le || (size_t)(le - samples[i].labels) != strlen(prefixes[l]))
                continue;
            double bound = strtod(le + 3, NULL);
            assert_true(bound > last_bound);
            last_bound = bound;
            size_t want = 0;
            for (size_t k = 0; k < COUNT; k++)
                want += isinf(bound) || (double)seen[k] <= round(bound * 1e9);
            assert_true(samples[i].value == (double)want);
            buckets++;
        }
        assert_int_equal(buckets, METRIC_BUCKETS + 1);
        assert_true(isinf(last_bound));
        assert_true(value_of("t_took_seconds_count", prefixes[l]) == COUNT);
        assert_true(fabs(value_of("t_took_seconds_sum", prefixes[l]) - (double)sum / 1e9) < 1e-6);
    }
    assert_true(metric_get(metric_series(&took, SLICE_NONE)) == COUNT);
    assert_non_null(strstr(page, "t_took_seconds_bucket{le=\"0.00005\"} "));
    assert_non_null(strstr(page, "t_took_seconds_bucket{le=\"100\"} "));
    assert_non_null(strstr(page, "t_took_seconds_bucket{route=\"x\",le=\"+Inf\"} 5000\n"));
    mem_free(seen);
    metric_deinit();
}

static void exact_edges_of_buckets(void **state)
{
    (void)state;
    metric_time(&took, 0);
    metric_time(&took, 50000);
    metric_time(&took, 50001);
    metric_time(&took, 100000);
    metric_time(&took, 100000000000);
    metric_time(&took, 100000000001);
    metric_time(&took, UINT64_C(1) << 62);
    read_page();
    assert_true(value_of("t_took_seconds_bucket", "le=0.00005;") == 2);
    assert_true(value_of("t_took_seconds_bucket", "le=0.0001;") == 4);
    assert_true(value_of("t_took_seconds_bucket", "le=50;") == 4);
    assert_true(value_of("t_took_seconds_bucket", "le=100;") == 5);
    assert_true(value_of("t_took_seconds_bucket", "le=+Inf;") == 7);
    /* the bounds that service levels and alarms use */
    assert_non_null(strstr(page, "le=\"0.005\"} 4\n"));
    assert_non_null(strstr(page, "le=\"5\"} 4\n"));
    assert_non_null(strstr(page, "le=\"10\"} 4\n"));
    metric_deinit();
}

static void escapes_label_values(void **state)
{
    (void)state;
    struct buf labels;
    buf_init(&labels, METRIC_LABELS_MAX);
    metric_label(&labels, "a", SLICE("q\"b\\n\nend"));
    metric_label(&labels, "b", SLICE("\xff\xE2\x82\xAC}"));
    assert_slice(buf_slice(&labels),
                 SLICE("a=\"q\\\"b\\\\n\\nend\",b=\"\xEF\xBF\xBD\xE2\x82\xAC}\""));
    metric_add(metric_series(&requests, buf_slice(&labels)), 5);
    read_page();
    assert_int_equal(sample_count, 1);
    assert_non_null(strstr(page, "{a=\"q\\\"b\\\\n\\nend\",b=\"\xEF\xBF\xBD\xE2\x82\xAC}\"} 5\n"));
    buf_deinit(&labels);
    metric_deinit();
}

static void any_value_can_be_a_label(void **state)
{
    (void)state;
    struct chance chance = {13};
    struct buf labels;
    buf_init(&labels, METRIC_LABELS_MAX);
    for (int i = 0; i < 400; i++) {
        char value[100];
        size_t len = chance_below(&chance, sizeof(value));
        chance_bytes(&chance, value, len);
        for (size_t k = 0; k < len; k++)
            if (value[k] == '\0' || chance_below(&chance, 3) == 0)
                value[k] = "\"\\\n,}{= "[chance_below(&chance, 8)];
        buf_clear(&labels);
        metric_label(&labels, "v", slice_of(value, len));
        metric_label(&labels, "w", SLICE("x"));
        metric_add(metric_series(&requests, buf_slice(&labels)), 1);
    }
    read_page();
    double sum = 0;
    for (size_t i = 0; i < sample_count; i++) {
        assert_string_not_equal(samples[i].labels, "other=true;");
        sum += samples[i].value;
    }
    assert_true(sum == 400);
    buf_deinit(&labels);
    metric_deinit();
}

static void odd_labels_count_as_other(void **state)
{
    (void)state;
    static const char *const odd[] = {"a",          "a=",
                                      "a=b",        "a=\"b",
                                      "=\"b\"",     "1a=\"b\"",
                                      "a=\"b\",",   ",a=\"b\"",
                                      "a=\"b\" ",   "a=\"b\"c=\"d\"",
                                      "a=\"\\x\"",  "a=\"\\",
                                      "a=\"x\ny\"", "a=\"\xff\"",
                                      "a-b=\"c\"",  "a=\"b\"\n# evil",
                                      "a =\"b\"",   "a=\"b\"} 1\nevil 2\nx{c=\"d\""};
    char huge[METRIC_LABELS_MAX + 2];
    for (size_t i = 0; i < ARRAY_LEN(odd); i++)
        metric_add(metric_series(&requests, slice_cstr(odd[i])), 1);
    memset(huge, 'x', sizeof(huge));
    memcpy(huge, "a=\"", 3);
    huge[sizeof(huge) - 2] = huge[sizeof(huge) - 1] = '"';
    metric_add(metric_series(&requests, slice_of(huge, sizeof(huge))), 1);
    metric_add(metric_series(&requests, slice_of(huge, METRIC_LABELS_MAX + 1)), 1);
    read_page();
    assert_int_equal(sample_count, 1);
    assert_true(value_of("t_requests_total", "other=true;") == ARRAY_LEN(odd) + 2);
    huge[METRIC_LABELS_MAX - 1] = '"'; /* the longest labels that are accepted */
    metric_add(metric_series(&requests, slice_of(huge, METRIC_LABELS_MAX)), 1);
    read_page();
    assert_int_equal(sample_count, 2);
    metric_deinit();
}

static void series_are_bounded(void **state)
{
    (void)state;
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < METRIC_SERIES_MAX + 88; i++) {
            char labels[40];
            snprintf(labels, sizeof(labels), "n=\"%d\"", i);
            metric_add(metric_series(&requests, slice_cstr(labels)), 1);
        }
        metric_inc(&open_now); /* another family has its own limit */
    }
    read_page();
    assert_int_equal(sample_count, METRIC_SERIES_MAX + 2);
    assert_true(value_of("t_requests_total", "other=true;") == 2 * 88);
    assert_true(value_of("t_requests_total", "n=1023;") == 2);
    assert_true(value_of("t_open", "") == 2);
    metric_deinit();
}

static void survives_failing_memory(void **state)
{
    (void)state;
    for (uint64_t n = 1;; n++) {
        mem_fail_at(n, 1);
        for (int i = 0; i < 50; i++) {
            char labels[40];
            snprintf(labels, sizeof(labels), "n=\"%d\"", i % 25);
            metric_add(metric_series(&requests, slice_cstr(labels)), 1);
            metric_inc(&requests);
            metric_time(&took, 5);
        }
        uint64_t hits = mem_fail_hits();
        mem_fail_at(0, 0);
        read_page();
        double sum = 0;
        for (size_t i = 0; i < sample_count; i++)
            sum += strcmp(samples[i].name, "t_requests_total") ? 0 : samples[i].value;
        assert_true(hits ? sum >= 98 && sum <= 100 : sum == 100); /* one count may be lost */
        metric_deinit();
        assert_int_equal(mem_live_blocks(), 0);
        if (hits == 0)
            break;
        assert_true(n < 200);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        UNIT_TEST(counts_and_gauges),        UNIT_TEST(histograms_are_cumulative),
        UNIT_TEST(exact_edges_of_buckets),   UNIT_TEST(escapes_label_values),
        UNIT_TEST(any_value_can_be_a_label), UNIT_TEST(odd_labels_count_as_other),
        UNIT_TEST(series_are_bounded),       UNIT_TEST(survives_failing_memory),
    };
    return cmocka_run_group_tests_name("base/metric", tests, NULL, NULL);
}
