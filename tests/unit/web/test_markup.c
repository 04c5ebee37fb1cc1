/*
 * The language of pages: the output, the errors of the compiler with their positions, and every
 * page of the dashboard with data in which each text is hostile.
 */
#include "base/embed.h"
#include "unit.h"
#include "web/markup_compile.h"

static struct arena arena;
static struct buf pack, out;
static struct err err;

static int set_up(void **state)
{
    (void)state;
    arena_init(&arena, 64 * 1024 * 1024);
    buf_init(&pack, 4 * 1024 * 1024);
    buf_init(&out, 16 * 1024 * 1024);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    buf_deinit(&pack);
    buf_deinit(&out);
    arena_deinit(&arena);
    return 0;
}

static const struct json *parse(const char *text)
{
    const struct json *value = json_parse(&arena, slice_cstr(text), &json_limits_request, NULL);
    assert_non_null(value);
    return value;
}

static int compile(const char *page, const char *other)
{
    const struct markup_source sources[] = {{SLICE_INIT("pages/page.html"), slice_cstr(page)},
                                            {SLICE_INIT("pages/other.html"), slice_cstr(other)}};
    buf_clear(&pack);
    err.text[0] = 0;
    return markup_compile(sources, *other ? 2 : 1, &arena, &pack, &err);
}

static int render(const char *data)
{
    const struct markup_set *set = markup_load(&arena, buf_slice(&pack), &err);
    assert_non_null(set);
    buf_clear(&out);
    return markup_render(set, markup_find(set, SLICE("page")), parse(data), &arena, &out, &err);
}

static void check(const char *page, const char *other, const char *data, const char *wanted)
{
    if (compile(page, other) != OK || render(data) != OK)
        fail_msg("%s: %s", page, err.text);
    if (!slice_eq_cstr(buf_slice(&out), wanted))
        fail_msg("%s gives %.*s, not %s", page, (int)out.len, out.ptr, wanted);
}

static void test_values_are_escaped_for_their_position(void **state)
{
    (void)state;
    const char *data =
        "{\"a\":\"<b \\\"'&>\",\"n\":3,\"t\":true,\"f\":false,\"z\":null,\"u\":\"/x\",\"l\":[1]}";
    static const struct {
        const char *page, *wanted;
    } cases[] = {
        {"<p>${a}</p>", "<p>&lt;b &quot;&#39;&amp;&gt;</p>"},
        {"<p class=\"x ${a}\">1</p>", "<p class=\"x &lt;b &quot;&#39;&amp;&gt;\">1</p>"},
        {"<p>${n}${t}${f}${z}${f && 'x'}</p>", "<p>3true</p>"},
        {"<p title=\"${a}\" hidden=\"${t}\" lang=\"${f}\" dir=\"${z}\">1</p>",
         "<p title=\"&lt;b &quot;&#39;&amp;&gt;\" hidden>1</p>"},
        {"<a href=\"/f/${a}?q=${n}\">1</a>", "<a href=\"/f/%3Cb%20%22%27%26%3E?q=3\">1</a>"},
        {"<a href=\"${u}\">1</a><a href=\"${a}\">2</a>", "<a href=\"/x\">1</a><a>2</a>"},
        {"<p>$${a} $ {}</p>", "<p>${a} $ {}</p>"},
        {"<!-- no -->\n<p>\n  <b>x</b>\n  y\n  <i>z</i>\n</p>\n", "<p><b>x</b> y <i>z</i></p>"},
        {"<textarea>\n${a}\n</textarea>", "<textarea>\n&lt;b &quot;&#39;&amp;&gt;\n</textarea>"},
        {"<script>let a = 1;</script><br><input required>",
         "<script>let a = 1;</script><br><input required>"},
        {"<p title=\"${length('}') && '}'}\">1</p>", "<p title=\"}\">1</p>"},
        {"<svg><use href=\"#i-${a}\"/><g><title>${n}</title></g></svg>",
         "<svg><use href=\"#i-%3Cb%20%22%27%26%3E\"/><g><title>3</title></g></svg>"},
    };
    char page[600];
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        (void)snprintf(page, sizeof(page), "<data>%s</data>%s", data, cases[i].page);
        check(page, "", data, cases[i].wanted);
    }
}

