/*
 * Progress lines; see stage.h.
 */
#include "dev/stage.h"

#include "base/clock.h"

static double seconds_since(uint64_t began_ns)
{
    return (double)(clock_mono_ns() - began_ns) / 1e9;
}

void dev_stages_init(struct dev_stages *stages, FILE *out)
{
    *stages = (struct dev_stages){.out = out, .first_ns = clock_mono_ns()};
}

static void print_begin(const struct dev_stages *stages, const char *text)
{
    (void)fprintf(stages->out, "  %s ...", text);
    (void)fflush(stages->out);
}

static bool close_stage(struct dev_stages *stages)
{
    if (!stages || !stages->is_open)
        return false;
    stages->is_open = false;
    if (stages->later)
        print_begin(stages, stages->later);
    return true;
}

void dev_stages_end(struct dev_stages *stages)
{
    if (!close_stage(stages))
        return;
    (void)fprintf(stages->out, " %.2f s\n", seconds_since(stages->began_ns));
    (void)fflush(stages->out);
}

void dev_stages_fail(struct dev_stages *stages)
{
    if (!close_stage(stages))
        return;
    (void)fputs(" failed\n", stages->out);
    (void)fflush(stages->out);
}

static bool open_stage(struct dev_stages *stages, const char *later)
{
    if (!stages || !stages->out)
        return false;
    dev_stages_end(stages);
    stages->began_ns = clock_mono_ns();
    stages->is_open = true;
    stages->later = later;
    return true;
}

void dev_stage(struct dev_stages *stages, const char *text)
{
    if (open_stage(stages, NULL))
        print_begin(stages, text);
}

void dev_stage_later(struct dev_stages *stages, const char *text)
{
    (void)open_stage(stages, text);
}

double dev_stages_seconds(const struct dev_stages *stages)
{
    return seconds_since(stages->first_ns);
}
