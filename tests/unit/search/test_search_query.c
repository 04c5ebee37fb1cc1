/*
 * Parsing a query: which words are the core of the request, which refine it, which are only
 * mentioned, and which have no meaning. It uses the built-in catalog, but only its common words.
 */
#include "catalog/search.h"
#include "search/reading.h"
#include "unit.h"

struct bench {
    struct catalog_report report;
    struct catalog *catalog;
    struct arena arena;
    struct search_reading reading;
};

static int setup(void **state)
{
    struct bench *b = mem_zalloc(sizeof(*b));
    struct search_request request = {.query = SLICE("mail"), .with_actions = true, .limit = 1};
    struct catalog_hit *hits;
    size_t count;
    catalog_report_init(&b->report);
    arena_init(&b->arena, 16 * 1024 * 1024);
    b->catalog = catalog_load_all(NULL, &b->report);
    *state = b;
    /* the first search creates the stemmer */
    return b->catalog && catalog_search(b->catalog, &b->arena, &request, &hits, &count) == OK ? 0
                                                                                              : -1;
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

static void read_query(struct bench *b, slice text)
{
    search_query_read(b->catalog->search, text, &b->reading);
}

/* The parts of a role in the order of the text, with a phrase or a sign as <its meaning>. */
static slice parts_of(struct bench *b, enum search_role role)
{
    struct buf out;
    buf_init(&out, 4096);
    for (size_t i = 0; i < b->reading.count; i++) {
        const struct search_part *part = &b->reading.parts[i];
        if (part->role != role)
            continue;
        if (out.len > 0)
            buf_append_char(&out, ' ');
        if (part->means.len > 0)
            buf_printf(&out, "<%.*s>", SLICE_ARG(part->means));
        else
            buf_append(&out, slice_of(part->token.text, part->token.len));
    }
    slice text = arena_dup(&b->arena, buf_slice(&out));
    buf_deinit(&out);
    return text;
}

static void check(struct bench *b, const char *query, const char *core, const char *aside,
                  const char *payload, int line)
{
    read_query(b, slice_cstr(query));
    const char *const wanted[] = {payload, aside, core};
    for (int i = 0; i < 3; i++) {
        slice got = parts_of(b, (enum search_role)(ROLE_PAYLOAD + i));
        if (!slice_eq_cstr(got, wanted[i]))
            print_error("line %d: \"%s\": role %d has \"%.*s\", not \"%s\"\n", line, query,
                        ROLE_PAYLOAD + i, SLICE_ARG(got), wanted[i]);
        assert_true(slice_eq_cstr(got, wanted[i]));
    }
}

#define assert_read(b, query, core, aside, payload) \
    check((b), (query), (core), (aside), (payload), __LINE__)

static void words_of_a_keyword_query_are_all_core(void **state)
{
    assert_read(*state, "gmail send message", "gmail send message", "", "");
    assert_read(*state, "gmail_send_message", "gmail send message", "", "");
    assert_read(*state, "create issue", "create issue", "", "");
    assert_read(*state, "", "", "", "");
}

static void a_place_refines_the_request(void **state)
{
    assert_read(*state, "add a comment to the page", "add comment", "page", "");
    assert_read(*state, "add a comment on slack", "add comment slack", "", ""); /* never an app */
    assert_read(*state, "create an invoice for the customer and send it", "create invoice",
                "customer send", "");
}

static void what_is_reported_is_payload(void **state)
{
    struct bench *b = *state;
    assert_read(b, "create an issue that the page cannot be deleted", "create issue", "",
                "page deleted");
    assert_read(b, "send a message about the invoice", "send message", "", "invoice");
    assert_read(b, "send a message saying the invoice is open", "send message", "", "invoice open");
    assert_read(b, "create an issue in gitlab: delete the branch", "create issue gitlab", "",
                "delete branch");
    assert_read(b, "gmail: send a message", "gmail send message", "", "");
    assert_read(b, "create a page \"delete the invoice\"", "create page", "", "delete invoice");
    assert_read(b, "create a page 'delete the invoice'", "create page", "", "delete invoice");
    assert_read(b,
                "create a page \xe2\x80\x9c"
                "delete the invoice\xe2\x80\x9d",
                "create page", "", "delete invoice");
    assert_read(b, "create a channel called delete in slack", "create channel slack", "", "delete");
    assert_read(b, "delete the page that I deleted", "delete page", "", "deleted");
    assert_read(b, "delete that page", "delete page", "", "");
    assert_read(b, "delete the file she uploaded", "delete file", "", "uploaded");
    assert_read(b, "tell the team that the invoice is open on slack", "tell slack", "",
                "team invoice open");
    assert_read(b, "delete the user's message, it's rude", "delete user message", "rude", "");
}

/* The person after a verb such as "tell" is not part of the request either. "to", "for" and "if"
 * begin the message. */
static void what_another_person_has_to_do_is_payload(void **state)
{
    struct bench *b = *state;
    assert_read(b, "tell the team to merge the branch", "tell", "", "team merge branch");
    assert_read(b, "ask the team if the branch is merged", "ask", "", "team branch merged");
    assert_read(b, "thank the team for the invoice", "thank", "", "team invoice");
    assert_read(b, "invite the team to the channel", "invite team", "channel", "");
}

/* Words for the way and the time are not payload, although they occur inside it. */
static void how_and_when_it_is_said_counts(void **state)
{
    struct bench *b = *state;
    assert_read(b, "let Xaver know by email that the page is open",
                "<send, message notify> <email mail>", "", "page open");
    assert_read(b, "thank the team by mail for the invoice", "thank <email mail>", "",
                "team invoice");
    assert_read(b, "remind the team tomorrow to merge the branch", "remind", "<scheduled later>",
                "team merge branch");
    assert_read(b, "remind the team at 9 to merge the branch", "remind", "<scheduled later>",
                "team merge branch");
    assert_read(b, "delete tomorrow the page that is open", "delete page", "", "tomorrow open");
}

static void an_app_that_mails_come_from_refines_the_request(void **state)
{
    struct bench *b = *state;
    assert_read(b, "delete the mails from Jira", "delete mails", "jira", "");
    assert_read(b, "delete the page from Notion", "delete page notion", "", "");
}

static void what_something_is_done_inside_of_is_a_container(void **state)
{
    struct bench *b = *state;
    read_query(b, SLICE("add the numbers to the spreadsheet"));
    for (size_t i = 0; i < b->reading.count; i++)
        assert_int_equal(b->reading.parts[i].is_container, i == 5);
    read_query(b, SLICE("reply to the message")); /* the message is the object of the reply */
    for (size_t i = 0; i < b->reading.count; i++)
        assert_false(b->reading.parts[i].is_container);
}

static void names_numbers_and_addresses_say_nothing(void **state)
{
    struct bench *b = *state;
    assert_read(b, "send a message to Xaver Yilmaz, xaver@example.com", "send message", "", "");
    assert_read(b, "delete row 17 of 2048", "delete row", "", "");
    assert_read(b, "create a folder /delete/page", "create folder", "", "");
    assert_read(b, "delete https://example.com/invoice", "delete <url>", "", "");
    assert_read(b, "post in #general", "post", "<channel>", "");
    assert_read(b, "assign OPS-77", "assign <issue ticket>", "", "");
    assert_read(b, "delete report.pdf", "delete <file document>", "", "");
    read_query(b, SLICE("send Xaver a message"));
    for (size_t i = 0; i < b->reading.count; i++)
        assert_int_equal(b->reading.parts[i].is_name, i == 1);
}

static void phrases_have_their_meaning(void **state)
{
    struct bench *b = *state;
    assert_read(b, "get rid of the page", "<delete remove> page", "", "");
    assert_read(b, "getting rid of the page", "<delete remove> page", "", "");
    assert_read(b, "let Xaver know that the page is deleted", "<send, message notify>", "",
                "page deleted");
    assert_read(b, "let Xaver know the page is deleted", "<send, message notify>", "",
                "page deleted");
    assert_read(b, "let me know which pages are open", "<get list> which pages open", "", "");
    assert_read(b, "\"get rid of\" page", "page", "", "get rid"); /* quoted, so not replaced */
    /* of two phrases with the same number of words, the phrase that ends first */
    assert_read(b, "put the page to the list on the left", "<change move update, status> page list",
                "left", "");
}

static void a_phrase_that_asks_makes_a_question(void **state)
{
    struct bench *b = *state;
    static const char *const questions[] = {"how many pages are there", "did Xaver reply",
                                            "where did I put the invoice"};
    for (size_t i = 0; i < ARRAY_LEN(questions); i++) {
        read_query(b, slice_cstr(questions[i]));
        assert_true(b->reading.is_question);
    }
    read_query(b, SLICE("have Xaver join the meeting"));
    assert_false(b->reading.is_question);
}

static void the_first_word_of_a_clause_is_its_command(void **state)
{
    struct bench *b = *state;
    read_query(b, SLICE("please change the invoice, then send it"));
    for (size_t i = 0; i < b->reading.count; i++)
        assert_int_equal(b->reading.parts[i].is_command, i == 1 || i == 5);
}

static void the_clause_that_asks_is_the_request(void **state)
{
    struct bench *b = *state;
    assert_read(b, "The invoice is wrong, delete the page", "delete page", "invoice wrong", "");
    assert_read(b, "The invoice is wrong. Delete the page!", "delete page", "invoice wrong", "");
    assert_false(b->reading.is_question);
    read_query(b, SLICE("I need to know: which invoices are open?"));
    assert_true(b->reading.is_question);
    read_query(b, SLICE("could you send a message?"));
    assert_false(b->reading.is_question);
    read_query(b, SLICE("did Mr. Xaver open the page?"));
    assert_true(b->reading.is_question);
}

static void payload_is_core_where_it_is_all_there_is(void **state)
{
    assert_read(*state, "\"send message\"", "send message", "", "");
    assert_read(*state, "xyzzy about invoice", "xyzzy invoice", "", "");
}

/* For any bytes, the limits are kept, and every source is within the text. */
static void hostile_text_is_read_within_its_limits(void **state)
{
    struct bench *b = *state;
    static const char likely[] =
        "ab the'\"#@/.-_:,;!? \n\xe2\x80\x9c\x9d\x93let know get rid of$17A";
    char text[2 * SEARCH_QUERY_BYTES_MAX];
    uint32_t random = 4711;
    for (int round = 0; round < 4000; round++) {
        size_t len = (size_t)round % sizeof(text);
        for (size_t i = 0; i < len; i++) {
            random = random * 1664525 + 1013904223;
            text[i] = likely[(random >> 16) % (sizeof(likely) - 1)];
        }
        read_query(b, slice_of(text, len));
        assert_true(b->reading.count <= SEARCH_QUERY_WORDS_MAX);
        for (size_t i = 0; i < b->reading.count; i++)
            assert_true(b->reading.parts[i].token.len <= SEARCH_WORD_BYTES_MAX);
    }
}

/* Each phrase is found by its own words. Otherwise it would never be used. */
static void every_phrase_is_recognized(void **state)
{
    struct bench *b = *state;
    const struct search_index *index = b->catalog->search;
    assert_true(index->phrase_count > search_idioms_count);
    for (size_t i = 0; i < index->phrase_count; i++) {
        const char *means = search_idioms[index->phrases[i].idiom].means;
        slice phrase = search_index_text(index, index->phrases[i].text);
        char text[200];
        size_t len = 0;
        for (size_t k = 0; k < phrase.len; k++)
            len += (size_t)snprintf(text + len, sizeof(text) - len, "%s",
                                    phrase.ptr[k] == '*' ? "xyzzy"
                                                         : (const char[]){phrase.ptr[k], '\0'});
        read_query(b, slice_of(text, len));
        bool is_found = false;
        for (size_t k = 0; k < b->reading.count; k++)
            is_found = is_found || slice_eq_cstr(b->reading.parts[k].means, means);
        if (!is_found)
            print_error("\"%.*s\" is not recognized\n", SLICE_ARG(phrase));
        assert_true(is_found);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(words_of_a_keyword_query_are_all_core),
        TEST(a_place_refines_the_request),
        TEST(what_is_reported_is_payload),
        TEST(what_another_person_has_to_do_is_payload),
        TEST(how_and_when_it_is_said_counts),
        TEST(an_app_that_mails_come_from_refines_the_request),
        TEST(what_something_is_done_inside_of_is_a_container),
        TEST(names_numbers_and_addresses_say_nothing),
        TEST(phrases_have_their_meaning),
        TEST(a_phrase_that_asks_makes_a_question),
        TEST(the_first_word_of_a_clause_is_its_command),
        TEST(the_clause_that_asks_is_the_request),
        TEST(payload_is_core_where_it_is_all_there_is),
        TEST(hostile_text_is_read_within_its_limits),
        TEST(every_phrase_is_recognized),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
