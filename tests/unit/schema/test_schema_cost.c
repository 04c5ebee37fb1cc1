/*
 * The cost of a validation: no schema, pattern or instance blocks the loop for more than 50 ms of
 * CPU time. Also the cost of a validation of usual size. The release build of this program keeps
 * this limit and prints the figures (`make bench-micro`, and a part of `make test`). With
 * sanitizers, which are many times slower, it shows that every case ends, within a limit that is
 * looser by the same factor.
 */
#include <string.h>

#include "base/clock.h"
#include "schema/schema.h"
#include "support/json_test.h"
#include "support/slowness.h"

enum {
    HELD_MS_MAX = 50 * BUILD_SLOWNESS,
    COMPILE_MS_MAX = 250 * BUILD_SLOWNESS, /* spent when a manifest is loaded, not while requests
                                            * wait */
    BUSY_ROOM = 3,                         /* the factor that allows for a machine with other
                                            * work */
    DEEP = 500,
    LEVELS = 40,
    /* With sanitizers, building such instances takes long. */
    MANY = BUILD_SLOWNESS == 1 ? 1000 * 1000 : 100 * 1000,
};

/* ---- instances ---- */

static struct json letters(struct arena *arena, size_t count)
{
    char *text = arena_alloc_text(arena, count);
    assert_non_null(text);
    memset(text, 'a', count);
    return json_string((slice){text, count});
}

static struct json nested_arrays(struct arena *arena)
{
    struct json deep = json_array();
    for (int i = 0; i < DEEP; i++) {
        struct json outer = json_array();
        json_array_push(arena, &outer, deep);
        deep = outer;
    }
    return deep;
}

static struct json nested_objects(struct arena *arena)
{
    struct json deep = json_object();
    for (int i = 0; i < DEEP; i++) {
        struct json outer = json_object();
        json_object_set(arena, &outer, SLICE("a"), deep);
        json_object_set(arena, &outer, SLICE("b"), json_i64(i));
        deep = outer;
    }
    return deep;
}

static struct json numbers(struct arena *arena, size_t count)
{
    struct json list = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_push(arena, &list, json_i64((int64_t)i));
    return list;
}

/* Objects that differ only in their last member. */
static struct json likenesses(struct arena *arena)
{
    struct json list = json_array();
    for (int i = 0; i < 5000; i++) {
        struct json object = json_object();
        for (int j = 0; j < 20; j++)
            json_object_set(arena, &object, arena_printf(arena, "k%d", j),
                            json_i64(j == 19 ? i : j));
        json_array_push(arena, &list, object);
    }
    return list;
}

static struct json many_members(struct arena *arena)
{
    struct json object = json_object();
    for (int i = 0; i < MANY / 10; i++)
        json_object_set(arena, &object, arena_printf(arena, "aaaaaaaaaaaaaaaaaaaaaaaa%d", i),
                        json_i64(i));
    return object;
}

/* Each is as long as a pattern's memory for backtracking allows. */
static struct json long_texts(struct arena *arena)
{
    struct json list = json_array();
    for (int i = 0; i < 20; i++)
        json_array_push(arena, &list, letters(arena, 16 * 1000));
    return list;
}

/* ---- schemas ---- */

/* {"$ref":"#/$defs/n0","$defs":{"n0":{keyword:[next,next]},...}}: 2^LEVELS ways through it. */
static const char *doubling(struct arena *arena, const char *keyword, const char *last)
{
    struct buf text;
    buf_init(&text, 64 * 1024);
    buf_append_cstr(&text, "{\"$ref\":\"#/$defs/n0\",\"$defs\":{");
    for (int i = 0; i < LEVELS; i++)
        buf_printf(&text,
                   "\"n%d\":{\"%s\":[{\"$ref\":\"#/$defs/n%d\"},{\"$ref\":\"#/$defs/n%d\"}]},", i,
                   keyword, i + 1, i + 1);
    buf_printf(&text, "\"n%d\":%s}}", LEVELS, last);
    const char *schema = arena_cstr(arena, buf_slice(&text));
    buf_deinit(&text);
    assert_non_null(schema);
    return schema;
}

/* An enum of `count` items with a long common prefix. */
static const char *huge_enum(struct arena *arena, int count)
{
    struct buf text;
    buf_init(&text, 16 * 1024 * 1024);
    buf_append_cstr(&text, "{\"items\":{\"enum\":[");
    for (int i = 0; i < count; i++)
        buf_printf(&text, "%s[[[[0,1,2,3]]],\"%0100d\"]", i > 0 ? "," : "", i);
    buf_append_cstr(&text, "]}}");
    const char *schema = arena_cstr(arena, buf_slice(&text));
    buf_deinit(&text);
    assert_non_null(schema);
    return schema;
}

