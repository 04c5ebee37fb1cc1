/*
 * words: the words by which a run is found, and those of a search for it. The database has only
 * keyed hashes of them: 32 bits under a key that is derived from a master key and the account. So a
 * copy of the database has no word in clear, and equal words of two accounts differ. A search
 * among a million words of an account finds a wrong run one time in 4,000. Within an
 * account equal words are equal: who has the words of one run can find them in others. So a list is
 * sorted, and does not say which word is where in a text.
 *
 * A word is a run of letters and digits, in lower case, or a UUID; "ada@example.com" has three. A
 * search finds the runs that have all of its words. Scripts without spaces between words are found
 * by what is between two marks. Lower case is known for Latin, Greek and Cyrillic letters.
 */
#ifndef VAULT_WORDS_H
#define VAULT_WORDS_H

#include "base/arena.h"
#include "vault/seal.h"

enum {
    VAULT_WORDS_MAX = 40,              /* different words of a run; further words are left out */
    VAULT_WORDS_BYTES_MAX = 16 * 1024, /* of the texts of a run, so that a turn is short */
    VAULT_WORD_BYTES_MAX = 64,         /* of a longer word, its beginning counts */
    VAULT_SEARCH_WORDS_MAX = 16,       /* of a search */
    VAULT_SEARCH_BYTES_MAX = 200,      /* of a search */
};

struct vault_words {
    uint64_t key[2];
    size_t count, bytes_left;
    int64_t items[VAULT_WORDS_MAX];
};

/* Begins a list without words, under the ring's key that seals. */
void vault_words_init(struct vault_words *words, const struct vault_ring *ring,
                      struct uuid account_id);
/* Adds the words of a text that the list does not have, until the list has count_max of them. Bytes
 * that are not UTF-8 separate words. Returns the rest of the text, which was not read. */
slice vault_words_add(struct vault_words *words, slice text, size_t count_max);
/* Returns the list, sorted, as it is stored (store_input_words), in the arena; SLICE_NONE if it is
 * empty, or if out of memory. */
slice vault_words_list(const struct vault_words *words, struct arena *arena);

/* Returns the number of words of a text, counting equal ones, but at most count_max. */
size_t vault_words_count(slice text, size_t count_max);
/* Returns the words of a text as regular expressions of PostgreSQL, with a space between them, for
 * texts in which ASCII is in lower case: other letters match in both cases, whatever the locale,
 * and the end of a word that may have been cut is open. In the arena; SLICE_NONE if out of memory.
 */
slice vault_words_patterns(slice text, struct arena *arena);
/* Returns what a search asks the store for: three lists of its words under each key of the ring,
 * with ";" between them: with 64 and with 32 bits, for runs of the versions before, and the keys of
 * the index with the words that they are for, and "/" between them (store/execution_input.h). The
 * text has 1 to VAULT_SEARCH_WORDS_MAX words. If out of memory, it returns a list that no run has.
 */
slice vault_words_search(const struct vault_ring *ring, struct uuid account_id, slice text,
                         struct arena *arena);

#endif
