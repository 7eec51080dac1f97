/* A host that misbehaves, for tests: preloaded into the program under test, it fails writes below a
 * folder and moves the clock, as the file that TORUS_BAD_HOST names says at the moment of each call:
 *
 *   write ERRNO FOLDER   pwrite, write, fsync, fdatasync and ftruncate of files below FOLDER fail
 *   clock SECONDS        the wall clock is off by so much
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

/* Reads the control file's line of this kind; 0: there is none. */
static int control(const char *kind, long *number, char *folder) {
  const char *path = getenv("TORUS_BAD_HOST");
  FILE *file = path ? fopen(path, "re") : NULL;
  char line[4200], what[16];
  int found = 0;
  while (file && !found && fgets(line, sizeof line, file)) {
    folder[0] = 0;
    found = sscanf(line, "%15s %ld %4095s", what, number, folder) >= 2 && !strcmp(what, kind);
  }
  if (file) fclose(file);
  return found;
}

/* The error that a write to this file meets; 0: none. */
static int write_error(int fd) {
  const int before = errno;
  long error = 0;
  char folder[4096], link[64], path[4096];
  if (fd > 2 && control("write", &error, folder)) {
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    const ssize_t size = readlink(link, path, sizeof path - 1);
    path[size < 0 ? 0 : size] = 0;
    if (strncmp(path, folder, strlen(folder))) error = 0;
  } else {
    error = 0;
  }
  errno = error ? (int)error : before;
  return error != 0;
}

ssize_t pwrite64(int fd, const void *bytes, size_t size, off64_t at) {
  return write_error(fd) ? -1 : REAL(pwrite64)(fd, bytes, size, at);
}
ssize_t pwrite(int fd, const void *bytes, size_t size, off_t at) {
  return write_error(fd) ? -1 : REAL(pwrite)(fd, bytes, size, at);
}
ssize_t write(int fd, const void *bytes, size_t size) {
  return write_error(fd) ? -1 : REAL(write)(fd, bytes, size);
}
int fsync(int fd) { return write_error(fd) ? -1 : REAL(fsync)(fd); }
int fdatasync(int fd) { return write_error(fd) ? -1 : REAL(fdatasync)(fd); }
int ftruncate64(int fd, off64_t size) { return write_error(fd) ? -1 : REAL(ftruncate64)(fd, size); }
int ftruncate(int fd, off_t size) { return write_error(fd) ? -1 : REAL(ftruncate)(fd, size); }

static long clock_offset(void) {
  const int before = errno;
  long seconds = 0;
  char rest[4096];
  if (!control("clock", &seconds, rest)) seconds = 0;
  errno = before;
  return seconds;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
  const int result = REAL(clock_gettime)(clock, now);
  if (result == 0 && clock == CLOCK_REALTIME) now->tv_sec += clock_offset();
  return result;
}
int gettimeofday(struct timeval *restrict now, void *restrict zone) {
  const int result = REAL(gettimeofday)(now, zone);
  if (result == 0) now->tv_sec += clock_offset();
  return result;
}
time_t time(time_t *where) {
  const time_t now = REAL(time)(NULL) + clock_offset();
  if (where) *where = now;
  return now;
}
