/*
 * recipient: finds the recipients of a call, using its action's manifest (`recipients`): their
 * addresses, and whether these belong to the account's own organisation.
 *
 * An address belongs to the organisation only if every mail program agrees: a text that could be
 * read in two ways, or is not an address, has no domain, and so belongs to no organisation.
 */
#ifndef CATALOG_RECIPIENT_H
#define CATALOG_RECIPIENT_H

#include "catalog/catalog.h"

enum { RECIPIENT_DOMAIN_MAX = 253 }; /* RFC 1035 */

/* One recipient: `lead` is "Ada <", `address` "ada@example.com", `tail` ">". All are borrowed from
 * the text. If the text is not an address, domain is SLICE_NONE and `address` is the whole text. */
struct recipient {
    slice lead, address, tail, domain;
};

/* Takes the next recipient of a list separated by commas or semicolons. Returns false if there is
 * none. */
bool recipient_next(slice *rest, struct recipient *out);

/* Writes a domain in canonical form, so that equal domains are equal bytewise: lower case, labels
 * of other scripts in Punycode (RFC 3492), no dot at the end. Letters of other scripts are not
 * converted to lower case, and no browser-style (UTS 46) mapping is applied. Returns SLICE_NONE if
 * it is not a domain, or is too long. */
slice recipient_domain(slice domain, char room[RECIPIENT_DOMAIN_MAX + 1]);

/* Whether the domain is one of `homes` (made by recipient_domain), or a subdomain of one of them.
 * Returns false for SLICE_NONE. */
bool recipient_is_home(slice domain, const slice *homes, size_t home_count);

/* Calls `on_each` for each recipient of a call with this input, field by field in the manifest's
 * order, with the field's name for people. An expression that fails counts as one recipient without
 * a domain. The arguments are valid as long as the input and the arena. */
typedef void (*recipient_fn)(void *user, slice field, const struct recipient *recipient);
void recipient_each(const struct catalog_action *action, const struct json *input,
                    struct arena *arena, recipient_fn on_each, void *user);
/* The same within a budget, which is charged for the texts as well. Returns whether each expression
 * gave its recipients, and they all were within the budget: what is past it counts as one recipient
 * without a domain. */
bool recipient_each_within(const struct catalog_action *action, const struct json *input,
                           struct expr_budget *budget, struct arena *arena, recipient_fn on_each,
                           void *user) MUST_CHECK;

#endif
