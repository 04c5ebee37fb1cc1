/*
 * What the compliance suite does not cover: budgets, limits, messages, the root, legacy literals,
 * exact numbers, sharing, and the paths that lint sees.
 */
#include "expr_test.h"

/* ---- language ---- */

static void root_is_reachable_in_projections(void **state)
{
    const char *given = "{\"input\":{\"min\":2},\"list\":[{\"n\":1},{\"n\":2},{\"n\":3}]}";
    assert_gives(*state, "list[?n >= $.input.min].n", given, "[2,3]");
    assert_gives(*state, "list[].[n, $.input.min]", given, "[[1,2],[2,2],[3,2]]");
    assert_gives(*state, "list[0] | $.input", given, "{\"min\":2}");
    assert_gives(*state, "map(&$.input.min, list)", given, "[2,2,2]");
    assert_gives(*state, "$", "7", "7");
}

static void projections_continue_after_a_multiselect(void **state)
{
    const char *given = "{\"a\":[{\"b\":1,\"c\":[5,6]},{\"b\":2,\"c\":[7]}]}";
    assert_gives(*state, "a[*].{x: b}.x", given, "[1,2]");
    assert_gives(*state, "a[*].[b, c][0]", given, "[1,2]");
    assert_gives(*state, "a[].c[] | [-1]", given, "7");
    assert_gives(*state, "(a[*].c)[0]", given, "[5,6]");
    assert_gives(*state, "a[*].c[0]", given, "[5,7]");
    assert_gives(*state, "a[::-1].b", given, "[2,1]");
    assert_gives(*state, "a[1:].b", given, "[2]");
    assert_gives(*state, "{x: a, x: a[0].b}", given, "{\"x\":1}");
}

static void not_binds_weaker_than_a_path(void **state)
{
    const char *given = "{\"input\":{\"confirm\":false,\"n\":1,\"list\":[]}}";
    assert_gives(*state, "!input.confirm", given, "true");
    assert_gives(*state, "!input.list[0]", given, "true");
    assert_gives(*state, "!input.n && !input.confirm", given, "false");
    assert_gives(*state, "!input.n == `false`", given, "true");
    assert_gives(*state, "!input.list[]", given, "true");
}

static void legacy_literals_are_strings(void **state)
{
    assert_gives(*state, "`foo`", "null", "\"foo\"");
    assert_gives(*state, "` foo bar `", "null", "\"foo bar\"");
    assert_gives(*state, "`01`", "null", "\"01\"");
    assert_gives(*state, "`a\\`b`", "null", "\"a`b\"");
    assert_gives(*state, "`\\u00e9`", "null", "\"\xC3\xA9\"");
    assert_fault(*state, "`[1, 2`", "null", EXPR_FAULT_SYNTAX, "must be JSON");
    assert_fault(*state, "`{\"a\":1,\"a\":2}`", "null", EXPR_FAULT_SYNTAX, "must be JSON");
    assert_fault(*state, "``", "null", EXPR_FAULT_SYNTAX, "empty literal");
}

static void raw_strings_keep_backslashes(void **state)
{
    assert_gives(*state, "'it\\'s'", "null", "\"it's\"");
    assert_gives(*state, "'\\d\\\\'", "null", "\"\\\\d\\\\\\\\\"");
    assert_gives(*state, "''", "null", "\"\"");
}

static void numbers_stay_exact(void **state)
{
    assert_gives(*state, "sum(@)", "[9007199254740993, 1]", "9007199254740994");
    assert_gives(*state, "sum(@)", "[9223372036854775807, 1]", "9223372036854775808");
    assert_gives(*state, "sum(@) > `18446744073709551615`", "[18446744073709551615, 4096]", "true");
    assert_gives(*state, "sum(@)", "[18446744073709551615, -1]", "18446744073709551614");
    assert_gives(*state, "sum(@)", "[1e100, 1, -1e100]", "1");
    assert_gives(*state, "avg(@)", "[1, 2]", "1.5");
    assert_gives(*state, "avg(@)", "[1, 3]", "2");
    assert_gives(*state, "abs(@)", "-9223372036854775808", "9223372036854775808");
    assert_gives(*state, "abs(@)", "-100000000000000000000001", "100000000000000000000001");
    assert_gives(*state, "[ceil(@), floor(@)]", "-1.5", "[-1,-2]");
    assert_gives(*state, "max(@)", "[18446744073709551615, 18446744073709551614, 1.5]",
                 "18446744073709551615");
    assert_gives(*state, "@ == `1.0`", "1", "true");
    assert_gives(*state, "to_number('-1.5e3')", "null", "-1500.0");
    assert_gives(*state, "[to_number('1 '), to_number('0x1'), to_number('')]", "1",
                 "[null,null,null]");
    assert_fault(*state, "sum(@)", "[1e308, 1e308]", EXPR_FAULT_VALUE, "beyond the range");
}

static void sort_is_stable_and_by_code_point(void **state)
{
    struct bench *b = *state;
    assert_gives(b, "sort(@)", "[\"b\",\"\xC3\xA9\",\"a\",\"Z\",\"\"]",
                 "[\"\",\"Z\",\"a\",\"b\",\"\xC3\xA9\"]");
    assert_gives(b, "sort_by(@, &k)[].v",
                 "[{\"k\":1,\"v\":1},{\"k\":0,\"v\":2},{\"k\":1,\"v\":3},"
                 "{\"k\":0,\"v\":4},{\"k\":0.0,\"v\":5}]",
                 "[2,4,5,1,3]");
    assert_gives(b, "[max_by(@, &k).v, min_by(@, &k).v]",
                 "[{\"k\":1,\"v\":1},{\"k\":1,\"v\":2},{\"k\":0,\"v\":3},{\"k\":0,\"v\":4}]",
                 "[1,3]");
    /* Compared with qsort, on numbers with many ties. */
    struct json array = json_array();
    int sorted[1000];
    for (int i = 0; i < 1000; i++) {
        sorted[i] = i * 7919 % 301;
        json_array_push(&b->arena, &array, json_i64(sorted[i]));
    }
    struct expr *expr = expr_compile(&b->arena, SLICE("sort(@)"), &b->err);
    struct json result;
    expr_budget_init(&b->budget);
    assert_int_equal(expr_eval(expr, &array, &array, &b->budget, &b->arena, &result, &b->err), OK);
    for (int i = 1; i < 1000; i++)
        for (int k = i; k > 0 && sorted[k] < sorted[k - 1]; k--) {
            int swap = sorted[k];
            sorted[k] = sorted[k - 1];
            sorted[k - 1] = swap;
        }
    for (uint32_t i = 0; i < 1000; i++)
        assert_int_equal(json_at(&result, i)->as.i64, sorted[i]);
    assert_true(b->budget.visits < 20000); /* n log n, not n * n */
}