static const char *many_patterns(struct arena *arena)
{
    struct buf text;
    buf_init(&text, 1024 * 1024);
    buf_append_cstr(&text, "{\"patternProperties\":{");
    for (int i = 0; i < 500; i++)
        buf_printf(&text, "%s\"a*a*b%d\":{\"type\":\"null\"}", i > 0 ? "," : "", i);
    buf_append_cstr(&text, "},\"unevaluatedProperties\":false}");
    const char *schema = arena_cstr(arena, buf_slice(&text));
    buf_deinit(&text);
    assert_non_null(schema);
    return schema;
}

static const char *ref_chain(struct arena *arena)
{
    struct buf text;
    buf_init(&text, 4 * 1024 * 1024);
    buf_append_cstr(&text, "{\"$ref\":\"#/$defs/d0\",\"$defs\":{");
    for (int i = 0; i < 20000; i++)
        buf_printf(&text, "\"d%d\":{\"$ref\":\"#/$defs/d%d\"},", i, i + 1);
    buf_append_cstr(&text, "\"d20000\":{\"type\":\"null\"}}}");
    const char *schema = arena_cstr(arena, buf_slice(&text));
    buf_deinit(&text);
    assert_non_null(schema);
    return schema;
}

/* ---- nothing holds the loop ---- */

struct worst {
    uint64_t compile_us, held_us;
    const char *which;
};

/* Checks that a validation ends within the limit. Without a limit, each would run for minutes or
 * forever. */
static void check(struct arena *arena, const char *schema_text, const struct json *instance,
                  struct worst *worst)
{
    struct err err = {0};
    const struct json *document = parse(arena, schema_text);
    const struct schema *schema;
    struct schema_report report;
    bool is_valid;
    uint64_t compile_us, held_us;
    unsigned times = 0;
    do {
        uint64_t start = clock_thread_cpu_ns();
        schema = schema_compile(arena, document, true, &err);
        compile_us = (clock_thread_cpu_ns() - start) / 1000;
        if (!schema)
            fail_msg("%.200s: %s", schema_text, err.text);
    } while (compile_us >= COMPILE_MS_MAX * 1000 && ++times < MEASURED_TIMES_MAX);
    times = 0;
    do {
        schema_report_init(&report, arena, SLICE_NONE);
        uint64_t start = clock_thread_cpu_ns();
        is_valid = schema_validate(schema, instance, &report);
        held_us = (clock_thread_cpu_ns() - start) / 1000;
    } while (held_us >= HELD_MS_MAX * 1000 && ++times < MEASURED_TIMES_MAX);
    print_message("%7.1f ms, compiled in %5.1f ms: %.100s\n", (double)held_us / 1e3,
                  (double)compile_us / 1e3, schema_text);
    assert_true(is_valid == (report.count == 0));
    if (held_us > worst->held_us) {
        worst->held_us = held_us;
        worst->which = schema_text;
    }
    if (compile_us > worst->compile_us)
        worst->compile_us = compile_us;
    assert_true(held_us < HELD_MS_MAX * 1000);
    assert_true(compile_us < COMPILE_MS_MAX * 1000);
}

static void report_worst(const char *what, const struct worst *worst)
{
    if (BUILD_SLOWNESS == 1)
        print_message("figure: hostile %s: at most %.1f ms of CPU (bar 50), compiled in %.1f; the "
                      "worst is %.60s\n",
                      what, (double)worst->held_us / 1e3, (double)worst->compile_us / 1e3,
                      worst->which);
}

static void hostile_patterns_end_in_time(void **state)
{
    static const char *const schemas[] = {
        "{\"pattern\":\"^(a+)+$.\"}",
        "{\"pattern\":\"a*b\"}",
        "{\"pattern\":\"(?=(a+))a*b\\\\1c|a*d\"}",
        "{\"pattern\":\"^(a*)\\\\1b\"}",
        "{\"pattern\":\"[a-z]{1000}[0-9]\"}",
        "{\"pattern\":\"^(a|a)*$.\"}",
        "{\"pattern\":\"^(a|aa)+$.\"}",
        "{\"pattern\":\"^(([a-z])+.)+[A-Z]([a-z])+$\"}",
        "{\"pattern\":\"(.*)(.*)(.*)(.*)(.*)[^a]\"}",
        "{\"pattern\":\"(?:a?){500}a{500}b\"}",
        "{\"pattern\":\"\\\\p{L}*\\\\d\"}",
        "{\"anyOf\":[{\"pattern\":\"(x+x+)+y\"},{\"pattern\":\"(a+a+)+y\"},{\"pattern\":"
        "\"(a*)*c\"}]}",
        "{\"format\":\"email\",\"allOf\":[{\"format\":\"uri\"},{\"format\":\"hostname\"},"
        "{\"format\":\"date-time\"},{\"format\":\"ipv6\"},{\"format\":\"duration\"}]}",
        "{\"format\":\"regex\"}",
        "{\"maxLength\":3,\"minLength\":3000000}",
        "{\"enum\":[\"b\",\"c\"],\"const\":\"d\",\"not\":{\"type\":\"string\"}}",
    };
    const struct json text = letters(*state, 1024 * 1024);
    struct worst worst = {0};
    for (size_t i = 0; i < ARRAY_LEN(schemas); i++)
        check(*state, schemas[i], &text, &worst);
    const struct json texts = long_texts(*state);
    check(*state, "{\"items\":{\"pattern\":\"^(?:a|b)*$\"}}", &texts, &worst);
    const struct json object = many_members(*state);
    check(*state, many_patterns(*state), &object, &worst);
    check(*state, "{\"propertyNames\":{\"pattern\":\"^(a+)+$\"}}", &object, &worst);
    check(*state, "{\"patternProperties\":{\"(a|a)*c\":true},\"additionalProperties\":false}",
          &object, &worst);
    report_worst("patterns", &worst);
}

