#include "train/job/unknown_key.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/nearest.h"
#include "base/quoted.h"
#include "plimsoll/error.h"
#include "train/job/aliases.h"
#include "train/job/keys.h"

namespace plimsoll::job {
namespace {

std::string section_of(const std::string& path) {
  const size_t dot = path.rfind('.');
  return dot == std::string::npos ? "" : path.substr(0, dot);
}

std::string last_of(const std::string& path) {
  return path.substr(path.rfind('.') + 1);
}

std::vector<std::string> key_names() {
  std::vector<std::string> names;
  for (const Key& key : keys()) names.push_back(key.help.key);
  return names;
}

// Words of other programs for what is meant here. They are not taken as names, in which one word has several meanings:
// a "dim" is the model's in one program and a head's in another.
constexpr std::array<std::pair<std::string_view, std::string_view>, 33> kOtherWords = {{
    {"adam_epsilon", "optimizer.eps"},
    {"batch", "batch_size"},
    {"block_size", "data.sequence_length"},
    {"budget", "memory_budget"},
    {"checkpointing", "gradient_checkpointing"},
    {"clip_grad", "max_grad_norm"},
    {"context_length", "data.sequence_length"},
    {"d_ff", "model.intermediate_size"},
    {"d_model", "model.hidden_size"},
    {"dataset", "data.files"},
    {"dim", "model.hidden_size"},
    {"embed_dim", "model.hidden_size"},
    {"epochs", "max_epochs"},
    {"ffn_dim", "model.intermediate_size"},
    {"gpu", "device"},
    {"gpu_memory", "memory_budget"},
    {"grad_clip", "max_grad_norm"},
    {"iterations", "max_steps"},
    {"max_iters", "max_steps"},
    {"max_length", "data.sequence_length"},
    {"max_train_steps", "max_steps"},
    {"memory", "memory_budget"},
    {"n_embd", "model.hidden_size"},
    {"n_head", "model.num_heads"},
    {"n_heads", "model.num_heads"},
    {"n_layer", "model.num_layers"},
    {"n_layers", "model.num_layers"},
    {"num_steps", "max_steps"},
    {"seq_len", "data.sequence_length"},
    {"seq_length", "data.sequence_length"},
    {"steps", "max_steps"},
    {"vram", "memory_budget"},
    {"warmup", "scheduler.warmup_steps"},
}};

/// The key that other programs call by the last word of `path`, in the section that it stands in if that has it; ""
/// where there is none.
std::string known_elsewhere(const std::string& path) {
  const std::string word = last_of(path);
  std::string key;
  if (const Alias* alias = find_alias(word); alias != nullptr) key = alias->key;
  const auto found = std::ranges::find(kOtherWords, word, &std::pair<std::string_view, std::string_view>::first);
  if (found != kOtherWords.end()) key = found->second;
  const std::string here = section_of(path) + "." + last_of(key);
  return find_key(here) != nullptr ? here : key;
}

/// What was probably meant by `path`; "" where nothing is near.
std::string meant_by(const std::string& path) {
  const std::vector<std::string> names = key_names();
  std::vector<std::string> namesakes;
  std::ranges::copy_if(names, std::back_inserter(namesakes),
                       [&](const std::string& name) { return last_of(name) == last_of(path); });
  if (namesakes.size() == 1) return namesakes.front();
  if (std::string key = known_elsewhere(path); !key.empty()) return key;
  std::vector<std::string> candidates = names;
  candidates.insert(candidates.end(), sections().begin(), sections().end());
  return nearest(path, candidates).value_or("");
}

}  // namespace

std::vector<std::string> keys_of(const std::string& section) {
  std::vector<std::string> names;
  for (const std::string& each : sections())
    if (section_of(each) == section) names.push_back(last_of(each));
  for (const std::string& name : key_names())
    if (section_of(name) == section) names.push_back(last_of(name));
  return names;
}

void refuse_unknown_key(std::string path, Node::Entry entry, const Source& source) {
  // Of an unknown section the first key is named: it may belong to a known one.
  if (path.find('.') == std::string::npos && entry.value->kind == Node::Kind::mapping &&
      !entry.value->entries.empty()) {
    entry = entry.value->entries.front();
    path += "." + entry.key;
  }
  const std::string where = fmt::format("{}: unknown key {}", source.at(entry.line, entry.column), in_quotes(path));
  if (const std::string key = meant_by(path); !key.empty())
    throw UserError(fmt::format("{}; did you mean '{}'?", where, key));
  std::string section = section_of(path);
  if (const auto near = nearest(section, sections()))
    section = *near;
  else
    section.clear();
  throw UserError(fmt::format("{}; {}: {}", where, section.empty() ? "the job file has" : "keys of " + section,
                              joined(keys_of(section), ", ")));
}

}  // namespace plimsoll::job
