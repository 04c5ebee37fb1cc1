/*
 * Search: exact names, words, typing mistakes, beginnings, relevance, words that are only mentioned
 * or are unwanted, order, limits, hostile queries, failing memory. It has its own small catalog, so
 * a new manifest changes nothing here. test_search_quality.c measures the ranking with the real
 * catalog.
 */
#include "catalog/search.h"
#include "search/reading.h"
#include "unit.h"

/* id, title, tags, description, properties */
#define ACTION(id, title, tags, description, properties)                                         \
    "{\"action_id\":\"" id "\",\"title\":\"" title "\",\"description\":\"" description           \
    "\",\"tags\":[" tags "],\"side_effect_level\":\"read\",\"input_schema\":{\"type\":"          \
    "\"object\",\"additionalProperties\":false,\"properties\":{" properties "}},"                \
    "\"request\":{\"method\":\"GET\",\"path\":\"/x\"},\"display\":{\"title\":\"x\",\"summary\":" \
    "\"x\"},\"examples\":[]}"
#define APP(id, name, category, tags, description, actions)                                      \
    "{\"integration_id\":\"" id "\",\"name\":\"" name "\",\"description\":\"" description        \
    "\",\"category\":\"" category "\",\"tags\":[" tags "],\"base_url\":\"https://example.com\"," \
    "\"auth\":{\"type\":\"none\"},\"actions\":[" actions "]}"

static const char post_office[] = APP(
    "post", "Post Office", "mail", "\"letters\"", "Letters and parcels.",
    ACTION("send_letter", "Send a letter", "\"mail\"", "Sends one letter at once.", "") "," ACTION(
        "list_letters", "List letters", "\"inbox\"", "Lists letters, newest first.",
        "") "," ACTION("get_letter", "Get a letter", "", "Reads one letter.",
                       "") "," ACTION("delete_letter", "Delete a letter", "",
                                      "Deletes one letter for good.", ""));

static const char table_works[] = APP(
    "tables", "TableWorks", "spreadsheets", "", "Spreadsheets in the cloud.",
    ACTION("create_spreadsheet", "Create a spreadsheet", "", "Makes an empty one.", "") "," ACTION(
        "append_rows", "Append rows", "\"insert\"", "Adds rows at the end.",
        "\"warehouseId\":{\"type\":\"string\",\"description\":"
        "\"Where\"}") "," ACTION("get_self", "Get the own user", "\"whoami\"",
                                 "Reads the own user.", "") "," ACTION("search", "Search", "",
                                                                       "Finds spreadsheets by "
                                                                       "their name.",
                                                                       ""));

/* Apps that differ only in their ids. */
static const char twin_a[] =
    APP("twin_a", "Twin", "things", "", "A twin.", ACTION("polish", "Polish", "", "Polishes.", ""));
static const char twin_b[] =
    APP("twin_b", "Twin", "things", "", "A twin.", ACTION("polish", "Polish", "", "Polishes.", ""));

struct bench {
    struct catalog_report report;
    struct catalog *catalog;
    struct arena arena;
    struct catalog_hit *hits;
    size_t count;
};

static struct catalog *load(struct bench *b)
{
    const struct catalog_source sources[] = {{SLICE("twin_b"), slice_cstr(twin_b)},
                                             {SLICE("tables"), slice_cstr(table_works)},
                                             {SLICE("post"), slice_cstr(post_office)},
                                             {SLICE("twin_a"), slice_cstr(twin_a)}};
    return catalog_load(sources, sizeof(sources) / sizeof(*sources), &b->report);
}

static int setup(void **state)
{
    struct bench *b = mem_zalloc(sizeof(*b));
    catalog_report_init(&b->report);
    arena_init(&b->arena, 16 * 1024 * 1024);
    b->catalog = load(b);
    for (size_t i = 0; i < b->report.count; i++)
        print_error("%.*s: %.*s\n", SLICE_ARG(b->report.problems[i].pointer),
                    SLICE_ARG(b->report.problems[i].text));
    *state = b;
    return b->catalog ? 0 : -1;
}

static int teardown(void **state)
{
    struct bench *b = *state;
    catalog_unref(b->catalog);
    arena_deinit(&b->arena);
    catalog_report_deinit(&b->report);
    mem_free(b);
    return unit_end();
}

static void run(struct bench *b, const struct search_request *request)
{
    assert_int_equal(catalog_search(b->catalog, &b->arena, request, &b->hits, &b->count), OK);
    assert_true(b->count <= request->limit);
}