static void recursion_without_end_ends_in_time(void **state)
{
    static const char *const schemas[] = {
        "{\"$ref\":\"#\"}",
        "{\"$dynamicRef\":\"#a\",\"$dynamicAnchor\":\"a\"}",
        "{\"not\":{\"$ref\":\"#\"}}",
        "{\"anyOf\":[{\"$ref\":\"#\"},{\"$ref\":\"#\"}]}",
        "{\"allOf\":[{\"$ref\":\"#\"},{\"$ref\":\"#\"}]}",
        "{\"oneOf\":[{\"$ref\":\"#\"},{\"$ref\":\"#\"}]}",
        "{\"items\":{\"anyOf\":[{\"$ref\":\"#\"},{\"$ref\":\"#\"}]},\"maxItems\":0}",
        "{\"items\":{\"allOf\":[{\"$ref\":\"#\"},{\"$ref\":\"#\"}]}}",
        "{\"items\":{\"oneOf\":[{\"$ref\":\"#\"},{\"$ref\":\"#\"}]}}",
        "{\"items\":{\"if\":{\"$ref\":\"#\"},\"then\":{\"$ref\":\"#\"},\"else\":{\"$ref\":"
        "\"#\"}}}",
        "{\"contains\":{\"anyOf\":[{\"$ref\":\"#\"},{\"$ref\":\"#\"}]},\"items\":{\"$ref\":"
        "\"#\"},\"unevaluatedItems\":{\"$ref\":\"#\"}}",
    };
    const struct json arrays = nested_arrays(*state), objects = nested_objects(*state);
    struct worst worst = {0};
    for (size_t i = 0; i < ARRAY_LEN(schemas); i++)
        check(*state, schemas[i], &arrays, &worst);
    check(*state, ref_chain(*state), &arrays, &worst);
    check(*state,
          "{\"additionalProperties\":{\"allOf\":[{\"$ref\":\"#\"},{\"$ref\":\"#\"}]},"
          "\"unevaluatedProperties\":{\"$ref\":\"#\"}}",
          &objects, &worst);
    check(*state,
          "{\"dependentSchemas\":{\"a\":{\"$ref\":\"#\"},\"b\":{\"$ref\":\"#\"}},\"properties\":"
          "{\"a\":{\"$ref\":\"#\"}}}",
          &objects, &worst);
    report_worst("recursion", &worst);
}

static void exponential_schemas_end_in_time(void **state)
{
    static const char *const keywords[] = {"allOf", "anyOf", "oneOf"};
    static const char *const ends[] = {"true", "false", "{\"type\":\"null\"}",
                                       "{\"properties\":{\"a\":true}}"};
    const struct json objects = nested_objects(*state);
    struct worst worst = {0};
    for (size_t i = 0; i < ARRAY_LEN(keywords); i++)
        for (size_t j = 0; j < ARRAY_LEN(ends); j++)
            check(*state, doubling(*state, keywords[i], ends[j]), &objects, &worst);
    report_worst("combinations", &worst);
}

