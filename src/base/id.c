/*
 * id: randomness and the identifiers made from it. State is per process: a forked worker gets fresh
 * entropy (fork_child), so that two workers never make the same id.
 */
#include "base/id.h"

#include <errno.h>
#include <pthread.h>
#include <sys/random.h>

#include "base/ascii.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/sha1.h"

enum {
    /* Bytes read at a time: a system call for each id would cost more than the id. */
    ENTROPY_PAGE = 4096,
    ENTROPY_DIRECT = 256, /* longer requests go to the kernel */
};

/* 2026-01-01T00:00:00Z (id.h) */
#define SHORT_ID_EPOCH_MS INT64_C(1767225600000)
#define SHORT_ID_MS_MAX   ((INT64_C(1) << 41) - 1)
#define UUID_MS_MAX       ((UINT64_C(1) << 48) - 1)
#define UUID_B_MAX        ((UINT64_C(1) << 62) - 1)

static unsigned char entropy[ENTROPY_PAGE];
static size_t entropy_left; /* unused bytes at the end of the page */

void random_kernel(void *out, size_t len)
{
    unsigned char *p = out;
    while (len) {
        ssize_t got = getrandom(p, len, 0);
        /* getrandom can fail with an error other than EINTR only if the kernel lacks it or a filter
         * forbids it; a weaker source would make keys that can be guessed. */
        ASSERT(got > 0 || errno == EINTR);
        if (got > 0) {
            p += got;
            len -= (size_t)got;
        }
    }
}

static void fork_child(void)
{
    /* The page is wiped, not only marked as used: the parent will use its remaining bytes for ids
     * and keys. */
    mem_wipe(entropy, sizeof(entropy));
    entropy_left = 0;
}

__attribute__((constructor)) static void watch_fork(void)
{
    int failed = pthread_atfork(NULL, NULL, fork_child);
    ASSERT(!failed);
}

void random_bytes(void *out, size_t len)
{
    if (len > ENTROPY_DIRECT) {
        random_kernel(out, len);
        return;
    }
    if (len > entropy_left) {
        random_kernel(entropy, sizeof(entropy));
        entropy_left = sizeof(entropy);
    }
    unsigned char *from = entropy + sizeof(entropy) - entropy_left;
    memcpy(out, from, len);
    mem_wipe(from, len); /* bytes that were handed out cannot be read again */
    entropy_left -= len;
}

uint64_t random_u64(void)
{
    uint64_t value;
    random_bytes(&value, sizeof(value));
    return value;
}

/* Lemire's method: multiply and take the high half; the low half says when to reject the number and
 * draw again. */
uint64_t random_below(uint64_t bound)
{
    ASSERT(bound > 0);
    /* 2^64 mod bound, computed without 128 bits. Rejecting values below it removes the bias of a
     * plain remainder. Fewer than one draw in two is repeated, usually none. */
    uint64_t refuse_below = (0 - bound) % bound;
    for (;;) {
        __extension__ unsigned __int128 wide = (unsigned __int128)random_u64() * bound;
        if ((uint64_t)wide >= refuse_below)
            return (uint64_t)(wide >> 64);
    }
}

/* Packs the fields of RFC 9562 5.7: 48 bits of milliseconds, 12 bits a, 62 bits b. */
static struct uuid uuid_v7_pack(uint64_t ms, uint64_t a, uint64_t b)
{
    /* Out of range, a field would overflow into its neighbour and the version bits. */
    ASSERT(ms <= UUID_MS_MAX && a < 4096 && b <= UUID_B_MAX);
    uint64_t high = ms << 16 | UINT64_C(7) << 12 | a;
    uint64_t low = UINT64_C(2) << 62 | b;
    struct uuid id;
    for (int i = 0; i < 8; i++) {
        id.bytes[i] = (uint8_t)(high >> (56 - 8 * i));
        id.bytes[8 + i] = (uint8_t)(low >> (56 - 8 * i));
    }
    return id;
}

static uint64_t uuid_ms(int64_t wall_ms)
{
    uint64_t ms = wall_ms < 0 ? 0 : (uint64_t)wall_ms;
    return ms > UUID_MS_MAX ? UUID_MS_MAX : ms;
}

/* Monotonic random (RFC 9562 6.2 method 2): within a millisecond, and while the clock is before the
 * last id, b grows by a random 40-bit step, so the next id cannot be guessed from the last. a
 * starts with its top bit clear, which leaves 2^11 carries before a millisecond must be
 * borrowed. */
