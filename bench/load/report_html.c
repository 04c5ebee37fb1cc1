/*
 * Writes the figures as a page: tables and SVG are generated here, without scripts or external
 * resources, so that the file can be archived and mailed.
 */
#include <math.h>
#include <stdio.h>

#include "base/clock.h"
#include "load/report.h"

enum {
    CHART_WIDTH = 860,
    CHART_HEIGHT = 220,
    MARGIN_LEFT = 70,
    MARGIN_RIGHT = 30,
    MARGIN_TOP = 10,
    MARGIN_BOTTOM = 30,
    BARS_MAX = 80,
    Y_MARKS = 5,
    X_MARKS = 10,
};

static const char style[] =
    ":root{color-scheme:light dark;--ink:#1d2329;--soft:#66717d;--line:#d9dee3;--bar:#2a6fb0;"
    "--hot:#b4552d;--page:#fff}"
    "@media(prefers-color-scheme:dark){:root{--ink:#e5e9ed;--soft:#98a3ae;--line:#353d45;"
    "--bar:#6aa9e4;--hot:#e08a5f;--page:#15191d}}"
    "body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--page);"
    "max-width:900px;margin:2rem auto;padding:0 1rem}"
    ".wide{overflow-x:auto}table{border-collapse:collapse;width:100%}td,th{padding:.25rem "
    ".6rem;text-align:right;"
    "border-bottom:1px solid var(--line)}td:first-child,th:first-child{text-align:left}"
    "h2{margin-top:2rem;font-size:1.1rem}svg{width:100%;height:auto}"
    "svg text{fill:var(--soft);font-size:11px}.grid{stroke:var(--line)}"
    ".curve{fill:none;stroke:var(--bar);stroke-width:1.5}"
    ".bar{fill:var(--bar)}.warm{fill:var(--line);opacity:.5}.note{color:var(--soft)}";

static void write_escaped(struct buf *out, slice text)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        if (c == '<')
            buf_append(out, SLICE("&lt;"));
        else if (c == '&')
            buf_append(out, SLICE("&amp;"));
        else
            buf_append_char(out, c);
    }
}

/* ---- charts ---- */

struct axis {
    double min, max;
    bool is_log;
};

static double fraction(const struct axis *axis, double value)
{
    if (axis->is_log)
        return (log(value) - log(axis->min)) / (log(axis->max) - log(axis->min));
    return (value - axis->min) / (axis->max - axis->min);
}

static double x_at(const struct axis *axis, double value)
{
    return MARGIN_LEFT + fraction(axis, value) * (CHART_WIDTH - MARGIN_LEFT - MARGIN_RIGHT);
}

static double y_at(const struct axis *axis, double value)
{
    return CHART_HEIGHT - MARGIN_BOTTOM -
           fraction(axis, value) * (CHART_HEIGHT - MARGIN_TOP - MARGIN_BOTTOM);
}

static void chart_begin(struct buf *out, const char *title, const char *unit)
{
    buf_printf(out,
               "<h2>%s <span class=\"note\">%s</span></h2>"
               "<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"%s\">",
               title, unit, CHART_WIDTH, CHART_HEIGHT, title);
}

/* Returns the smallest step of 1, 2 or 5 times a power of ten that divides `range` into at most
 * `parts`. */
static double nice_step(double range, int parts)
{
    double power = pow(10, floor(log10(range / parts)));
    double times = range / parts / power;
    return power * (times <= 1 ? 1 : times <= 2 ? 2 : times <= 5 ? 5 : 10);
}

/* Returns an axis from 0 to the first tick at or above `highest`. */
static struct axis axis_up_to(double highest)
{
    double step = nice_step(highest > 0 ? highest : 1, Y_MARKS);
    return (struct axis){.min = 0, .max = step * ceil((highest > 0 ? highest : 1) / step)};
}

static void y_grid(struct buf *out, const struct axis *y)
{
    double step = nice_step(y->max, Y_MARKS);
    for (int i = 0; i <= (int)lround(y->max / step); i++) {
        double value = step * i;
        buf_printf(out,
                   "<line class=\"grid\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/>"
                   "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.10g</text>",
                   MARGIN_LEFT, CHART_WIDTH - MARGIN_RIGHT, y_at(y, value), y_at(y, value),
                   MARGIN_LEFT - 6, y_at(y, value) + 4, value);
    }
}

static void x_label(struct buf *out, double x, const char *text)
{
    buf_printf(out, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%s</text>", x,
               CHART_HEIGHT - MARGIN_BOTTOM + 16, text);
}

