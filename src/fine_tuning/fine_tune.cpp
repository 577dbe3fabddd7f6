#include "fine_tuning/fine_tune.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "base/glob.h"
#include "base/quoted.h"
#include "fine_tuning/foreign_names.h"
#include "plimsoll/error.h"
#include "plimsoll/linear.h"

namespace plimsoll::model {
namespace {

constexpr size_t kPathsShown = 3;

/// The parts of a model by their dotted names.
struct Parts {
  explicit Parts(torch::nn::Module& model) {
    for (const auto& entry : model.named_modules({}, /*include_self=*/false)) {
      modules.push_back(entry.key());
      if (auto* linear = dynamic_cast<LinearImpl*>(entry.value().get())) linears.emplace_back(entry.key(), linear);
    }
    for (const auto& entry : model.named_parameters()) parameters.emplace_back(entry.key(), entry.value());
  }

  std::vector<std::string> modules;
  std::vector<std::pair<std::string, LinearImpl*>> linears;
  std::vector<std::pair<std::string, at::Tensor>> parameters;
};

std::string near_to(const std::string& pattern, const std::vector<std::string>& candidates) {
  return fmt::format("'{}'", fmt::join(nearest_few(pattern, candidates, kPathsShown), "', '"));
}

// Returns all patterns of a key with names of other programs replaced by the model's own: "[layers.*.mlp.up, '*.out']".
std::string translated(const std::vector<std::string>& patterns, const std::vector<std::string>& candidates) {
  std::vector<std::string> all;
  for (const std::string& pattern : patterns) {
    const auto own = own_names(pattern, candidates);
    for (const std::string& each : own && !own->empty() ? *own : std::vector<std::string>{pattern}) {
      const std::string written = each.starts_with('*') ? "'" + each + "'" : each;  // a star opens an alias in YAML
      if (std::ranges::find(all, written) == all.end()) all.push_back(written);
    }
  }
  return fmt::format("[{}]", fmt::join(all, ", "));
}

// Throws UserError if `pattern`, which matches none of `candidates`, is a layer name of other programs that the model
// has under its own name.
void refuse_foreign(const char* key, const std::string& pattern, const std::vector<std::string>& patterns,
                    const std::vector<std::string>& candidates) {
  const auto own = own_names(pattern, candidates);
  if (!own || own->empty()) return;
  const std::string meaning = meaning_of_foreign(pattern);
  throw UserError(fmt::format("{}: {} is a name of other programs; in this model it is '{}'{}: write {}={}", key,
                              in_quotes(pattern), fmt::join(*own, "', '"), meaning.empty() ? "" : ", where " + meaning,
                              key, translated(patterns, candidates)));
}

[[noreturn]] void refuse_unmatched(const char* key, const std::string& pattern,
                                   const std::vector<std::string>& patterns, const Parts& parts) {
  std::vector<std::string> candidates = parts.modules;
  for (const auto& [name, tensor] : parts.parameters) candidates.push_back(name);
  refuse_foreign(key, pattern, patterns, candidates);
  throw UserError(fmt::format("{}: no module and no parameter of the model matches {}; near to it: {}", key,
                              in_quotes(pattern), near_to(pattern, candidates)));
}

/// Sets requires_grad of every parameter that a pattern matches.
void set_trained(const char* key, const std::vector<std::string>& patterns, bool trained, const Parts& parts) {
  for (const std::string& pattern : patterns) {
    bool found = false;
    for (const auto& [name, tensor] : parts.parameters) {
      if (!matches_path(pattern, name)) continue;
      found = true;
      tensor.set_requires_grad(trained);
    }
    if (!found) refuse_unmatched(key, pattern, patterns, parts);
  }
}

// Throws UserError for a pattern that names no module, under a key for linear layers. The message says if other
// programs use the name for a parameter of the model, as "lm_head".
[[noreturn]] void refuse_not_linear(const char* key, const std::string& pattern, const Parts& parts) {
  std::vector<std::string> candidates;
  for (const auto& [name, tensor] : parts.parameters) candidates.push_back(name);
  if (const auto own = own_names(pattern, candidates); own && !own->empty())
    throw UserError(fmt::format("{}: {} is a name of other programs; in this model it is '{}', and {}", key,
                                in_quotes(pattern), fmt::join(*own, "', '"), meaning_of_foreign(pattern)));
  refuse_unmatched(key, pattern, {pattern}, parts);
}

/// Returns the linear layers that the patterns name, in the model's order.
std::vector<std::pair<std::string, LinearImpl*>> linears_of(const char* key, const std::vector<std::string>& patterns,
                                                            const Parts& parts) {
  std::vector<bool> chosen(parts.linears.size(), false);
  for (const std::string& pattern : patterns) {
    bool found = false;
    for (size_t i = 0; i < parts.linears.size(); ++i) {
      if (!matches_path(pattern, parts.linears[i].first)) continue;
      chosen[i] = found = true;
    }
    if (found) continue;
    std::vector<std::string> names;
    for (const auto& [name, linear] : parts.linears) names.push_back(name);
    refuse_foreign(key, pattern, patterns, names);
    if (std::ranges::none_of(parts.modules, [&](const auto& name) { return matches_path(pattern, name); }))
      if (std::ranges::none_of(parts.parameters, [&](const auto& each) { return matches_path(pattern, each.first); }))
        refuse_not_linear(key, pattern, parts);
    throw UserError(fmt::format("{}: {} matches no linear layer; {}", key, in_quotes(pattern),
                                names.empty() ? "the model has no plimsoll::Linear (plimsoll/linear.h), which is "
                                                "what can be adapted and quantized"
                                              : "near to it: " + near_to(pattern, names)));
  }
  // A layer with several names is one layer.
  std::vector<std::pair<std::string, LinearImpl*>> found;
  std::set<const LinearImpl*> known;
  for (size_t i = 0; i < chosen.size(); ++i)
    if (chosen[i] && known.insert(parts.linears[i].second).second) found.push_back(parts.linears[i]);
  return found;
}

}  // namespace

void fine_tune(torch::nn::Module& model, const FineTuning& how, const FineTuneTypes& types) {
  if (!how.any()) return;
  const Parts parts(model);
  const auto adapted = linears_of("lora.modules", how.lora.modules, parts);
  const auto quantized = linears_of("quantize.modules", how.quantize.modules, parts);
  if (!adapted.empty())
    for (const auto& [name, tensor] : parts.parameters) tensor.set_requires_grad(false);
  set_trained("freeze", how.freeze, false, parts);
  set_trained("train", how.train, true, parts);

  for (const auto& [name, linear] : quantized) {
    if (std::ranges::any_of(how.train, [&](const auto& each) { return matches_path(each, name + ".weight"); }))
      throw UserError(
          fmt::format("train: {}.weight is to be trained, and quantize.modules puts it into blocks, which "
                      "cannot be trained; take it from one of them",
                      name));
    linear->quantize(how.quantize);
  }
  for (const auto& [name, linear] : adapted) linear->add_adapter(how.lora, types.adapters);
  if (types.frozen_linear)
    for (const auto& [name, linear] : parts.linears)
      if (!linear->quantized() && !linear->weight().requires_grad()) linear->set_weight_dtype(*types.frozen_linear);

  const auto left = model.parameters();
  if (std::ranges::none_of(left, [](const at::Tensor& each) { return each.requires_grad(); }))
    throw UserError(fmt::format(
        "freeze: nothing is left to train: all {} parameters of the model are frozen; take a pattern from freeze or "
        "quantize, or name in train what is to be trained",
        left.size()));
}

}  // namespace plimsoll::model