struct uuid uuid_v7(void)
{
    static uint64_t last_ms, a, b;
    uint64_t ms = uuid_ms(clock_wall_us() / 1000);
    if (ms > last_ms) {
        last_ms = ms;
        uint64_t bits = random_u64();
        a = bits >> 53;
        b = random_u64() & UUID_B_MAX;
        return uuid_v7_pack(ms, a, b);
    }
    b += (random_u64() >> 24) + 1;
    if (b > UUID_B_MAX) {
        b &= UUID_B_MAX;
        a++;
    }
    if (a > 4095) {
        a = 0;
        last_ms++;
    }
    return uuid_v7_pack(last_ms, a, b);
}

struct uuid uuid_v7_floor(int64_t wall_ms)
{
    return uuid_v7_pack(uuid_ms(wall_ms), 0, 0);
}

int64_t uuid_v7_wall_ms(struct uuid id)
{
    int64_t ms = 0;
    for (int i = 0; i < 6; i++)
        ms = ms << 8 | id.bytes[i];
    return ms;
}

struct uuid uuid_v5(struct uuid name_space, slice name)
{
    unsigned char digest[SHA1_LEN];
    struct sha1 sha;
    sha1_init(&sha);
    sha1_update(&sha, name_space.bytes, sizeof(name_space.bytes));
    sha1_update(&sha, name.ptr, name.len);
    sha1_final(&sha, digest);
    struct uuid id;
    /* Version 5 in the high half of byte 6, variant 10 in the top bits of byte 8 (RFC 9562 5.5). */
    memcpy(id.bytes, digest, sizeof(id.bytes));
    id.bytes[6] = (uint8_t)((id.bytes[6] & 0x0f) | 0x50);
    id.bytes[8] = (uint8_t)((id.bytes[8] & 0x3f) | 0x80);
    return id;
}

static bool is_dash_at(size_t at)
{
    return at == 8 || at == 13 || at == 18 || at == 23;
}

void uuid_format(struct uuid id, char out[UUID_TEXT_LEN + 1])
{
    static const char digits[] = "0123456789abcdef";
    /* the position of each byte's two digits in 8-4-4-4-12 */
    static const uint8_t offsets[sizeof(id.bytes)] = {0,  2,  4,  6,  9,  11, 14, 16,
                                                      19, 21, 24, 26, 28, 30, 32, 34};
    for (size_t i = 0; i < sizeof(id.bytes); i++) {
        out[offsets[i]] = digits[id.bytes[i] >> 4];
        out[offsets[i] + 1] = digits[id.bytes[i] & 15];
    }
    out[8] = out[13] = out[18] = out[23] = '-';
    out[UUID_TEXT_LEN] = '\0';
}

bool uuid_parse(slice text, struct uuid *id)
{
    struct uuid parsed;
    if (text.len != UUID_TEXT_LEN)
        return false;
    size_t at = 0;
    for (size_t i = 0; i < sizeof(parsed.bytes); i++) {
        /* The dash is checked and skipped in one step; a group always ends before the next byte
         * begins. */
        if (is_dash_at(at) && text.ptr[at++] != '-')
            return false;
        int high = ascii_hex_value(text.ptr[at]), low = ascii_hex_value(text.ptr[at + 1]);
        if (high < 0 || low < 0)
            return false;
        parsed.bytes[i] = (uint8_t)(high << 4 | low);
        at += 2;
    }
    *id = parsed;
    return true;
}

bool uuid_is_nil(struct uuid id)
{
    return uuid_eq(id, (struct uuid){{0}});
}

struct uuid uuid_or(struct uuid id, struct uuid other)
{
    return uuid_is_nil(id) ? other : id;
}

bool uuid_eq(struct uuid a, struct uuid b)
{
    return uuid_cmp(a, b) == 0;
}

int uuid_cmp(struct uuid a, struct uuid b)
{
    return memcmp(a.bytes, b.bytes, sizeof(a.bytes));
}

/* A new millisecond starts its 12 bits at random, so that two processes rarely collide. Within a
 * millisecond, and while the clock is before the last id, ids count up, past the 12 bits into
 * the next millisecond. The 41 bits last until September 2095. */
int64_t short_id_new(void)
{
    static int64_t last;
    int64_t ms = clock_wall_us() / 1000 - SHORT_ID_EPOCH_MS;
    if (ms < 0)
        ms = 0;
    /* Beyond 41 bits an id would exceed 2^53, up to which JavaScript represents integers
     * exactly. */
    if (ms > SHORT_ID_MS_MAX)
        ms = SHORT_ID_MS_MAX;
    int64_t id = ms << 12 | (int64_t)(random_u64() >> 52);
    bool is_same_ms = ms <= last >> 12;
    last = is_same_ms ? last + 1 : id;
    ASSERT(last > 0 && last < INT64_C(1) << 53);
    return last;
}
