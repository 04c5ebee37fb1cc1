/* base/encode: every length and byte in both directions, the vectors of RFC 4648, and every kind of
 * error. A failed decode leaves the buffer unchanged. */
#include "testing.h"

#include <string.h>

#include "base/encode.h"

typedef void (*encode_fn)(struct buf *out, slice bytes);
typedef int (*decode_fn)(struct buf *out, slice text);

static int decode_percent_plain(struct buf *out, slice text)
{
    return decode_percent(out, text, false);
}

static void there_and_back(encode_fn encode, decode_fn decode, bool allows_nul)
{
    struct chance chance = {10};
    struct buf text, back;
    char bytes[300];
    buf_init(&text, 1000);
    buf_init(&back, 1000);
    for (size_t len = 0; len <= sizeof(bytes); len++) {
        for (int i = 0; i < 5; i++) {
            chance_bytes(&chance, bytes, len);
            for (size_t k = 0; k < len; k++)
                bytes[k] = (char)(bytes[k] || allows_nul ? bytes[k] : 1);
            buf_clear(&text);
            buf_clear(&back);
            buf_append(&back, SLICE("before"));
            encode(&text, slice_of(bytes, len));
            assert_true(buf_is_ok(&text));
            assert_int_equal(decode(&back, buf_slice(&text)), OK);
            assert_slice(slice_from(buf_slice(&back), 6), slice_of(bytes, len));
        }
    }
    buf_deinit(&text);
    buf_deinit(&back);
}

static void all_lengths_there_and_back(void **state)
{
    (void)state;
    there_and_back(encode_base64, decode_base64, true);
    there_and_back(encode_base64url, decode_base64url, true);
    there_and_back(encode_hex, decode_hex, true);
    there_and_back(encode_percent, decode_percent_plain, false);
}

static void check_encode(encode_fn encode, const char *bytes, const char *want)
{
    struct buf out;
    buf_init(&out, 1000);
    encode(&out, slice_cstr(bytes));
    assert_slice(buf_slice(&out), slice_cstr(want));
    buf_deinit(&out);
}

static void gives_the_rfcs_vectors(void **state)
{
    (void)state;
    static const char *const base64[] = {"",         "Zg==",     "Zm8=",    "Zm9v",
                                         "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy"};
    static const char *const base64url[] = {"",       "Zg",      "Zm8",     "Zm9v",
                                            "Zm9vYg", "Zm9vYmE", "Zm9vYmFy"};
    char part[] = "foobar";
    for (size_t len = 7; len-- > 0;) {
        part[len] = '\0';
        check_encode(encode_base64, part, base64[len]);
        check_encode(encode_base64url, part, base64url[len]);
    }
    check_encode(encode_base64, "\xfb\xff\xfe", "+//+");
    check_encode(encode_base64url, "\xfb\xff\xfe", "-__-");
    check_encode(encode_hex, "\x01\xab\xff", "01abff");
    check_encode(encode_percent, "AZaz09-._~", "AZaz09-._~");
    check_encode(encode_percent, "a b/c?d=e&f+%\xC3\xA9\x7f",
                 "a%20b%2Fc%3Fd%3De%26f%2B%25%C3%A9%7F");
}

static void refuse(decode_fn decode, slice text)
{
    struct buf out;
    buf_init(&out, 1000);
    buf_append(&out, SLICE("kept"));
    assert_int_equal(decode(&out, text), ERR_SYNTAX);
    assert_slice(buf_slice(&out), SLICE("kept"));
    assert_true(buf_is_ok(&out));
    buf_deinit(&out);
}

