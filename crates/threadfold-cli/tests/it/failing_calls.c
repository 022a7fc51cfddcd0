// Lets one call that changes a file fail: the one whose number THREADFOLD_FAILS_AT names.
// Calls are counted over regular files only; how many there were goes to THREADFOLD_COUNTS_INTO, and
// how many of them were syncs to THREADFOLD_SYNCS_INTO.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

static long calls;
static long syncs;

static int fails(void) {
    const char *at = getenv("THREADFOLD_FAILS_AT");
    long number = __atomic_add_fetch(&calls, 1, __ATOMIC_SEQ_CST);
    if (at == NULL || number != atol(at)) return 0;
    errno = number % 2 ? ENOSPC : EIO;
    return 1;
}

static int is_file(int fd) {
    struct stat found;
    return fd > 2 && fstat(fd, &found) == 0 && S_ISREG(found.st_mode);
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

ssize_t write(int fd, const void *from, size_t count) {
    return is_file(fd) && fails() ? -1 : REAL(write)(fd, from, count);
}

ssize_t pwrite(int fd, const void *from, size_t count, off_t at) {
    return is_file(fd) && fails() ? -1 : REAL(pwrite)(fd, from, count, at);
}

ssize_t pwrite64(int fd, const void *from, size_t count, off64_t at) {
    return is_file(fd) && fails() ? -1 : REAL(pwrite64)(fd, from, count, at);
}

int fsync(int fd) {
    __atomic_add_fetch(&syncs, 1, __ATOMIC_SEQ_CST);
    return is_file(fd) && fails() ? -1 : REAL(fsync)(fd);
}

int fdatasync(int fd) {
    __atomic_add_fetch(&syncs, 1, __ATOMIC_SEQ_CST);
    return is_file(fd) && fails() ? -1 : REAL(fdatasync)(fd);
}

int ftruncate(int fd, off_t length) {
    return is_file(fd) && fails() ? -1 : REAL(ftruncate)(fd, length);
}

int ftruncate64(int fd, off64_t length) {
    return is_file(fd) && fails() ? -1 : REAL(ftruncate64)(fd, length);
}

int rename(const char *from, const char *to) {
    return fails() ? -1 : REAL(rename)(from, to);
}

static void write_count(const char *name, long count) {
    const char *into = getenv(name);
    FILE *file = into == NULL ? NULL : fopen(into, "w");
    if (file == NULL) return;
    fprintf(file, "%ld", count);
    fclose(file);
}

__attribute__((destructor)) static void tell(void) {
    // Writing a count is a call as well.
    long all = calls, synced = syncs;
    write_count("THREADFOLD_COUNTS_INTO", all);
    write_count("THREADFOLD_SYNCS_INTO", synced);
}
