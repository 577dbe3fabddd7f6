// Writes the message for a key that does not exist.
#pragma once

#include <string>
#include <vector>

#include "job/values/document.h"

namespace plimsoll::job {

/// Returns the keys of a section, without its name; "": the sections, and the keys outside all sections.
std::vector<std::string> keys_of(const std::string& section);

/// Returns the keys of a section for a line of a message; for a long section some, and the number of the others.
std::string some_keys_of(const std::string& section);

/// Returns "; did you mean 'optimizer.name'?" for a key that does not exist; "" if none is near.
std::string advice_for_unknown_key(const std::string& path);

/// Throws UserError "job.yaml:7:3: unknown key 'optimzer.name'; did you mean 'optimizer.name'?", or with the keys of
/// the section if no key is near. A key of the same name in another section is near ("learning_rate" at the top).
/// `path` is the full name of `entry`.
[[noreturn]] void refuse_unknown_key(std::string path, Node::Entry entry, const Source& source);

}  // namespace plimsoll::job
