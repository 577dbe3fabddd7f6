#include "job/alias_booleans.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "base/text.h"
#include "plimsoll/error.h"

namespace plimsoll::job {

using Of = PrecisionRequest::Of;

std::string AliasBooleans::Mention::text() const {
  return fmt::format("{}: {}", alias ? alias->name : "precision", one_line(node->text));
}

std::string AliasBooleans::Mention::where() const {
  return fmt::format("{}: {} ({}'s name)", source->at(node->line), alias->name, alias->origin);
}

void AliasBooleans::add_precision(const Node& node, const Source& source) {
  mentions_.push_back({&node, &source, nullptr});
  requests_.push_back({Of::name, true, node.text, mentions_.back().text(), source.at(node.line), source.command_line});
}

void AliasBooleans::add(const Alias& alias, const Node& node, const Source& source) {
  const bool yes = read_boolean({&node, alias.name, &source});
  const Mention mention{&node, &source, &alias};
  if (alias.boolean == Alias::Boolean::cpu) {
    no_cpu_ = yes ? std::nullopt : std::optional(mention);
    return;
  }
  const Of of = alias.boolean == Alias::Boolean::bf16   ? Of::bf16
                : alias.boolean == Alias::Boolean::fp16 ? Of::fp16
                                                        : Of::mixed;
  requests_.push_back({of, yes, "", mention.text(), source.at(node.line), source.command_line});
  mentions_.push_back(mention);
}

AliasBooleans::Precision AliasBooleans::precision(bool float16_weights) const {
  if (std::ranges::all_of(requests_, [](const PrecisionRequest& request) { return request.of == Of::name; })) return {};
  const ResolvedPrecision result = resolve_precision(requests_, float16_weights);
  const bool by_weights = float16_weights && resolve_precision(requests_).word != result.word;
  Precision precision;
  for (const auto& [index, word] : result.applied)
    precision.notes.push_back(fmt::format("{} is precision: {} here{}", mentions_[index].where(), word,
                                          by_weights ? ", as the weights are float16" : ""));
  if (result.word.empty() || requests_[result.decided_by].of == Of::name) return precision;
  precision.word = result.word;
  precision.node = mentions_[result.decided_by].node;
  precision.source = mentions_[result.decided_by].source;
  return precision;
}

std::optional<std::string> AliasBooleans::note_on_device(const Value* device) const {
  constexpr const char* name_one = "name the GPU's kind: device: cuda, rocm or mps";
  if (!no_cpu_) return std::nullopt;
  if (device == nullptr)
    return fmt::format("{} is false, and where no device is given training is on the CPU here; {}", no_cpu_->where(),
                       name_one);
  const bool replaced = device->source->command_line && !no_cpu_->source->command_line;
  if (!device->is("cpu") || replaced) return std::nullopt;
  throw UserError(fmt::format("{}: {} contradicts device: cpu; {}", no_cpu_->source->at(no_cpu_->node->line),
                              no_cpu_->text(), name_one));
}

namespace {

using Requests = std::vector<const PrecisionRequest*>;

constexpr const char* kFloat32 = "32-true";
constexpr const char* kFloat16 = "16-mixed";
constexpr const char* kBfloat16 = "bf16-mixed";
constexpr const char* kBfloat16True = "bf16-true";
constexpr const char* kAuto = "auto";

bool is_mixed(const std::string& word) {
  return word == kFloat16 || word == kBfloat16;
}

bool is_brain(const std::string& word) {
  return word == kBfloat16 || word == kBfloat16True;
}

/// Returns true if a precision agrees with a boolean. An unknown precision is refused when it is read.
bool goes_with(const std::string& word, const PrecisionRequest& boolean) {
  if (word == kAuto) return false;  // auto may choose any precision
  if (word != kFloat32 && !is_mixed(word) && !is_brain(word)) return true;
  const bool so = boolean.of == Of::bf16 ? is_brain(word) : boolean.of == Of::fp16 ? word == kFloat16 : is_mixed(word);
  return so == boolean.yes;
}

bool contradict(const PrecisionRequest& a, const PrecisionRequest& b) {
  if (a.of == Of::name || b.of == Of::name) {
    if (a.of == b.of) return false;  // a key that is given twice is refused by another check of the reader
    return a.of == Of::name ? !goes_with(a.word, b) : !goes_with(b.word, a);
  }
  if (a.of == b.of) return a.yes != b.yes;
  if (a.of != Of::mixed && b.of != Of::mixed) return a.yes && b.yes;
  const PrecisionRequest &mixed = a.of == Of::mixed ? a : b, &kind = a.of == Of::mixed ? b : a;
  return !mixed.yes && kind.yes;
}

[[noreturn]] void refuse_both(const PrecisionRequest& a, const PrecisionRequest& b) {
  const bool open = a.word == kAuto || b.word == kAuto;
  const bool kinds = a.of != Of::name && b.of != Of::name && a.yes && b.yes;
  throw UserError(fmt::format(
      "{}: {} contradicts {}{}; {}", b.place, b.stated, a.stated,
      a.place == b.place || a.command_line ? "" : fmt::format(" ({})", a.place),
      open ? "auto may choose any precision: name one, or leave the other out"
      : kinds
          ? "training is in one of them: leave one out, or in place of both set precision: bf16-mixed or precision: "
            "16-mixed"
          : "leave one of them out"));
}

const PrecisionRequest* request_of(const Requests& requests, Of of, bool yes) {
  const auto found = std::ranges::find_if(
      requests, [&](const PrecisionRequest* request) { return request->of == of && request->yes == yes; });
  return found == requests.end() ? nullptr : *found;
}

void require_agreement(const Requests& requests) {
  for (size_t b = 0; b < requests.size(); ++b)
    for (size_t a = 0; a < b; ++a)
      if (contradict(*requests[a], *requests[b])) refuse_both(*requests[a], *requests[b]);
  const PrecisionRequest *mixed = request_of(requests, Of::mixed, true),
                         *no_bf16 = request_of(requests, Of::bf16, false),
                         *no_fp16 = request_of(requests, Of::fp16, false);
  if (mixed && no_bf16 && no_fp16)
    throw UserError(fmt::format("{}: {} needs bf16 or fp16, but {} and {} forbid both; remove one of the three",
                                mixed->place, mixed->stated, no_bf16->stated, no_fp16->stated));
}

/// Returns the claims of the command line that count: those after the last name, and the last of each boolean.
Requests last_words(const Requests& requests) {
  Requests last;
  for (const PrecisionRequest* request : requests) {
    if (request->of == Of::name) last.clear();
    std::erase_if(last, [&](const PrecisionRequest* other) { return other->of == request->of; });
    last.push_back(request);
  }
  return last;
}

/// Returns `word` after one more claim; "" is the default, which is float32.
std::string after(const std::string& word, const PrecisionRequest& request, const Requests& all, bool float16_weights) {
  const auto mixed_but = [&](Of kind, const char* other) {
    const bool denied = request_of(all, kind == Of::bf16 ? Of::fp16 : Of::bf16, false) != nullptr;
    return request_of(all, Of::mixed, true) && !denied ? other : kFloat32;
  };
  switch (request.of) {
    case Of::name:
      return request.word;
    case Of::bf16:
      if (request.yes) return kBfloat16;
      return is_brain(word) ? mixed_but(Of::bf16, kFloat16) : word;
    case Of::fp16:
      if (request.yes) return kFloat16;
      return word == kFloat16 ? mixed_but(Of::fp16, kBfloat16) : word;
    case Of::mixed:
      if (!request.yes) return kFloat32;
      if (is_mixed(word)) return word;
      return request_of(all, Of::bf16, false) || (float16_weights && !request_of(all, Of::fp16, false)) ? kFloat16
                                                                                                        : kBfloat16;
  }
  return word;
}

}  // namespace

ResolvedPrecision resolve_precision(const std::vector<PrecisionRequest>& requests, bool float16_weights) {
  Requests file, line;
  for (const PrecisionRequest& request : requests) (request.command_line ? line : file).push_back(&request);
  require_agreement(file);
  line = last_words(line);
  // A name that later words replace does not contradict them.
  Requests booleans = line;
  std::erase_if(booleans, [](const PrecisionRequest* request) { return request->of == Of::name; });
  require_agreement(booleans);

  // The order in a file has no meaning: a name decides, then a kind, then mixed, then denials.
  std::ranges::stable_sort(file, {}, [](const PrecisionRequest* request) {
    if (request->of == Of::name) return 3;
    return !request->yes ? (request->of == Of::mixed ? 0 : 1) : request->of == Of::mixed ? 1 : 2;
  });
  ResolvedPrecision result;
  Requests all = file;
  const auto take = [&](const PrecisionRequest* request) {
    std::string word = after(result.word, *request, all, float16_weights);
    const auto index = static_cast<size_t>(request - requests.data());
    const bool changes = word != result.word;
    if (changes) result.decided_by = index;
    result.word = std::move(word);
    if (request->of != Of::name && (request->yes || changes)) result.applied.emplace_back(index, result.word);
  };
  for (const PrecisionRequest* request : file) take(request);
  for (auto& [index, word] : result.applied) word = result.word;
  all.insert(all.end(), line.begin(), line.end());
  for (const PrecisionRequest* request : line) {
    if (request->of != Of::name && !request->yes && result.word == kAuto)
      throw UserError(fmt::format(
          "{}: precision is auto, which may choose any; name one, for example precision=32-true", request->place));
    take(request);
  }
  std::ranges::sort(result.applied);
  return result;
}

}  // namespace plimsoll::job