/* Draws the number of operations by latency: bars over a logarithmic axis. */
static void write_histogram(const struct histogram *h, struct buf *out)
{
    double counts[BARS_MAX], highest = 1;
    struct axis x = {.min = 10, .max = (double)h->max_us * 1.1, .is_log = true};
    char text[32];
    if (x.max < 1000)
        x.max = 1000;
    double step = log(x.max / x.min) / BARS_MAX;
    for (int i = 0; i < BARS_MAX; i++) {
        double from = i == 0 ? 0 : x.min * exp(step * i);
        counts[i] =
            (double)histogram_between(h, (uint64_t)from, (uint64_t)(x.min * exp(step * (i + 1))));
        if (counts[i] > highest)
            highest = counts[i];
    }
    const struct axis y = axis_up_to(highest);
    chart_begin(out, "Latencies", "how many took how long");
    y_grid(out, &y);
    for (int i = 0; i < BARS_MAX; i++) {
        double left = x_at(&x, x.min * exp(step * i)),
               right = x_at(&x, x.min * exp(step * (i + 1)));
        buf_printf(
            out, "<rect class=\"bar\" x=\"%.1f\" width=\"%.1f\" y=\"%.1f\" height=\"%.1f\"/>", left,
            right - left - 0.5, y_at(&y, counts[i]), y_at(&y, 0) - y_at(&y, counts[i]));
    }
    for (int power = 0; x.min * pow(10, power) < x.max; power++) {
        double at = x.min * pow(10, power);
        (void)snprintf(text, sizeof(text), at < 1000 ? "%g us" : "%g ms",
                       at < 1000 ? at : at / 1000);
        x_label(out, x_at(&x, at), text);
    }
    buf_append(out, SLICE("</svg>"));
}

/* Draws the latency over the percentile, with the percentiles in nines (90, 99, 99.9 ...). */
static void write_percentiles(const struct histogram *h, struct buf *out)
{
    const struct axis x = {.min = 1, .max = 10000, .is_log = true}; /* 1 / (1 - part) */
    const struct axis y = axis_up_to((double)histogram_percentile(h, 99.99) / 1000);
    static const struct {
        double at;
        const char *text;
    } labels[] = {{1, "0 %"},    {2, "50 %"},      {10, "90 %"},
                  {100, "99 %"}, {1000, "99.9 %"}, {10000, "99.99 %"}};
    chart_begin(out, "Latency by percentile", "ms");
    y_grid(out, &y);
    buf_append(out, SLICE("<polyline class=\"curve\" points=\""));
    for (int power = 0; power <= 96; power++) { /* 1.1^96 is just below the axis' end */
        double at = pow(1.1, power);
        double percent = 100 * (1 - 1 / at);
        buf_printf(out, "%.1f,%.1f ", x_at(&x, at),
                   y_at(&y, (double)histogram_percentile(h, percent) / 1000));
    }
    buf_append(out, SLICE("\"/>"));
    for (size_t i = 0; i < ARRAY_LEN(labels); i++)
        x_label(out, x_at(&x, labels[i].at), labels[i].text);
    buf_append(out, SLICE("</svg>"));
}

/* ---- the time line ---- */

/* Returns the value to plot for second i, which is negative if unknown. server: the server figure
 * to plot, or NULL for a figure of the client. */
typedef double (*second_fn)(const struct report *report, size_t i,
                            const struct sampler_figure *server);

static double done_per_s(const struct report *report, size_t i, const struct sampler_figure *server)
{
    (void)server;
    return report->seconds[i].done_per_s;
}

static double p99_ms(const struct report *report, size_t i, const struct sampler_figure *server)
{
    const struct report_second *second = &report->seconds[i];
    (void)server;
    return second->max_us == 0 ? -1 : (double)second->p99_us / 1000; /* no operation has ended */
}

static double of_server(const struct report *report, size_t i, const struct sampler_figure *server)
{
    const struct report_second *second = &report->seconds[i],
                               *before = &report->seconds[i ? i - 1 : 0];
    size_t k = (size_t)(server - sampler_figures);
    double value = second->server.values[k];
    if (!server->is_counter)
        return value * server->factor;
    if (value < 0 || before->server.values[k] < 0 || second->at_s <= before->at_s)
        return -1;
    return (value - before->server.values[k]) / (second->at_s - before->at_s) * server->factor;
}

