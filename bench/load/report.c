/*
 * See report.h.
 */
#include "load/report.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/embed.h"

static const double percents[] = {50, 75, 90, 95, 99, 99.9, 99.99, 100};

/* ---- text ---- */

static void print_part(const struct report *report, slice name, const struct load_part *part)
{
    const struct histogram *h = &part->latencies;
    printf("%.*s: %.0f a second (%llu in %.1f s), %llu failed\n", SLICE_ARG(name),
           (double)part->done / report->measured_s, (unsigned long long)part->done,
           report->measured_s, (unsigned long long)part->wrong);
    if (part->done == 0)
        return;
    printf("  latency in ms: mean %.3f", histogram_mean(h) / 1000);
    for (size_t i = 0; i < ARRAY_LEN(percents); i++)
        printf("%s%g%% %.3f", i ? "  " : "  ", percents[i],
               (double)histogram_percentile(h, percents[i]) / 1000);
    printf("\n");
}

void report_print(const struct report *report)
{
    const struct load_options *options = report->options;
    for (size_t i = 0; i < options->scenario_count; i++)
        print_part(report, options->scenarios[i].name, &report->parts[i]);
    if (options->scenario_count > 1)
        print_part(report, SLICE("all"), &report->total);
    if (report->dropped > 0)
        printf("not begun, since over %d were due: %llu\n", LOAD_DUE_MAX,
               (unsigned long long)report->dropped);
    printf("the load used %.0f %% of a core%s\n", 100 * report->cpu,
           report->cpu_max > REPORT_CPU_BUSY
               ? ": a process of it was busy, so it may be what limits (--processes)"
               : "");
    if (report->why[0])
        printf("the first failure: %s\n", report->why);
}

/* ---- JSON ---- */

static void put_real(struct json_writer *w, const char *key, double value)
{
    const struct json number = json_real(value);
    json_member(w, key, &number);
}

static void put_u64(struct json_writer *w, const char *key, uint64_t value)
{
    json_member_i64(w, key, (int64_t)value);
}

static void write_part(const struct report *report, const struct load_part *part,
                       struct json_writer *w)
{
    const struct histogram *h = &part->latencies;
    put_u64(w, "done", part->done);
    put_u64(w, "failed", part->wrong);
    put_real(w, "per_second", (double)part->done / report->measured_s);
    json_member_open(w, "latency_us", '{');
    put_real(w, "mean", histogram_mean(h));
    put_u64(w, "min", h->min_us);
    for (size_t i = 0; i < ARRAY_LEN(percents); i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "p%g", percents[i]);
        put_u64(w, name, histogram_percentile(h, percents[i]));
    }
    put_u64(w, "max", h->max_us);
    json_close(w, '}');
}

static void write_seconds(const struct report *report, struct json_writer *w)
{
    json_member_open(w, "seconds", '[');
    for (size_t i = 0; i < report->second_count; i++) {
        const struct report_second *second = &report->seconds[i];
        json_open(w, '{');
        put_real(w, "at_s", second->at_s);
        put_real(w, "done_per_s", second->done_per_s);
        put_real(w, "failed_per_s", second->wrong_per_s);
        if (second->max_us > 0) { /* an operation has ended */
            put_u64(w, "p50_us", second->p50_us);
            put_u64(w, "p99_us", second->p99_us);
            put_u64(w, "max_us", second->max_us);
        }
        for (size_t k = 0; k < SAMPLER_FIGURES; k++)
            if (second->server.values[k] >= 0) /* unknown figures are left out */
                put_real(w, sampler_figures[k].key, second->server.values[k]);
        json_close(w, '}');
    }
    json_close(w, ']');
}

/* [[microseconds, count], ...]: the filled buckets, each by its highest value. */
static void write_histogram(const struct histogram *h, struct json_writer *w)
{
    json_member_open(w, "histogram", '[');
    for (size_t i = 0; i < HISTOGRAM_COUNTS; i++) {
        if (!h->counts[i])
            continue;
        json_open(w, '[');
        json_put_i64(w, (int64_t)histogram_last_us(h, i));
        json_put_i64(w, (int64_t)h->counts[i]);
        json_close(w, ']');
    }
    json_close(w, ']');
}

void report_write_json(const struct report *report, struct buf *out)
{
    const struct load_options *options = report->options;
    struct json_writer w;
    char when[TIME_TEXT_LEN + 1];
    time_format(report->started_us, when);
    json_begin(&w, out);
    json_open(&w, '{');
    json_member_str(&w, "base", slice_cstr(options->base));
    json_member_str(&w, "started_at", slice_cstr(when));
    put_u64(&w, "connections", options->connections);
    put_u64(&w, "processes", options->processes);
    put_real(&w, "rate", options->rate);
    put_u64(&w, "warmup_s", options->warmup_s);
    put_real(&w, "measured_s", report->measured_s);
    write_part(report, &report->total, &w);
    put_u64(&w, "dropped", report->dropped);
    put_u64(&w, "unmeasured", report->unmeasured);
    put_real(&w, "load_cpu", report->cpu);
    json_member_str(&w, "first_failure", report->why[0] ? slice_cstr(report->why) : SLICE_NONE);
    json_member_open(&w, "scenarios", '[');
    for (size_t i = 0; i < options->scenario_count; i++) {
        json_open(&w, '{');
        json_member_str(&w, "name", options->scenarios[i].name);
        put_u64(&w, "weight", options->weights[i]);
        write_part(report, &report->parts[i], &w);
        json_close(&w, '}');
    }
    json_close(&w, ']');
    write_seconds(report, &w);
    write_histogram(&report->total.latencies, &w);
    json_close(&w, '}');
    buf_append_char(out, '\n');
}

/* ---- the page ---- */

void report_write_html(const struct report *report, struct buf *out)
{
    static const slice mark = SLICE_INIT("${report}");
    slice page = slice_of(embed_load[0].data, embed_load[0].len);
    size_t at = (size_t)slice_find(page, mark);
    struct buf json;
    buf_init(&json, out->bytes_max);
    report_write_json(report, &json);
    buf_append(out, slice_first(page, at));
    for (size_t i = 0; i < json.len; i++)
        if (json.ptr[i] == '<') /* "</script>" in a text would end the script */
            buf_append_cstr(out, "\\u003c");
        else
            buf_append_char(out, json.ptr[i]);
    buf_append(out, slice_from(page, at + mark.len));
    out->is_failed |= json.is_failed;
    buf_deinit(&json);
}