static void find(struct bench *b, const char *query)
{
    run(b, &(struct search_request){.query = slice_cstr(query),
                                    .with_integrations = true,
                                    .with_actions = true,
                                    .limit = 20});
}

static slice name_of(const struct catalog_hit *hit)
{
    return hit->action ? hit->action->tool_name : hit->integration->integration_id;
}

/* Checks that the first hit is this tool, or this integration. */
static void check_first(struct bench *b, const char *query, const char *name, int line)
{
    find(b, query);
    slice got = b->count > 0 ? name_of(&b->hits[0]) : SLICE("nothing");
    if (!slice_eq_cstr(got, name))
        print_error("line %d: \"%s\" found %.*s\n", line, query, SLICE_ARG(got));
    assert_true(slice_eq_cstr(got, name));
}

#define assert_first(b, query, name) check_first((b), (query), (name), __LINE__)

static void check_nothing(struct bench *b, const char *query, int line)
{
    find(b, query);
    if (b->count > 0)
        print_error("line %d: \"%s\" found %.*s (%f)\n", line, query, SLICE_ARG(name_of(b->hits)),
                    (double)b->hits[0].score);
    assert_int_equal(b->count, 0);
}

#define assert_nothing(b, query) check_nothing((b), (query), __LINE__)

static void exact_names_come_first(void **state)
{
    assert_first(*state, "post_get_letter", "post_get_letter");
    assert_first(*state, "get_letter", "post_get_letter");
    assert_first(*state, "GET letter", "post_get_letter");
    assert_first(*state, "post", "post");
    assert_first(*state, "tables", "tables");
    assert_first(*state, "search", "tables_search");
    assert_first(*state, "tables_get_self", "tables_get_self");
    assert_first(*state, " twin_b_polish ", "twin_b_polish");
}

static void words_are_found_by_stem_and_synonym(void **state)
{
    assert_first(*state, "sending letters", "post_send_letter");
    assert_first(*state, "remove the letter please", "post_delete_letter");
    assert_first(*state, "read a letter", "post_get_letter");
    assert_first(*state, "make a new workbook", "tables_create_spreadsheet");
    assert_first(*state, "show all letters", "post_list_letters");
    assert_first(*state, "WAREHOUSE", "tables_append_rows");
}

static void one_typing_mistake_is_forgiven(void **state)
{
    assert_first(*state, "sned a letter", "post_send_letter");
    assert_first(*state, "delte letter", "post_delete_letter");
    assert_first(*state, "apend rows", "tables_append_rows");
    assert_first(*state, "appendd rows", "tables_append_rows");
    assert_first(*state, "creaxe spredsheet", "tables_create_spreadsheet");
    assert_first(*state, "xpolish", "twin_a_polish");
    assert_nothing(*state, "pxlixh"); /* two typing mistakes are too many */
    assert_nothing(*state, "bost");   /* a changed letter in a short word makes another word */
    assert_nothing(*state, "kpost");
}

static void beginnings_and_joined_words_are_found(void **state)
{
    assert_first(*state, "spreads", "tables_create_spreadsheet");
    assert_first(*state, "create sprea", "tables_create_spreadsheet");
    assert_first(*state, "pol", "twin_a_polish");
    assert_first(*state, "create a spread sheet", "tables_create_spreadsheet");
    assert_first(*state, "appendrows", "tables_append_rows");
    assert_first(*state, "deleteLetter", "post_delete_letter");
    assert_first(*state, "who am i", "tables_get_self"); /* words: ok */
    assert_nothing(*state, "po");                        /* too short for a beginning */
}

static void what_has_no_known_word_finds_nothing(void **state)
{
    static const char *const queries[] = {
        "volcano", "zzzz xxxx", "the",   "of the and to my",
        "",        "   ",       "?!.,;", "quantum chromodynamics lattice calculation"};
    for (size_t i = 0; i < sizeof(queries) / sizeof(*queries); i++)
        assert_nothing(*state, queries[i]);
}

/* There is no minimum: one known word finds the documents that contain it, whatever the other
 * words are. */
static void one_known_word_is_enough(void **state)
{
    struct bench *b = *state;
    static const char *const queries[] = {
        "parcels",
        "quick brown foxes jumped over lazy dogs carrying some parcels",
        "the volcano that buried the town had nothing to do with parcels",
        "volcano \"parcels\"",
        "Vesuvius: parcels",
        "parcels in 79 about 12:00",
    };
    for (size_t i = 0; i < sizeof(queries) / sizeof(*queries); i++) {
        find(b, queries[i]);
        assert_true(b->count > 0);
        assert_true(slice_eq_cstr(b->hits[0].integration->integration_id, "post"));
    }
}

