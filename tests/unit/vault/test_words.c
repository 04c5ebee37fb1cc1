/* What is a word, and which lists of hashes are stored and searched for. */
#include <inttypes.h>

#include "store/execution_input.h"
#include "unit.h"
#include "vault/words.h"

#define KEY   "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
#define OTHER "ff0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1eff"

static const struct uuid account = {{1, 2, 3}}, stranger = {{1, 2, 4}};

static struct vault_ring *ring_of(const char *text)
{
    struct err err;
    struct vault_ring *ring = vault_ring_new(slice_cstr(text), &err);
    assert_non_null(ring);
    return ring;
}

static struct vault_words words_of(const char *ring_text, struct uuid account_id, const char *text)
{
    struct vault_ring *ring = ring_of(ring_text);
    struct vault_words words;
    vault_words_init(&words, ring, account_id);
    (void)vault_words_add(&words, slice_cstr(text), VAULT_WORDS_MAX);
    vault_ring_free(ring);
    return words;
}

static bool are_equal(const struct vault_words *a, const struct vault_words *b)
{
    return a->count == b->count && memcmp(a->items, b->items, a->count * sizeof(*a->items)) == 0;
}

static void texts_with_the_same_words(void **state)
{
    static const struct {
        const char *text, *same;
        size_t count;
    } cases[] = {
        {"To Ada@Example.com: Hello", "to ada example com hello", 5},
        {"a a A", "a", 1},
        {"", " .,;\n\t@-_/", 0},
        {"19a4-b6c7_d8", "19A4 B6C7 D8", 3},
        {"(019A1B2C-3d4e-7f50-8a61-72839405a6bd)", "019a1b2c-3d4e-7f50-8a61-72839405a6bd", 1},
        {"019a1b2c-3d4e-7f50-8a61-72839405a6bde", "019a1b2c 3d4e 7f50 8a61 72839405a6bde", 5},
        /* letters of other scripts, and their lower case */
        {"\xc3\x89T\xc3\x89", "\xc3\xa9t\xc3\xa9", 1},
        {"\xd0\x9f\xd0\xa0\xd0\x98 \xd0\x81", "\xd0\xbf\xd1\x80\xd0\xb8 \xd1\x91", 2},
        {"\xce\xa3\xcf\x82", "\xcf\x83\xcf\x83", 1},
        {"\xc5\x81\xc3\xb3"
         "d\xc5\xba \xc5\xb9",
         "\xc5\x82\xc3\xb3"
         "d\xc5\xba \xc5\xba",
         2},
        {"\xe4\xbc\x9a\xe8\xad\xb0", "\xe3\x80\x8c\xe4\xbc\x9a\xe8\xad\xb0\xe3\x80\x8d", 1},
        /* quotes, dashes, pictures and bytes that are not UTF-8 separate */
        {"\xe2\x80\x9chello\xe2\x80\x9d\xe2\x80\x94yes", "hello yes", 2},
        {"on\xf0\x9f\x8e\x89"
         "e",
         "on e", 2},
        {"on\xff"
         "e\xc3",
         "on e", 2},
        {"on\xc2\xa0"
         "e\xe2\x80\x8b"
         "x",
         "on e x", 3},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct vault_words a = words_of(KEY, account, cases[i].text);
        struct vault_words b = words_of(KEY, account, cases[i].same);
        if (a.count != cases[i].count || !are_equal(&a, &b))
            fail_msg("%s: %zu words, %s: %zu", cases[i].text, a.count, cases[i].same, b.count);
    }
}

static void of_a_long_word_its_beginning_counts(void **state)
{
    char text[200];
    (void)state;
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    struct vault_words whole = words_of(KEY, account, text);
    text[VAULT_WORD_BYTES_MAX] = '\0';
    struct vault_words same = words_of(KEY, account, text);
    text[VAULT_WORD_BYTES_MAX - 1] = '\0';
    struct vault_words shorter = words_of(KEY, account, text);
    assert_int_equal(whole.count, 1);
    assert_true(are_equal(&whole, &same));
    assert_false(are_equal(&whole, &shorter));
}

