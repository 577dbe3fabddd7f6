// Implements plimsoll completion: writes the completion script of a shell, or the manual page.
#include <CLI/App.hpp>
#include <memory>
#include <string>

#include "cli/about/man_page.h"
#include "cli/about/program_words.h"
#include "cli/about/shells.h"
#include "cli/command.h"
#include "cli/value_checks.h"

namespace plimsoll::cli {
namespace {

constexpr const char* kCompletionExamples =
    "Examples:\n"
    "  source <(plimsoll completion bash)       in ~/.bashrc\n"
    "  source <(plimsoll completion zsh)        in ~/.zshrc, after compinit\n"
    "  plimsoll completion fish | source        in ~/.config/fish/config.fish\n"
    "  plimsoll completion man >plimsoll.1      the manual page; read it: man -l plimsoll.1\n"
    "\n"
    "The installation has these files too (docs/install.md).";

std::string text_of(const CLI::App& app, const std::string& target) {
  if (target == "man") return man_page(app);
  const ProgramWords words = program_words(app);
  return target == "bash" ? bash_completion(words) : target == "zsh" ? zsh_completion(words) : fish_completion(words);
}

}  // namespace

void add_completion(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("completion", "print the completion script of a shell, or the manual page");
  const auto target = std::make_shared<std::string>();
  command->add_option("TARGET", *target, "bash, zsh or fish; or man: the manual page, in the format of troff")
      ->required()
      ->option_text("bash|zsh|fish|man")
      ->check(one_of({"bash", "zsh", "fish", "man"}));
  command->footer(kCompletionExamples);
  command->callback([&app, &action, target] {
    action = [&app, target]() -> int {
      print_result(text_of(app, *target));
      return kDone;
    };
  });
}

}  // namespace plimsoll::cli