static void merge_keeps_places(void **state)
{
    assert_gives(*state, "merge(@, {b: `9`, d: `4`})", "{\"a\":1,\"b\":2,\"c\":3}",
                 "{\"a\":1,\"b\":9,\"c\":3,\"d\":4}");
    assert_gives(*state, "contains(@, {y: `2`, x: `1.0`})", "[{\"x\":1,\"y\":2}]", "true");
    assert_gives(*state, "contains('abc', `1`)", "null", "false");
    assert_gives(*state, "reverse('a\xC3\xA9\xE2\x82\xAC')", "null",
                 "\"\xE2\x82\xAC\xC3\xA9"
                 "a\"");
    assert_gives(*state, "to_string(@)", "{\"a\":[1,\"\\n\\u0001\\\"\",1.5,null,true]}",
                 "\"{\\\"a\\\":[1,\\\"\\\\n\\\\u0001\\\\\\\"\\\",1.5,null,true]}\"");
}

/* ---- the extra functions ---- */

static void base64_round_trips(void **state)
{
    assert_gives(*state, "base64('')", "null", "\"\"");
    assert_gives(*state, "[base64('f'), base64('fo'), base64('foo')]", "1",
                 "[\"Zg==\",\"Zm8=\",\"Zm9v\"]");
    assert_gives(*state, "base64url('\xC3\xBF\xC3\xBE?')", "null", "\"w7_Dvj8\"");
    assert_gives(*state, "base64url_decode('w7_Dvj8')", "null", "\"\xC3\xBF\xC3\xBE?\"");
    assert_gives(*state, "base64url_decode('Zg==')", "null", "\"f\"");
    assert_gives(*state, "base64url_decode('QenpQg')", "null",
                 "\"A\xEF\xBF\xBD\xEF\xBF\xBD"
                 "B\"");                                                         /* latin-1 bytes */
    assert_gives(*state, "base64url_decode('4oI')", "null", "\"\xEF\xBF\xBD\""); /* cut short */
    assert_fault(*state, "base64url_decode('a+/b')", "null", EXPR_FAULT_VALUE, "RFC 4648");
    assert_fault(*state, "base64url_decode('abcde')", "null", EXPR_FAULT_VALUE, "RFC 4648");
    assert_fault(*state, "base64(`1`)", "null", EXPR_FAULT_TYPE,
                 "string as argument 1, got number");
}

static void truncate_counts_code_points(void **state)
{
    assert_gives(*state, "truncate('abcdef', `6`)", "null", "\"abcdef\"");
    assert_gives(*state, "truncate('abcdef', `4`)", "null", "\"abc\xE2\x80\xA6\"");
    assert_gives(*state, "truncate('\xC3\xA9\xC3\xA9\xC3\xA9', `2`, '')", "null",
                 "\"\xC3\xA9\xC3\xA9\"");
    assert_gives(*state, "truncate('abcdef', `5`, '...')", "null", "\"ab...\"");
    assert_gives(*state, "truncate('abcdef', `2`, '...')", "null", "\"ab\"");
    assert_gives(*state, "truncate('abcdef', `0`)", "null", "\"\"");
    assert_gives(*state, "truncate('', `0`)", "null", "\"\"");
    assert_fault(*state, "truncate('a', `-1`)", "null", EXPR_FAULT_VALUE, "whole number");
    assert_fault(*state, "truncate('a', `1.5`)", "null", EXPR_FAULT_VALUE, "whole number");
}

static void counted_says_how_many(void **state)
{
    assert_gives(*state, "counted(@, 'folder')", "[]", "\"No folders.\"");
    assert_gives(*state, "counted(@, 'folder')", "null", "\"No folders.\"");
    assert_gives(*state, "counted(`0`, 'folder')", "null", "\"No folders.\"");
    assert_gives(*state, "counted(@, 'record')", "[7]", "\"1 record\"");
    assert_gives(*state, "counted(@, 'record')", "[7, null]", "\"2 records\"");
    assert_gives(*state, "counted(`1234`, 'record')", "null", "\"1234 records\"");
    assert_gives(*state, "counted(`2`, 'merge request')", "null", "\"2 merge requests\"");
    assert_gives(*state, "counted(`2`, 'company')", "null", "\"2 companies\"");
    assert_gives(*state, "counted(`2`, 'day')", "null", "\"2 days\"");
    assert_gives(*state, "counted(`2`, 'branch')", "null", "\"2 branches\"");
    assert_gives(*state, "counted(`2`, 'address')", "null", "\"2 addresses\"");
    assert_gives(*state, "counted(`2`, 'month')", "null", "\"2 months\"");
    assert_gives(*state, "counted(`2`, 'person', 'people')", "null", "\"2 people\"");
    assert_gives(*state, "counted(`1`, 'person', 'people')", "null", "\"1 person\"");
    assert_gives(*state, "counted(`0`, 'person', 'people')", "null", "\"No people.\"");
    assert_gives(*state, "counted(`2`, '')", "null", "\"2 s\"");
    assert_fault(*state, "counted(`-1`, 'a')", "null", EXPR_FAULT_VALUE, "whole number");
    assert_fault(*state, "counted(`1.5`, 'a')", "null", EXPR_FAULT_VALUE, "whole number");
    assert_fault(*state, "counted('ab', 'a')", "null", EXPR_FAULT_TYPE, "argument 1");
}

