// The message for a key that does not exist.
#pragma once

#include <string>
#include <vector>

#include "job/values/document.h"

namespace plimsoll::job {

/// The keys of a section, without its name; "": the sections, and the keys that stand in none.
std::vector<std::string> keys_of(const std::string& section);

/// The same in a line of a message: of a long section some, and how many more there are.
std::string some_keys_of(const std::string& section);

/// "; did you mean 'optimizer.name'?" for a key that does not exist; "" where none is near.
std::string advice_for_unknown_key(const std::string& path);

/// Throws UserError "job.yaml:7:3: unknown key 'optimzer.name'; did you mean 'optimizer.name'?", or with the keys of
/// the section where no key is near. A key of the same name in another section is near ("learning_rate" at the top).
/// `path` is the full name of `entry`.
[[noreturn]] void refuse_unknown_key(std::string path, Node::Entry entry, const Source& source);

}  // namespace plimsoll::job
