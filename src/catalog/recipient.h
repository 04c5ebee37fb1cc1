/*
 * recipient: the people whom a call reaches, as its action's manifest says (`recipients`): their
 * addresses, and whether these belong to one's own organisation.
 *
 * What is read as being of the organisation has to be so for every mail program: what could be read
 * in two ways, or is no address at all, has no domain, and so belongs to no organisation.
 */
#ifndef CATALOG_RECIPIENT_H
#define CATALOG_RECIPIENT_H

#include "catalog/catalog.h"

enum { RECIPIENT_DOMAIN_MAX = 253 }; /* RFC 1035 */

/* One recipient: `lead` "Ada <", `address` "ada@example.com", `tail` ">". All borrowed from the
 * text. domain SLICE_NONE: it is no address; `address` is then all of it. */
struct recipient {
    slice lead, address, tail, domain;
};

/* The next recipient of a list with commas or semicolons between two. false: there is none. */
bool recipient_next(slice *rest, struct recipient *out);

/* A domain in the one form in which equal ones are equal bytes: small letters, labels of other
 * scripts as Punycode has them (RFC 3492), no dot at the end. Letters of other scripts are not made
 * small, and nothing is mapped as browsers would. SLICE_NONE: it is none, or too long. */
slice recipient_domain(slice domain, char room[RECIPIENT_DOMAIN_MAX + 1]);

/* Whether the domain is one of `homes`, which recipient_domain has made, or below one of them.
 * SLICE_NONE: it is not. */
bool recipient_is_home(slice domain, const slice *homes, size_t home_count);

/* Calls `on_each` for each recipient of a call with that input, by field in the manifest's order,
 * with the field's name for people. What the manifest's expression fails on counts as one recipient
 * without a domain. What is handed over lives as long as the input and the arena. */
typedef void (*recipient_fn)(void *user, slice field, const struct recipient *recipient);
void recipient_each(const struct catalog_action *action, const struct json *input,
                    struct arena *arena, recipient_fn on_each, void *user);

#endif
