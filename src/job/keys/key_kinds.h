// Declares makers of table entries: one for each kind of value. Type and default of the help text come from the range
// and a default Job, so they cannot differ from them.
#pragma once

#include <fmt/format.h>

#include <charconv>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/names.h"
#include "job/keys/keys.h"

namespace plimsoll::job {

// Returns the part of a job that a member pointer belongs to. The file of each kind of model or data has one for its
// own configuration, in namespace plimsoll, where field() finds it by its arguments.
inline Job& part(Job& job, Job*) {
  return job;
}
inline TrainingOptions& part(Job& job, TrainingOptions*) {
  return job;
}
inline RankOptions& part(Job& job, RankOptions*) {
  return job.ranks;
}
inline LoraConfig& part(Job& job, LoraConfig*) {
  return job.fine_tuning.lora;
}
inline QuantizeConfig& part(Job& job, QuantizeConfig*) {
  return job.fine_tuning.quantize;
}
inline ModelConfig& part(Job& job, ModelConfig*) {
  return job.model;
}
inline DataConfig& part(Job& job, DataConfig*) {
  return job.data;
}
inline OptimizerConfig& part(Job& job, OptimizerConfig*) {
  return job.optimizer;
}
inline SchedulerConfig& part(Job& job, SchedulerConfig*) {
  return job.scheduler;
}
inline CheckpointConfig& part(Job& job, CheckpointConfig*) {
  return job.checkpoint;
}
inline LogConfig& part(Job& job, LogConfig*) {
  return job.log;
}

template <typename Part, typename Type>
Type& field(Job& job, Type Part::*member) {
  return part(job, static_cast<Part*>(nullptr)).*member;
}

template <typename Part, typename Type>
Type default_of(Type Part::*member) {
  Job job;
  return field(job, member);
}

// Makers for a part that a job has in several fields; `place` returns one of them.
template <typename Part>
using Place = std::function<Part&(Job&)>;

template <typename Part>
Key integer_at(std::string key, Place<Part> place, int64_t Part::*member, IntegerRange range, std::string meaning) {
  Job defaults;
  return {{std::move(key), range.text(), std::to_string(place(defaults).*member), std::move(meaning)},
          [=](const Value& value, Job& job) { place(job).*member = read_integer(value, range); }};
}
template <typename Part>
Key number_at(std::string key, Place<Part> place, double Part::*member, NumberRange range, std::string meaning) {
  Job defaults;
  return {{std::move(key), range.text(), fmt::format("{}", place(defaults).*member), std::move(meaning)},
          [=](const Value& value, Job& job) { place(job).*member = read_number(value, range); }};
}
template <typename Part>
Key boolean_at(std::string key, Place<Part> place, bool Part::*member, std::string meaning) {
  Job defaults;
  return {{std::move(key), "true | false", place(defaults).*member ? "true" : "false", std::move(meaning)},
          [=](const Value& value, Job& job) { place(job).*member = read_boolean(value); }};
}
template <typename Part>
Key word_at(std::string key, Place<Part> place, std::string Part::*member, std::vector<std::string> allowed,
            std::string meaning) {
  Job defaults;
  return {{std::move(key), joined(allowed, " | "), place(defaults).*member, std::move(meaning)},
          [=](const Value& value, Job& job) { place(job).*member = read_word(value, allowed); }};
}

/// Returns a key for a path, or a list of paths that is not empty.
template <typename Part>
Key paths(std::string key, std::vector<std::filesystem::path> Part::*member, std::string meaning) {
  return {{std::move(key), "path | list of paths", "(none)", std::move(meaning)}, [=](const Value& value, Job& job) {
            constexpr std::string_view allowed = "a path, or a list of paths that is not empty";
            const bool list = value.node->kind == Node::Kind::list;
            if (list && value.node->items.empty()) value.refuse(allowed);
            std::vector<std::filesystem::path>& all = field(job, member);
            all.clear();
            for (const Node* item : list ? value.node->items : std::vector<const Node*>{value.node}) {
              const Value one = value.with(item);
              if (item->kind == Node::Kind::scalar && item->text.empty()) one.refuse(allowed);
              all.emplace_back(read_text(one, allowed));
            }
          }};
}

template <typename Part>
Key integer(std::string key, int64_t Part::*member, IntegerRange range, std::string meaning) {
  return {{std::move(key), range.text(), std::to_string(default_of(member)), std::move(meaning)},
          [=](const Value& value, Job& job) { field(job, member) = read_integer(value, range); }};
}

/// Returns a key for a whole number, or a word that leaves it empty; the word is the default.
template <typename Part>
Key integer_or(std::string word, std::string key, std::optional<int64_t> Part::*member, IntegerRange range,
               std::string meaning) {
  return {{std::move(key), word + " | " + range.text(), word, std::move(meaning)}, [=](const Value& value, Job& job) {
            field(job, member) =
                value.is(word) ? std::nullopt : std::optional<int64_t>(read_integer(value, range, word));
          }};
}

template <typename Part>
Key number(std::string key, double Part::*member, NumberRange range, std::string meaning) {
  return {{std::move(key), range.text(), fmt::format("{}", default_of(member)), std::move(meaning)},
          [=](const Value& value, Job& job) { field(job, member) = read_number(value, range); }};
}

template <typename Part>
Key boolean(std::string key, bool Part::*member, std::string meaning) {
  return {{std::move(key), "true | false", default_of(member) ? "true" : "false", std::move(meaning)},
          [=](const Value& value, Job& job) { field(job, member) = read_boolean(value); }};
}

template <typename Part>
Key word(std::string key, std::string Part::*member, std::vector<std::string> allowed, std::string meaning) {
  return {{std::move(key), joined(allowed, " | "), default_of(member), std::move(meaning)},
          [=](const Value& value, Job& job) { field(job, member) = read_word(value, allowed); }};
}

/// Returns a key for a path as it is written; the reader makes it relative to the job file. "" is none.
template <typename Part>
Key path(std::string key, std::filesystem::path Part::*member, std::string default_value, std::string meaning) {
  return {{std::move(key), "path", std::move(default_value), std::move(meaning)},
          [=](const Value& value, Job& job) { field(job, member) = read_text(value, "a path, or \"\" for none"); }};
}

/// Returns a word for each value of an enumeration, in its order.
template <typename Value>
std::vector<std::string> words_of(Value last) {
  std::vector<std::string> words;
  for (int i = 0; i <= static_cast<int>(last); ++i) words.emplace_back(name_of(static_cast<Value>(i)));
  return words;
}

/// Reads a pattern of dotted names (base/names.h), or a list of them that may be empty.
inline std::vector<std::string> read_patterns(const Value& value, std::string_view allowed) {
  const bool list = value.node->kind == Node::Kind::list;
  std::vector<std::string> patterns;
  for (const Node* item : list ? value.node->items : std::vector<const Node*>{value.node}) {
    const Value one = value.with(item);
    std::string text = read_text(one, allowed);
    if (text.empty()) one.refuse(allowed);
    if (text.size() > kMaxPatternLength)
      one.refuse_since(
          fmt::format("has a pattern of {} letters; at most {} are allowed", text.size(), kMaxPatternLength));
    patterns.push_back(std::move(text));
  }
  return patterns;
}

}  // namespace plimsoll::job
