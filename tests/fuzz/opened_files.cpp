// Definitions of the C library's functions that open files take the place of its own: of libstdc++'s and FFmpeg's calls
// too.
#include "opened_files.h"

#include <dlfcn.h>
#include <fcntl.h>

#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <mutex>
#include <string_view>

namespace plimsoll::fuzz {
namespace {

std::atomic<bool> watching = false;
std::mutex mutex;

std::vector<std::string>& opened() {
  static std::vector<std::string> paths;
  return paths;
}

void note(const char* path) {
  if (!watching.load() || path == nullptr) return;
  const std::string_view text = path;
  for (const std::string_view system :
       {"/proc/", "/sys/", "/dev/null", "/dev/urandom", "/usr/lib/", "/usr/share/", "/lib/", "/etc/localtime"})
    if (text.starts_with(system)) return;
  const std::lock_guard lock(mutex);
  opened().emplace_back(path);
}

template <typename Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

void watch_opened_files(bool on) {
  watching = on;
}

std::vector<std::string> take_opened_files() {
  const std::lock_guard lock(mutex);
  std::vector<std::string> taken;
  taken.swap(opened());
  return taken;
}

}  // namespace plimsoll::fuzz

extern "C" {

#define PLIMSOLL_OPEN(name)                                                           \
  int name(const char* path, int flags, ...) {                                        \
    static const auto real = plimsoll::fuzz::next<int(const char*, int, ...)>(#name); \
    va_list more;                                                                     \
    va_start(more, flags);                                                            \
    const int mode = va_arg(more, int);                                               \
    va_end(more);                                                                     \
    plimsoll::fuzz::note(path);                                                       \
    return real(path, flags, mode);                                                   \
  }
#define PLIMSOLL_OPEN_AT(name)                                                             \
  int name(int at, const char* path, int flags, ...) {                                     \
    static const auto real = plimsoll::fuzz::next<int(int, const char*, int, ...)>(#name); \
    va_list more;                                                                          \
    va_start(more, flags);                                                                 \
    const int mode = va_arg(more, int);                                                    \
    va_end(more);                                                                          \
    plimsoll::fuzz::note(path);                                                            \
    return real(at, path, flags, mode);                                                    \
  }
#define PLIMSOLL_STREAM(name)                                                                   \
  std::FILE* name(const char* path, const char* mode) {                                         \
    static const auto real = plimsoll::fuzz::next<std::FILE*(const char*, const char*)>(#name); \
    plimsoll::fuzz::note(path);                                                                 \
    return real(path, mode);                                                                    \
  }

PLIMSOLL_OPEN(open)
PLIMSOLL_OPEN(open64)
PLIMSOLL_OPEN_AT(openat)
PLIMSOLL_OPEN_AT(openat64)
PLIMSOLL_STREAM(fopen)
PLIMSOLL_STREAM(fopen64)

}  // extern "C"