static void refuses_wrong_base64(void **state)
{
    (void)state;
    static const char *const both[] = {
        "A",      "AAAAA",    "=",    "==",         "===",   "====",     "A===",     "AA=A",
        "=AAA",   "AA==AAAA", "AA=",  "Zg==\n",     " Zg==", "Z g=",     "Zm9v====", "Zm9v=",
        "Zm9v==", "AB==",     "AAB=", "A\xc3\xa9=", "Zg=a",  "Zm9vYg==="};
    for (size_t i = 0; i < ARRAY_LEN(both); i++) {
        refuse(decode_base64, slice_cstr(both[i]));
        refuse(decode_base64url, slice_cstr(both[i]));
    }
    refuse(decode_base64, SLICE("Zg"));
    refuse(decode_base64, SLICE("Zm8"));
    refuse(decode_base64, SLICE("-__-"));
    refuse(decode_base64, SLICE("AAA\0"));
    refuse(decode_base64url, SLICE("+//+"));
    refuse(decode_base64url, SLICE("AB"));
    refuse(decode_base64url, SLICE("AAB"));
}

/* Every byte at each position in a group; only the digits are accepted. */
static void knows_every_digit(void **state)
{
    (void)state;
    struct buf out;
    buf_init(&out, 100);
    for (size_t at = 0; at < 4; at++) {
        for (int c = 0; c < 256; c++) {
            char text[] = "AAAA";
            text[at] = (char)c;
            bool is_alnum = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
                            (c >= 'A' && c <= 'Z');
            bool is_padding = c == '=' && at == 3;
            bool is_right = is_alnum || c == '+' || c == '/' || is_padding;
            assert_int_equal(decode_base64(&out, slice_of(text, 4)), is_right ? OK : ERR_SYNTAX);
            is_right = is_alnum || c == '-' || c == '_' || is_padding;
            assert_int_equal(decode_base64url(&out, slice_of(text, 4)), is_right ? OK : ERR_SYNTAX);
            buf_clear(&out);
        }
    }
    buf_deinit(&out);
}

static void padding_is_optional_in_urls(void **state)
{
    (void)state;
    static const char *const texts[] = {"Zg", "Zg=="};
    struct buf out;
    buf_init(&out, 10);
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        assert_int_equal(decode_base64url(&out, slice_cstr(texts[i])), OK);
        assert_slice(buf_slice(&out), SLICE("f"));
        buf_clear(&out);
    }
    buf_deinit(&out);
}

static void refuses_wrong_hex_and_escapes(void **state)
{
    (void)state;
    static const char *const hex[] = {"0", "0g", "g0", "abc", " a", "0x", "\xff\xff"};
    static const char *const percent[] = {"%",    "%4",  "a%",    "%4g", "%g4",
                                          "%%41", "%00", "a%00b", "% 4"};
    for (size_t i = 0; i < ARRAY_LEN(hex); i++)
        refuse(decode_hex, slice_cstr(hex[i]));
    for (size_t i = 0; i < ARRAY_LEN(percent); i++)
        refuse(decode_percent_plain, slice_cstr(percent[i]));
    refuse(decode_percent_plain, SLICE("a\0b"));
}

static void plus_is_a_space_where_asked(void **state)
{
    (void)state;
    struct buf out;
    buf_init(&out, 100);
    assert_int_equal(decode_percent(&out, SLICE("a+b%2b%2B%20c"), true), OK);
    assert_int_equal(decode_percent(&out, SLICE("a+b"), false), OK);
    assert_int_equal(decode_hex(&out, SLICE("4aAF4Afe")), OK);
    assert_slice(buf_slice(&out), SLICE("a b++ ca+b\x4a\xaf\x4a\xfe"));
    buf_deinit(&out);
}

static void tells_limit_from_memory(void **state)
{
    (void)state;
    const decode_fn decoders[] = {decode_base64, decode_base64url, decode_hex,
                                  decode_percent_plain};
    const encode_fn encoders[] = {encode_base64, encode_base64url, encode_hex, encode_percent};
    struct buf out;
    buf_init(&out, 5);
    for (size_t i = 0; i < ARRAY_LEN(decoders); i++) {
        assert_int_equal(decoders[i](&out, SLICE("aaaaaaaaaaaa")), ERR_LIMIT);
        assert_false(buf_is_ok(&out));
        buf_deinit(&out);
        mem_fail_at(1, 1);
        assert_int_equal(decoders[i](&out, SLICE("aaaa")), ERR_NOMEM);
        buf_deinit(&out);
        encoders[i](&out, SLICE("aaaaaa"));
        assert_false(buf_is_ok(&out));
        buf_deinit(&out);
    }
    encode_hex(&out, slice_of("", SIZE_MAX / 2 + 1));
    assert_false(buf_is_ok(&out));
}