static void html_is_unescaped_once(void **state)
{
    assert_gives(*state, "unescape_html('plain')", "null", "\"plain\"");
    assert_gives(*state, "unescape_html(@)", "\"a &amp; b &lt;c&gt; &#39;d&#x27; &apos;e&apos;\"",
                 "\"a & b <c> 'd' 'e'\"");
    assert_gives(*state, "unescape_html(@)", "\"&quot;&amp;quot;\"", "\"\\\"&quot;\"");
    assert_gives(*state, "unescape_html(@)", "\"&nbsp;&#233;&#x20AC;&#128512;\"",
                 "\"\xC2\xA0\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\"");
    assert_gives(*state, "unescape_html(@)", "\"&uuml;&szlig;&yuml; &copy; &rsquo;&euro;\"",
                 "\"\xC3\xBC\xC3\x9F\xC3\xBF \xC2\xA9 \xE2\x80\x99\xE2\x82\xAC\"");
    static const char *const none[] = {
        "\"&\"",     "\"&;\"",           "\"&#;\"",        "\"&#x;\"",
        "\"&#0;\"",  "\"&#xD800;\"",     "\"&#1114112;\"", "\"&#12a;\"",
        "\"&AMP;\"", "\"AT&T; &none;\"", "\"&amp\"",       "\"&#99999999999999;\""};
    for (size_t i = 0; i < ARRAY_LEN(none); i++)
        assert_gives(*state, "unescape_html(@)", none[i], none[i]);
    assert_fault(*state, "unescape_html(`1`)", "null", EXPR_FAULT_TYPE, "unescape_html");
}

static void a_word_follows_a_marker(void **state)
{
    assert_gives(*state, "word_after(@, 'after ')", "\"Retry after 2026-01-02T03:04:05.678Z\"",
                 "\"2026-01-02T03:04:05.678Z\"");
    assert_gives(*state, "word_after(@, 'in')", "\"in  12\\n34 in 5\"", "\"12\"");
    assert_gives(*state, "word_after(@, '')", "\"a b\"", "\"a\"");
    assert_gives(*state, "items(@)", "{\"a\":1,\"b\":[]}", "[[\"a\",1],[\"b\",[]]]");
    assert_gives(*state, "from_items(@)", "[[\"a\",1],[\"b\",2],[\"a\",3]]", "{\"a\":3,\"b\":2}");
    assert_gives(*state, "from_items(items(@)[*].[@[0], @[1].v])", "{\"a\":{\"v\":1}}",
                 "{\"a\":1}");
    assert_fault(*state, "from_items(@)", "[[\"a\",1],[2,3]]", EXPR_FAULT_VALUE, "item 1");
    assert_gives(*state, "quote(@)", "\"UTC\"", "\"\\\"UTC\\\"\"");
    assert_gives(*state, "quote(@)", "\"a\\\"; b=\\\\\"", "\"\\\"a\\\\\\\"; b=\\\\\\\\\\\"\"");
    assert_gives(*state, "quote(@)", "\"\"", "\"\\\"\\\"\"");
    assert_gives(*state, "quote_odata(@)", "\"O'Neil \\\"x\\\"\"", "\"'O''Neil \\\"x\\\"'\"");
    static const char *const none[] = {"\"Retry later\"", "\"try in\"", "\"in \\t\"", "\"\"",
                                       "null"};
    for (size_t i = 0; i < ARRAY_LEN(none); i++)
        assert_gives(*state, "word_after(@, 'in')", none[i], "null");
    assert_fault(*state, "word_after(@, 'a')", "1", EXPR_FAULT_TYPE, "word_after");
}

static void a_url_gives_its_parameters(void **state)
{
    static const char url[] = "\"https://h.example/a?%24skip=10&q=a+b%26c&q=2&e=&bad=%ZZ#f?x=1\"";
    assert_gives(*state, "url_query(@, '$skip')", url, "\"10\"");
    assert_gives(*state, "url_query(@, 'q')", url, "\"a b&c\"");
    assert_gives(*state, "url_query(@, 'e')", url, "\"\"");
    static const char *const none[] = {"bad", "x", "skip", ""};
    for (size_t i = 0; i < ARRAY_LEN(none); i++) {
        char source[64];
        (void)snprintf(source, sizeof(source), "url_query(@, '%s')", none[i]);
        assert_gives(*state, source, url, "null");
    }
    assert_gives(*state, "url_query(@, 'Page')", "\"/2010/Messages.json?PageSize=2&Page=1\"",
                 "\"1\"");
    assert_gives(*state, "url_query(@, 'a')", "\"\"", "null");
    assert_gives(*state, "url_query(@, 'a')", "null", "null");
    assert_fault(*state, "url_query(@, 'a')", "1", EXPR_FAULT_TYPE, "url_query");
}

static void a_url_gives_a_segment_of_its_path(void **state)
{
    static const struct {
        const char *url, *pattern, *wanted;
    } table[] = {
        {"\"/services/data/v66.0/query/01g-2000\"", "/query/*", "\"01g-2000\""},
        {"\"https://h.example/query/a%20b?x=/query/c\"", "/query/*", "\"a b\""},
        {"\"/jobs/job-7/results\"", "/jobs/job-*/results", "\"7\""},
        {"\"/query/\"", "/query/*", "null"},
        {"\"/query/a/b\"", "/query/*", "null"},
        {"\"/other/a\"", "/query/*", "null"},
        {"\"a\"", "/query/*", "null"},
        {"\"\"", "*", "null"},
        {"\"/a/b\"", "*", "\"b\""},
        {"null", "*", "null"},
    };
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        char source[64];
        (void)snprintf(source, sizeof(source), "url_segment(@, '%s')", table[i].pattern);
        assert_gives(*state, source, table[i].url, table[i].wanted);
    }
    assert_fault(*state, "url_segment(@, '/query')", "\"/query\"", EXPR_FAULT_VALUE, "pattern");
}