static void relevance_is_high_for_half_of_what_is_asked(void **state)
{
    struct bench *b = *state;
    static const char *const high[] = {"send a letter",
                                       "send_letter",
                                       "post",
                                       "letters",
                                       "send a letter to my landlord that the heating is broken",
                                       "Send 12 letters to Anna Karenina in Yasnaya Polyana"};
    static const char *const low[] = {"quick brown foxes carrying parcels over lazy dogs",
                                      "bake a chocolate cake in a warehouse"};
    for (size_t i = 0; i < ARRAY_LEN(high); i++) {
        find(b, high[i]);
        assert_true(b->count > 0 && b->hits[0].is_high);
        assert_true(slice_eq(catalog_relevance_name(&b->hits[0]), SLICE("high")));
    }
    for (size_t i = 0; i < ARRAY_LEN(low); i++) {
        find(b, low[i]);
        assert_true(b->count > 0);
        for (size_t j = 0; j < b->count; j++)
            assert_false(b->hits[j].is_high);
        assert_true(slice_eq(catalog_relevance_name(&b->hits[0]), SLICE("low")));
    }
}

static void fitting_hits_are_those_of_high_relevance(void **state)
{
    struct bench *b = *state;
    find(b, "delete a letter in the spreadsheet");
    size_t all = b->count, high = 0;
    for (size_t i = 0; i < all; i++)
        high += b->hits[i].is_high;
    assert_true(high > 0 && high < all);
    const struct catalog_hit first = b->hits[0];
    assert_int_equal(catalog_hits_keep_fitting(b->hits, all), high);
    for (size_t i = 0; i < high; i++)
        assert_true(b->hits[i].is_high);
    assert_ptr_equal(b->hits[0].action, first.action);
    find(b, "bake a chocolate cake in a warehouse");
    assert_int_equal(catalog_hits_keep_fitting(b->hits, b->count), b->count);
}

/* The subject, recipient and date of a letter do not say what to do. */
static void what_is_reported_does_not_count(void **state)
{
    struct bench *b = *state;
    assert_first(b, "send a letter saying that he must delete the spreadsheet", "post_send_letter");
    assert_first(b, "send a letter about the rows to append", "post_send_letter");
    assert_first(b, "send a letter: polish the spreadsheet", "post_send_letter");
    assert_first(b, "send a letter \"create a spreadsheet\"", "post_send_letter");
    assert_first(b, "delete the letter that I had to send", "post_delete_letter");
    assert_first(b, "the spreadsheet is broken, send a letter", "post_send_letter"); /* words: ok */
    assert_first(b, "remind the post that my letter is late", "post_send_letter");
    assert_first(b, "get rid of the letter", "post_delete_letter");
    assert_first(b, "let Anna know that it is polished, with a letter", "post_send_letter");
}

/* The twins differ only in whether they are connected. */
static void what_is_connected_comes_first_among_near_equals(void **state)
{
    struct bench *b = *state;
    bool connected[4] = {false, false, false, true}; /* post, tables, twin_a, twin_b */
    struct search_request request = {.query = SLICE("polish"), .with_actions = true, .limit = 20};
    run(b, &request);
    assert_true(slice_eq_cstr(name_of(&b->hits[0]), "twin_a_polish"));
    request.connected = connected;
    run(b, &request);
    assert_int_equal(b->count, 2);
    assert_true(slice_eq_cstr(name_of(&b->hits[0]), "twin_b_polish"));
    request.query = SLICE("send a letter"); /* but not before a better hit */
    run(b, &request);
    assert_true(slice_eq_cstr(name_of(&b->hits[0]), "post_send_letter"));
    request.query = SLICE("twin_a_polish");
    run(b, &request);
    assert_true(slice_eq_cstr(name_of(&b->hits[0]), "twin_a_polish"));
}

