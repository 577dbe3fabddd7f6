#include "job/infer_types.h"

#include <fmt/format.h>

#include <algorithm>

#include "job/keys/data_kind.h"
#include "job/keys/keys.h"
#include "job/keys/model_kind.h"
#include "plimsoll/error.h"

namespace plimsoll::job {
namespace {

bool holds(const std::vector<std::string>& words, const std::string& word) {
  return std::ranges::find(words, word) != words.end();
}

const Value* given(const std::vector<Value>& values, std::string_view key) {
  const auto found = std::ranges::find(values, key, &Value::key);
  return found == values.end() ? nullptr : &*found;
}

/// Returns true if a model of that kind has all given keys, together with one of its types of data. `data_type`: the
/// named type, or "".
bool could_be(const ModelKind& kind, const std::vector<Value>& values, const std::string& data_type) {
  const auto learns = [&](const std::string& type) { return learns_from(kind, type); };
  if (!data_type.empty() && !learns(data_type)) return false;
  return std::ranges::all_of(values, [&](const Value& value) {
    const Key& key = *find_key(value.key);
    if (key.types.empty()) return true;
    return key.type_key == "model.type" ? holds(key.types, kind.type) : std::ranges::any_of(key.types, learns);
  });
}

/// Returns the first key that such a job has and one of the default kind does not.
const Value& what_tells(const std::vector<Value>& values, const std::string& data_type) {
  const ModelKind& default_kind = model_kinds().front();
  const auto found = std::ranges::find_if(
      values, [&](const Value& value) { return !could_be(default_kind, {value}, value.key == "data.type" ? data_type : ""); });
  check(found != values.end(), "no key tells the type of model");
  return *found;
}

/// Sets the kind that all keys belong to, if they do not all belong to the default kind.
void take_model_type(const std::vector<Value>& values, Job& job, bool data_type_given) {
  const std::string data_type = data_type_given ? job.data.type : "";
  std::vector<const ModelKind*> kinds;
  for (const ModelKind& kind : model_kinds())
    if (could_be(kind, values, data_type)) kinds.push_back(&kind);
  // No kind: the keys contradict each other, which the check of each key reports.
  if (kinds.empty() || kinds.front() == &model_kinds().front()) return;
  const Value& telling = what_tells(values, data_type);
  const std::string place = telling.source->at(telling.node->line);
  if (kinds.size() > 1) {
    std::vector<std::string> types;
    for (const ModelKind* kind : kinds) types.push_back(kind->type);
    refuse(place, fmt::format("model.type is missing; {} is a key of several: set model.type: {}", telling.key,
                              joined(types, ", or model.type: ")));
  }
  job.model.type = kinds.front()->type;
  job.notes.push_back(
      fmt::format("{}: {} says that this is a job of model.type: {}", place, telling.key, job.model.type));
}

/// Sets the model's own type of data, unless a key of another type is given.
void take_data_type(const std::vector<Value>& values, Job& job) {
  for (const std::string& type : model_kind(job.model.type).data_types) {
    const bool all = std::ranges::all_of(values, [&](const Value& value) {
      const Key& key = *find_key(value.key);
      return key.type_key != "data.type" || holds(key.types, type);
    });
    if (!all) continue;
    job.data.type = type;
    return;
  }
}

}  // namespace

void infer_types(const std::vector<Value>& values, Job& job) {
  const Value *model = given(values, "model.type"), *data = given(values, "data.type");
  for (const Value* value : {model, data})
    if (value != nullptr) find_key(value->key)->read(*value, job);
  if (model == nullptr) take_model_type(values, job, data != nullptr);
  if (data == nullptr) take_data_type(values, job);
}

}  // namespace plimsoll::job