static void a_link_field_gives_the_url_of_a_relation(void **state)
{
    static const struct {
        const char *field, *wanted;
    } table[] = {
        {"<https://h.example/a?page=2>; rel=\\\"next\\\", <https://h.example/a?page=9>; rel=last",
         "\"https://h.example/a?page=2\""},
        {"<b>; rel=last, <a>; title=\\\"x, y; rel=no \\\\\\\" \\\"; REL=\\\"prev Next\\\"",
         "\"a\""},
        {"<a,b;c>;rel=next", "\"a,b;c\""},
        {"<a>; rel=nextone", "null"},
        {"<a>; title=\\\"rel=next\\\"", "null"},
        {"<a>", "null"},
        {"<a", "null"},
        {"", "null"},
        {"<a>; rel=\\\"next", "null"},
    };
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        char given[256];
        (void)snprintf(given, sizeof(given), "\"%s\"", table[i].field);
        assert_gives(*state, "link_url(@, 'next')", given, table[i].wanted);
    }
    assert_gives(*state, "link_url(@, 'next')", "null", "null");
}

static void headers_are_found_in_any_case(void **state)
{
    static const char list[] = "[{\"name\":\"From\",\"value\":\"a\"},7,{\"name\":\"SUBJECT\","
                               "\"value\":\"b\"},{\"name\":\"subject\",\"value\":\"c\"},"
                               "{\"name\":\"x\"}]";
    assert_gives(*state, "header(@, 'Subject')", list, "\"b\"");
    assert_gives(*state, "header(@, 'x')", list, "null");
    assert_gives(*state, "header(@, 'to')", list, "null");
    assert_gives(*state, "header(@, 'to')", "null", "null");
}

static void html_becomes_text(void **state)
{
    static const char *const all[][2] = {
        {"", ""},
        {"plain  text\\n on two lines ", "plain text on two lines"},
        {"<p>Dear Anna,</p><p>thanks<br>a lot.</p>", "Dear Anna,\\n\\nthanks\\na lot."},
        {"<div>a</div><div>b<br><br><br>c</div>d", "a\\nb\\n\\nc\\nd"},
        {"<ul><li>one<LI class='x'>two</li></ul>end", "- one\\n- two\\n\\nend"},
        {"<table><tr><td>a</td><td>1</td></tr><tr><th>b<th>2</table>", "a 1\\nb 2"},
        {"<head><title>T</title><style>p{}</style></head><body>b</body>", "b"},
        {"a<script>if (x</p>1) y()</script>b<SCRIPT>never closed", "ab"},
        {"a<!-- <p>no</p> -->b<!DOCTYPE html><?xml?>c<!-- open", "abc"},
        {"1 < 2 &amp;&lt;b&gt; 3 > 2 <", "1 < 2 &<b> 3 > 2 <"},
        {"x<a title='a > b'>y</a><a\\nhref=https://x.example/q?a=1&amp;b=2>z</a>.",
         "xyz (https://x.example/q?a=1&b=2)."},
        {"<a href='https://x.example'>https://x.example</a> <a href=\\\"#top\\\">up</a>",
         "https://x.example up"},
        {"<a href='https://x.example'><img src=x></a>b</a></a>", "b"},
        {"&nbsp;&zwnj;&nbsp;\xC2\xA0"
         "a\xE2\x80\x8D"
         "b &zwnj;&nbsp;",
         "a\xE2\x80\x8D"
         "b"},
        {"<pre>a\\n  b</pre>  c", "a\\n  b\\n\\nc"},
        {"<p", ""},
        {"a</", "a</"},
        {"<a href", ""},
        {"<a href=", ""},
        {"<a href='https://x", ""},
        {"<a href=http></a>", ""},
        {"<li><li><li>", ""},
        {"<br>", ""},
    };
    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        char given[256], wanted[256];
        (void)snprintf(given, sizeof(given), "\"%s\"", all[i][0]);
        (void)snprintf(wanted, sizeof(wanted), "\"%s\"", all[i][1]);
        assert_gives(*state, "html_text(@)", given, wanted);
    }
    assert_fault(*state, "html_text(`1`)", "null", EXPR_FAULT_TYPE, "html_text");
}

/* Pieces of markup in any order: the text is never longer than the page (html_text asserts it).
 */
static void html_text_fits_its_page(void **state)
{
    static const char *const pieces[] = {
        "<p>",           "</p>",  "<br>",   "<li>",  "<a href=http>",
        "<a/href=http>", "</a>",  "x",      " ",     "&gt;",
        "<td>",          "<pre>", "</pre>", "&reg;", "&zwj;",
        "<a href='http", "'",     ">",      "<ul>",  "\xC2\xA0"};
    uint32_t seed = 1;
    for (int round = 0; round < 20000; round++) {
        char given[256] = "\"";
        size_t len = 1;
        for (int i = 0; i < 12; i++) {
            seed = seed * 1664525u + 1013904223u;
            const char *piece = pieces[(seed >> 16) % ARRAY_LEN(pieces)];
            memcpy(given + len, piece, strlen(piece));
            len += strlen(piece);
        }
        memcpy(given + len, "\"", 2);
        assert_gives(*state, "type(html_text(@))", given, "\"string\"");
    }
}

static void money_is_in_the_unit_that_people_use(void **state)
{
    static const struct {
        const char *source, *wanted;
    } table[] = {
        {"money(`2000`, 'usd')", "\"20.00 USD\""},
        {"money(`5`, 'EUR')", "\"0.05 EUR\""},
        {"money(`-1250`, 'eur')", "\"-12.50 EUR\""},
        {"money(`500`, 'jpy')", "\"500 JPY\""},
        {"money(`1234567`, 'kwd')", "\"1234.567 KWD\""},
        {"money(`0`, 'usd')", "\"0.00 USD\""},
        {"money(`500`, 'ugx')", "\"5.00 UGX\""},
        {"money(`null`, 'usd')", "null"},
        {"money(`-9223372036854775808`, 'clp')", "\"-9223372036854775808 CLP\""},
    };
    for (size_t i = 0; i < ARRAY_LEN(table); i++)
        assert_gives(*state, table[i].source, "null", table[i].wanted);
    assert_fault(*state, "money(`1.5`, 'usd')", "null", EXPR_FAULT_VALUE, "whole number");
    assert_fault(*state, "money(`1`, 'us')", "null", EXPR_FAULT_VALUE, "three letters");
    assert_fault(*state, "money(`1`, 'u$d')", "null", EXPR_FAULT_VALUE, "three letters");
}

