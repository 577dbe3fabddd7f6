// Implements the command line of plimsoll: reads arguments and returns an exit code. Every error ends here, as one
// message.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <sstream>
#include <string>
#include <string_view>

#include "base/text.h"
#include "cli/command.h"
#include "cli/process.h"
#include "cli/screen/terminal.h"
#include "plimsoll/error.h"
#include "plimsoll/machine.h"

namespace plimsoll::cli {
namespace {

constexpr const char* kFooter =
    "Exit codes: 0 done, 1 failed, 2 the job file or the arguments are wrong,\n"
    "3 does not fit.\n"
    "A run that did all its steps but could not write an output exits with 1. A run\n"
    "that is stopped by Ctrl-C, SIGTERM or SIGHUP saves its checkpoint and ends by\n"
    "the signal: 130, 143 or 129 in a shell.\n"
    "Progress goes to standard error, results to standard output.\n"
    "PLIMSOLL_CPU_CAPABILITY=default|avx2|avx512 limits the instructions of CPU\n"
    "kernels.\n"
    "plimsoll COMMAND --help shows the options of a command.";

// Prints a message. Names of files and keys come from outside, so controls are removed and cannot act on the terminal.
// Line breaks stay.
void say(std::string_view message) {
  const std::string clean = without_controls(message, LineBreaks::kept);
  const size_t columns = is_terminal(STDERR_FILENO) ? screen_of(STDERR_FILENO).columns : kAnyWidth;
  print_status(fold("plimsoll: " + clean, columns, 2));
}

int run(int argc, char** argv) {
  CLI::App app(
      "Trains deep networks inside a memory budget. Records a training step without\n"
      "running it, plans the place of every byte, and runs exactly that plan.",
      "plimsoll");
  app.set_version_flag("--version", version_text);
  app.require_subcommand(1);
  app.footer(kFooter);
  Action action;
  add_plan(app, action);
  add_train(app, action);
  add_trace(app, action);
  add_place(app, action);
  add_compare(app, action);
  add_doctor(app, action);
  add_gpus(app, action);
  add_export(app, action);
  add_monitor(app, action);
  add_completion(app, action);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) {  // --help, --version
      std::ostringstream text;
      const int code = app.exit(error, text, std::cerr);
      print_result(fold_columns(text.str(), screen_of(STDOUT_FILENO).columns));
      return code;
    }
    say(describe_parse_error(app, error, {argv + 1, argv + argc}));
    return kUsage;
  }
  own_instructions();  // reports a wrong variable before the work, instead of in the first kernel
  return action();
}

int exit_code_of(UserError::Kind kind) {
  switch (kind) {
    case UserError::Kind::usage:
      return kUsage;
    case UserError::Kind::failure:
      return kFailed;
    case UserError::Kind::does_not_fit:
      return kDoesNotFit;
  }
  return kFailed;
}

int run_and_report(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const UserError& error) {
    say(error.what());
    return exit_code_of(error.kind());
  } catch (const InternalError& error) {
    say(fmt::format("internal error: {}, please report", error.what()));
  } catch (const std::exception& error) {
    // libtorch's messages have a stack trace after their first line.
    const std::string_view message = error.what();
    say(message.substr(0, message.find('\n')));
  }
  return kFailed;
}

// Returns true if main() returns, so that atexit handlers run: LeakSanitizer looks for leaks in one, and profilers
// write their files in one.
bool returns_normally() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return true;
#else
  const char* value = std::getenv("PLIMSOLL_NORMAL_EXIT");
  return value != nullptr && std::string_view(value) == "1";
#endif
}

}  // namespace
}  // namespace plimsoll::cli

int main(int argc, char** argv) {
  plimsoll::cli::open_closed_streams();
  // A write beyond the user's limit (ulimit -f) fails and is reported as an error, instead of ending the program.
  std::signal(SIGXFSZ, SIG_IGN);
  const int code = plimsoll::cli::run_and_report(argc, argv);
  if (plimsoll::cli::returns_normally()) return code;
  // Commands have released what they own. Static objects and detached threads of libraries remain; their destructors
  // and the atexit handlers do not run. Without the destructors of libtorch's registries a command of 0.27 s takes 0.19
  // s, and no thread of a library finds them destroyed.
  std::cout.flush();
  std::cerr.flush();
  std::fflush(nullptr);
  _exit(code);
}
