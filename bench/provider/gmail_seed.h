/*
 * The mails that every fresh mailbox holds: data (gmail_seed_data.c) and how they are built
 * (gmail_seed.c). Mail k (from 1) has the id GMAIL_SEED_ID + k, whatever the seed and the day, so
 * that documentation and examples can name it; manifests' examples rely on these ids:
 *   1, 2 read; 3 has an invoice attached as part 1; 4 begins a thread; 5, 6, 7 unread in the inbox;
 *   0x38 and 0x39 to be trashed and deleted; 0x3c lies in the trash.
 */
#ifndef PROVIDER_GMAIL_SEED_H
#define PROVIDER_GMAIL_SEED_H

#include <stddef.h>

enum gmail_seed_flag {
    SEED_INBOX = 1,
    SEED_UNREAD = 2,
    SEED_STARRED = 4,
    SEED_IMPORTANT = 8,
    SEED_SENT = 16,
    SEED_PROMOTIONS = 32,
    SEED_UPDATES = 64,
    SEED_SOCIAL = 128,
    SEED_FORUMS = 256,
    SEED_SPAM = 512,
    SEED_TRASH = 1024,
    SEED_LABEL = 2048, /* the user label "Receipts" */
    SEED_HTML = 4096,  /* multipart/alternative */
    SEED_PDF = 8192,
    SEED_CSV = 16384,
    SEED_IMAGE = 32768,
    SEED_HTML_ONLY = 65536,
    SEED_DRAFT = 131072,
};

struct gmail_seed_mail {
    unsigned age_hours;
    unsigned thread; /* k of the mail that began it; 0: it begins one itself */
    unsigned flags;
    const char *from, *to, *subject, *body; /* from NULL: the account itself */
    const char *filename;
};

extern const struct gmail_seed_mail gmail_seed_mails[];
extern const size_t gmail_seed_count;

#endif
