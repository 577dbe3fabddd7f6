// Declares the subcommands, their exit codes, the output of results, and the description of errors of the command
// line.
#pragma once

#include <CLI/App.hpp>

#include <functional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace plimsoll::cli {

enum ExitCode : int {
  kDone = 0,
  kFailed = 1,      ///< a file, a disk, a kernel; or a bug of ours
  kUsage = 2,       ///< the job file or the arguments are wrong
  kDoesNotFit = 3,  ///< the budget, or the capacity, is too small
};

/// Runs the chosen subcommand after all arguments were read; returns the exit code.
using Action = std::function<int()>;

/// Add a subcommand to `app`. If it is chosen there, it sets `action`, which must outlive the parsing.
void add_plan(CLI::App& app, Action& action);
void add_train(CLI::App& app, Action& action);
void add_trace(CLI::App& app, Action& action);
void add_doctor(CLI::App& app, Action& action);
void add_compare(CLI::App& app, Action& action);
void add_place(CLI::App& app, Action& action);
void add_gpus(CLI::App& app, Action& action);
void add_export(CLI::App& app, Action& action);
void add_monitor(CLI::App& app, Action& action);
/// Adds the subcommand that writes completion scripts and the manual page. They contain all commands of `app`, which
/// must live until the action has run.
void add_completion(CLI::App& app, Action& action);

/// Returns the manual page of the program: commands with their options and examples, job keys, exit codes, environment
/// variables and files, in the format of troff. A test checks it with groff.
std::string man_page(const CLI::App& app);

/// Returns "plimsoll VERSION" and a line each for commit, libtorch, CUDA, FFmpeg, compiler and instruction sets;
/// without a newline at the end.
std::string version_text();

/// Writes `text` to standard output. Throws UserError (failure) if that fails: results that got lost on a full disk
/// must not end in exit code 0.
void print_result(const std::string& text);

/// Returns one message, without the program's name: the error, the probable intention, and where to read more. `words`
/// are the arguments as typed, without the program.
std::string describe_parse_error(const CLI::App& app, const CLI::ParseError& error,
                                 const std::vector<std::string>& words);

}  // namespace plimsoll::cli