static void a_list_is_limited(void **state)
{
    struct arena arena;
    char text[1000];
    size_t len = 0;
    (void)state;
    for (unsigned i = 0; i < 2 * VAULT_WORDS_MAX; i++)
        len += (size_t)snprintf(text + len, sizeof(text) - len, "w%u ", i);
    struct vault_words words = words_of(KEY, account, text);
    assert_int_equal(words.count, VAULT_WORDS_MAX);
    assert_int_equal(vault_words_count(slice_cstr(text), 1000), 2 * VAULT_WORDS_MAX);
    assert_int_equal(vault_words_count(slice_cstr(text), 17), 17);
    arena_init(&arena, 65536);
    slice list = vault_words_list(&words, &arena);
    assert_int_equal(list.len, PG_OIDS_BYTES(VAULT_WORDS_MAX));
    words.count = 0;
    assert_null(vault_words_list(&words, &arena).ptr);
    arena_deinit(&arena);
}

/* What is not read at first can be added later, with the same result as the whole text. */
static void a_text_is_added_in_parts(void **state)
{
    static const char text[] =
        "To Ada@example.com: a hello, 019A1B2C-3d4e-7f50-8a61-72839405a6bd ada x";
    struct vault_words whole = words_of(KEY, account, text);
    (void)state;
    for (size_t i = 0; i <= whole.count; i++) {
        struct vault_words parts = words_of(KEY, account, "");
        slice rest = vault_words_add(&parts, slice_cstr(text), i);
        assert_int_equal(parts.count, i);
        rest = vault_words_add(&parts, rest, VAULT_WORDS_MAX);
        assert_int_equal(rest.len, 0);
        assert_true(are_equal(&parts, &whole));
        assert_int_equal(parts.bytes_left, whole.bytes_left);
    }
}

/* Appends a list of two numbers, as text. */
static void put_pair(struct buf *out, int64_t a, int64_t b)
{
    char text[64];
    (void)snprintf(text, sizeof(text), "{%" PRId64 ",%" PRId64 "}", a < b ? a : b, a < b ? b : a);
    buf_append(out, slice_cstr(text));
}

/* Appends the lists that a search has for the words: all bits, the 32 bits of each, and the keys of
 * these. */
static void put_lists(struct buf *out, const struct vault_words *words)
{
    uint32_t a = (uint32_t)words->items[0], b = (uint32_t)words->items[1];
    assert_int_equal(words->count, 2);
    buf_append(out, out->len ? SLICE(";") : SLICE(""));
    put_pair(out, words->items[0], words->items[1]);
    buf_append_char(out, ';');
    put_pair(out, a, b);
    buf_append_char(out, ';');
    put_pair(out, store_input_key(account, a), store_input_key(account, b));
    buf_append_char(out, '/');
    put_pair(out, a, b);
}

static void a_list_has_32_bits_of_each_hash(void **state)
{
    struct arena arena;
    struct vault_words words = {.items = {0x7fffffff00000009, -1, 0x500000002}, .count = 3};
    /* dimensions, no NULL, the type oid; then the size and the lower bound, and each number */
    static const unsigned char stored[] = {0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0,    26,   0,    0,   0,
                                           3, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0,    0,    2,    0,   0,
                                           0, 4, 0, 0, 0, 9, 0, 0, 0, 4, 0xff, 0xff, 0xff, 0xff};
    (void)state;
    arena_init(&arena, 4096);
    assert_true(
        slice_eq(vault_words_list(&words, &arena), slice_of((const char *)stored, sizeof(stored))));
    arena_deinit(&arena);
}

/* Equal words of two accounts, and under two keys, are different. */
static void a_hash_depends_on_account_and_key(void **state)
{
    struct vault_words one = words_of(KEY, account, "hello");
    struct vault_words two = words_of(KEY, stranger, "hello");
    struct vault_words three = words_of(OTHER, account, "hello");
    (void)state;
    assert_false(are_equal(&one, &two) || are_equal(&one, &three));
}

