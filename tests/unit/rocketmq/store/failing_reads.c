/* Preloaded into a process: one read of a file below a folder fails with EIO.
 *
 * fail_read(part, number): of the reads of files whose path contains `part`, that number, from 0 on.
 * reads_done(): how many there were since. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char part[256];
static long failing = -1, done = 0;

void fail_read(const char *in, long number) {
    pthread_mutex_lock(&lock);
    snprintf(part, sizeof part, "%s", in);
    failing = number;
    done = 0;
    pthread_mutex_unlock(&lock);
}

long reads_done(void) {
    return done;
}

static int fails(int file) {
    char link[32], path[4096];
    int now = 0;
    if (!part[0]) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t size = readlink(link, path, sizeof path - 1);
    if (size < 0) return 0;
    path[size] = 0;
    if (!strstr(path, part)) return 0;
    pthread_mutex_lock(&lock);
    now = done++ == failing;
    pthread_mutex_unlock(&lock);
    return now;
}

#define REFUSE(file, answer) if (fails(file)) { errno = EIO; return answer; }
#define REAL(name) ((__typeof__(&name)) dlsym(RTLD_NEXT, #name))

ssize_t read(int file, void *data, size_t size) {
    REFUSE(file, -1)
    return REAL(read)(file, data, size);
}

ssize_t pread(int file, void *data, size_t size, off_t at) {
    REFUSE(file, -1)
    return REAL(pread)(file, data, size, at);
}

ssize_t pread64(int file, void *data, size_t size, off64_t at) {
    REFUSE(file, -1)
    return REAL(pread64)(file, data, size, at);
}

size_t fread_unlocked(void *data, size_t size, size_t count, FILE *file) {
    REFUSE(fileno(file), 0) /* RocksDB reads files from their beginning to their end with it */
    return REAL(fread_unlocked)(data, size, count, file);
}