static void equal_hits_keep_the_catalogs_order(void **state)
{
    struct bench *b = *state;
    find(b, "polish");
    assert_int_equal(b->count, 4); /* with the apps themselves */
    assert_true(slice_eq_cstr(name_of(&b->hits[0]), "twin_a_polish"));
    assert_true(slice_eq_cstr(name_of(&b->hits[1]), "twin_b_polish"));
    assert_true(b->hits[0].score == b->hits[1].score);
    find(b, "twin");
    assert_true(b->count >= 2);
    for (int round = 0; round < 3; round++) {
        struct catalog *again = load(b);
        struct catalog_hit *first = b->hits;
        size_t count = b->count;
        catalog_unref(b->catalog);
        b->catalog = again;
        find(b, "twin"); /* the index was built again, with the same hash keys or others */
        assert_int_equal(b->count, count);
        for (size_t i = 0; i < count; i++)
            assert_true(b->hits[i].score == first[i].score);
    }
}

static void a_search_can_be_narrowed(void **state)
{
    struct bench *b = *state;
    bool allowed[4] = {false, false, true, true}; /* post, tables, twin_a, twin_b */
    struct search_request request = {
        .query = SLICE("letter polish"), .with_actions = true, .limit = 20};
    run(b, &request);
    size_t all = b->count;
    for (size_t i = 0; i < all; i++)
        assert_non_null(b->hits[i].action);
    request.allowed = allowed;
    run(b, &request);
    assert_int_equal(b->count, 2);
    request.allowed = NULL;
    catalog_search_within(&request, catalog_find_integration(b->catalog, SLICE("post"), NULL));
    run(b, &request);
    assert_int_equal(b->count, all - 2);
    request.limit = 1;
    run(b, &request);
    assert_int_equal(b->count, 1);
    request.limit = 0;
    run(b, &request);
    assert_int_equal(b->count, 0);
    request =
        (struct search_request){.query = SLICE("letters"), .with_integrations = true, .limit = 20};
    run(b, &request);
    assert_int_equal(b->count, 1);
    assert_null(b->hits[0].action);
}

/* Used to order a list that a person has chosen, so nothing is dropped, whatever the query is. */
static void a_list_can_be_ranked_whole(void **state)
{
    struct bench *b = *state;
    static const char *const queries[] = {"newest", "volcano", "", "delete a letter",
                                          "quick brown foxes carrying the newest parcels"};
    struct search_request request = {.with_actions = true, .keeps_all = true, .limit = 20};
    const struct catalog_integration *post =
        catalog_find_integration(b->catalog, SLICE("post"), NULL);
    catalog_search_within(&request, post);
    for (size_t i = 0; i < ARRAY_LEN(queries); i++) {
        request.query = slice_cstr(queries[i]);
        run(b, &request);
        assert_int_equal(b->count, post->action_count);
        for (size_t j = 0; j < b->count; j++)
            for (size_t k = 0; k < j; k++)
                assert_ptr_not_equal(b->hits[j].action, b->hits[k].action);
    }
    assert_true(slice_eq_cstr(name_of(&b->hits[0]), "post_list_letters"));
    request.query = SLICE("volcano"); /* in the catalog's order */
    run(b, &request);
    assert_ptr_equal(b->hits[0].action, &post->actions[0]);
}

static void the_best_are_kept_whatever_the_limit(void **state)
{
    struct bench *b = *state;
    struct search_request request = {.query = SLICE("get the letter of a spreadsheet user"),
                                     .with_integrations = true,
                                     .with_actions = true,
                                     .keeps_all = true,
                                     .limit = 50};
    run(b, &request);
    const struct catalog_hit *all = b->hits;
    size_t count = b->count;
    assert_true(count > 4);
    for (size_t i = 1; i < count; i++)
        assert_true(all[i - 1].score >= all[i].score);
    for (size_t limit = 1; limit <= count; limit++) {
        request.limit = limit;
        run(b, &request);
        assert_int_equal(b->count, limit);
        for (size_t i = 0; i < limit; i++)
            assert_true(b->hits[i].action == all[i].action && b->hits[i].score == all[i].score);
    }
}

