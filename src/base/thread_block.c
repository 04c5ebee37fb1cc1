/*
 * thread_block: the blocks of a thread are a list under a pthread key whose destructor unmaps them.
 * The main thread and its blocks end with the process. Blocks are mapped rather than allocated:
 * pages are zeroed and become resident only when touched, and mem does not count them as a leak.
 */
#include "base/thread_block.h"

#include <pthread.h>
#include <stdbool.h>
#include <sys/mman.h>

struct thread_block {
    struct thread_block *next;
    size_t size;
    _Alignas(64) char bytes[];
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
/* Keys are limited (PTHREAD_KEYS_MAX). If there is no key, callers work without a block (NULL). */
static bool has_key;

static void on_thread_end(void *head)
{
    struct thread_block *block = head;
    while (block) {
        struct thread_block *next = block->next;
        munmap(block, block->size);
        block = next;
    }
}

static void make_thread_key(void)
{
    has_key = pthread_key_create(&key, on_thread_end) == 0;
}

void *thread_block_new(size_t size)
{
    pthread_once(&once, make_thread_key);
    if (!has_key)
        return NULL;
    size_t total = sizeof(struct thread_block) + size;
    struct thread_block *block =
        mmap(NULL, total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block == MAP_FAILED)
        return NULL;
    block->next = pthread_getspecific(key);
    block->size = total;
    /* The key is set last, after the block is complete: the destructor must find a consistent
     * list. */
    if (pthread_setspecific(key, block) != 0) {
        munmap(block, total);
        return NULL;
    }
    return block->bytes;
}