static void huge_instances_end_in_time(void **state)
{
    static const char *const schemas[] = {
        "{\"items\":{\"enum\":[-1,-2,-3,-4,-5,-6,-7,-8,-9,-10,-11,-12,-13,-14,-15,-16]}}",
        "{\"contains\":{\"const\":-1}}",
        "{\"uniqueItems\":true}",
        "{\"items\":{\"multipleOf\":1e-300},\"uniqueItems\":true}",
        "{\"anyOf\":[{\"items\":{\"type\":\"string\"}},{\"prefixItems\":[true],\"items\":"
        "{\"minimum\":5e9}}],\"unevaluatedItems\":false}",
        "{\"minContains\":1000000,\"contains\":{\"oneOf\":[{\"minimum\":3},{\"maximum\":7}]}}",
    };
    const struct json list = numbers(*state, MANY), few = numbers(*state, 2000);
    const struct json alike = likenesses(*state), object = many_members(*state);
    const char *enumerated = huge_enum(*state, MANY / 50);
    struct worst worst = {0};
    for (size_t i = 0; i < ARRAY_LEN(schemas); i++)
        check(*state, schemas[i], &list, &worst);
    check(*state, "{\"uniqueItems\":true}", &alike, &worst);
    check(*state, "{\"items\":{\"uniqueItems\":true,\"additionalProperties\":{\"minimum\":1}}}",
          &alike, &worst);
    check(*state, enumerated, &few, &worst);
    check(*state, enumerated, &alike, &worst);
    check(*state, "{\"propertyNames\":{\"maxLength\":5},\"additionalProperties\":false}", &object,
          &worst);
    report_worst("instances", &worst);
}

/* ---- usual sizes ---- */

/* The input of a mail, as an agent sends it. */
static const char usual_schema[] =
    "{\"type\":\"object\",\"required\":[\"to\",\"subject\"],\"properties\":{\"to\":{\"type\":"
    "[\"string\",\"array\"],\"items\":{\"type\":\"string\",\"minLength\":3,\"maxLength\":320,"
    "\"pattern\":\"^[^@]+@[^@]+$\"},\"minItems\":1,\"maxItems\":100},\"cc\":{\"type\":\"array\","
    "\"items\":{\"type\":\"string\",\"minLength\":3},\"maxItems\":100},\"subject\":{\"type\":"
    "\"string\",\"maxLength\":998},\"text\":{\"type\":\"string\"},\"html\":{\"type\":\"string\"},"
    "\"threadId\":{\"type\":\"string\",\"pattern\":\"^[0-9a-f]{1,32}$\"},\"sendAt\":{\"type\":"
    "\"string\",\"format\":\"date-time\"},\"labels\":{\"type\":\"array\",\"items\":{\"type\":"
    "\"string\",\"enum\":[\"INBOX\",\"STARRED\",\"IMPORTANT\",\"UNREAD\"]},\"uniqueItems\":true},"
    "\"priority\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":5}},\"anyOf\":[{\"required\":"
    "[\"text\"]},{\"required\":[\"html\"]}],\"additionalProperties\":false}";

static struct json usual_input(struct arena *arena)
{
    struct buf text;
    buf_init(&text, 4096);
    buf_append_cstr(&text, "{\"to\":[\"anna.keller@example.com\",\"ben.ortiz@example.com\"],"
                           "\"cc\":[\"sam.rivera@example.com\"],\"subject\":\"The offsite in "
                           "March\",\"threadId\":\"18c2f4a91b7d3e05\",\"sendAt\":"
                           "\"2026-03-01T08:30:00Z\",\"labels\":[\"STARRED\",\"UNREAD\"],"
                           "\"priority\":2,\"text\":\"");
    while (text.len < 1000)
        buf_append_cstr(&text, "We meet at the house. ");
    buf_append_cstr(&text, "\"}");
    const struct json *input = parse(arena, arena_cstr(arena, buf_slice(&text)));
    buf_deinit(&text);
    return *input;
}

static int compare_times(const void *a, const void *b)
{
    const uint64_t *left = a, *right = b;
    return *left < *right ? -1 : *left > *right;
}

static void a_usual_input_is_validated_in_microseconds(void **state)
{
    enum { BATCHES = 200, EACH = 100 };
    uint64_t times[BATCHES];
    struct err err;
    const struct schema *schema = schema_compile(*state, parse(*state, usual_schema), true, &err);
    const struct json input = usual_input(*state);
    assert_non_null(schema);
    for (size_t i = 0; i < BATCHES; i++) {
        uint64_t start = clock_thread_cpu_ns();
        for (size_t j = 0; j < EACH; j++)
            assert_true(schema_validate(schema, &input, NULL));
        times[i] = (clock_thread_cpu_ns() - start) / EACH;
    }
    qsort(times, BATCHES, sizeof(*times), compare_times);
    if (BUILD_SLOWNESS == 1)
        print_message("figure: validating an input of 1 kB: median %.2f us, p99 %.2f us of CPU "
                      "(bar 5)\n",
                      (double)times[BATCHES / 2] / 1e3, (double)times[BATCHES * 99 / 100] / 1e3);
    assert_true(times[BATCHES / 2] < 5 * 1000 * BUSY_ROOM * BUILD_SLOWNESS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ARENA_TEST(hostile_patterns_end_in_time),
        ARENA_TEST(recursion_without_end_ends_in_time),
        ARENA_TEST(exponential_schemas_end_in_time),
        ARENA_TEST(huge_instances_end_in_time),
        ARENA_TEST(a_usual_input_is_validated_in_microseconds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