static void test_urls_of_other_schemes_are_left_out(void **state)
{
    static const char *const bad[] = {"javascript:x",   "data:text/html,x",
                                      "//evil.example", "/\\\\evil.example",
                                      "/\\tx",          " /x",
                                      "vbscript:x",     "x",
                                      "HTTPS:x",        "",
                                      "https://a b"};
    static const char *const good[] = {"/", "/x?y#z", "https://a.example/x", "http://a"};
    char data[200], wanted[200];
    (void)state;
    assert_int_equal(compile("<data>{\"u\":\"\"}</data><a href=\"${u}\">x</a>", ""), OK);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        (void)snprintf(data, sizeof(data), "{\"u\":\"%s\"}", bad[i]);
        assert_int_equal(render(data), OK);
        assert_true(slice_eq_cstr(buf_slice(&out), "<a>x</a>"));
    }
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        (void)snprintf(data, sizeof(data), "{\"u\":\"%s\"}", good[i]);
        (void)snprintf(wanted, sizeof(wanted), "<a href=\"%s\">x</a>", good[i]);
        assert_int_equal(render(data), OK);
        assert_true(slice_eq_cstr(buf_slice(&out), wanted));
    }
}

/* Links, forms and streams to pages that take an end user name that of the page. */
static void test_urls_keep_the_end_user(void **state)
{
    static const struct {
        const char *page, *wanted; /* the latter with USER where the user's argument is */
    } cases[] = {
        {"<a href=\"/flows\">x</a>", "<a href=\"/flows?USER\">x</a>"},
        {"<a href=\"/flows/${id}#x\">x</a>", "<a href=\"/flows/7?USER#x\">x</a>"},
        {"<a href=\"/flows?a=${id}&amp;b=1\">x</a>",
         "<a href=\"/flows?a=7&amp;b=1&amp;USER\">x</a>"},
        {"<a href=\"/audit.csv?a=${id}#${id}\">x</a>",
         "<a href=\"/audit.csv?a=7&amp;USER#7\">x</a>"},
        {"<a href=\"/flows/${list[?@ == '7'] && id}\">x</a>", "<a href=\"/flows/7?USER\">x</a>"},
        {"<div data-page=\"/flows/${id}\" data-live=\"/events?since=${id}\">x</div>",
         "<div data-page=\"/flows/7?USER\" data-live=\"/events?since=7&amp;USER\">x</div>"},
        {"<form method=\"post\" action=\"/flows/${id}/resume\">x</form>",
         "<form method=\"post\" action=\"/flows/7/resume?USER\">x</form>"},
        {"<form method=\"post\" action=\"${to}\">x</form>",
         "<form method=\"post\" action=\"/connections/1?a=b&amp;USER#c\">x</form>"},
        /* neither the account's own pages, nor other sites, nor other attributes */
        {"<a href=\"/\">x</a><a href=\"/users/${id}\">x</a><a href=\"/keys\">x</a><a "
         "href=\"/flowsx\">x</a><a href=\"https://a.example/flows\">x</a><a href=\"#flows\">x</a>",
         NULL},
        {"<p class=\"/flows\">x</p><a href=\"${away}\">x</a><script src=\"/flows/x\"></script>",
         NULL},
    };
    const char *sample =
        "{\"id\":\"7\",\"to\":\"/connections/1?a=b#c\",\"away\":\"/users\",\"list\":[\"7\"]";
    char page[1000], data[400], wanted[1000];
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        (void)snprintf(page, sizeof(page), "<data>%s}</data>%s", sample, cases[i].page);
        assert_int_equal(compile(page, ""), OK);
        (void)snprintf(data, sizeof(data), "%s,\"frame\":{\"user\":\"a/&\"}}", sample);
        assert_int_equal(render(data), OK);
        const char *from = cases[i].wanted;
        if (!from) { /* as without a user */
            slice kept = arena_dup(&arena, buf_slice(&out));
            (void)snprintf(data, sizeof(data), "%s,\"frame\":{\"user\":null}}", sample);
            assert_int_equal(render(data), OK);
            assert_true(slice_eq(buf_slice(&out), kept));
            continue;
        }
        size_t len = 0;
        for (; *from; from++)
            if (strncmp(from, "USER", 4) == 0) {
                len += (size_t)snprintf(wanted + len, sizeof(wanted) - len, "user=a%%2F%%26");
                from += 3;
            } else {
                wanted[len++] = *from;
            }
        wanted[len] = '\0';
        if (!slice_eq_cstr(buf_slice(&out), wanted))
            fail_msg("%s gives %.*s, not %s", page, (int)out.len, out.ptr, wanted);
    }
    assert_int_equal(compile("<form method=\"get\" action=\"/flows\">x</form>", ""), OK);
    assert_int_equal(render("{\"frame\":{\"user\":\"a\\\"b\"}}"), OK);
    assert_true(slice_eq_cstr(buf_slice(&out),
                              "<form method=\"get\" action=\"/flows?user=a%22b\"><input "
                              "type=\"hidden\" name=\"user\" value=\"a&quot;b\">x</form>"));
    assert_int_equal(render("{}"), OK);
    assert_true(slice_eq_cstr(buf_slice(&out), "<form method=\"get\" action=\"/flows\">x</form>"));
}

