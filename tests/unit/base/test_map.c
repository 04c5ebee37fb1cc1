/* base/map: 100,000 random operations compared with a plain array; limits, failures; hashes
 * compared with CPython's SipHash-1-3 and the published FNV-1a values. */
#include "testing.h"

#include <stdio.h>

#include "base/map.h"

enum { KEYS = 700 };

struct entry {
    char key[24];
    size_t key_len;
    bool is_in;
};

static struct entry entries[KEYS];

static void make_keys(struct chance *chance)
{
    for (size_t i = 0; i < KEYS; i++) {
        int len = snprintf(entries[i].key, sizeof(entries[i].key), "%zu", i);
        size_t more = chance_below(chance, sizeof(entries[i].key) - (size_t)len);
        if (i == 0)
            len = 0; /* the empty key is a key */
        else
            chance_bytes(chance, entries[i].key + len + 1, more ? more - 1 : 0);
        entries[i].key_len = i && more > 1 ? (size_t)len + more : (size_t)len;
        entries[i].is_in = false;
    }
}

static slice key_of(const struct entry *entry)
{
    return slice_of(entry->key, entry->key_len);
}

static void check_all(const struct map *map, size_t count)
{
    size_t seen = 0;
    MAP_EACH(map, slot) {
        const struct entry *entry = slot->value;
        assert_true(entry->is_in);
        assert_slice(slot->key, key_of(entry));
        seen++;
    }
    assert_int_equal(seen, count);
    assert_int_equal(map->count, count);
    for (size_t i = 0; i < KEYS; i++)
        assert_ptr_equal(map_get(map, key_of(&entries[i])), entries[i].is_in ? &entries[i] : NULL);
}

static void does_as_the_array_does(void **state)
{
    (void)state;
    struct chance chance = {6};
    struct map map;
    size_t count = 0;
    make_keys(&chance);
    map_init(&map, 500);
    for (int i = 0; i < 100000; i++) {
        struct entry *entry = &entries[chance_below(&chance, KEYS)];
        /* phases of growth and of shrinking */
        bool is_put = chance_below(&chance, 100) < (i / 10000 % 2 ? 30 : 70);
        void *old = &map;
        if (!is_put) {
            assert_ptr_equal(map_remove(&map, key_of(entry)), entry->is_in ? entry : NULL);
            count -= entry->is_in;
            entry->is_in = false;
        } else if (entry->is_in || count < 500) {
            assert_int_equal(map_put(&map, key_of(entry), entry, &old), OK);
            assert_ptr_equal(old, entry->is_in ? entry : NULL);
            count += !entry->is_in;
            entry->is_in = true;
        } else {
            assert_int_equal(map_put(&map, key_of(entry), entry, &old), ERR_LIMIT);
            assert_ptr_equal(old, &map);
        }
        if (i % 1000 == 0)
            check_all(&map, count);
    }
    check_all(&map, count);
    assert_true(map.cap >= map.count && (map.cap & (map.cap - 1)) == 0);
    map_deinit(&map);
    assert_int_equal(map.count, 0);
}

static void replaces_key_and_value(void **state)
{
    (void)state;
    struct map map;
    char first[] = "key", second[] = "key";
    int a, b;
    void *old = &map;
    map_init(&map, 1);
    assert_null(map_get(&map, SLICE("key")));
    assert_null(map_remove(&map, SLICE("key")));
    assert_int_equal(map_put(&map, slice_cstr(first), &a, &old), OK);
    assert_null(old);
    assert_int_equal(map_put(&map, slice_cstr(second), &b, &old), OK);
    assert_ptr_equal(old, &a);
    first[0] = 'x'; /* the entry no longer depends on the first key */
    assert_ptr_equal(map_get(&map, SLICE("key")), &b);
    assert_int_equal(map_put(&map, SLICE("other"), &a, NULL), ERR_LIMIT);
    assert_ptr_equal(map_remove(&map, SLICE("key")), &b);
    assert_null(map_next(&map, NULL));
    map_deinit(&map);
}