/* For any bytes, there is no fault, the limits are kept, and no block is left. */
static void hostile_queries_do_no_harm(void **state)
{
    struct bench *b = *state;
    static char text[100 * 1024];
    uint32_t random = 12345;
    run(b, &(struct search_request){.query = SLICE("letter"), .limit = 1}); /* warms up */
    arena_reset(&b->arena);
    for (int round = 0; round < 3000; round++) {
        size_t len = round % 400;
        for (size_t i = 0; i < len; i++) {
            random = random * 1664525 + 1013904223;
            static const char likely[] = "abcdeglnorst _-AB\xc3\xa9\x80\xff\0'";
            text[i] = round % 2 ? (char)(random >> 24) : likely[(random >> 20) % sizeof(likely)];
        }
        struct search_request request = {.query = slice_of(text, len),
                                         .with_integrations = true,
                                         .with_actions = true,
                                         .limit = (size_t)round % 7,
                                         .keeps_all = round % 3 == 0};
        size_t blocks = mem_live_blocks();
        run(b, &request);
        arena_reset(&b->arena);
        assert_int_equal(mem_live_blocks(), blocks);
    }
    memset(text, 'x', sizeof(text));
    run(b, &(struct search_request){
               .query = slice_of(text, sizeof(text)), .with_actions = true, .limit = 5});
    assert_int_equal(b->count, 0);
    for (size_t i = 0; i + 7 <= sizeof(text); i += 7)
        memcpy(text + i, "letter ", 7);
    run(b, &(struct search_request){
               .query = slice_of(text, sizeof(text)), .with_actions = true, .limit = 5});
    assert_int_equal(b->count, 4);
}

/* The same for a split: each request is a text of the sentence, with a few words before it. */
static void hostile_sentences_are_split_without_harm(void **state)
{
    enum { THINGS_MAX = 5, WORDS_BYTES_MAX = 2 * SEARCH_QUERY_BYTES_MAX };
    static const slice words[] = {
        SLICE_INIT("and"),
        SLICE_INIT("then"),
        SLICE_INIT("create a"),
        SLICE_INIT("letter"),
        SLICE_INIT("letters"),
        SLICE_INIT("for each"),
        SLICE_INIT("take"),
        SLICE_INIT("in"),
        SLICE_INIT("into a"),
        SLICE_INIT("it"),
        SLICE_INIT("put"),
        SLICE_INIT("sheet:"),
        SLICE_INIT(", if"),
        SLICE_INIT("\0"),
        SLICE_INIT("\0create a"),
        SLICE_INIT("\xff"),
        SLICE_INIT("\"the"),
        SLICE_INIT("mail\""),
        SLICE_INIT("#general"),
        SLICE_INIT("read them"),
        SLICE_INIT("should be"),
        SLICE_INIT("created"),
        SLICE_INIT("I want"),
        SLICE_INIT("wants"),
        SLICE_INIT("needs a"),
        SLICE_INIT("has to go"),
        SLICE_INIT("to"),
        SLICE_INIT("a text"),
        SLICE_INIT("have"),
        SLICE_INIT("become a"),
        SLICE_INIT("send"),
        SLICE_INIT("get a"),
        SLICE_INIT("make sure that"),
        SLICE_INIT("it would be great if"),
        SLICE_INIT("could"),
        SLICE_INIT("goes to"),
        SLICE_INIT("my boss"),
        SLICE_INIT(". "),
        SLICE_INIT("on the mail"),
        SLICE_INIT("in Post"),
    };
    struct bench *b = *state;
    uint32_t random = 12345;
    run(b, &(struct search_request){.query = SLICE("letter"), .limit = 1}); /* warms up */
    for (int round = 0; round < 3000; round++) {
        struct buf text;
        slice things[THINGS_MAX];
        size_t count, max = 1 + (size_t)round % THINGS_MAX;
        buf_init(&text, WORDS_BYTES_MAX);
        for (int i = 0; i < round % 80; i++) {
            random = random * 1664525 + 1013904223;
            buf_append(&text, words[(random >> 16) % ARRAY_LEN(words)]);
            buf_append(&text, random >> 30 ? SLICE(" ") : SLICE(""));
        }
        arena_reset(&b->arena);
        assert_int_equal(
            catalog_split(b->catalog, &b->arena, buf_slice(&text), things, max, &count), OK);
        assert_in_range(count, 1, max);
        for (size_t i = 0; i < count; i++)
            assert_true(things[i].len <= WORDS_BYTES_MAX);
        buf_deinit(&text);
    }
    arena_reset(&b->arena);
}

static void a_query_is_read_up_to_its_limits(void **state)
{
    struct bench *b = *state;
    char text[SEARCH_QUERY_BYTES_MAX + 64];
    memset(text, ' ', sizeof(text));
    memcpy(text + SEARCH_QUERY_BYTES_MAX, "polish", 7);
    assert_nothing(b, text);
    memcpy(text + SEARCH_QUERY_BYTES_MAX - 6, "polish", 7);
    assert_first(b, text, "twin_a_polish");
    for (int i = 0; i < SEARCH_QUERY_WORDS_MAX; i++)
        memcpy(text + 4 * i, "the ", 4);
    memcpy(text + 4 * SEARCH_QUERY_WORDS_MAX, "polish", 7);
    assert_nothing(b, text);
}

