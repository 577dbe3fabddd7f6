#include "cli/standard_streams.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>

namespace plimsoll::cli {

void open_closed_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(stream, F_GETFD) >= 0 || errno != EBADF) continue;
    // open() returns the lowest free number, which is `stream`, because lower numbers are in use. Messages may get
    // lost, results may not: writing to a stream that is open for reading fails.
    (void)!::open("/dev/null", stream == STDERR_FILENO ? O_WRONLY : O_RDONLY);
  }
}

void ignore_sigpipe() {
  std::signal(SIGPIPE, SIG_IGN);
}

void print_status(std::string_view text) noexcept {
  (void)!std::fwrite(text.data(), 1, text.size(), stderr);
}

}  // namespace plimsoll::cli