/* Keys are remembered by account, in one place for several accounts. */
static void a_remembered_key_is_the_same(void **state)
{
    struct vault_ring *ring = ring_of(KEY);
    struct vault_words words;
    (void)state;
    for (int i = 0; i < 4; i++) {
        struct uuid id = i % 2 ? stranger : account;
        struct vault_words fresh = words_of(KEY, id, "hello");
        for (int k = 0; k < 2; k++) {
            vault_words_init(&words, ring, id);
            (void)vault_words_add(&words, SLICE("hello"), 1);
            assert_true(are_equal(&words, &fresh));
        }
    }
    vault_ring_free(ring);
}

static void a_search_has_the_words_under_each_key(void **state)
{
    struct arena arena;
    struct vault_ring *ring = ring_of(OTHER "\n" KEY);
    struct vault_words now = words_of(OTHER, account, "b a");
    struct vault_words before = words_of(KEY, account, "b a");
    (void)state;
    arena_init(&arena, 65536);
    slice search = vault_words_search(ring, account, SLICE("B, a."), &arena);
    struct buf lists;
    buf_init(&lists, 1000);
    put_lists(&lists, &now);
    put_lists(&lists, &before);
    assert_true(slice_eq(search, buf_slice(&lists)));
    buf_deinit(&lists);
    arena_deinit(&arena);
    arena_init(&arena, 1);
    assert_true(slice_eq_cstr(vault_words_search(ring, account, SLICE("b"), &arena), "{0}"));
    arena_deinit(&arena);
    vault_ring_free(ring);
}

/* Words as regular expressions for texts in any case. */
static void patterns_of_words(void **state)
{
    static const struct {
        const char *text, *patterns;
    } cases[] = {
        {"To Ada@x.com", "to ada x com"},
        {"\xc3\x89t\xc3\xa9", "[\xc3\x89\xc3\xa9]t[\xc3\x89\xc3\xa9]"},
        {"\xd1\x91", "[\xd0\x81\xd1\x91]"},
        {"\xc5\xba", "[\xc5\xb9\xc5\xba]"},
        {"\xcf\x83", "[\xce\xa3\xcf\x82\xcf\x83]"},
        {"\xc3\xbf \xe4\xbc\x9a", "[\xc5\xb8\xc3\xbf] \xe4\xbc\x9a"},
        /* Greek and Ukrainian, Romanian, Vietnamese; a Turkish I without a dot is a letter alone */
        {"\xce\x88 \xd2\x90", "[\xce\x88\xce\xad] [\xd2\x90\xd2\x91]"},
        {"\xc8\x98 \xe1\xba\xbe", "[\xc8\x98\xc8\x99] [\xe1\xba\xbe\xe1\xba\xbf]"},
        {"\xc4\xb0 \xc4\xb1", "\xc4\xb0 \xc4\xb1"},
        {" .* ", ""},
    };
    struct arena arena;
    char longer[80];
    (void)state;
    arena_init(&arena, 4096);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        assert_true(slice_eq_cstr(vault_words_patterns(slice_cstr(cases[i].text), &arena),
                                  cases[i].patterns));
    memset(longer, 'a', sizeof(longer));
    slice cut = vault_words_patterns(slice_of(longer, sizeof(longer)), &arena);
    assert_int_equal(cut.len, VAULT_WORD_BYTES_MAX + 2);
    assert_true(slice_eq_cstr(slice_from(cut, VAULT_WORD_BYTES_MAX), ".*"));
    arena_deinit(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_with_the_same_words),
        cmocka_unit_test(patterns_of_words),
        cmocka_unit_test(of_a_long_word_its_beginning_counts),
        cmocka_unit_test(a_list_is_limited),
        cmocka_unit_test(a_text_is_added_in_parts),
        cmocka_unit_test(a_list_has_32_bits_of_each_hash),
        cmocka_unit_test(a_hash_depends_on_account_and_key),
        cmocka_unit_test(a_remembered_key_is_the_same),
        cmocka_unit_test(a_search_has_the_words_under_each_key),
    };
    return unit_result(cmocka_run_group_tests(tests, NULL, NULL));
}
