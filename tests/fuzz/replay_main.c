/*
 * The main of a fuzz program in `make test`: instead of searching, it passes every file of the
 * given corpora to the fuzz function once, under the sanitizers of the build, after the empty
 * input. A folder is read in order, without its subfolders. Prints TAP, with one test for each
 * program. A fault aborts, and standard error names the input that was running.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

enum { INPUT_BYTES_MAX = 16 * 1024 * 1024, PATH_BYTES_MAX = 4096 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static long inputs;
static char running[PATH_BYTES_MAX];

/* The sanitizers call this before they abort. */
void __asan_on_error(void);
void __asan_on_error(void)
{
    fprintf(stderr, "replay: the input was %s\n", running);
}

static int replay_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        fprintf(stderr, "replay: cannot read %s\n", path);
        return -1;
    }
    uint8_t *data = malloc(INPUT_BYTES_MAX);
    size_t size = data == NULL ? 0 : fread(data, 1, INPUT_BYTES_MAX, file);
    fclose(file);
    /* A block exactly as large as the input, so that a read past its end is found. */
    uint8_t *exact = malloc(size == 0 ? 1 : size);
    for (size_t i = 0; exact != NULL && i < size; i++)
        exact[i] = data[i];
    free(data);
    snprintf(running, sizeof(running), "%s", path);
    if (exact != NULL)
        LLVMFuzzerTestOneInput(exact, size);
    free(exact);
    inputs++;
    return 0;
}

static int replay_folder(const char *path)
{
    struct dirent **entries;
    int result = 0;
    int count = scandir(path, &entries, NULL, alphasort);
    if (count < 0)
        return -1;
    for (int i = 0; i < count; i++) {
        char name[PATH_BYTES_MAX];
        struct stat info;
        snprintf(name, sizeof(name), "%s/%s", path, entries[i]->d_name);
        free(entries[i]);
        if (stat(name, &info) == 0 && S_ISREG(info.st_mode) && replay_file(name) != 0)
            result = -1;
    }
    free(entries);
    return result;
}

int main(int argc, char **argv)
{
    int result = 0;
    snprintf(running, sizeof(running), "the empty input");
    LLVMFuzzerTestOneInput((const uint8_t *)"", 0);
    inputs++;
    for (int i = 1; i < argc; i++) {
        struct stat info;
        if (stat(argv[i], &info) != 0)
            continue; /* no corpus yet: the empty input was tried */
        if ((S_ISDIR(info.st_mode) ? replay_folder(argv[i]) : replay_file(argv[i])) != 0)
            result = 1;
    }
    printf("1..1\n%s 1 - %ld inputs replayed\n", result == 0 ? "ok" : "not ok", inputs);
    return result;
}
