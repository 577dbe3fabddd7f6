// Reads YAML text and overrides into a checked Job:
//
//     load_document -> flatten to key and value -> overrides replace -> the table reads each -> checks between keys
//
// Nested mappings and dotted keys mean the same ("optimizer: {name: sgd}", "optimizer.name: sgd"), so an override is
// read like a one-line file.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <deque>
#include <fstream>
#include <list>
#include <map>
#include <set>
#include <system_error>

#include "base/file_error.h"
#include "base/names.h"
#include "base/text.h"
#include "job/alias_booleans.h"
#include "job/batch_sizes.h"
#include "job/checks.h"
#include "job/inferred.h"
#include "job/keys/aliases.h"
#include "job/keys/distributed_keys.h"
#include "job/keys/document.h"
#include "job/keys/keys.h"
#include "job/keys/kinds.h"
#include "plimsoll/error.h"
#include "plimsoll/job.h"

namespace plimsoll {
namespace job {
namespace {

bool is_section(std::string_view name) {
  return std::ranges::find(sections(), name) != sections().end();
}

/// Returns "seed" for "training.seed": a key at the top of the job file may be in a section `training` too. Returns
/// nullopt for other names.
std::optional<std::string> key_in_training_section(std::string_view name) {
  constexpr std::string_view kSection = "training.";
  if (!name.starts_with(kSection)) return std::nullopt;
  const std::string_view key = name.substr(kSection.size());
  if (key.find('.') != std::string_view::npos || find_key(key) == nullptr) return std::nullopt;
  return std::string(key);
}

/// Returns a note on a budget of a few digits without a unit: "256" means bytes, which is seldom intended.
std::optional<std::string> missing_unit_note(const Value& value) {
  constexpr std::array kBudgets = {"memory_budget", "process_budget", "host_memory_budget", "disk_budget"};
  constexpr size_t kFewDigits = 6;
  const std::string& text = value.node->text;
  if (std::ranges::find(kBudgets, value.key) == kBudgets.end() || value.node->kind != Node::Kind::scalar ||
      text.empty() || text.size() > kFewDigits || text == "0" ||
      !std::ranges::all_of(text, [](unsigned char c) { return std::isdigit(c); }))
    return std::nullopt;
  return fmt::format("{}: {} is {} bytes; write the unit if more is meant, for example {}MiB",
                     value.source->at(value.node->line), value.key, text, text);
}

/// The given keys, in order. A later key replaces an earlier one of the same name.
class Assignments {
 public:
  /// Adds the keys of `node` at `path` ("" is the whole file). Throws UserError for an unknown key, a section that is
  /// not a mapping, and a key given twice in the same text.
  void add(const std::string& path, const Node& node, const Source& source) {
    const bool other_section =
        !is_section(path) && !find_key(path) && node.kind == Node::Kind::mapping && is_alias_section(path);
    if (!path.empty() && !is_section(path) && !other_section) {
      if (const auto key = key_in_training_section(path))
        return put_alias({path, "a training section", *key}, path, node, source);
      if (!find_key(path)) return put_alias(*find_alias(path), path, node, source);
      put(path, in_our_words(path, node, source), source);
      return;
    }
    // A section whose keys are all commented out is empty.
    if (node.kind == Node::Kind::null && !source.command_line) return;
    if (const std::string main = main_key_of(path); node.kind == Node::Kind::scalar && !main.empty()) {
      require_taken(main, node, source);
      notes_.push_back(fmt::format("{}: {} is {} here", source.at(node.line), path, main));
      put(main, node, source);
      return;
    }
    if (node.kind != Node::Kind::mapping) refuse_section(path, node, source);
    for (const Node::Entry& entry : node.entries) {
      const std::string name = path.empty() ? with_section(entry.key) : path + "." + entry.key;
      if (!known(name, entry.value->kind)) refuse_unknown_key(name, entry, source);
      add(name, *entry.value, source);
    }
  }

  /// Resolves booleans of other programs together with our keys of the same subject; called after the last add().
  /// Throws UserError for contradictions.
  void settle() {
    const auto given = [&](const char* key) {
      const auto found = index_.find(key);
      return found == index_.end() ? nullptr : &values_[found->second];
    };
    const bool float16_weights =
        std::ranges::any_of(std::array{"model.dtype", "model.llm.dtype"}, [&](const char* key) {
          const Value* const type = given(key);
          return type && type->is("float16");
        });
    const AliasBooleans::Precision precision = booleans_.precision(float16_weights);
    notes_.insert(notes_.end(), precision.notes.begin(), precision.notes.end());
    if (!precision.word.empty()) {
      const Node& by = *precision.node;
      const Node& node = made_.emplace_back(Node{Node::Kind::scalar, precision.word, {}, {}, by.line, by.column});
      const auto [found, is_new] = index_.emplace("precision", values_.size());
      if (is_new) values_.emplace_back();
      values_[found->second] = {&node, "precision", precision.source};
    }
    if (const auto note = booleans_.note_on_device(given("device"))) notes_.push_back(*note);
  }