static void survives_failing_memory(void **state)
{
    (void)state;
    struct chance chance = {7};
    make_keys(&chance);
    for (uint64_t n = 1;; n++) {
        struct map map;
        size_t count = 0;
        map_init(&map, KEYS);
        for (size_t i = 0; i < KEYS; i++)
            entries[i].is_in = false;
        mem_fail_at(n, 1);
        for (size_t i = 0; i < KEYS; i++) {
            int code = map_put(&map, key_of(&entries[i]), &entries[i], NULL);
            assert_true(code == OK || code == ERR_NOMEM);
            entries[i].is_in = code == OK;
            count += code == OK;
        }
        uint64_t hits = mem_fail_hits();
        mem_fail_at(0, 0);
        assert_int_equal(count, KEYS - hits);
        check_all(&map, count);
        map_deinit(&map);
        if (hits == 0)
            break;
        assert_true(n < 20);
    }
}

struct sip_vector {
    size_t len; /* for the input 00 01 02 ... */
    uint64_t zero_key, other_key;
};

/* hash(bytes(range(len))) of CPython 3.11, whose hash is SipHash-1-3, with PYTHONHASHSEED=0 (a key
 * of zeros) and 42 (the key below). */
static const struct sip_vector sip_vectors[] = {
    {1, 0x68a914128e01e473, 0xce880c366bcf3489},  {7, 0x2f098ab0c751325a, 0xce280fabc397fbda},
    {8, 0xead411e67ebe2eea, 0x60866c3c108c6afb},  {9, 0x75927f9d95124362, 0x68814005f7469e03},
    {15, 0xf30eb725bb91c9ea, 0x94ace24d68c18cf8}, {16, 0x8972188433a5c5b7, 0x339176f3ac59ce05},
    {17, 0x4883c49a2c009c1d, 0xed2706b414c296f1}, {63, 0x385d3e39e5f37359, 0x06e24d6f0d014c37},
    {64, 0x75e05fd5bbc870c6, 0x91639ef7de8d52cb}, {100, 0x1c6a66e1506e7908, 0x389edd7db80b22b5},
};

static void siphash_is_siphash(void **state)
{
    (void)state;
    static const uint64_t zero[2] = {0, 0};
    static const uint64_t other[2] = {0xdc504fd368cd90af, 0xb920bb9ffe99e9c1};
    unsigned char input[100];
    for (size_t i = 0; i < sizeof(input); i++)
        input[i] = (unsigned char)i;
    for (size_t i = 0; i < ARRAY_LEN(sip_vectors); i++) {
        const struct sip_vector *v = &sip_vectors[i];
        assert_true(hash_siphash13(zero, input, v->len) == v->zero_key);
        assert_true(hash_siphash13(other, input, v->len) == v->other_key);
    }
    assert_true(hash_bytes(input, 100) == hash_bytes(input, 100));
    assert_true(hash_bytes(input, 100) != hash_siphash13(zero, input, 100)); /* a key was drawn */
    assert_true(hash_bytes(NULL, 0) == hash_bytes("", 0));
}

static void stable_hash_is_fnv1a(void **state)
{
    (void)state;
    assert_true(hash_stable("", 0) == 0xcbf29ce484222325);
    assert_true(hash_stable("a", 1) == 0xaf63dc4c8601ec8c);
    assert_true(hash_stable("foobar", 6) == 0x85944171f73967e8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        UNIT_TEST(does_as_the_array_does),  UNIT_TEST(replaces_key_and_value),
        UNIT_TEST(survives_failing_memory), UNIT_TEST(siphash_is_siphash),
        UNIT_TEST(stable_hash_is_fnv1a),
    };
    return cmocka_run_group_tests_name("base/map", tests, NULL, NULL);
}
