/*
 * Counting steps and jumps; see table.h.
 */
#include "seam/table.h"

#include <stdio.h>
#include <string.h>

enum { CLASSES_MAX = 32 };

struct table {
    const struct op_class *class;
    uint64_t ran;
    size_t steps;
    uint64_t jumps[OP_STEPS_MAX];
};

static struct table tables[CLASSES_MAX];
static size_t count;
static struct {
    const char *class_name; /* NULL: nothing is to be cancelled */
    size_t steps;
} cut;

static struct table *table_of(const struct op_class *class)
{
    for (size_t i = 0; i < count; i++)
        if (tables[i].class == class)
            return &tables[i];
    ASSERT(count < CLASSES_MAX);
    tables[count].class = class;
    return &tables[count++];
}

/* Returns whether the op was cancelled. */
static bool cancel_due(struct op *op)
{
    if (!cut.class_name || strcmp(op->class->name, cut.class_name) != 0 || cut.steps-- > 0)
        return false;
    cut.class_name = NULL;
    op_cancel(op);
    return true;
}

static void on_step(struct op *op)
{
    if (cancel_due(op))
        return;
    struct table *table = table_of(op->class);
    table->ran |= OP_TO(op->step);
    table->steps++;
}

static void on_jump(const struct op *op, size_t to)
{
    table_of(op->class)->jumps[op->step] |= OP_TO(to);
}

void seam_table_watch(void)
{
    op_on_step = on_step;
    op_on_jump = on_jump;
}

static size_t missing_of(const struct table *table)
{
    const struct op_step *steps = table->class->steps;
    size_t missing = 0;
    for (size_t from = 0; from < table->class->step_count; from++) {
        if (!(table->ran & OP_TO(from))) {
            fprintf(stderr, "%s: %s has not run\n", table->class->name, steps[from].name);
            missing++;
        }
        for (size_t to = 0; to < table->class->step_count; to++) {
            if (!(steps[from].jumps & ~table->jumps[from] & OP_TO(to)))
                continue;
            fprintf(stderr, "%s: no jump from %s to %s\n", table->class->name, steps[from].name,
                    steps[to].name);
            missing++;
        }
    }
    return missing;
}

size_t seam_table_missing(const char *class_name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(tables[i].class->name, class_name) == 0)
            return missing_of(&tables[i]);
    fprintf(stderr, "no op of class %s has run\n", class_name);
    return SIZE_MAX;
}

size_t seam_table_steps(const char *class_name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(tables[i].class->name, class_name) == 0)
            return tables[i].steps;
    return 0;
}

void seam_table_cancel(const char *class_name, size_t steps)
{
    cut.class_name = class_name;
    cut.steps = steps;
}

bool seam_table_has_cancelled(void)
{
    bool has_cancelled = !cut.class_name;
    cut.class_name = NULL;
    return has_cancelled;
}
