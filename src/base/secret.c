/*
 * secret: a small allocator on its own pages, so that secrets share pages with nothing else and
 * those pages are not in core files. Slabs of 64 KB are divided into slots of one size (powers of
 * two up to SLOT_MAX); a larger secret gets its own mapping. One empty slab per size is kept.
 * Limit: SECRET_BYTES_MAX per secret. Any thread. Pages may still be swapped out: mlock needs a
 * limit that few systems grant, so encrypted swap is the operator's task.
 */
#include "base/secret.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include "base/list.h"
#include "base/mem.h"
#include "base/poison.h"

enum {
    SLAB_BYTES = 64 * 1024,
    SLOT_MIN = 64,
    SLOT_CLASSES = 7,
    SLOT_MAX = SLOT_MIN << (SLOT_CLASSES - 1), /* 4096 */
    PAGE_BYTES = 4096,
};

/* The header of a slab, at the start of its own pages. */
struct slab {
    struct list link; /* in slabs_with_room[class]; in no list if the slab is full */
    size_t bytes;     /* size of the mapping */
    size_t slot_bytes;
    struct list *class; /* NULL if it is a mapping for one large secret */
    /* Slots that were never used are taken in order, so that their pages are not touched until
     * they are needed. */
    uint32_t used, untouched, slots;
    struct secret *free;
};

struct secret {
    struct slab *slab;
    union {
        /* A free slot has no references: the free list is in the slots themselves. */
        struct secret *next_free;
        struct {
            atomic_uint refs;
            uint32_t len;
        };
    };
    char bytes[]; /* followed by a NUL */
};

static pthread_mutex_t pool_lock = PTHREAD_MUTEX_INITIALIZER;
static struct list slabs_with_room[SLOT_CLASSES];

static struct slab *slab_map(size_t bytes)
{
    void *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED)
        return NULL;
    /* It is better to refuse a secret than to store it where a core file would include it. */
    if (madvise(pages, bytes, MADV_DONTDUMP)) {
        munmap(pages, bytes);
        return NULL;
    }
    struct slab *slab = pages;
    slab->bytes = bytes;
    list_init(&slab->link);
    return slab;
}

static void slab_unmap(struct slab *slab)
{
    size_t bytes = slab->bytes;
    list_unlink(&slab->link);
    /* If poisoned memory were unmapped, its shadow would stay poisoned for the next mapping
     * there. */
    UNPOISON(slab, bytes);
    int failed = munmap(slab, bytes);
    ASSERT(!failed);
}

static char *slab_slots(struct slab *slab)
{
    /* Slots begin at a multiple of SLOT_MIN, and every slot size is a multiple of it, so each
     * slot is aligned for struct secret. */
    return (char *)slab + (sizeof(*slab) + SLOT_MIN - 1) / SLOT_MIN * SLOT_MIN;
}

static struct slab *slab_new(struct list *class, size_t slot_bytes)
{
    struct slab *slab = slab_map(SLAB_BYTES);
    if (!slab)
        return NULL;
    char *slots = slab_slots(slab);
    size_t room = SLAB_BYTES - (size_t)(slots - (char *)slab);
    slab->class = class;
    slab->slot_bytes = slot_bytes;
    slab->slots = slab->untouched = (uint32_t)(room / slot_bytes);
    POISON(slots, room);
    list_push_front(class, &slab->link);
    return slab;
}

static struct secret *slab_take(struct slab *slab)
{
    ASSERT(slab->used < slab->slots);
    struct secret *secret = slab->free;
    if (!secret) {
        ASSERT(slab->untouched > 0);
        size_t index = slab->slots - slab->untouched--;
        secret = (struct secret *)(void *)(slab_slots(slab) + index * slab->slot_bytes);
    }
    /* The slot is unpoisoned before next_free is read below. */
    UNPOISON(secret, slab->slot_bytes);
    if (slab->free)
        slab->free = secret->next_free;
    if (++slab->used == slab->slots)
        list_unlink(&slab->link);
    return secret;
}