static void test_branches_loops_and_files(void **state)
{
    const char *data =
        "{\"on\":true,\"two\":false,\"rows\":[{\"id\":\"a\"},{\"id\":\"b\"}],\"none\":[],"
        "\"frame\":{\"csrf\":\"t\"}}";
    static const struct {
        const char *page, *other, *wanted;
    } cases[] = {
        {"<if test=\"on\">1<else/>2</if>", "", "1"},
        {"<if test=\"two\">1<else test=\"on\"/>2<else/>3</if>4", "", "24"},
        {"<if test=\"two\">1<else test=\"two\"/>2<else/>3</if>4", "", "34"},
        {"<if test=\"two\">1</if>4", "", "4"},
        {"<for each=\"rows\"><b>${id}${$.on}</b></for>${on}", "", "<b>atrue</b><b>btrue</b>true"},
        {"<for each=\"none\">x</for>", "", ""},
        {"<for each=\"rows[?id == 'b'].id\">${@}</for>", "", "b"},
        {"<for each=\"rows\"><use file=\"other\"/></for>", "<data>{\"id\":\"\"}</data><i>${id}</i>",
         "<i>a</i><i>b</i>"},
        {"<use file=\"other\" with=\"rows[0].id\"/>", "<data>\"\"</data>${@}", "a"},
        {"${$.frame.csrf}", "", "t"},
    };
    char page[800];
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        (void)snprintf(page, sizeof(page), "<data>%s</data><title></title>%s", data, cases[i].page);
        check(page, cases[i].other, data, cases[i].wanted);
    }
}

static void test_the_frame_has_the_page(void **state)
{
    const struct markup_source sources[] = {
        {SLICE_INIT("a/frame.html"),
         SLICE_INIT(
             "<data>{\"csrf\":\"\"}</data><title><slot name=\"title\"/>!</title><slot/>${csrf}")},
        {SLICE_INIT("a/page.html"),
         SLICE_INIT(
             "<data>{\"a\":\"\"}</data><title>T</title><p>${a}${frame.csrf}</p><use file=\"f\"/>")},
        {SLICE_INIT("a/f.html"), SLICE_INIT("<i>${$.frame.csrf}</i>")}};
    (void)state;
    buf_clear(&pack);
    assert_int_equal(markup_compile(sources, 3, &arena, &pack, &err), OK);
    assert_int_equal(render("{\"a\":\"1\",\"frame\":{\"csrf\":\"c\"}}"), OK);
    assert_true(slice_eq_cstr(buf_slice(&out), "<title>T!</title><p>1c</p><i>c</i>c"));
}