  const std::vector<Value>& values() const { return values_; }
  const std::vector<std::string>& notes() const { return notes_; }
  /// Records the location of a key, and the name by which it was given.
  void note_conversions(const Value& value, KeyLocations& locations) const {
    locations.set(value.key, value.source->at(value.node->line), value.source->command_line);
    if (in_file_.contains(value.key)) locations.set_in_file(value.key);
    if (const auto word = words_.find(value.key); word != words_.end()) locations.set_word(value.key, word->second);
  }

  /// Returns names of sections in our spelling: "MODEL.hidden_dim" and "MODEL" become "model.hidden_dim" and "model".
  /// Other names do not change.
  static std::string with_section(const std::string& name) {
    const size_t end = std::min(name.find('.'), name.size());
    std::string section = name.substr(0, end);
    std::ranges::transform(section, section.begin(),
                           [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return is_section(section) || is_alias_section(section) ? section + name.substr(end) : name;
  }

  /// Returns true for a key, a section, or another program's name for one.
  static bool known(const std::string& name, Node::Kind kind) {
    return is_section(name) || find_key(name) || key_in_training_section(name) || find_alias(name) ||
           (kind == Node::Kind::mapping && is_alias_section(name));
  }

 private:
  /// Returns a node with our word for another program's precision, devices or strategy: "bf16-mixed", "2", "zero3" for
  /// "bf16", "[0, 1]", "fsdp". Adds a note about it. Returns `node` itself for every other key and value.
  const Node& in_our_words(const std::string& key, const Node& node, const Source& source) {
    const Value value{&node, key, &source};
    const auto word = key == "precision" ? canonical_value(value) : canonical_distributed_value(value);
    if (!word) return node;
    const std::string stated = node.kind == Node::Kind::scalar ? ": " + one_line(node.text) : "";
    notes_.push_back(fmt::format("{}: {}{} is {}: {} here", source.at(node.line), key, stated, key, *word));
    return made_.emplace_back(Node{Node::Kind::scalar, *word, {}, {}, node.line, node.column});
  }

  void put_alias(const Alias& alias, const std::string& name, const Node& node, const Source& source) {
    const std::string where = fmt::format("{}: {} ({}'s name)", source.at(node.line), name, alias.origin);
    if (alias.key.empty()) {
      if (alias.convert) {
        if (const auto stated = alias.convert({&node, name, &source})) notes_.push_back(where + " " + *stated);
        return;
      }
      if (says_no(node)) return;
      throw UserError(fmt::format("{} is no key here; {}", where, alias.advice));
    }
    if (alias.boolean != Alias::Boolean::none) booleans_.add(alias, node, source);
    if (alias.key == "precision" && alias.boolean != Alias::Boolean::none) return;  // resolved when all keys are known
    const Node* value = &node;
    if (alias.convert) {
      const auto converted = alias.convert({&node, name, &source});
      if (!converted) return;  // it denies a feature that is off anyway
      value = &made_.emplace_back(Node{Node::Kind::scalar, *converted, {}, {}, node.line, node.column});
    }
    const bool same = value == &node;
    notes_.push_back(fmt::format("{} is {}{} here", where, alias.key, same ? "" : ": " + value->text));
    if (stated_before(alias, *value, source)) return;
    put(alias.key, same ? in_our_words(alias.key, node, source) : *value, source);
    words_[alias.key] = name;
    if (alias.general) general_.insert(alias.key);
  }

  /// Returns true if the same text has the same value already by another word ("num_gpus: 8" and "world_size: 8"), or a
  /// more exact one ("fsdp: full_shard" and "distributed_type: FSDP").
  bool stated_before(const Alias& alias, const Node& node, const Source& source) const {
    if (alias.key != "devices" && alias.key != "strategy") return false;
    const auto found = index_.find(alias.key);
    if (found == index_.end()) return false;
    const Value& before = values_[found->second];
    return before.source == &source && (alias.general || before.is(node.text));
  }

  /// Returns true if the value denies: load_in_4bit: false needs no feature of ours.
  static bool says_no(const Node& node) {
    const Value value{&node, "", nullptr};
    return node.kind == Node::Kind::null || std::ranges::any_of(std::array{"false", "no", "off", "none", "0"},
                                                                [&](const char* no) { return value.is(no); });
  }

  void put(const std::string& key, const Node& node, const Source& source) {
    words_.erase(key);
    const bool general_before = general_.erase(key) > 0;
    if (!source.command_line) in_file_.insert(key);
    if (key == "precision" && node.kind == Node::Kind::scalar) booleans_.add_precision(node, source);
    const auto [found, is_new] = index_.emplace(key, values_.size());
    if (is_new) {
      values_.push_back({&node, key, &source});
      return;
    }
    Value& value = values_[found->second];
    if (value.source == &source && !general_before)
      throw UserError(fmt::format("{}: {} is given twice; the first is at {}", source.at(node.line, node.column), key,
                                  source.at(value.node->line, value.node->column)));
    value = {&node, key, &source};
  }

  [[noreturn]] static void refuse_section(const std::string& path, const Node& node, const Source& source) {
    const std::string what = node.kind == Node::Kind::list     ? "a list"
                             : node.kind == Node::Kind::scalar ? in_quotes(node.text)
                                                               : "empty";
    if (path.empty()) {
      const bool assigned = node.kind == Node::Kind::scalar && node.text.find('=') != std::string::npos;
      throw UserError(
          fmt::format("{}: a job file is a mapping of keys to values, as in 'max_steps: 100', and this is {}{}",
                      source.at(node.line, node.column), what,
                      assigned                        ? "; write a colon and a space in place of ="
                      : node.kind == Node::Kind::list ? "; leave the '- ' before its keys out"
                                                      : ""));
    }
    const bool switched_on = node.kind == Node::Kind::scalar && (path == "lora" || path == "quantize");
    throw UserError(fmt::format("{}: {} is {}; it is a section, with keys of its own: {}{}", source.at(node.line), path,
                                what, some_keys_of(path),
                                !switched_on          ? ""
                                : source.command_line ? fmt::format("; for example '{}.modules=[\"*.qkv\"]'", path)
                                                      : fmt::format("; for example {}.modules: ['*.qkv']", path)));
  }

  /// Returns the key that a word in place of a section means: "optimizer.name" for "optimizer: adamw". "": none.
  static std::string main_key_of(std::string_view section) {
    for (const char* key :
         {"model.type", "data.files", "optimizer.name", "scheduler.name", "checkpoint.directory", "log.metrics_file"})
      if (section == std::string_view(key).substr(0, std::string_view(key).find('.'))) return key;
    return "";
  }

  /// Throws UserError if the key does not take the value of its section.
  static void require_taken(const std::string& key, const Node& node, const Source& source) {
    // "model: 32" and "checkpoint: true" name nothing.
    const auto begins_like_a_name = [](unsigned char c) { return std::isalpha(c) || c == '.' || c == '/' || c == '~'; };
    if (node.text.empty() || !begins_like_a_name(node.text.front()) || node.text == "true" || node.text == "false")
      refuse_section(key.substr(0, key.find('.')), node, source);
    Job job;
    read_as(*find_key(key), {&node, key, &source}, job);
  }

  std::vector<Value> values_;
  std::map<std::string, size_t> index_;
  std::map<std::string, std::string> words_;  // the name that a key was given by, if it is another program's
  std::set<std::string> in_file_;             // keys that the file gives
  std::set<std::string> general_;             // keys given by a word over which other words have priority
  AliasBooleans booleans_;
  std::deque<Node> made_;  // values in our words
  std::vector<std::string> notes_;
};

void make_relative_to(const std::filesystem::path& directory, Job& job) {
  const auto place = [&](std::filesystem::path& path) {
    if (!path.empty()) path = directory / path;
  };
  place(job.data.root);
  const std::filesystem::path& root = job.data.root.empty() ? directory : job.data.root;
  const auto place_data = [&](std::filesystem::path& path) {
    if (!path.empty()) path = root / path;
  };
  for (std::filesystem::path& file : job.data.files) place_data(file);
  if (job.data.cache_dir.empty()) job.data.cache_dir = ".plimsoll-cache";
  place(job.data.cache_dir);
  place(job.data.tokenizer_file);
  if (const DataKind& kind = data_kind(job.data.type); kind.paths)
    for (const DataPath& each : kind.paths(job)) place_data(*each.path);
  place(job.model.weights);
  place(job.model.config);
  place(job.model.llm_weights);
  place(job.model.llm_config);
  place(job.model.vision_weights);
  place(job.model.vision_config);
  place(job.checkpoint.directory);
  place(job.log.metrics_file);
  place(job.disk_path);
  if (job.checkpoint.resume != "auto" && job.checkpoint.resume != "never")
    job.checkpoint.resume = (directory / job.checkpoint.resume).string();
}

/// Returns "; name a file in it, such as 'examples/job.yaml'", if there is one.
std::string a_file_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  std::filesystem::directory_iterator entries(folder, error);
  for (; !error && entries != std::filesystem::directory_iterator(); entries.increment(error))
    if (const std::filesystem::path file = entries->path(); file.extension() == ".yaml" || file.extension() == ".yml")
      names.push_back(file.string());
  if (names.empty()) return "; name a YAML file";
  return fmt::format("; name a file in it, such as {}", in_quotes(*std::ranges::min_element(names)));
}

/// Returns a file's text; at most one byte more than a document may have.
std::string read_text_file(const std::filesystem::path& file) {
  const std::string name = in_quotes(file.string());
  std::error_code error;
  if (std::filesystem::is_directory(file, error))
    throw UserError(fmt::format("job file {} is a folder{}", name, a_file_in(file)));
  errno = 0;
  std::ifstream stream(file, std::ios::binary);
  if (const int problem = errno; !stream)
    throw UserError(fmt::format("cannot open job file {}: {}{}", name, std::generic_category().message(problem),
                                problem == ENOENT ? nearest_file_advice(file) : ""),
                    kind_of_file_error(problem));
  std::string text(kMaxDocumentLength + 1, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (stream.bad()) throw UserError(fmt::format("cannot read job file {}", name), UserError::Kind::failure);
  text.resize(static_cast<size_t>(stream.gcount()));
  return text;
}

/// Implements parse_job(), whose errors may contain any text of the file.
Job job_of(const std::string& yaml, const std::string& name, const std::filesystem::path& directory,
           const std::vector<std::string>& overrides) {
  // Values point into sources and documents; elements of lists do not move.
  std::list<Source> sources;
  std::list<Document> documents;
  Assignments assignments;

  sources.push_back({name, false});
  documents.push_back(load_document(yaml, sources.back()));
  if (documents.back().root) assignments.add("", *documents.back().root, sources.back());

  for (const std::string& text : overrides) {
    const size_t equals = text.find('=');
    sources.push_back({"command line: " + one_line(text), true});
    const Source& source = sources.back();
    if (equals == std::string::npos || equals == 0)
      throw UserError(
          fmt::format("command line: {} is not an override; write key.path=value, for example "
                      "optimizer.name=sgd",
                      in_quotes(text)));
    const std::string key = Assignments::with_section(text.substr(0, equals));
    documents.push_back(load_document(text.substr(equals + 1), source));
    Document& document = documents.back();
    if (!document.root) document.root = &document.nodes.emplace_back();
    if (!Assignments::known(key, document.root->kind)) refuse_unknown_key(key, {key, document.root}, source);
    assignments.add(key, *document.root, source);
  }

  assignments.settle();
  Job job;
  job.notes = assignments.notes();
  KeyLocations locations(name);
  infer_types(assignments.values(), job);  // first, because the type decides how other keys are read
  for (const Value& value : assignments.values()) {
    read_as(*find_key(value.key), value, job);
    assignments.note_conversions(value, locations);
    if (const auto note = missing_unit_note(value)) {
      job.notes.push_back(*note);
      // 9999 bytes train nothing.
      job.budget_lacks_unit |= value.key == "memory_budget" && value.node->text.size() <= 4;
    }
  }
  resolve_optimizer_name(job, locations);
  resolve_batch_sizes(job, locations);
  apply_architecture(job, locations, directory);
  use_tokenizer_of_weights(job, locations, directory);
  check_keys_together(job, locations);
  note_unused_optimizer_keys(job, locations);
  make_relative_to(directory, job);
  if (const auto note = learning_rate_note(job)) job.notes.push_back(*note);
  return job;
}

}  // namespace
}  // namespace job

Job parse_job(const std::string& yaml, const std::string& name, const std::filesystem::path& directory,
              const std::vector<std::string>& overrides) {
  return with_clean_errors([&] { return job::job_of(yaml, name, directory, overrides); });
}

Job read_job(const std::filesystem::path& file, const std::vector<std::string>& overrides) {
  return with_clean_errors([&] {
    const std::string text = job::read_text_file(file);
    if (text.empty() && overrides.empty())
      throw UserError(fmt::format("{} is empty; docs/job-file.md begins with a job file to copy", file.string()));
    Job job = job::job_of(text, file.string(), file.parent_path(), overrides);
    job.file = file;
    return job;
  });
}

}  // namespace plimsoll