/* Frees a slot that is already wiped. */
static void slab_give(struct slab *slab, struct secret *secret)
{
    ASSERT(slab->used > 0);
    /* A slab that was full is in no list; now it has room again. */
    if (slab->used-- == slab->slots)
        list_push_front(slab->class, &slab->link);
    secret->next_free = slab->free;
    slab->free = secret;
    POISON(secret, slab->slot_bytes);
    /* One empty slab of each size is kept. Otherwise a single secret that is repeatedly made and
     * freed would map 64 KB each time. */
    bool has_company = slab->link.next != slab->class || slab->link.prev != slab->class;
    if (slab->used == 0 && has_company)
        slab_unmap(slab);
}

/* bytes: the size of the slot. Returns NULL if out of memory. */
static struct secret *pool_take(size_t bytes)
{
    size_t slot_bytes = SLOT_MIN;
    struct list *class = slabs_with_room;
    for (; slot_bytes < bytes; slot_bytes *= 2)
        class ++;
    ASSERT(class < slabs_with_room + SLOT_CLASSES);
    /* Static lists have no initializer; a zeroed list is made empty at its first use, under
     * pool_lock. */
    if (!class->next)
        list_init(class);
    struct slab *slab;
    if (list_is_empty(class))
        slab = slab_new(class, slot_bytes);
    else
        slab = LIST_ITEM(class->next, struct slab, link);
    if (!slab)
        return NULL;
    struct secret *secret = slab_take(slab);
    secret->slab = slab;
    return secret;
}

static struct secret *large_take(size_t bytes)
{
    size_t all = (sizeof(struct slab) + bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
    struct slab *slab = slab_map(all);
    if (!slab)
        return NULL;
    slab->used = slab->slots = 1;
    struct secret *secret = (struct secret *)(void *)(slab + 1);
    secret->slab = slab;
    return secret;
}

struct secret *secret_new_room(size_t len, char **room)
{
    size_t bytes = sizeof(struct secret) + len + 1;
    /* The secret is counted like a heap block, before the lock is taken: an injected failure then
     * has nothing to undo. */
    if (len > SECRET_BYTES_MAX || !mem_block_begin())
        return NULL;
    pthread_mutex_lock(&pool_lock);
    struct secret *secret = bytes <= SLOT_MAX ? pool_take(bytes) : large_take(bytes);
    pthread_mutex_unlock(&pool_lock);
    if (!secret) {
        mem_block_end();
        return NULL;
    }
    atomic_init(&secret->refs, 1);
    secret->len = (uint32_t)len;
    memset(secret->bytes, 0, len + 1);
    *room = secret->bytes;
    return secret;
}

struct secret *secret_new(slice bytes)
{
    char *room;
    struct secret *secret = secret_new_room(bytes.len, &room);
    if (secret && bytes.len)
        memcpy(room, bytes.ptr, bytes.len);
    return secret;
}

struct secret *secret_ref(struct secret *secret)
{
    /* Taking a reference from 0 would revive a secret that is being wiped. */
    unsigned before = atomic_fetch_add(&secret->refs, 1);
    ASSERT(before > 0 && before < UINT32_MAX);
    return secret;
}

void secret_unref(struct secret *secret)
{
    if (!secret)
        return;
    unsigned before = atomic_fetch_sub(&secret->refs, 1);
    ASSERT(before > 0);
    if (before > 1)
        return;
    struct slab *slab = secret->slab;
    mem_wipe(secret, sizeof(*secret) + secret->len);
    pthread_mutex_lock(&pool_lock);
    if (slab->class)
        slab_give(slab, secret);
    else
        slab_unmap(slab);
    pthread_mutex_unlock(&pool_lock);
    mem_block_end();
}

slice secret_reveal(const struct secret *secret)
{
    return secret ? slice_of(secret->bytes, secret->len) : SLICE_NONE;
}
