/*
 * How well search finds what is meant: the share of the committed intents whose action is first, or
 * among the first five, of all built-in integrations and actions, and of these together with
 * GitHub's own description imported (npm's @octokit/openapi, over 1,000 operations). The tuning set
 * is asserted, and the held-out set is also reported. Sentences are in one file. A hash of each
 * decides whether it is for tuning or is only measured. SLUICE_MISSES=1 prints the misses of the
 * tuning set.
 *
 * The import describes our own GitHub actions a second time. If two descriptions are of one
 * operation (the same method and path), either may be found first, and both count. An operation
 * that does only nearly the same does not count.
 */
#include <stdlib.h>

#include "base/embed.h"
#include "catalog/search.h"
#include "openapi/import.h"
#include "search/reading.h"
#include "unit.h"

enum { SET_BYTES_MAX = 256 * 1024, FIRST_MAX = 5 };

/* Two names for one operation. */
struct twin {
    slice ours, imported;
};

struct bench {
    struct catalog_report report;
    struct catalog *catalog;
    struct arena arena;
    struct twin *twins;
    size_t twin_count;
};

static int setup(void **state)
{
    struct bench *b = mem_zalloc(sizeof(*b));
    catalog_report_init(&b->report);
    arena_init(&b->arena, 256 * 1024 * 1024);
    *state = b;
    return 0;
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

/* ---- the sets ---- */

struct figure {
    unsigned pairs, not_applicable, first, in_first_five, high, empty;
};

/* The used lines of a set, selected by a hash of the words, so that a new line does not affect
 * the others. */
enum part { PART_ALL, PART_TUNING, PART_MEASURED };

static bool is_of_part(slice words, enum part part)
{
    return part == PART_ALL ||
           (search_text_hash(words, SIZE_MAX) % 2 == 0) == (part == PART_TUNING);
}

static slice read_set(struct arena *arena, const char *name)
{
    const char *root = getenv("SLUICE_ROOT");
    slice path = arena_printf(arena, "%s/tests/unit/search/%s", root ? root : ".", name);
    char *text = arena_alloc_text(arena, SET_BYTES_MAX);
    FILE *file = fopen(path.ptr, "re");
    assert_non_null(file);
    size_t len = fread(text, 1, SET_BYTES_MAX, file);
    assert_true(len > 0 && len < SET_BYTES_MAX);
    assert_int_equal(fclose(file), 0);
    return slice_of(text, len);
}

/* Our own manifest's name for the operation, or the name itself. */
static slice own_name(const struct bench *b, slice tool_name)
{
    for (size_t i = 0; i < b->twin_count; i++)
        if (slice_eq(b->twins[i].imported, tool_name))
            return b->twins[i].ours;
    return tool_name;
}

/* Whether the hit is one of "tool or tool or tool". */
static bool is_wanted(const struct bench *b, const struct catalog_hit *hit, slice wanted)
{
    while (wanted.len > 0) {
        slice word = slice_split(&wanted, ' ');
        if (hit->action && slice_eq(word, own_name(b, hit->action->tool_name)))
            return true;
    }
    return false;
}

static bool is_applicable(const struct catalog *catalog, slice wanted)
{
    while (wanted.len > 0)
        if (catalog_find_tool(catalog, slice_split(&wanted, ' ')))
            return true;
    return false;
}

static void print_hits(const struct catalog_hit *hits, size_t count)
{
    for (size_t i = 0; i < count; i++)
        print_message(" %.*s(%.2f)",
                      SLICE_ARG(hits[i].action ? hits[i].action->tool_name
                                               : hits[i].integration->integration_id),
                      (double)hits[i].score);
    print_message("\n");
}

static void judge(struct bench *b, slice intent, slice wanted, bool prints_misses,
                  struct figure *figure)
{
    struct search_request request = {
        .query = intent, .with_integrations = true, .with_actions = true, .limit = FIRST_MAX};
    struct catalog_hit *hits;
    size_t count, place = 0;
    assert_int_equal(catalog_search(b->catalog, &b->arena, &request, &hits, &count), OK);
    while (place < count && !is_wanted(b, &hits[place], wanted))
        place++;
    figure->pairs++;
    figure->empty += count == 0;
    figure->first += place == 0 && count > 0;
    figure->in_first_five += place < count;
    figure->high += place < count && hits[place].is_high;
    if (place == 0 && count > 0)
        return;
    if (prints_misses) {
        print_message("%s %.*s -> %.*s, got", place < count ? "  " : "XX", SLICE_ARG(intent),
                      SLICE_ARG(wanted));
        print_hits(hits, count);
    }
}

/* wanted is empty if the line has only words. */
typedef void (*on_line)(struct bench *b, slice words, slice wanted, void *arg);

static void read_lines(struct bench *b, const char *name, enum part part, on_line call, void *arg)
{
    slice text = read_set(&b->arena, name);
    while (text.len > 0) {
        slice line = slice_trim(slice_split(&text, '\n'));
        ptrdiff_t arrow = slice_find(line, SLICE(" -> "));
        if (line.len == 0 || line.ptr[0] == '#')
            continue;
        slice words = arrow < 0 ? line : slice_first(line, (size_t)arrow);
        slice wanted = arrow < 0 ? SLICE_NONE : slice_from(line, (size_t)arrow + 4);
        if (is_of_part(words, part))
            call(b, words, wanted, arg);
    }
}

struct judging {
    struct figure figure;
    bool prints_misses;
};

static void judge_pair(struct bench *b, slice intent, slice wanted, void *arg)
{
    struct judging *judging = arg;
    assert_true(wanted.len > 0);
    if (is_applicable(b->catalog, wanted))
        judge(b, intent, wanted, judging->prints_misses, &judging->figure);
    else
        judging->figure.not_applicable++;
}

static struct figure judge_set(struct bench *b, const char *name, enum part part,
                               bool prints_misses)
{
    struct judging judging = {.prints_misses = prints_misses};
    read_lines(b, name, part, judge_pair, &judging);
    assert_int_equal(judging.figure.not_applicable, 0);
    return judging.figure;
}

static double percent(unsigned part, unsigned all)
{
    return 100.0 * part / all;
}

/* Prints the share of intents that were found, and asserts that it is at least that many
 * percent. */
static void check_figure(const char *what, const struct figure *figure, double first_min,
                         double in_five_min)
{
    double first = percent(figure->first, figure->pairs);
    double in_five = percent(figure->in_first_five, figure->pairs);
    double high = percent(figure->high, figure->in_first_five);
    print_message("figure: %s of %u: first %.1f %% (bar %.0f), in five %.1f %% (bar %.0f), high of "
                  "these %.1f %% (bar 85), %u find nothing\n",
                  what, figure->pairs, first, first_min, in_five, in_five_min, high, figure->empty);
    assert_true(first >= first_min && in_five >= in_five_min && high >= 85);
    assert_int_equal(figure->empty, 0);
}

/* The limits of the held-out set are the shares from before sentences were supported. */
static void judge_sets(struct bench *b)
{
    struct figure tuning =
        judge_set(b, "search_intents.txt", PART_ALL, getenv("SLUICE_MISSES") != NULL);
    struct figure held_out = judge_set(b, "search_intents_held_out.txt", PART_ALL, false);
    assert_true(tuning.pairs >= 150 && held_out.pairs >= 60);
    print_message("figure: search over %zu actions:\n", b->catalog->action_count);
    check_figure("words, tuning set", &tuning, 93, 99);
    check_figure("words, held-out set", &held_out, 73, 93);
}

static void intents_find_their_actions(void **state)
{
    struct bench *b = *state;
    b->catalog = catalog_load_all(NULL, &b->report);
    assert_non_null(b->catalog);
    judge_sets(b);
}

/* ---- sentences ---- */

static const char sentences[] = "search_sentences.txt";

static void sentences_find_their_actions(void **state)
{
    struct bench *b = *state;
    b->catalog = catalog_load_all(NULL, &b->report);
    assert_non_null(b->catalog);
    struct figure tuning = judge_set(b, sentences, PART_TUNING, getenv("SLUICE_MISSES") != NULL);
    struct figure measured = judge_set(b, sentences, PART_MEASURED, false);
    assert_true(tuning.pairs + measured.pairs >= 200 && measured.pairs >= 100);
    check_figure("sentences for tuning", &tuning, 90, 98);
    check_figure("sentences measured only", &measured, 80, 95);
}

/* ---- sentences that need two apps ---- */

/* Whether one of the things that the sentence asks for has the action among its first five. */
static bool is_found(struct bench *b, const slice *things, size_t count, slice wanted,
                     bool prints_hits)
{
    for (size_t i = 0; i < count; i++) {
        struct search_request request = {
            .query = things[i], .with_actions = true, .limit = FIRST_MAX};
        struct catalog_hit *hits;
        size_t hit_count;
        assert_int_equal(catalog_search(b->catalog, &b->arena, &request, &hits, &hit_count), OK);
        for (size_t k = 0; k < hit_count && !prints_hits; k++)
            if (is_wanted(b, &hits[k], wanted))
                return true;
        if (prints_hits) {
            print_message("    %.*s:", SLICE_ARG(things[i]));
            print_hits(hits, hit_count);
        }
    }
    return false;
}

/* Two things with five results each are the first ten. */
static void judge_both(struct bench *b, slice words, slice wanted, void *arg)
{
    enum { THINGS_MAX = 2 };
    struct judging *judging = arg;
    slice things[THINGS_MAX];
    size_t count;
    ptrdiff_t joint = slice_find(wanted, SLICE(" & "));
    assert_true(joint > 0);
    slice one = slice_first(wanted, (size_t)joint), other = slice_from(wanted, (size_t)joint + 3);
    assert_true(is_applicable(b->catalog, one) && is_applicable(b->catalog, other));
    assert_int_equal(catalog_split(b->catalog, &b->arena, words, things, THINGS_MAX, &count), OK);
    bool has_one = is_found(b, things, count, one, false);
    bool has_other = is_found(b, things, count, other, false);
    judging->figure.pairs++;
    judging->figure.in_first_five += has_one && has_other;
    if (judging->prints_misses && !(has_one && has_other))
        print_message("%s %.*s -> %.*s\n",
                      has_one     ? "second"
                      : has_other ? "first"
                                  : "both",
                      SLICE_ARG(words), SLICE_ARG(wanted));
    if (judging->prints_misses && !(has_one && has_other))
        (void)is_found(b, things, count, one, true);
}

/* Both parts of a sentence, as they are searched for. */
struct two_things {
    const char *sentence, *first, *second;
};

static void check_things(struct bench *b, const struct two_things *cases, size_t len)
{
    size_t bad = 0;
    b->catalog = catalog_load_all(NULL, &b->report);
    assert_non_null(b->catalog);
    for (size_t i = 0; i < len; i++) {
        slice things[2], words = slice_cstr(cases[i].sentence);
        size_t count;
        assert_int_equal(catalog_split(b->catalog, &b->arena, words, things, 2, &count), OK);
        bool is_one = count == 1 && !cases[i].second && slice_eq(things[0], words);
        if (is_one || (count == 2 && cases[i].second && slice_eq_cstr(things[0], cases[i].first) &&
                       slice_eq_cstr(things[1], cases[i].second)))
            continue;
        bad++;
        print_error("%s: %.*s, %.*s\n", cases[i].sentence, SLICE_ARG(things[0]),
                    SLICE_ARG(count > 1 ? things[1] : SLICE_NONE));
    }
    assert_int_equal(bad, 0);
}

/* Words are replaced only if they mean what is replaced, and a quotation remains one. */
static void requests_keep_their_phrases(void **state)
{
    static const struct two_things cases[] = {
        {"get rid of the old rows in the sheet and tell the team on Slack",
         "get rid of the old rows in the sheet", "tell the team on Slack"},
        {"take \"Weekly notes\" from the page and post it in Slack",
         "list \"Weekly notes\" from the page", "post it in Slack"},
        {"I got the invoice, can you just put it into the sheet?", "I got the invoice,",
         "append values the sheet?"},
        {"take down the page and count the rows", "take down the page", "count the rows"},
        {"list the bugs and count them in a sheet", "list the bugs", "add to a sheet"},
        {"find the photo and put it in our Dropbox", "find the photo", "upload file our Dropbox"},
        {"read the sheet and mail the list to the boss", "get values sheet",
         "send a mail to the boss"},
        {"get the bug and paste it into Slack", "get the bug", "post message Slack"},
    };
    check_things(*state, cases, ARRAY_LEN(cases));
}

/* What should be so is read as a command, and so is one after its object. */
static void a_verb_may_be_at_the_end(void **state)
{
    static const struct two_things cases[] = {
        {"for each unread mail a Trello card should be created", "create a Trello card",
         "list unread mail"},
        {"in the calendar the due dates of all Trello cards have to be entered",
         "create event in the calendar", "list due dates of all Trello cards"},
        {"can the latest bounces be exported to a sheet?", "append values to a sheet?",
         "list latest bounces"},
        {"make sure that every refund is noted in Airtable", "note every refund in Airtable",
         "list refund"},
        {"it would be great if the Notion notes could end up in the Zendesk ticket",
         "put the notes in the Zendesk ticket", "get page notes Notion notes"},
        {"I want the commits of this week in a Google Doc", "put the commits in a Google Doc",
         "list commits of this week"},
        {"the names of all guests I need in a spreadsheet", "append values in a spreadsheet",
         "get event attendees all guests"},
        {"every signed deal needs an invoice in Stripe", "create an invoice in Stripe",
         "list signed deal"},
        {"my boss should get the list of unpaid invoices by mail", "send by mail",
         "get boss the list of unpaid invoices"},
        {"the log of the failed job goes to the developers by mail", "send by mail",
         "get log of the failed job to the developers"},
        {"the appointment in the calendar move and the colleagues in Slack inform",
         "move the appointment in the calendar", "inform the colleagues in Slack"},
        {"send a Telegram message with the status of the pipeline", "send a Telegram message",
         "get pipeline"},
        {"the customer should be able to edit the page", NULL, NULL},
        {"what do I have to send", NULL, NULL},
        {"the mails that we should send", NULL, NULL},
    };
    check_things(*state, cases, ARRAY_LEN(cases));
}

struct word_list {
    slice items[2048];
    size_t count;
};

static void collect_words(struct bench *b, slice words, slice wanted, void *arg)
{
    struct word_list *list = arg;
    (void)b;
    (void)wanted;
    while (words.len > 0 && list->count < ARRAY_LEN(list->items))
        list->items[list->count++] = slice_split(&words, ' ');
}

static uint32_t next_random(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

/* Whatever the words and signs, and wherever they are, the parts of a split are texts. */
static void any_words_are_split(void **state)
{
    enum { SENTENCES = 3000, WORDS_MAX = 24, SIGNS_EACH = 3 };
    static const char *const signs[] = {
        "OPS-77", "#general", "a@b.com", "report.pdf", "\"quoted text\"",
        "B7",     ",",        ".",       ": ",         "- ",
        "if",     "before",   "you",     "they",       "are",
        "in",     "to",       "out",     "of",         "whoever",
        "who",    "wrote",    "equals",  "should",     "be",
        "gets",   "a",        "mail",    "by",         "use",
        "every",  "time",     "and",     "\xff"};
    struct bench *b = *state;
    struct word_list *list = ARENA_NEW(&b->arena, struct word_list);
    uint32_t seed = 7;
    b->catalog = catalog_load_all(NULL, &b->report);
    read_lines(b, "search_sentences_two_apps_fourth.txt", PART_ALL, collect_words, list);
    assert_true(list->count > 1000);
    for (size_t i = 0; i < SENTENCES; i++) {
        struct arena arena;
        struct buf text;
        slice things[5];
        size_t count, len = 1 + next_random(&seed) % WORDS_MAX;
        arena_init(&arena, 16 * 1024 * 1024);
        buf_init(&text, 4096);
        for (size_t k = 0; k < len; k++) {
            bool is_sign = next_random(&seed) % SIGNS_EACH == 0;
            uint32_t at = next_random(&seed);
            buf_append(&text, is_sign ? slice_cstr(signs[at % ARRAY_LEN(signs)])
                                      : list->items[at % list->count]);
            buf_append_char(&text, ' ');
        }
        size_t max = 1 + next_random(&seed) % ARRAY_LEN(things);
        if (catalog_split(b->catalog, &arena, buf_slice(&text), things, max, &count) != OK)
            fail_msg("%.*s", SLICE_ARG(buf_slice(&text)));
        assert_true(count > 0 && count <= max);
        for (size_t k = 0; k < count; k++)
            assert_non_null(things[k].ptr);
        buf_deinit(&text);
        arena_deinit(&arena);
    }
}

struct split_figure {
    unsigned pairs, split, found, kept;
};

static void judge_split(struct bench *b, slice words, slice wanted, void *arg)
{
    enum { THINGS_MAX = 5 };
    struct split_figure *figure = arg;
    slice things[THINGS_MAX];
    size_t count;
    assert_int_equal(catalog_split(b->catalog, &b->arena, words, things, THINGS_MAX, &count), OK);
    bool was_found = is_found(b, &words, 1, wanted, false);
    bool is_kept = was_found && is_found(b, things, count, wanted, false);
    figure->pairs++;
    figure->split += count > 1;
    figure->found += was_found;
    figure->kept += is_kept;
    if (was_found && !is_kept && getenv("SLUICE_MISSES"))
        for (size_t i = 0; i < count; i++)
            print_message("split %.*s -> %.*s\n", SLICE_ARG(things[i]), SLICE_ARG(wanted));
}

/* Most sentences need one action. If such a sentence is split, the action is still found. */
static void a_split_keeps_the_action_of_a_sentence(void **state)
{
    static const struct {
        const char *name;
        double bar;
    } sets[] = {
        {"search_intents.txt", 99},
        {sentences, 97},
        {"search_sentences_later.txt", 96},
    };
    struct bench *b = *state;
    b->catalog = catalog_load_all(NULL, &b->report);
    assert_non_null(b->catalog);
    for (size_t i = 0; i < ARRAY_LEN(sets); i++) {
        struct split_figure figure = {0};
        read_lines(b, sets[i].name, PART_TUNING, judge_split, &figure);
        double kept = percent(figure.kept, figure.found);
        print_message("figure: %s, of %u: %u are split, kept in five %.1f %% (bar %.0f)\n",
                      sets[i].name, figure.pairs, figure.split, kept, sets[i].bar);
        assert_true(kept >= sets[i].bar);
    }
}

static void sentences_that_need_two_apps_find_both(void **state)
{
    static const struct {
        const char *what, *name;
        enum part part;
        double bar;
    } sets[] = {
        {"for tuning", "search_sentences_two_apps.txt", PART_TUNING, 100},
        {"more for tuning", "search_sentences_two_apps_more.txt", PART_ALL, 96},
        {"third set for tuning", "search_sentences_two_apps_third.txt", PART_ALL, 91},
        {"fourth set for tuning", "search_sentences_two_apps_fourth.txt", PART_ALL, 86},
        {"measured", "search_sentences_two_apps.txt", PART_MEASURED, 85},
    };
    struct bench *b = *state;
    bool is_good = true;
    b->catalog = catalog_load_all(NULL, &b->report);
    assert_non_null(b->catalog);
    for (size_t i = 0; i < ARRAY_LEN(sets); i++) {
        bool is_shown = sets[i].part != PART_MEASURED;
        struct judging judging = {.prints_misses = is_shown && getenv("SLUICE_MISSES") != NULL};
        read_lines(b, sets[i].name, sets[i].part, judge_both, &judging);
        double both = percent(judging.figure.in_first_five, judging.figure.pairs);
        print_message("figure: two apps, %s, of %u: both in ten %.1f %% (bar %.0f)\n", sets[i].what,
                      judging.figure.pairs, both, sets[i].bar);
        is_good = is_good && judging.figure.pairs >= 20 && both >= sets[i].bar;
    }
    assert_true(is_good);
}

/* The limits of the tuning sentences are the shares when they were written, with 374 actions.
 * The limits of the measured sentences are the shares with 789 actions. */
static void hard_sentences_find_as_many_as_before(void **state)
{
    static const char hard[] = "search_sentences_hard.txt";
    struct bench *b = *state;
    b->catalog = catalog_load_all(NULL, &b->report);
    assert_non_null(b->catalog);
    struct figure tuning = judge_set(b, hard, PART_TUNING, getenv("SLUICE_MISSES") != NULL);
    struct figure measured = judge_set(b, hard, PART_MEASURED, false);
    check_figure("hard sentences for tuning", &tuning, 75, 95);
    check_figure("hard sentences measured only", &measured, 67, 82);
}

static void later_sentences_find_their_actions(void **state)
{
    struct bench *b = *state;
    b->catalog = catalog_load_all(NULL, &b->report);
    assert_non_null(b->catalog);
    struct figure tuning =
        judge_set(b, "search_sentences_later.txt", PART_ALL, getenv("SLUICE_MISSES") != NULL);
    check_figure("later sentences for tuning", &tuning, 70, 90);
}

static bool has_word(struct sb_stemmer *stemmer, slice text, const struct search_token *wanted)
{
    struct search_token token;
    slice stem = search_text_stem(stemmer, slice_of(wanted->text, wanted->len));
    char kept[SEARCH_WORD_BYTES_MAX];
    size_t len = stem.len;
    memcpy(kept, stem.ptr, len);
    while (search_text_next(&text, false, &token))
        if (slice_eq(search_text_stem(stemmer, slice_of(token.text, token.len)),
                     slice_of(kept, len)))
            return true;
    return false;
}

/* Counts the sentences that share no word with any wanted action's title or id. */
static void count_foreign(struct bench *b, slice intent, slice wanted, void *arg)
{
    struct search_token token;
    while (search_text_next(&intent, false, &token)) {
        slice text = slice_of(token.text, token.len);
        const struct search_word *word = search_index_word(b->catalog->search, text);
        bool counts = token.len > 0 && !(word && word->classes & WORD_STOP);
        for (slice rest = wanted; counts && rest.len > 0;) {
            const struct catalog_action *action =
                catalog_find_tool(b->catalog, slice_split(&rest, ' '));
            if (action && (has_word(b->catalog->search->stemmer, action->title, &token) ||
                           has_word(b->catalog->search->stemmer, action->action_id, &token)))
                return;
        }
    }
    ++*(unsigned *)arg;
}

/* Otherwise the sentences would only show that titles are found. */
static void half_of_the_sentences_have_no_word_of_a_title(void **state)
{
    struct bench *b = *state;
    struct figure all = {0};
    unsigned foreign = 0;
    b->catalog = catalog_load_all(NULL, &b->report);
    assert_non_null(b->catalog);
    judge(b, SLICE("letter"), SLICE("none"), false, &all); /* makes the stemmer */
    all = judge_set(b, sentences, PART_ALL, false);
    read_lines(b, sentences, PART_ALL, count_foreign, &foreign);
    print_message("figure: %u of %u sentences have no word of the action's title or id\n", foreign,
                  all.pairs);
    assert_true(2 * foreign >= all.pairs);
}

/* ---- together with GitHub's own description ---- */

static const char github_document[] =
    "tests/e2e/node_modules/@octokit/openapi/generated/api.github.com.json";

/* SLICE_NONE if npm has not fetched it; `make test` does. */
static slice read_github(struct arena *arena)
{
    const char *root = getenv("SLUICE_ROOT");
    slice path = arena_printf(arena, "%s/%s", root ? root : ".", github_document);
    FILE *file = fopen(path.ptr, "re");
    if (!file)
        return SLICE_NONE;
    char *text = arena_alloc_text(arena, IMPORT_DOCUMENT_BYTES_MAX);
    assert_non_null(text);
    size_t len = fread(text, 1, IMPORT_DOCUMENT_BYTES_MAX, file);
    assert_true(len > 0 && len < IMPORT_DOCUMENT_BYTES_MAX);
    assert_int_equal(fclose(file), 0);
    return slice_of(text, len);
}

/* "GET /repos/{}/{}": the part that two descriptions of one operation share. */
static slice operation_of(struct arena *arena, const struct json *action)
{
    const struct json *request = JSON_GET(action, "request");
    slice path = json_get_str(request, SLICE("path"));
    struct buf out;
    buf_init(&out, 4096);
    buf_append(&out, json_get_str(request, SLICE("method")));
    buf_append_char(&out, ' ');
    for (ptrdiff_t open = slice_find(path, SLICE("${")); open >= 0;
         open = slice_find(path, SLICE("${"))) {
        buf_append(&out, slice_first(path, (size_t)open));
        buf_append_cstr(&out, "{}");
        path = slice_from(
            path, (size_t)(open + slice_find_char(slice_from(path, (size_t)open), '}')) + 1);
    }
    buf_append(&out, path);
    slice text = arena_dup(arena, buf_slice(&out));
    buf_deinit(&out);
    return text;
}

static slice tool_name(struct arena *arena, const struct json *manifest, const struct json *action)
{
    return arena_printf(arena, "%.*s_%.*s",
                        SLICE_ARG(json_get_str(manifest, SLICE("integration_id"))),
                        SLICE_ARG(json_get_str(action, SLICE("action_id"))));
}

static void find_twins(struct bench *b, slice ours, slice imported)
{
    struct err err;
    const struct json *left = json_parse(&b->arena, ours, &json_limits_provider, &err);
    const struct json *right = json_parse(&b->arena, imported, &json_limits_provider, &err);
    const struct json *a = JSON_GET(left, "actions"), *i = JSON_GET(right, "actions");
    assert_true(json_is(a, JSON_ARRAY) && json_is(i, JSON_ARRAY));
    slice *operations = ARENA_ARRAY(&b->arena, slice, a->count);
    b->twins = ARENA_ARRAY(&b->arena, struct twin, a->count);
    for (uint32_t j = 0; j < a->count; j++)
        operations[j] = operation_of(&b->arena, json_at(a, j));
    for (uint32_t k = 0; k < i->count; k++) {
        slice operation = operation_of(&b->arena, json_at(i, k));
        for (uint32_t j = 0; j < a->count; j++)
            if (slice_eq(operations[j], operation) && b->twin_count < a->count)
                b->twins[b->twin_count++] =
                    (struct twin){tool_name(&b->arena, left, json_at(a, j)),
                                  tool_name(&b->arena, right, json_at(i, k))};
    }
}

/* Loads all built-in manifests and the imported one. */
static void load_beside(struct bench *b, slice imported)
{
    struct catalog_source *sources =
        ARENA_ARRAY(&b->arena, struct catalog_source, embed_integrations_count + 1);
    size_t count = 0;
    for (size_t i = 0; i < embed_integrations_count; i++) {
        const slice text = slice_of(embed_integrations[i].data, embed_integrations[i].len);
        sources[count++] = (struct catalog_source){slice_cstr(embed_integrations[i].name), text};
        if (strcmp(embed_integrations[i].name, "github.json") == 0)
            find_twins(b, text, imported);
    }
    sources[count++] = (struct catalog_source){SLICE("imported.json"), imported};
    b->catalog = catalog_load(sources, count, &b->report);
    assert_non_null(b->catalog);
}

static void intents_find_their_actions_beside_a_large_import(void **state)
{
    struct bench *b = *state;
    struct import_options options = {.document = read_github(&b->arena)};
    struct import_result result;
    struct err err;
    if (options.document.len == 0) {
        print_message("%s is not there: npm ci in tests/e2e, or make test\n", github_document);
        skip();
    }
    assert_int_equal(openapi_import(&options, &result, &err), OK);
    load_beside(b, result.manifest);
    assert_true(result.imported > 1000 && b->twin_count > 20);
    judge_sets(b);
    openapi_import_free(&result);
}

/* ---- requests that no action fulfills ---- */

static void count_high(struct bench *b, slice words, slice wanted, void *arg)
{
    struct figure *figure = arg;
    struct search_request request = {
        .query = words, .with_integrations = true, .with_actions = true, .limit = 20};
    struct catalog_hit *hits;
    size_t count, high = 0;
    (void)wanted;
    assert_int_equal(catalog_search(b->catalog, &b->arena, &request, &hits, &count), OK);
    for (size_t i = 0; i < count; i++)
        high += hits[i].is_high;
    figure->pairs++;
    figure->empty += high == 0;
}

static void nonsense_is_of_low_relevance(void **state)
{
    struct bench *b = *state;
    static const char *const names[] = {"tuning", "measured only"};
    b->catalog = catalog_load_all(NULL, &b->report);
    assert_non_null(b->catalog);
    for (int i = 0; i < 2; i++) {
        struct figure figure = {0};
        read_lines(b, "search_nonsense.txt", PART_TUNING + i, count_high, &figure);
        print_message("figure: of nonsense, %s, %u of %u have nothing of high relevance (bar 95 "
                      "%%)\n",
                      names[i], figure.empty, figure.pairs);
        assert_true(figure.pairs >= 40 && percent(figure.empty, figure.pairs) >= 95);
    }
}

/* ---- connected apps, and actions of other apps ---- */

/* Searches everything, with these apps connected (separated by a blank). */
static size_t search_with(struct bench *b, struct arena *arena, slice words, slice connected,
                          struct catalog_hit **hits)
{
    struct search_request request = {
        .query = words, .with_integrations = true, .with_actions = true, .limit = 1000};
    size_t count, apps = b->catalog->integration_count;
    bool *flags = ARENA_ARRAY(arena, bool, apps);
    for (size_t i = 0; i < apps; i++)
        flags[i] = slice_has_word(connected, b->catalog->integrations[i]->integration_id);
    request.connected = flags;
    assert_int_equal(catalog_search(b->catalog, arena, &request, hits, &count), OK);
    return count;
}

static void another_app_or_channel_is_low(void **state)
{
    static const struct {
        const char *words, *connected;
        const char *first; /* NULL: nothing ranks high */
        const char *high;  /* the only apps that do */
    } cases[] = {
        {"send an SMS", "gmail", "twilio_send_message", "twilio"},
        {"send an SMS", "gmail slack telegram outlook_mail", "twilio_send_message", "twilio"},
        {"text Ada that I am late", "gmail", "twilio_send_message", "twilio"},
        {"let Ada know by text message", "gmail slack", "twilio_send_message", "twilio"},
        {"send a WhatsApp message to Ada", "gmail telegram", "twilio_send_message", "twilio"},
        {"send an email", "slack telegram twilio", "sendgrid_send_email",
         "sendgrid outlook_mail gmail stripe hubspot"}, /* by the tags of their actions */
        {"email Ada", "outlook_mail", "outlook_mail_send_message",
         "sendgrid outlook_mail gmail stripe hubspot"},
        {"send a mail", "gmail slack", "gmail_send_message",
         "sendgrid outlook_mail gmail stripe hubspot"},
        {"mail Ada", "gmail", "gmail_send_message", "sendgrid outlook_mail gmail stripe hubspot"},
        {"send a message to the team on slack", "gmail discord", "slack_post_message", "slack"},
        {"create a github issue", "jira linear gitlab", "github_create_issue", "github"},
        {"post to discord", "slack", "discord_send_message", "discord"},
        {"send a fax", "gmail", NULL, ""},
        {"post on LinkedIn that we are hiring", "slack", NULL, ""},
        {"tweet it on Twitter", "slack", NULL, ""},
        {"book a Zoom meeting", "google_calendar", NULL, ""},
        {"call the customer over the phone", "gmail", "twilio_make_call", NULL},
        {"give me my open issues on the Linear board", "slack", "linear_list_issues", NULL},
        /* a mention of a channel is not a request for one */
        {"create a task from this email", "asana gmail", "asana_create_task", NULL},
        {"translate the text of the page", "", NULL, NULL},
    };
    struct bench *b = *state;
    size_t bad = 0;
    b->catalog = catalog_load_all(NULL, &b->report);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct catalog_hit *hits;
        size_t count = search_with(b, &b->arena, slice_cstr(cases[i].words),
                                   slice_cstr(cases[i].connected), &hits);
        bool is_first = !cases[i].first ||
                        (count > 0 && hits[0].action && hits[0].is_high &&
                         slice_eq_cstr(hits[0].action->tool_name, cases[i].first));
        bad += !is_first;
        if (!is_first)
            print_error("%s: first %.*s\n", cases[i].words,
                        SLICE_ARG(hits[0].action ? hits[0].action->tool_name
                                                 : hits[0].integration->integration_id));
        for (size_t k = 0; k < count && cases[i].high; k++) {
            slice app = hits[k].integration->integration_id;
            if (!hits[k].is_high || slice_has_word(slice_cstr(cases[i].high), app))
                continue;
            print_error("%s: %.*s is high\n", cases[i].words, SLICE_ARG(app));
            bad++;
        }
    }
    assert_int_equal(bad, 0);
}

/* The last word of a query may be the beginning of another, but not a mistake for another. */
static void a_known_last_word_is_no_mistake(void **state)
{
    struct bench *b = *state;
    struct catalog_hit *hits;
    b->catalog = catalog_load_all(NULL, &b->report);
    size_t count = search_with(b, &b->arena, SLICE("find the newest contract"), SLICE(""), &hits);
    assert_true(count > 0 && hits[0].action);
    if (slice_find(hits[0].action->action_id, SLICE("contact")) >= 0)
        fail_msg("%.*s", SLICE_ARG(hits[0].action->tool_name));
}

/* A smaller difference in relevance is a tie. */
#define TIE 0.08f

static void check_ties(struct bench *b, slice words, slice wanted, void *arg)
{
    struct catalog_hit *plain, *with;
    struct arena arena;
    arena_init(&arena, 64 * 1024 * 1024);
    size_t *won = arg, count = search_with(b, &arena, words, SLICE(""), &plain);
    (void)wanted;
    for (size_t i = 0; i < b->catalog->integration_count && count > 0; i++) {
        slice app = b->catalog->integrations[i]->integration_id;
        size_t at = 0, all = search_with(b, &arena, words, app, &with);
        assert_int_equal(all, count);
        while (plain[at].integration != with[0].integration || plain[at].action != with[0].action)
            at++;
        if (plain[at].score < plain[0].score * (1 - TIE))
            fail_msg("%.*s: %.*s is first, for it is connected", SLICE_ARG(words), SLICE_ARG(app));
        *won += at > 0;
    }
    arena_deinit(&arena);
}

static void what_is_connected_wins_ties_only(void **state)
{
    struct bench *b = *state;
    size_t won = 0;
    b->catalog = catalog_load_all(NULL, &b->report);
    read_lines(b, "search_intents_held_out.txt", PART_ALL, check_ties, &won);
    print_message("figure: %zu ties were won by the app that was connected\n", won);
    assert_true(won > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(intents_find_their_actions, setup, teardown),
        cmocka_unit_test_setup_teardown(intents_find_their_actions_beside_a_large_import, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(sentences_find_their_actions, setup, teardown),
        cmocka_unit_test_setup_teardown(hard_sentences_find_as_many_as_before, setup, teardown),
        cmocka_unit_test_setup_teardown(later_sentences_find_their_actions, setup, teardown),
        cmocka_unit_test_setup_teardown(sentences_that_need_two_apps_find_both, setup, teardown),
        cmocka_unit_test_setup_teardown(requests_keep_their_phrases, setup, teardown),
        cmocka_unit_test_setup_teardown(a_verb_may_be_at_the_end, setup, teardown),
        cmocka_unit_test_setup_teardown(any_words_are_split, setup, teardown),
        cmocka_unit_test_setup_teardown(a_split_keeps_the_action_of_a_sentence, setup, teardown),
        cmocka_unit_test_setup_teardown(half_of_the_sentences_have_no_word_of_a_title, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(another_app_or_channel_is_low, setup, teardown),
        cmocka_unit_test_setup_teardown(a_known_last_word_is_no_mistake, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_connected_wins_ties_only, setup, teardown),
        cmocka_unit_test_setup_teardown(nonsense_is_of_low_relevance, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