static void test_blocks_have_the_hash_of_their_content(void **state)
{
    char first[200];
    (void)state;
    assert_int_equal(compile("<data>{\"a\":\"\"}</data><p id=\"x\" data-version>${a}</p>", ""), OK);
    assert_int_equal(render("{\"a\":\"1\"}"), OK);
    assert_int_equal(out.len, strlen("<p id=\"x\" data-version=\"01234567\">1</p>"));
    memcpy(first, out.ptr, out.len);
    assert_int_equal(render("{\"a\":\"1\"}"), OK);
    assert_memory_equal(first, out.ptr, out.len);
    assert_int_equal(render("{\"a\":\"2\"}"), OK);
    assert_memory_not_equal(first + 24, out.ptr + 24, 8);
}

static void test_what_the_compiler_refuses(void **state)
{
    static const struct {
        const char *page, *wanted; /* after "pages/page.html:" */
    } cases[] = {
        {"<p>\n${nmae}</p>", "2: no \"nmae\" in an object of a rows"},
        {"${rows[0].nmae}", "1: no \"nmae\" in an object of id"},
        {"${a && rows[?idd == 'x']}", "1: no \"idd\""},
        {"${join(', ', rows[].idd)}", "1: no \"idd\""},
        {"${map(&idd, rows)}", "1: no \"idd\""},
        {"<for each=\"rows\">${a}</for>", "1: no \"a\" in an object of id"},
        {"<for each=\"a\">x</for>", "1: \"a\" is not a list"},
        {"<if test=\"b\">x</if>", "1: no \"b\""},
        {"${a", "1: a ${ without its closing brace"},
        {"${a b}", "1: syntax"},
        {"${nofunc(a)}", "1: unknown-function"},
        {"${rows}", "1: ${rows} is not a string"},
        {"<use file=\"nowhere\"/>", "1: src/web/pages has no file \"nowhere.html\""},
        {"<use file=\"other\"/>", "1: \"@\" is not what other.html declares in its <data>: see id"},
        {"\n<p>x", "2: <p> is not closed"},
        {"<if test=\"a\"><p></if></p>", "1: </if> closes nothing here: close <p> first"},
        {"<if test=\"a\">x", "1: <if> is not closed"},
        {"</p>", "1: </p> closes nothing here"},
        {"<else/>", "1: <else/> belongs in an <if>"},
        {"<if test=\"a\"><else/><else/></if>", "1: <else/> belongs in an <if>"},
        {"<if>x</if>", "1: write <if test=\"...\">"},
        {"<script>${a}</script>", "1: ${...} is not allowed in <script>"},
        {"<style>${a}</style>", "1: ${...} is not allowed in <style>"},
        {"<!-- ${a} -->", "1: ${...} is not allowed in a comment"},
        {"<p onclick=\"${a}\">x</p>", "1: ${...} is not allowed in the attribute onclick"},
        {"<p style=\"x:${a}\">x</p>", "1: ${...} is not allowed in the attribute style"},
        {"<meta content=\"${a}\">", "1: ${...} is not allowed in the attribute content of <meta>"},
        {"<p class=${a}>x</p>", "1: put the value of class in double quotes"},
        {"<p ${a}>x</p>", "1: expected an attribute name"},
        {"<${a}>", "1: a tag begins with a name"},
        {"1 < 2", "1: a tag begins with a name"},
        {"<a href=\"javascript:x\">x</a>", "1: href must be a path on this site"},
        {"<a href=\"javascript:${a}\">x</a>",
         "1: a URL must be a single ${...}, or begin with a path"},
        {"<a href=\"https://${a}/x\">x</a>",
         "1: a URL must be a single ${...}, or begin with a path"},
        {"<a href=\"${a}/x\">x</a>", "1: a URL must be a single ${...}, or begin with a path"},
        {"<a href=\"/${a}\">x</a>", "1: a URL must be a single ${...}, or begin with a path"},
        {"<p class=\"x>x</p>", "1: the value of class has no closing quote"},
        {"<p/>", "1: HTML ignores the slash in <p/>"},
        {"<p", "1: the tag has no \">\""},
        {"<slot/>", "1: <slot/> is allowed only in frame.html"},
        {"x<title>x</title>", "1: <title> may appear only once, before"},
        {"x<data>{}</data>", "1: <data> may appear only once, at the beginning"},
        {"<!-- x", "1: the comment has no end"},
        {"<br data-version>",
         "1: data-version is the hash of an element's content, and <br> has none"},
        {"<svg><g data-version/></svg>",
         "1: data-version is the hash of an element's content, and <g> has none"},
        {"<p id=\"a\" class=\"b\" id=\"c\">x</p>", "1: the attribute id is given twice"},
        {"<p data-version data-version>x</p>", "1: the attribute data-version is given twice"},
    };
    char page[400];
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        (void)snprintf(page, sizeof(page), "<data>{\"a\":\"\",\"rows\":[{\"id\":\"\"}]}</data>%s",
                       cases[i].page);
        assert_int_not_equal(compile(page, "<data>{\"id\":\"\"}</data>x"), OK);
        slice text = slice_cstr(err.text);
        if (!slice_starts_with(text, SLICE("pages/page.html:")) ||
            !slice_starts_with(slice_from(text, 16), slice_cstr(cases[i].wanted)))
            fail_msg("%s: %s, not %s", cases[i].page, err.text, cases[i].wanted);
    }
    assert_int_not_equal(compile("<data>{\"a\":}</data>", ""), OK);
    assert_int_not_equal(compile("<data>{\"a\":\"@nowhere\"}</data>", ""), OK);
    assert_int_not_equal(compile("<data>[\"@page\"]</data>", ""), OK);
}

