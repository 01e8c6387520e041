/* Fails, kills or interrupts a process at its n-th change to files below some folders, or at its n-th reading call.

   Loaded with LD_PRELOAD. Nothing happens before disk_fault_arm() is called. Counts are in shared memory, so that the
   parent of a forked process can read them after its end. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

struct shared {
  long calls;     /* changes, or reading calls, so far */
  long faults;    /* faults so far */
  char last[512]; /* the call with the first fault, and its path */
};

static struct shared *shared;
static char prefixes[8][PATH_MAX];
static int n_prefixes;
static long fault_at;
static int fault_error;  /* an errno, or a negative signal */
static int fault_sticky; /* every later call fails as well; of a signal: a second one follows */
static int counts_reads; /* reading calls count, and no changes */
static int armed;

__attribute__((constructor)) static void start(void) {
  shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}

void disk_fault_arm(const char *folders, long at, int error, int sticky, int reads) {
  char copy[8 * PATH_MAX], *rest = copy, *one;
  snprintf(copy, sizeof copy, "%s", folders);
  for (n_prefixes = 0; n_prefixes < 8 && (one = strsep(&rest, ":"));)
    if (*one) snprintf(prefixes[n_prefixes++], PATH_MAX, "%s", one);
  fault_at = at, fault_error = error, fault_sticky = sticky, counts_reads = reads;
  shared->calls = shared->faults = 0, shared->last[0] = 0;
  armed = 1;
}

long disk_fault_calls(void) { return shared->calls; }
long disk_fault_count(void) { return shared->faults; }
const char *disk_fault_place(void) { return shared->last; }

static int is_below(const char *path) {
  for (int i = 0; i < n_prefixes; i++) {
    size_t n = strlen(prefixes[i]);
    if (!strncmp(path, prefixes[i], n) && (path[n] == '/' || !path[n])) return 1;
  }
  return 0;
}

static int named_by(int descriptor, char *path) {
  char link[64];
  snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  ssize_t n = readlink(link, path, PATH_MAX - 1);
  path[n < 0 ? 0 : n] = 0;
  return n > 0;
}

static void absolute(int folder, const char *path, char *whole) {
  char place[PATH_MAX] = "";
  if (*path == '/') {
    snprintf(whole, PATH_MAX, "%s", path);
    return;
  }
  if (folder == AT_FDCWD) {
    if (!getcwd(place, sizeof place)) place[0] = 0;
  } else {
    named_by(folder, place);
  }
  if (strlen(place) + strlen(path) + 2 > PATH_MAX)
    whole[0] = 0;
  else
    strcat(strcat(strcpy(whole, place), "/"), path);
}

/* Count a call; return 1 if it must fail with errno. */
static int fails(const char *call, const char *path) {
  if (!is_below(path)) return 0;
  long number = __sync_add_and_fetch(&shared->calls, 1);
  int now = number == fault_at || (fault_sticky && fault_at && number > fault_at);
  if (fault_error < 0) now = number == fault_at || (fault_sticky && fault_at && number == fault_at + 5);
  if (!now) return 0;
  if (__sync_fetch_and_add(&shared->faults, 1) == 0) snprintf(shared->last, sizeof shared->last, "%s %s", call, path);
  if (fault_error == -SIGKILL) kill(0, SIGKILL); /* with its workers */
  if (fault_error < 0) {
    kill(getpid(), -fault_error);
    return 0;
  }
  errno = fault_error;
  return 1;
}

static int path_fails(const char *call, int folder, const char *path, int reads) {
  char whole[PATH_MAX];
  if (!armed || reads != counts_reads) return 0;
  int before = errno;
  absolute(folder, path, whole);
  if (fails(call, whole)) return 1;
  errno = before;
  return 0;
}

static int descriptor_fails(const char *call, int descriptor, int reads) {
  char path[PATH_MAX];
  if (!armed || reads != counts_reads) return 0;
  int before = errno;
  if (named_by(descriptor, path) && fails(call, path)) return 1;
  errno = before;
  return 0;
}