/* The vendor's own example of a header's value, and a surrogate pair. */
static void ascii_json_is_safe_in_a_header(void **state)
{
    assert_gives(*state, "ascii_json({field: @})",
                 "\"some_\\u00fc\\u00f1\\u00eec\\u00f8d\\u00e9_and_\\u007f\"",
                 "\"{\\\"field\\\":\\\"some_\\\\u00fc\\\\u00f1\\\\u00eec\\\\u00f8d\\\\u00e9_and_"
                 "\\\\u007f\\\"}\"");
    assert_gives(*state, "ascii_json([@])", "\"\\ud83d\\ude00\"",
                 "\"[\\\"\\\\ud83d\\\\ude00\\\"]\"");
    assert_gives(*state, "ascii_json({a: `1`, b: [`null`, 'x']})", "{}",
                 "\"{\\\"a\\\":1,\\\"b\\\":[null,\\\"x\\\"]}\"");
    assert_gives(*state, "ascii_json(@)", "{}", "\"{}\"");
}

/* tests/unit/mime tests the messages themselves. */
static void a_mail_is_made_within_its_budget(void **state)
{
    struct bench *b = *state;
    struct json object = json_object();
    char *body = arena_alloc_text(&b->arena, 900000);
    memset(body, 'x', 900000);
    assert_gives(b, "starts_with(mime_message(@), 'Subject: a')", "{\"subject\":\"a\"}", "true");
    assert_fault(b, "mime_message('x')", "null", EXPR_FAULT_TYPE, "wants object");
    assert_fault(b, "mime_message(@)", "{\"to\":5}", EXPR_FAULT_VALUE,
                 "mime_message(): to must be a string, not number");
    json_object_set(&b->arena, &object, SLICE("body"), json_string(slice_of(body, 900000)));
    json_object_set(&b->arena, &object, SLICE("html"), json_string(slice_of(body, 900000)));
    struct json result = json_null;
    struct expr *expr = expr_compile(&b->arena, SLICE("mime_message(@)"), &b->err);
    expr_budget_init(&b->budget);
    assert_int_not_equal(expr_eval(expr, &object, &object, &b->budget, &b->arena, &result, &b->err),
                         OK);
    assert_int_equal(b->budget.fault, EXPR_FAULT_LIMIT);
    assert_non_null(strstr(b->err.text, "output budget of 1048576 bytes"));
    assert_true(b->budget.visits > 2 * 900000 / 32); /* charged for the text that was read */
}

static void uuid5_follows_the_rfc(void **state)
{
    /* RFC 9562 A.4 */
    assert_gives(*state, "uuid5('dns', 'www.example.com')", "null",
                 "\"2ed6657d-e927-568b-95e1-2665a8aea6a2\"");
    assert_gives(*state, "uuid5('6ba7b810-9dad-11d1-80b4-00c04fd430c8', 'www.example.com')", "null",
                 "\"2ed6657d-e927-568b-95e1-2665a8aea6a2\"");
    assert_fault(*state, "uuid5('web', 'a')", "null", EXPR_FAULT_VALUE, "namespace");
}

static void format_time_is_utc(void **state)
{
    const char *given = "{\"t\":\"2026-11-21T05:06:07.089+02:00\",\"ms\":1700000000123}";
    assert_gives(*state, "format_time(t, 'rfc3339')", given, "\"2026-11-21T03:06:07.089Z\"");
    assert_gives(*state, "format_time(t, 'mail')", given, "\"Sat, 21 Nov 2026 03:06:07 +0000\"");
    assert_gives(*state, "format_time(t, 'http')", given, "\"Sat, 21 Nov 2026 03:06:07 GMT\"");
    assert_gives(*state, "format_time(ms, '%F %T.%L', 'ms')", given, "\"2023-11-14 22:13:20.123\"");
    assert_gives(*state, "format_time(`0`, '%A %d.%m.%Y')", given, "\"Thursday 01.01.1970\"");
    assert_gives(*state, "format_time(`-1.5`, '%F %T.%L %a')", given,
                 "\"1969-12-31 23:59:58.500 Wed\"");
    assert_gives(*state, "format_time(`951782400`, '%j %e %b %y %I%p 100%%')", given,
                 "\"060 29 Feb 00 12AM 100%\"");
    assert_gives(*state, "format_time(`253402300799`, 'date')", given, "\"9999-12-31\"");
    assert_fault(*state, "format_time(`253402300800`, 'date')", given, EXPR_FAULT_VALUE, "9999");
    assert_fault(*state, "format_time(`1e300`, 'date')", given, EXPR_FAULT_VALUE, "9999");
    assert_fault(*state, "format_time('yesterday', 'date')", given, EXPR_FAULT_VALUE, "RFC 3339");
    assert_fault(*state, "format_time(t, '%Q')", given, EXPR_FAULT_VALUE, "no %Q");
    assert_fault(*state, "format_time(t, '%')", given, EXPR_FAULT_VALUE, "after every %");
    assert_fault(*state, "format_time(ms, 'date', 'us')", given, EXPR_FAULT_VALUE, "'ms'");
}

/* ---- messages ---- */