static void test_rendering_is_bounded(void **state)
{
    (void)state;
    /* A file that includes itself terminates, whatever its data. */
    assert_int_equal(compile("<data>{\"a\":null}</data><use file=\"other\" with=\"a\"/>",
                             "<data>null</data><b><use file=\"other\"/></b>"),
                     OK);
    assert_int_equal(render("{\"a\":1}"), ERR_LIMIT);
    /* An output that is too large is an error, and the loop stops. */
    assert_int_equal(
        compile("<data>{\"l\":[0]}</data><title></title><for each=\"l\"><for each=\"$.l\">"
                "<for each=\"$.l\"><for each=\"$.l\"><for each=\"$.l\"><for each=\"$.l\">"
                "<for each=\"$.l\">xxxxxxxxxxxxxxxx</for></for></for></for></for></for></for>",
                ""),
        OK);
    assert_int_equal(render("{\"l\":[0,1,2,3,4,5,6,7,8,9,0,1,2,3,4,5,6,7,8,9]}"), ERR_LIMIT);
    /* If an expression fails, the error names it. */
    assert_int_equal(compile("<data>{\"a\":\"\"}</data>${length(a)}", ""), OK);
    assert_int_not_equal(render("{\"a\":1}"), OK);
    assert_non_null(strstr(err.text, "page: ${length(a)}"));
}

static void test_data_are_checked_by_the_sample(void **state)
{
    const struct json *sample = parse("{\"a\":\"\",\"l\":[{\"n\":0}],\"x\":null}");
    (void)state;
    assert_int_equal(
        markup_check(sample, parse("{\"a\":null,\"l\":[{\"n\":1.5}],\"x\":{\"y\":1}}"), &err), OK);
    assert_int_not_equal(markup_check(sample, parse("{\"a\":\"\",\"l\":[]}"), &err), OK);
    assert_string_equal(err.text, "\"x\" is missing");
    assert_int_not_equal(markup_check(sample, parse("{\"a\":\"\",\"l\":[{}],\"x\":1}"), &err), OK);
    assert_string_equal(err.text, "\"l\" : \"n\" is missing");
    assert_int_not_equal(markup_check(sample, parse("{\"a\":1,\"l\":[],\"x\":1}"), &err), OK);
    assert_int_not_equal(markup_check(sample, parse("{\"a\":\"\",\"l\":[],\"x\":1,\"y\":1}"), &err),
                         OK);
}

/* ---- every page, with hostile data ---- */

static const char *const hostile[] = {
    "\"><img src=x onerror=alert(1)> </title></script></textarea><script>alert(1)</script> & ' ` "
    "${a} {}",
    "javascript:alert(1)",
    "//evil.example/\n\t\r x",
    "</pre></select></option><a href=\"javascript:alert(1)\" onclick='x'>",
};

/* Characters that move, hide or end the text around them. Each is in the middle, at the start and
 * at the end of a value. */