static void failing_memory_is_said(void **state)
{
    struct bench *b = *state;
    struct search_request request = {.query = SLICE("letter"), .with_actions = true, .limit = 20};
    bool has_failed = false;
    for (uint64_t n = 1; n < 10; n++) {
        struct arena arena;
        arena_init(&arena, 1024 * 1024);
        mem_fail_at(n, 1);
        int result = catalog_search(b->catalog, &arena, &request, &b->hits, &b->count);
        mem_fail_at(0, 0);
        assert_true(result == OK || (result == ERR_NOMEM && b->count == 0));
        has_failed = has_failed || result != OK;
        arena_deinit(&arena);
    }
    assert_true(has_failed);
    for (size_t bytes = 0; bytes < 4096; bytes += 64) {
        struct arena small;
        arena_init(&small, bytes);
        int result = catalog_search(b->catalog, &small, &request, &b->hits, &b->count);
        assert_true(result == OK || result == ERR_NOMEM);
        arena_deinit(&small);
    }
    uint64_t hits = 1;
    for (uint64_t n = 1; hits > 0; n++) { /* then the same while an index is built */
        catalog_report_deinit(&b->report);
        catalog_report_init(&b->report);
        mem_fail_at(n, 1);
        struct catalog *catalog = load(b);
        hits = mem_fail_hits();
        mem_fail_at(0, 0);
        assert_true(catalog || b->report.error_count > 0);
        catalog_unref(catalog);
    }
}

static void one_typo_is_one_typo(void **state)
{
    (void)state;
    assert_true(search_text_is_one_typo(SLICE("send"), SLICE("sned")));
    assert_true(search_text_is_one_typo(SLICE("send"), SLICE("sen")));
    assert_true(search_text_is_one_typo(SLICE("send"), SLICE("sennd")));
    assert_true(search_text_is_one_typo(SLICE("send"), SLICE("sand")));
    assert_true(search_text_is_one_typo(SLICE("a"), SLICE("")));
    assert_false(search_text_is_one_typo(SLICE("send"), SLICE("send")));
    assert_false(search_text_is_one_typo(SLICE("send"), SLICE("snde")));
    assert_false(search_text_is_one_typo(SLICE("send"), SLICE("sendxx")));
    assert_false(search_text_is_one_typo(SLICE("abcd"), SLICE("badc")));
    assert_false(search_text_is_one_typo(SLICE(""), SLICE("")));
}

static void words_are_cut_where_they_end(void **state)
{
    struct search_token token;
    slice text = SLICE(" Get threadId_of:page2\xc3\xa9! ");
    static const char *const words[] = {"get", "thread", "id", "of", "page2\xc3\xa9"};
    (void)state;
    for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
        assert_true(search_text_next(&text, true, &token));
        assert_true(slice_eq_cstr(slice_of(token.text, token.len), words[i]));
    }
    assert_false(search_text_next(&text, true, &token));
    text = SLICE("threadId HTTPServer");
    assert_true(search_text_next(&text, false, &token));
    assert_true(slice_eq_cstr(slice_of(token.text, token.len), "threadid"));
    text = SLICE("abcdefghijklmnopqrstuvwxyzabcdefghijklmnop next");
    assert_true(search_text_next(&text, false, &token));
    assert_int_equal(token.len, 0);
    assert_int_equal(token.source.len, 42);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(exact_names_come_first),
        TEST(words_are_found_by_stem_and_synonym),
        TEST(one_typing_mistake_is_forgiven),
        TEST(beginnings_and_joined_words_are_found),
        TEST(what_has_no_known_word_finds_nothing),
        TEST(one_known_word_is_enough),
        TEST(relevance_is_high_for_half_of_what_is_asked),
        TEST(fitting_hits_are_those_of_high_relevance),
        TEST(what_is_reported_does_not_count),
        TEST(what_is_connected_comes_first_among_near_equals),
        TEST(equal_hits_keep_the_catalogs_order),
        TEST(a_search_can_be_narrowed),
        TEST(a_list_can_be_ranked_whole),
        TEST(the_best_are_kept_whatever_the_limit),
        TEST(hostile_queries_do_no_harm),
        TEST(hostile_sentences_are_split_without_harm),
        TEST(a_query_is_read_up_to_its_limits),
        TEST(failing_memory_is_said),
        TEST(one_typo_is_one_typo),
        TEST(words_are_cut_where_they_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