#define NEXT(name) ((__typeof__(name) *)dlsym(RTLD_NEXT, #name))

#define OPEN(name, folder, parameters, arguments)                                                                     \
  int name parameters {                                                                                               \
    static __typeof__(name) *next;                                                                                    \
    mode_t mode = 0;                                                                                                  \
    if (!next) next = NEXT(name);                                                                                     \
    if (flags & (O_CREAT | __O_TMPFILE)) {                                                                            \
      va_list more;                                                                                                   \
      va_start(more, flags);                                                                                          \
      mode = va_arg(more, mode_t);                                                                                    \
      va_end(more);                                                                                                   \
    }                                                                                                                 \
    if (path_fails("open", folder, path, !(flags & (O_CREAT | O_TRUNC | O_WRONLY | O_RDWR)))) return -1;              \
    return next arguments;                                                                                            \
  }

OPEN(open, AT_FDCWD, (const char *path, int flags, ...), (path, flags, mode))
OPEN(open64, AT_FDCWD, (const char *path, int flags, ...), (path, flags, mode))
OPEN(openat, folder, (int folder, const char *path, int flags, ...), (folder, path, flags, mode))
OPEN(openat64, folder, (int folder, const char *path, int flags, ...), (folder, path, flags, mode))

#define CHANGE(type, name, parameters, arguments, failure)                                                            \
  type name parameters {                                                                                              \
    static __typeof__(name) *next;                                                                                    \
    if (!next) next = NEXT(name);                                                                                     \
    if (failure) return -1;                                                                                           \
    return next arguments;                                                                                            \
  }

#define FD(call) descriptor_fails(#call, descriptor, 0)
CHANGE(ssize_t, write, (int descriptor, const void *data, size_t n), (descriptor, data, n), FD(write))
CHANGE(ssize_t, pwrite, (int descriptor, const void *data, size_t n, off_t at), (descriptor, data, n, at), FD(write))
CHANGE(ssize_t, pwrite64, (int descriptor, const void *data, size_t n, off64_t at), (descriptor, data, n, at), FD(write))
CHANGE(ssize_t, writev, (int descriptor, const struct iovec *data, int n), (descriptor, data, n), FD(write))
CHANGE(int, fsync, (int descriptor), (descriptor), FD(fsync))
CHANGE(int, fdatasync, (int descriptor), (descriptor), FD(fdatasync))
CHANGE(int, ftruncate, (int descriptor, off_t size), (descriptor, size), FD(truncate))
CHANGE(int, ftruncate64, (int descriptor, off64_t size), (descriptor, size), FD(truncate))

#define READ descriptor_fails("read", descriptor, 1)
CHANGE(ssize_t, read, (int descriptor, void *data, size_t n), (descriptor, data, n), READ)
CHANGE(ssize_t, pread, (int descriptor, void *data, size_t n, off_t at), (descriptor, data, n, at), READ)
CHANGE(ssize_t, pread64, (int descriptor, void *data, size_t n, off64_t at), (descriptor, data, n, at), READ)

#define PATH(call, folder) path_fails(#call, folder, path, 0)
CHANGE(int, mkdir, (const char *path, mode_t mode), (path, mode), PATH(mkdir, AT_FDCWD))
CHANGE(int, mkdirat, (int folder, const char *path, mode_t mode), (folder, path, mode), PATH(mkdir, folder))
CHANGE(int, unlink, (const char *path), (path), PATH(unlink, AT_FDCWD))
CHANGE(int, unlinkat, (int folder, const char *path, int flags), (folder, path, flags), PATH(unlink, folder))
CHANGE(int, rmdir, (const char *path), (path), PATH(rmdir, AT_FDCWD))

CHANGE(int, rename, (const char *path, const char *new), (path, new), PATH(rename, AT_FDCWD))
CHANGE(int, renameat, (int from, const char *path, int to, const char *new), (from, path, to, new), PATH(rename, from))
CHANGE(int, renameat2, (int from, const char *path, int to, const char *new, unsigned flags),
       (from, path, to, new, flags), PATH(rename, from))