static const char *const shaping[] = {
    "\x01",
    "\x1b[31m",
    "\x7f",
    "\xc2\x80",
    "\xc2\x85",
    "\xc2\x9b"
    "31m",
    "\u00ad",
    "\u0600",
    "\u061c",
    "\u06dd",
    "\u070f",
    "\u180e",
    "\u200b",
    "\u200c",
    "\u200d",
    "\u200e",
    "\u200f",
    "\u2028",
    "\u2029",
    "\u202a",
    "\u202b",
    "\u202c",
    "\u202d",
    "\u202e",
    "\u2060",
    "\u2063",
    "\u2066",
    "\u2067",
    "\u2068",
    "\u2069",
    "\u206a",
    "\u206f",
    "\ufeff",
    "\ufff9",
    "\ufffb",
    "\U000110bd",
    "\U0001d173",
    "\U000e0001",
    "\U000e0041",
    "\u2069\u202e\u05e9\u2068",
    "\u05e9\u05dc",
    "\u0627 1",
};

/* The sample with `text` instead of each text, and two items for each array. */
static struct json fill(const struct json *sample, slice text, bool flag)
{
    struct json made = *sample;
    switch ((enum json_type)sample->type) {
    case JSON_BOOL:
        return json_bool(flag);
    case JSON_STRING:
    case JSON_NULL:
        return json_string(text);
    case JSON_ARRAY:
        made = json_array();
        for (int i = 0; i < 2 && sample->count > 0; i++)
            json_array_push(&arena, &made, fill(&sample->as.items[0], text, flag));
        return made;
    case JSON_OBJECT:
        made = json_object();
        for (uint32_t i = 0; i < sample->count; i++) {
            slice key = json_str(&sample->as.members[i].key);
            bool is_time = slice_ends_with(key, SLICE("_at")) ||
                           slice_ends_with(key, SLICE("At")) || slice_eq_cstr(key, "at") ||
                           slice_ends_with(key, SLICE("_since")) ||
                           slice_ends_with(key, SLICE("_until"));
            /* Times are formatted here, to the millisecond. Everything else may have any value. */
            slice filled = is_time ? SLICE("2026-01-31T23:59:59.000Z") : text;
            json_object_set(&arena, &made, key, fill(&sample->as.members[i].value, filled, flag));
        }
        return made;
    default:
        return made;
    }
}

/* Reads the tags, the names of attributes, and the beginnings of URLs. The parser is strict: the
 * compiler writes every value in double quotes, and a value that is not escaped fails the test. */
static void read_skeleton(slice page, struct buf *skeleton)
{
    for (size_t i = 0; i < page.len; i++) {
        if (page.ptr[i] == '>' || page.ptr[i] == '"' || page.ptr[i] == '\'')
            fail_msg("a bare %c in a text: %.*s", page.ptr[i], 60,
                     page.ptr + i - (i > 60 ? 60 : i));
        if (page.ptr[i] != '<')
            continue;
        bool is_quoted = false;
        for (; i < page.len && (is_quoted || page.ptr[i] != '>'); i++) {
            if (page.ptr[i] == '"') {
                slice before = slice_first(page, i), value = slice_from(page, i + 1);
                bool is_url = !is_quoted && (slice_ends_with(before, SLICE("href=")) ||
                                             slice_ends_with(before, SLICE("src=")) ||
                                             slice_ends_with(before, SLICE("action=")));
                if (is_url)
                    assert_true(value.ptr[0] == '#' ||
                                (value.ptr[0] == '/' && value.ptr[1] != '/') ||
                                slice_starts_with(value, SLICE("https://")));
                is_quoted = !is_quoted;
            } else if (!is_quoted) {
                buf_append_char(skeleton, page.ptr[i]);
            } else {
                assert_true(page.ptr[i] != '<');
            }
        }
    }
}

/* Checks the readable text of a page: it has no hidden character, and every isolation is closed. An
 * attribute that is sent again, and the text of a field, are unchanged. */
