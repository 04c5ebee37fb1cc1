/*
 * Identifiers, made in C so that no statement needs a sequence (src/README.md "The database").
 * UUIDv7 (RFC 9562 5.7): executions, flows, nodes, accounts, requests. They are monotonic in one
 * process. Short ids (connections): positive, below 2^53, time-ordered: 41 bits of milliseconds
 * since 2026-01-01 and 12 bits that count up from a random start.
 */
#ifndef BASE_ID_H
#define BASE_ID_H

#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"

enum { UUID_TEXT_LEN = 36 };

struct uuid {
    uint8_t bytes[16];
};

/* Fills `out` with random bytes from getrandom(2); aborts if the kernel does not have it. A page of
 * entropy is buffered without a lock, so this is for the loop thread only. */
void random_bytes(void *out, size_t len);
/* Like random_bytes, but without the buffer: for any thread, and for keys that must never be in the
 * buffer. */
void random_kernel(void *out, size_t len);
uint64_t random_u64(void);
/* Returns a uniform random number in [0, bound); bound > 0. */
uint64_t random_below(uint64_t bound);

struct uuid uuid_v7(void);
/* Name-based, SHA-1 (RFC 9562 5.5). */
struct uuid uuid_v5(struct uuid name_space, slice name);
/* Returns the smallest v7 value of that millisecond, for ranges and partitions. */
struct uuid uuid_v7_floor(int64_t wall_ms);
int64_t uuid_v7_wall_ms(struct uuid id);
void uuid_format(struct uuid id, char out[UUID_TEXT_LEN + 1]);
/* Parses only the canonical form, with hex digits in lower or upper case. */
bool uuid_parse(slice text, struct uuid *id) MUST_CHECK;
/* Returns the 16 bytes of the id, as the key of a map; valid as long as *id. */
static inline slice uuid_slice(const struct uuid *id)
{
    return slice_of(id->bytes, sizeof(id->bytes));
}
bool uuid_is_nil(struct uuid id);
/* Returns id, or `other` if id is nil. */
struct uuid uuid_or(struct uuid id, struct uuid other);
bool uuid_eq(struct uuid a, struct uuid b);
int uuid_cmp(struct uuid a, struct uuid b);

int64_t short_id_new(void);

#endif