static void decoded_text_is_in_the_arena(void **state)
{
    struct arena arena;
    (void)state;
    arena_init(&arena, 4096);
    slice plain = SLICE("a+b");
    assert_ptr_equal(decode_percent_in(&arena, plain, false).ptr, plain.ptr);
    assert_true(slice_eq_cstr(decode_percent_in(&arena, plain, true), "a b"));
    slice decoded = decode_percent_in(&arena, SLICE("%41%2Bz"), false);
    assert_true(slice_eq_cstr(decoded, "A+z") && decoded.ptr[decoded.len] == '\0');
    assert_non_null(decode_percent_in(&arena, SLICE_NONE, false).ptr);
    assert_null(decode_percent_in(&arena, SLICE("%4"), false).ptr);
    assert_null(decode_percent_in(&arena, SLICE("a%00"), false).ptr);
    arena.bytes_max = arena.bytes_used;
    char large[8192];
    memset(large, '+', sizeof(large));
    assert_null(decode_percent_in(&arena, (slice){large, sizeof(large)}, true).ptr);
    arena_deinit(&arena);
}

/* Dot segments are found by the rules that any server may apply. */
static void dot_segments_are_found_however_they_are_written(void **state)
{
    static const char *const good[] = {
        "",           "/",          "/a/b",      "/.a/a./..a/a../...",
        "/a..b/....", "/%2e%2e%2e", "/a;..",     "/a;/b;x=.",
        "/;..",       "/%2e%2ea",   "/..%00",    "/%2",
        "/%252e%252", "/%zz/%",     "a%2fb%5cc", "/a/;/b",
        "//",         "/ .",
    };
    static const char *const bad[] = {
        ".",        "..",          "/a/..",     "/a/./b",        "../a",      "/..;/x",
        "/.;a=1",   "/..;..",      "/%2e%2E/x", "/.%2e",         "/%2e",      "/a/..\\b",
        "a\\..",    "/a%2F..%2fb", "a%5c.%5Cb", "/%252e%252E",   "/a%252f..", "/..%3Bx",
        "/..%253b", "/%25252e",    "/%2e;x",    "/a/%2e%2e%5cb", "/a//..",    "/;/..",
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(good); i++)
        if (path_has_dot_segment(slice_cstr(good[i])))
            fail_msg("%s", good[i]);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        if (!path_has_dot_segment(slice_cstr(bad[i])))
            fail_msg("%s", bad[i]);
    assert_true(path_is_dot_segment(SLICE("..")) && path_is_dot_segment(SLICE("%2e.;a/b")));
    assert_false(path_is_dot_segment(SLICE("a/..")) || path_is_dot_segment(SLICE("../a")));
    assert_false(path_has_dot_segment(SLICE_NONE) || path_is_dot_segment(SLICE_NONE));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        UNIT_TEST(all_lengths_there_and_back),
        UNIT_TEST(gives_the_rfcs_vectors),
        UNIT_TEST(refuses_wrong_base64),
        UNIT_TEST(knows_every_digit),
        UNIT_TEST(padding_is_optional_in_urls),
        UNIT_TEST(refuses_wrong_hex_and_escapes),
        UNIT_TEST(plus_is_a_space_where_asked),
        UNIT_TEST(tells_limit_from_memory),
        UNIT_TEST(decoded_text_is_in_the_arena),
        UNIT_TEST(dot_segments_are_found_however_they_are_written),
    };
    return cmocka_run_group_tests_name("base/encode", tests, NULL, NULL);
}