static void check_visible(slice name, slice page, const char *text)
{
    long depth = 0;
    for (size_t at = 0, len; at < page.len; at += len ? len : 1) {
        slice rest = slice_from(page, at), before = slice_first(page, at);
        uint32_t c;
        len = slice_code_point(rest, &c);
        if (slice_starts_with(rest, SLICE("<textarea")))
            len = (size_t)slice_find(rest, SLICE("</textarea>"));
        bool is_value = slice_ends_with(before, SLICE("=\""));
        if (is_value) {
            slice attribute = slice_first(before, before.len - 2);
            size_t from = attribute.len;
            while (from > 0 && attribute.ptr[from - 1] != ' ')
                from--;
            if (!markup_is_read(slice_from(attribute, from))) {
                len = (size_t)slice_find_char(rest, '"');
                continue;
            }
        }
        if (c == '\n' || c == '\t' || c == '\r' || len == 0)
            continue;
        depth += (c == 0x2068) - (c == 0x2069);
        if (depth < 0 || depth > 1 || (code_point_is_hidden(c) && c != 0x2068 && c != 0x2069))
            fail_msg("%.*s over %s: U+%04X at %.60s", SLICE_ARG(name), text, (unsigned)c,
                     before.ptr + (at > 40 ? at - 40 : 0));
    }
    assert_int_equal(depth, 0);
}

static void test_no_page_is_shaped_by_what_it_shows(void **state)
{
    const struct markup_set *set =
        markup_load(&arena, slice_of(embed_markup[0].data, embed_markup[0].len), &err);
    (void)state;
    assert_non_null(set);
    for (size_t i = 0; i < set->count; i++)
        for (size_t j = 0; j < ARRAY_LEN(shaping); j++) {
            const struct markup *page = &set->items[i];
            char text[100];
            if (!JSON_GET(page->data, "frame"))
                continue;
            (void)snprintf(text, sizeof(text), "%sa%sb%s", shaping[j], shaping[j], shaping[j]);
            struct json data = fill(page->data, slice_cstr(text), j % 2);
            buf_clear(&out);
            if (markup_render(set, page, &data, &arena, &out, &err) != OK)
                fail_msg("%.*s: %s", SLICE_ARG(page->name), err.text);
            check_visible(page->name, buf_slice(&out), shaping[j]);
        }
}

static void test_every_page_over_hostile_data(void **state)
{
    const struct markup_set *set =
        markup_load(&arena, slice_of(embed_markup[0].data, embed_markup[0].len), &err);
    struct buf plain, wild;
    (void)state;
    assert_non_null(set);
    buf_init(&plain, 1024 * 1024);
    buf_init(&wild, 1024 * 1024);
    for (size_t i = 0; i < set->count; i++)
        for (size_t j = 0; j < 2 * ARRAY_LEN(hostile); j++) {
            const struct markup *page = &set->items[i];
            if (!JSON_GET(page->data, "frame")) /* pages use it */
                continue;
            for (int k = 0; k < 2; k++) {
                slice text = k ? slice_cstr(hostile[j / 2]) : SLICE("plain");
                struct json data = fill(page->data, text, j % 2);
                buf_clear(&out);
                if (markup_render(set, page, &data, &arena, &out, &err) != OK)
                    fail_msg("%.*s: %s", SLICE_ARG(page->name), err.text);
                buf_clear(k ? &wild : &plain);
                read_skeleton(slice_from(buf_slice(&out), 15), k ? &wild : &plain);
            }
            if (!slice_eq(buf_slice(&plain), buf_slice(&wild)))
                fail_msg("%.*s: %.*s\nis not\n%.*s", SLICE_ARG(page->name), (int)wild.len, wild.ptr,
                         (int)plain.len, plain.ptr);
        }
    buf_deinit(&plain);
    buf_deinit(&wild);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_values_are_escaped_for_their_position),
        TEST(test_urls_of_other_schemes_are_left_out),
        TEST(test_urls_keep_the_end_user),
        TEST(test_branches_loops_and_files),
        TEST(test_the_frame_has_the_page),
        TEST(test_blocks_have_the_hash_of_their_content),
        TEST(test_what_the_compiler_refuses),
        TEST(test_rendering_is_bounded),
        TEST(test_data_are_checked_by_the_sample),
        TEST(test_every_page_over_hostile_data),
        TEST(test_no_page_is_shaped_by_what_it_shows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