static void messages_say_where(void **state)
{
    struct bench *b = *state;
    assert_fault(b, "foo.[a, ]", "null", EXPR_FAULT_SYNTAX, "found ] where an expression");
    assert_fault(b, "foo.[a, ]", "null", EXPR_FAULT_SYNTAX, "at offset 8 of the expression foo.[");
    assert_fault(b, "foo[", "null", EXPR_FAULT_SYNTAX, "ends where a number, ':' or '*' should");
    assert_fault(b, "a = b", "null", EXPR_FAULT_SYNTAX, "use '==' to compare");
    assert_fault(b, "'abc", "null", EXPR_FAULT_SYNTAX, "never closed");
    assert_fault(b, "&a", "null", EXPR_FAULT_SYNTAX, "only before an argument");
    assert_fault(b, "a[99999999999]", "null", EXPR_FAULT_SYNTAX, "too large for an index");
    assert_fault(b, "nope(@)", "null", EXPR_FAULT_UNKNOWN_FUNCTION, "no function nope()");
    assert_int_equal(b->err.code, ERR_NOTFOUND);
    assert_fault(b, "abs(@, @)", "null", EXPR_FAULT_ARITY, "abs() takes 1 argument, got 2");
    assert_fault(b, "merge()", "null", EXPR_FAULT_ARITY, "at least 1 argument");
    assert_fault(b, "abs(&a)", "null", EXPR_FAULT_TYPE, "not a reference");
    assert_fault(b, "a.b | length(@)", "{\"a\":1}", EXPR_FAULT_TYPE,
                 "invalid-type: length() wants string or array or object as argument 1, got null, "
                 "at offset 6");
    assert_fault(b, "sum(@)", "[1,2,\"3\"]", EXPR_FAULT_TYPE, "an array with string as item 3");
    assert_fault(b, "sort_by(@, &n)", "[{\"n\":1},{\"n\":\"b\"}]", EXPR_FAULT_TYPE,
                 "item 1 gave number and item 2 gave string");
    assert_fault(b, "\xFF", "null", EXPR_FAULT_SYNTAX, "not UTF-8 at offset 0");
}

/* ---- limits ---- */

/* text, repeated, in the arena. */
static const char *repeat(struct bench *b, const char *text, size_t count)
{
    size_t len = strlen(text);
    char *to = arena_alloc_text(&b->arena, len * count + 1);
    for (size_t i = 0; i < count; i++)
        memcpy(to + i * len, text, len);
    to[len * count] = '\0';
    return to;
}

static const char *wrap(struct bench *b, const char *open, const char *middle, const char *close,
                        size_t count)
{
    const char *left = repeat(b, open, count), *right = repeat(b, close, count);
    return arena_printf(&b->arena, "%s%s%s", left, middle, right).ptr;
}

static void source_and_depth_are_bounded(void **state)
{
    struct bench *b = *state;
    static const char *const forms[][3] = {
        {"(", "@", ")"},    {"[", "@", "]"},      {"{a:", "@", "}"}, {"!", "@", ""},
        {"abs(", "@", ")"}, {"[?", "@", "]"},     {"[*]", "", ""},   {"[?a]", "", ""},
        {"@", "", "==@"},   {"map(&", "@", ",@)"}};
    for (size_t i = 0; i < ARRAY_LEN(forms); i++) {
        const char *deep = wrap(b, forms[i][0], forms[i][1], forms[i][2], 70);
        if (i == 8)
            deep = wrap(b, "", "@", "==@", 70);
        assert_fault(b, deep, "null", EXPR_FAULT_LIMIT, "nested more than 64 levels deep");
        assert_int_equal(b->err.code, ERR_LIMIT);
        const char *fine = wrap(b, forms[i][0], forms[i][1], forms[i][2], 20);
        if (i == 8)
            fine = wrap(b, "", "@", "==@", 20);
        assert_non_null(expr_compile(&b->arena, slice_cstr(fine), &b->err));
    }
    assert_fault(b, wrap(b, "a.", "a", "", 2048), "null", EXPR_FAULT_LIMIT, "at most 4096");
    assert_fault(b, wrap(b, "", "not_null(a", ",a", 40), "null", EXPR_FAULT_SYNTAX, "',' or ')'");
    const char *args = arena_printf(&b->arena, "not_null(a%s)", repeat(b, ",a", 32)).ptr;
    assert_fault(b, args, "null", EXPR_FAULT_ARITY, "at most 32 arguments");
}

static void long_chains_are_not_deep(void **state)
{
    struct bench *b = *state;
    assert_gives(b, wrap(b, "", "a", ".a", 2000), "{\"a\":{\"a\":1}}", "null");
    assert_gives(b, wrap(b, "@|", "@", "", 2000), "5", "5");
    assert_gives(b, wrap(b, "", "b", "||a", 1300), "{\"a\":1}", "1");
    assert_gives(b, wrap(b, "", "[[1]]", "[]", 0), "null", "null");
    assert_gives(b, wrap(b, "", "@", "[]", 1900), "[[1,[2]]]", "[1,2]");
}

/* Evaluates. *bytes is the arena's use. */
static const char *eval_counted(struct bench *b, const char *source, const char *given,
                                size_t *bytes)
{
    size_t before = b->arena.bytes_used;
    const char *result = bench_eval(b, source, given);
    *bytes = b->arena.bytes_used - before;
    return result;
}

static void bombs_end_within_their_budget(void **state)
{
    struct bench *b = *state;
    /* 179 bytes of source give 2^k copies of a value that is in memory only once. */
    const char *doubling = repeat(b, "[@,@]|", 20);
    size_t bytes = 0;
    const char *bomb = arena_printf(&b->arena, "'%s'|%s@", repeat(b, "x", 55), doubling).ptr;
    assert_int_equal(strlen(bomb), 179);
    assert_null(eval_counted(b, bomb, "null", &bytes));
    assert_int_equal(b->fault, EXPR_FAULT_LIMIT);
    assert_int_equal(b->err.code, ERR_LIMIT);
    assert_non_null(strstr(b->err.text, "output budget of 1048576 bytes"));
    assert_true(bytes < 64 * 1024);

    const char *tails[] = {"to_string(@)",      "to_string([@,@])|[length(@),@]",
                           "@ == [@,@]",        "[@,@]|[0] == [1]",
                           "contains(@, [@])",  "[][][][][][][][][][][][][][][][][][][][]",
                           "{a:@,b:@}",         "map(&[@,@],@)",
                           "values({a:@,b:@})", "*"};
    for (size_t i = 0; i < ARRAY_LEN(tails); i++) {
        const char *text = arena_printf(&b->arena, "%s%s", repeat(b, "[@,@]|", 40), tails[i]).ptr;
        const char *got = eval_counted(b, text, "{\"id\":\"0123456789\"}", &bytes);
        if (got)
            assert_in_range(strlen(got), 1, 5); /* decided by identity or by a mismatch, without
                                                 * a walk */
        else
            assert_int_equal(b->fault, EXPR_FAULT_LIMIT);
        assert_true(bytes < 48u << 20);
        assert_true(b->budget.bytes_built <= EXPR_BYTES_MAX);
    }
}

