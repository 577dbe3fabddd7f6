// Declares checks between keys, and writes the message for a key that does not exist. Ranges of single values are in
// the table of keys.
#pragma once

#include <string>
#include <vector>

#include "job/keys/document.h"
#include "job/keys/keys.h"
#include "plimsoll/job.h"

namespace plimsoll::job {

/// Splits "adamw_8bit" into the optimizer and its state_dtype. Throws UserError if optimizer.state_dtype is given and
/// differs.
void resolve_optimizer_name(Job& job, const KeyLocations& locations);

/// Throws UserError for keys of another type of model or data than the job's, heads that do not divide the width, a
/// rotary head of odd width, a tokenizer without its file, checkpoints without a directory, no data, or a job whose
/// bytes or tokens could not be counted in 63 bits. Runs after resolve_batch_sizes: it bounds products with the batch
/// size.
void check_keys_together(const Job& job, const KeyLocations& locations);

/// Adds a note for each given key of another optimizer than the job's: a run would ignore it.
void note_unused_optimizer_keys(Job& job, const KeyLocations& locations);

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
