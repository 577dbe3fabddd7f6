// Collects the commands, the options and the job keys of the program, for shell completion and the manual page.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
}

namespace plimsoll::cli {

/// Values that an option, an argument or a key can have, in the kinds that a shell can offer.
struct ValueWords {
  enum class Kind { none, any, words, files, folders };
  Kind kind = Kind::none;          ///< none: there is no value
  std::vector<std::string> words;  ///< words of Kind::words
  bool list = false;               ///< several words, separated by commas, are one value
};

struct OptionWords {
  std::vector<std::string> names;  ///< with dashes: "-h", "--help"
  std::string value;               ///< text of the value in the help: "FILE|-"; empty: a flag
  std::string meaning;
  ValueWords values;  ///< Kind::none also for an option whose value may be left out
  bool may_be_repeated = false;
};

struct CommandWords {
  std::string name, meaning;
  std::vector<OptionWords> options;
  bool takes_job = false;  ///< a job file, then overrides
  ValueWords argument;     ///< values of the arguments, for a command without a job file
  std::string argument_name;
};

struct KeyWords {
  std::string name, meaning;
  ValueWords values;
};

struct ProgramWords {
  std::vector<OptionWords> options;  ///< options of the program itself
  std::vector<CommandWords> commands;
  std::vector<KeyWords> keys;  ///< keys of the job file
};

/// Returns the words of `app` and of all its subcommands, and the table of job keys.
ProgramWords program_words(const CLI::App& app);

/// Returns the values that a job key of this type can have: "auto | 32-true | path".
ValueWords values_of_type(std::string_view type);

/// Returns the first part of `meaning`, at most 80 characters, for one line of a menu.
std::string short_meaning(const std::string& meaning);

}  // namespace plimsoll::cli