static void text_bombs_end_within_their_budget(void **state)
{
    struct bench *b = *state;
    size_t bytes = 0;
    const char *doubling = repeat(b, "join('',[@,@])|", 30);
    const char *bomb = arena_printf(&b->arena, "'0123456789'|%s@", doubling).ptr;
    assert_null(eval_counted(b, bomb, "null", &bytes));
    assert_non_null(strstr(b->err.text, "output budget"));
    assert_true(bytes <= 2u << 20);
    const char *quoting = arena_printf(&b->arena, "%s@", repeat(b, "[@]|to_string(@)|", 40)).ptr;
    assert_null(eval_counted(b, quoting, "\"\\\"\"", &bytes)); /* each doubles the backslashes */
    assert_int_equal(b->fault, EXPR_FAULT_LIMIT);
    assert_true(bytes <= 16u << 20);
}

static void results_are_not_too_deep(void **state)
{
    struct bench *b = *state;
    const char *deep = arena_printf(&b->arena, "%s@", repeat(b, "[@]|", 600)).ptr;
    assert_fault(b, deep, "1", EXPR_FAULT_LIMIT, "nested more than 512 levels deep");
    const char *equal = arena_printf(&b->arena, "%s(@ == [@])", repeat(b, "[@]|", 600)).ptr;
    assert_fault(b, equal, "1", EXPR_FAULT_LIMIT, "nested more than 512 levels deep");
    const char *text = arena_printf(&b->arena, "%sto_string(@)", repeat(b, "[@]|", 600)).ptr;
    assert_fault(b, text, "1", EXPR_FAULT_LIMIT, "nested more than 512 levels deep");
}

/* An array of `count` numbers, as the member "a". */
static const char *many(struct bench *b, size_t count)
{
    const char *ones = repeat(b, ",12", count - 1);
    char *text = arena_alloc_text(&b->arena, 3 * count + 32);
    snprintf(text, 3 * count + 32, "{\"a\":[12%s]}", ones);
    return text;
}

static void visits_are_bounded(void **state)
{
    struct bench *b = *state;
    const char *given = many(b, 3000);
    static const char *const sources[] = {
        "a[].{x: $.a[?@ == `1`]}", /* n * n */
        "map(&contains($.a, @), a) | a",
        "a[].length($.a[])",
        "map(&sort($.a), a)",
        "map(&sum($.a), a)",
        "map(&max($.a), a)",
        "map(&reverse($.a), a)",
        "map(&length(to_string($.a)), a)",
        "map(&merge(@, @), a[].{x: @})|map(&map(&$.a[*].[@],$.a),@)",
        "a[? $.a == $.a[::-1]] | a[? $.a[::-1] == $.a[::2]] | [? sort_by($.a, &@)]",
    };
    for (size_t i = 0; i < ARRAY_LEN(sources); i++) {
        const char *got = bench_eval(b, sources[i], given);
        if (got)
            assert_true(b->budget.visits <= EXPR_VISITS_MAX);
        else
            assert_non_null(strstr(b->err.text, "limit: over the "));
    }
    assert_null(bench_eval(b, sources[0], given));
    assert_non_null(strstr(b->err.text, "budget of 1000000 node visits"));
}

/* Scanning text also costs fuel. Otherwise a filter over a long text would stall the loop. */
static void scans_are_charged(void **state)
{
    struct bench *b = *state;
    const char *list = repeat(b, "1,", 2000), *body = repeat(b, "a", 500000);
    size_t size = strlen(list) + 2 * strlen(body) + 64;
    char *given = arena_alloc_text(&b->arena, size);
    snprintf(given, size, "{\"l\":[%s1],\"t\":\"%s\",\"u\":\"%s\"}", list, body, body);
    assert_fault(b, "l[?contains($.t, 'b')]", given, EXPR_FAULT_LIMIT, "node visits");
    assert_fault(b, "l[?$.t == $.u]", given, EXPR_FAULT_LIMIT, "node visits");
    assert_fault(b, "map(&length($.t), l)", given, EXPR_FAULT_LIMIT, "node visits");
    assert_fault(b, "map(&starts_with($.t, $.u), l)", given, EXPR_FAULT_LIMIT, "node visits");
    assert_fault(b, "map(&truncate($.t, `1`), l)", given, EXPR_FAULT_LIMIT, "node visits");
    assert_fault(b, "map(&max([$.t, $.u]), l)", given, EXPR_FAULT_LIMIT, "node visits");
}

static void one_budget_serves_several(void **state)
{
    struct bench *b = *state;
    const struct json *root = bench_json(b, "[1,2,3]");
    struct expr *expr = expr_compile(&b->arena, SLICE("[].[@]"), &b->err);
    struct json result;
    expr_budget_init(&b->budget);
    b->budget.visits_max = 25;
    assert_int_equal(expr_eval(expr, root, root, &b->budget, &b->arena, &result, &b->err), OK);
    uint64_t once = b->budget.visits;
    assert_true(once > 6 && b->budget.bytes_result == strlen("[[1],[2],[3]]"));
    assert_int_equal(expr_eval(expr, root, root, &b->budget, &b->arena, &result, &b->err),
                     ERR_LIMIT);
    assert_true(json_is(&result, JSON_NULL));
    assert_int_equal(b->budget.fault, EXPR_FAULT_LIMIT);
}