static void write_line(const struct report *report, const char *title, const char *unit,
                       second_fn value_of, const struct sampler_figure *server, struct buf *out)
{
    double highest = -1;
    for (size_t i = 0; i < report->second_count; i++)
        highest = fmax(highest, value_of(report, i, server));
    if (report->second_count < 2 || highest < 0)
        return;
    const struct axis x = {.min = report->seconds[0].at_s,
                           .max = report->seconds[report->second_count - 1].at_s};
    const struct axis y = axis_up_to(highest);
    char text[32];
    chart_begin(out, title, unit);
    if (x.min < 0)
        buf_printf(out, "<rect class=\"warm\" x=\"%d\" width=\"%.1f\" y=\"%d\" height=\"%d\"/>",
                   MARGIN_LEFT, x_at(&x, fmin(0, x.max)) - MARGIN_LEFT, MARGIN_TOP,
                   CHART_HEIGHT - MARGIN_TOP - MARGIN_BOTTOM);
    y_grid(out, &y);
    buf_append(out, SLICE("<polyline class=\"curve\" points=\""));
    for (size_t i = 0; i < report->second_count; i++) {
        double value = value_of(report, i, server);
        if (value >= 0)
            buf_printf(out, "%.1f,%.1f ", x_at(&x, report->seconds[i].at_s), y_at(&y, value));
    }
    buf_append(out, SLICE("\"/>"));
    double step = fmax(1, nice_step(x.max - x.min, X_MARKS));
    for (long mark = lround(ceil(x.min / step)); (double)mark * step <= x.max; mark++) {
        double at = (double)mark * step;
        (void)snprintf(text, sizeof(text), "%.0f s", at);
        x_label(out, x_at(&x, at), text);
    }
    buf_append(out, SLICE("</svg>"));
}

/* ---- the page ---- */

static void write_row(const struct report *report, slice name, const struct load_part *part,
                      struct buf *out)
{
    const struct histogram *h = &part->latencies;
    buf_append(out, SLICE("<tr><td>"));
    write_escaped(out, name);
    buf_printf(out, "</td><td>%.0f</td><td>%llu</td><td>%llu</td>",
               (double)part->done / report->measured_s, (unsigned long long)part->done,
               (unsigned long long)part->wrong);
    for (size_t i = 0; i < report_percent_count; i++)
        buf_printf(out, "<td>%.3f</td>",
                   (double)histogram_percentile(h, report_percents[i]) / 1000);
    buf_append(out, SLICE("</tr>"));
}

static void write_table(const struct report *report, struct buf *out)
{
    const struct load_options *options = report->options;
    buf_append(out, SLICE("<div class=\"wide\"><table><tr><th>scenario</th><th>a second</th>"
                          "<th>done</th><th>failed</th>"));
    for (size_t i = 0; i < report_percent_count; i++)
        buf_printf(out, "<th>p%g</th>", report_percents[i]);
    buf_append(out, SLICE("</tr>"));
    for (size_t i = 0; i < options->scenario_count; i++)
        write_row(report, options->scenarios[i].name, &report->parts[i], out);
    if (options->scenario_count > 1)
        write_row(report, SLICE("all"), &report->total, out);
    buf_append(out,
               SLICE("</table></div><p class=\"note\">p50: what half of the operations did not "
                     "exceed, in ms, and so on.</p>"));
}

void report_write_html(const struct report *report, struct buf *out)
{
    const struct load_options *options = report->options;
    char when[TIME_TEXT_LEN + 1];
    time_format(report->started_us, when);
    buf_append(out, SLICE("<!doctype html><html lang=\"en\"><meta charset=\"utf-8\">"
                          "<meta name=\"viewport\" content=\"width=device-width\">"
                          "<title>sluice-bench</title><style>"));
    buf_append_cstr(out, style);
    buf_append(out, SLICE("</style><h1>sluice-bench</h1><p class=\"note\">"));
    write_escaped(out, slice_cstr(options->base));
    buf_printf(out, ", %s, %llu connections, %llu load process%s (%.0f %% of a core), ", when,
               (unsigned long long)options->connections, (unsigned long long)options->processes,
               options->processes > 1 ? "es" : "", 100 * report->cpu);
    if (options->rate > 0)
        buf_printf(out, "open loop at %g a second", options->rate);
    else
        buf_append(out, SLICE("closed loop"));
    buf_printf(out, ", %.0f s after %llu s of warm-up (shaded)</p>", report->measured_s,
               (unsigned long long)options->warmup_s);
    write_table(report, out);
    if (report->why[0]) {
        buf_append(out, SLICE("<p>The first failure: "));
        write_escaped(out, slice_cstr(report->why));
        buf_append(out, SLICE("</p>"));
    }
    if (report->total.latencies.total > 0) {
        write_histogram(&report->total.latencies, out);
        write_percentiles(&report->total.latencies, out);
    }
    write_line(report, "Throughput", "a second", done_per_s, NULL, out);
    write_line(report, "99th percentile, second by second", "ms", p99_ms, NULL, out);
    for (const struct sampler_figure *server = sampler_figures;
         server < sampler_figures + SAMPLER_FIGURES; server++)
        write_line(report, server->title, server->unit, of_server, server, out);
    buf_append(out, SLICE("</html>\n"));
}
