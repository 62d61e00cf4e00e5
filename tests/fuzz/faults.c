/* A preloaded library that lets calls of the process fail: errors, short writes, and signals before or after a call.
 *
 * Only calls on files below a folder count, and writes to stdout. fault_arm(folder) starts to count from 0 with no fault;
 * fault_add(kind, value, at, last, after) adds one that acts on the calls from number `at` to `last`. fault_state() points to two
 * numbers that parent and child share: calls counted, faults injected.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum kind { ERROR = 1, SHORT = 2, SIGNAL = 3, NO_SPACE = 4 };
enum call { OPEN, CREATE, WRITE, SYNC, LINK, NAME, REMOVE, CLOSE, OTHER };
struct fault { int kind, value, after; long at, last; };

static struct fault faults[4];
static int fault_count;
static char folder[PATH_MAX];
static size_t folder_length;
static volatile long *state;

__attribute__((constructor)) static void start(void) {
    state = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}

long *fault_state(void) { return (long *)state; }

void fault_arm(const char *path) {
    fault_count = 0;
    snprintf(folder, sizeof folder, "%s", path);
    folder_length = strlen(folder);
    state[0] = state[1] = 0;
}

void fault_add(int kind, int value, long at, long last, int after) {
    faults[fault_count++] = (struct fault){kind, value, after, at, last};
}

static int is_ours(const char *path) {
    return folder_length && (path[0] != '/' || !strncmp(path, folder, folder_length));
}

static int is_our_descriptor(int fd) {
    char link[64], path[PATH_MAX];
    if (!folder_length) return 0;
    if (fd == 1) return 1;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, path, sizeof path - 1);
    if (size <= 0) return 0;
    path[size] = 0;
    return path[0] == '/' && !strncmp(path, folder, folder_length);
}

/* Return 0 to go on, -1 to fail with errno; *size becomes less for a short write, *later is a signal for after the call. */
static int strike(enum call call, size_t *size, int *later) {
    long number = ++state[0];
    for (int i = 0; i < fault_count; i++) {
        struct fault *fault = &faults[i];
        if (number < fault->at || number > fault->last) continue;
        if (fault->kind == SIGNAL) {
            state[1]++;
            if (fault->after) *later = fault->value;
            else kill(getpid(), fault->value);
        } else if (fault->kind == SHORT) {
            if (size && *size > 1) { state[1]++; *size /= 2; }
        } else if (fault->kind == NO_SPACE) {
            if (call == CREATE || call == WRITE || call == SYNC || call == LINK) { state[1]++; errno = fault->value; return -1; }
        } else {
            if (fault->value == EINTR && (call == LINK || call == NAME || call == REMOVE)) continue; /* they have no such error */
            state[1]++;
            errno = fault->value;
            return -1;
        }
    }
    return 0;
}

#define REAL(name) static __typeof__(&name) real; if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)
#define AFTER do { if (later) { int kept = errno; kill(getpid(), later); errno = kept; } } while (0)

#define WRAP_OPEN(name) \
int name(const char *path, int flags, ...) { \
    REAL(name); mode_t mode = 0; int later = 0; \
    if (flags & O_CREAT) { va_list list; va_start(list, flags); mode = va_arg(list, mode_t); va_end(list); } \
    if (is_ours(path) && strike(flags & O_CREAT ? CREATE : OPEN, NULL, &later)) return -1; \
    int result = real(path, flags, mode); AFTER; return result; }
WRAP_OPEN(open)
WRAP_OPEN(open64)

#define WRAP_FD(name, type, call, parameters, arguments) \
type name parameters { \
    REAL(name); int later = 0; \
    if (is_our_descriptor(fd) && strike(call, NULL, &later)) return -1; \
    type result = real arguments; AFTER; return result; }
WRAP_FD(fsync, int, SYNC, (int fd), (fd))
WRAP_FD(fdatasync, int, SYNC, (int fd), (fd))
WRAP_FD(flock, int, OTHER, (int fd, int how), (fd, how))
WRAP_FD(fchmod, int, OTHER, (int fd, mode_t mode), (fd, mode))
WRAP_FD(ftruncate, int, WRITE, (int fd, off_t size), (fd, size))
WRAP_FD(ftruncate64, int, WRITE, (int fd, off64_t size), (fd, size))
WRAP_FD(dup, int, OTHER, (int fd), (fd))
WRAP_FD(read, ssize_t, OTHER, (int fd, void *data, size_t size), (fd, data, size))

ssize_t write(int fd, const void *data, size_t size) {
    REAL(write); int later = 0;
    if (is_our_descriptor(fd) && strike(WRITE, &size, &later)) return -1;
    ssize_t result = real(fd, data, size); AFTER; return result;
}

int close(int fd) { /* the descriptor is closed whatever it answers */
    REAL(close); int later = 0;
    int failed = fd > 2 && is_our_descriptor(fd) && strike(CLOSE, NULL, &later), kept = errno;
    int result = real(fd); AFTER;
    if (failed) { errno = kept; return -1; }
    return result;
}

#define WRAP_TWO(name, call) \
int name(const char *from, const char *to) { \
    REAL(name); int later = 0; \
    if (is_ours(to) && strike(call, NULL, &later)) return -1; \
    int result = real(from, to); AFTER; return result; }
WRAP_TWO(rename, NAME)
WRAP_TWO(link, LINK)

int linkat(int a, const char *from, int b, const char *to, int flags) {
    REAL(linkat); int later = 0;
    if (is_ours(to) && strike(LINK, NULL, &later)) return -1;
    int result = real(a, from, b, to, flags); AFTER; return result;
}

int unlink(const char *path) {
    REAL(unlink); int later = 0;
    if (is_ours(path) && strike(REMOVE, NULL, &later)) return -1;
    int result = real(path); AFTER; return result;
}