static void a_full_arena_is_an_error(void **state)
{
    struct bench *b = *state;
    const struct json *root = bench_json(b, many(b, 5000));
    static const char *const sources[] = {
        "a[].{x: @}", "to_string(a)",          "sort(a)", "a[].[@]",     "reverse(a)",
        "map(&@, a)", "merge(@, {b: a[::2]})", "keys(@)", "a[?@ != `1`]"};
    for (size_t i = 0; i < ARRAY_LEN(sources); i++) {
        struct arena small;
        struct json result;
        struct expr *expr = expr_compile(&b->arena, slice_cstr(sources[i]), &b->err);
        arena_init(&small, 8);
        expr_budget_init(&b->budget);
        assert_int_equal(expr_eval(expr, root, root, &b->budget, &small, &result, &b->err),
                         ERR_NOMEM);
        assert_int_equal(b->budget.fault, EXPR_FAULT_MEMORY);
        arena_deinit(&small);
        assert_null(expr_compile(&small, slice_cstr(sources[i]), &b->err));
        arena_deinit(&small);
    }
}

/* ---- sharing ---- */

static void results_share_the_input(void **state)
{
    struct bench *b = *state;
    const struct json *root = bench_json(b, many(b, 1000));
    static const char *const sources[] = {"a", "a[*]", "a[]", "a[0:]", "$.a[:1000]", "a[?`true`]"};
    for (size_t i = 0; i < ARRAY_LEN(sources); i++) {
        struct expr *expr = expr_compile(&b->arena, slice_cstr(sources[i]), &b->err);
        struct json result;
        expr_budget_init(&b->budget);
        assert_int_equal(expr_eval(expr, root, root, &b->budget, &b->arena, &result, &b->err), OK);
        assert_int_equal(result.count, 1000);
        bool is_shared = result.as.items == JSON_GET(root, "a")->as.items;
        assert_int_equal(is_shared, i != 2 && i != 5);
    }
}

/* ---- truth and paths ---- */

static void truth_is_jmespaths(void **state)
{
    static const char *const no[] = {"null", "false", "\"\"", "[]", "{}"};
    static const char *const yes[] = {"true", "0", "0.0", "\" \"", "[null]", "{\"a\":null}"};
    for (size_t i = 0; i < ARRAY_LEN(no); i++)
        assert_false(expr_is_true(bench_json(*state, no[i])));
    for (size_t i = 0; i < ARRAY_LEN(yes); i++)
        assert_true(expr_is_true(bench_json(*state, yes[i])));
    assert_false(expr_is_true(NULL));
}

struct paths {
    char text[512];
    size_t count, stop_at;
};

static bool on_path(void *user, const slice *names, size_t count)
{
    struct paths *paths = user;
    size_t len = strlen(paths->text);
    len += (size_t)snprintf(paths->text + len, sizeof paths->text - len, "/");
    for (size_t i = 0; i < count; i++)
        len += (size_t)snprintf(paths->text + len, sizeof paths->text - len, "%.*s%s",
                                SLICE_ARG(names[i]), i + 1 < count ? "." : "");
    return ++paths->count != paths->stop_at;
}

static void root_names_are_found(void **state)
{
    static const char *const cases[][2] = {
        {"input.x", "/input.x"},
        {"$.input.x.y[0].z", "/input.x.y"},
        {"input.messages[].{id: id, q: $.flow.id}", "/input.messages/flow.id"},
        {"input.{a: x, b: y.z}", "/input.x/input.y.z"},
        {"input | x", "/input.x"},
        {"a || b.c && !d", "/a/b.c/d"},
        {"a == `1`", "/a"},
        {"(a || b).c", "/a/b"},
        {"sort_by(steps.list.output, &date)[0].id", "/steps.list.output"},
        {"list[?n > $.input.min].x", "/list/input.min"},
        {"join(', ', input.to)", "/input.to"},
        {"*.x", "/"},
        {"@", "/"},
        {"`1`", ""},
        {"'a'", ""},
        {"\"a.b\".c", "/a.b.c"},
        {"input.a[?b].c | $.d", "/input.a/d"},
    };
    struct bench *b = *state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct paths paths = {.stop_at = 0};
        struct expr *expr = expr_compile(&b->arena, slice_cstr(cases[i][0]), &b->err);
        assert_non_null(expr);
        assert_true(slice_eq_cstr(expr_source(expr), cases[i][0]));
        expr_root_names(expr, on_path, &paths);
        assert_string_equal(paths.text, cases[i][1]);
    }
    struct paths first = {.stop_at = 1};
    expr_root_names(expr_compile(&b->arena, SLICE("[a, b, c]"), &b->err), on_path, &first);
    assert_string_equal(first.text, "/a");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        bench_test(root_is_reachable_in_projections),
        bench_test(projections_continue_after_a_multiselect),
        bench_test(not_binds_weaker_than_a_path),
        bench_test(legacy_literals_are_strings),
        bench_test(raw_strings_keep_backslashes),
        bench_test(numbers_stay_exact),
        bench_test(sort_is_stable_and_by_code_point),
        bench_test(merge_keeps_places),
        bench_test(base64_round_trips),
        bench_test(truncate_counts_code_points),
        bench_test(counted_says_how_many),
        bench_test(html_is_unescaped_once),
        bench_test(a_word_follows_a_marker),
        bench_test(a_url_gives_its_parameters),
        bench_test(a_url_gives_a_segment_of_its_path),
        bench_test(a_link_field_gives_the_url_of_a_relation),
        bench_test(headers_are_found_in_any_case),
        bench_test(html_becomes_text),
        bench_test(html_text_fits_its_page),
        bench_test(money_is_in_the_unit_that_people_use),
        bench_test(ascii_json_is_safe_in_a_header),
        bench_test(a_mail_is_made_within_its_budget),
        bench_test(uuid5_follows_the_rfc),
        bench_test(format_time_is_utc),
        bench_test(messages_say_where),
        bench_test(source_and_depth_are_bounded),
        bench_test(long_chains_are_not_deep),
        bench_test(bombs_end_within_their_budget),
        bench_test(text_bombs_end_within_their_budget),
        bench_test(results_are_not_too_deep),
        bench_test(visits_are_bounded),
        bench_test(scans_are_charged),
        bench_test(one_budget_serves_several),
        bench_test(a_full_arena_is_an_error),
        bench_test(results_share_the_input),
        bench_test(truth_is_jmespaths),
        bench_test(root_names_are_found),
    };
    return cmocka_run_group_tests_name("expr", tests, NULL, NULL);
}
