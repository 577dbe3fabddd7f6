#include "weights/tied_head.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "base/quoted.h"
#include "plimsoll/bytes.h"
#include "plimsoll/error.h"
#include "weights/decoder_fields.h"
#include "weights/gguf_source.h"
#include "weights/mamba_family.h"
#include "weights/source.h"

namespace plimsoll::weights {
namespace {

constexpr int64_t kComparedAtATime = 4 * MiB;

bool are_equal(const Source& source, const std::string& one, const std::string& other) {
  const Source::Tensor &first = source.tensors().at(one), &second = source.tensors().at(other);
  if (first.sizes != second.sizes || first.dtype != second.dtype || first.sizes.empty()) return false;
  int64_t row_bytes = element_bytes(first.dtype);
  for (size_t i = 1; i < first.sizes.size(); ++i) row_bytes *= first.sizes[i];
  const int64_t count = first.sizes[0], step = std::max<int64_t>(1, kComparedAtATime / std::max<int64_t>(1, row_bytes));
  std::vector<std::byte> first_buffer, second_buffer;
  bool equal = true;
  for (int64_t begin = 0; begin < count && equal; begin += step) {
    const int64_t end = std::min(count, begin + step);
    equal =
        std::ranges::equal(source.rows(one, begin, end, first_buffer), source.rows(other, begin, end, second_buffer));
  }
  source.require_whole(one);
  source.require_whole(other);
  source.release_pages(one);
  source.release_pages(other);
  return equal;
}

std::string note_on_head(const std::filesystem::path& path, const std::string& head) {
  return fmt::format("{}: {} differs from the embedding and is used, although tie_word_embeddings is true",
                     path.string(), head);
}

}  // namespace

std::string untied_head(const std::filesystem::path& path, const Layout& layout) {
  constexpr const char* kHead = "lm_head.weight";
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return "";
  try {
    const std::unique_ptr<Source> source = open_source(path);
    std::string embedding = layout.parameters.front().pieces.front().name;
    if (!source->tensors().contains(kHead)) return "";
    if (!source->tensors().contains(embedding) && embedding.starts_with(layout.optional_prefix))
      embedding = embedding.substr(layout.optional_prefix.size());
    if (!source->tensors().contains(embedding)) return "";
    return are_equal(*source, kHead, embedding) ? "" : kHead;
  } catch (const UserError&) {
    return "";
  }
}

void compare_with_weights(const std::filesystem::path& path, Architecture& found) {
  std::error_code error;
  const bool folder = std::filesystem::is_directory(path, error), gguf = is_gguf(path);
  if (found.config.tie_embeddings && !gguf) {
    const std::string head = untied_head(path, layout_of(found.family, found.config));
    found.config.tie_embeddings = head.empty();
    if (!head.empty()) found.notes.push_back(note_on_head(path, head));
  }
  const std::vector<std::string> unread = notes_on_unread_weights(path);
  found.notes.insert(found.notes.end(), unread.begin(), unread.end());
  if (!gguf && !(folder && std::filesystem::exists(path / "config.json", error))) return;
  std::vector<std::string> others;
  try {
    const Architecture own = gguf ? read_gguf_architecture(path) : read_architecture(path);
    others = differences(own.config, found.config);
    std::erase_if(others, [&](const std::string& each) { return each.starts_with("tie_embeddings:") && !gguf; });
  } catch (const UserError& problem) {
    others.emplace_back(problem.what());
  }
  if (!others.empty())
    found.notes.push_back(fmt::format("model.config is used in place of the settings in {}, which differ: {}",
                                      path.string(), few_names(others)));
}

void compare_with_weights(const std::filesystem::path& path, MambaConfig& found, std::vector<std::string>* notes) {
  if (found.tie_embeddings) {
    const std::string head = untied_head(path, mamba_layout_of(found));
    found.tie_embeddings = head.empty();
    if (!head.empty() && notes) notes->push_back(note_on_head(path, head));
  }
  if (!notes) return;
  const std::vector<std::string> unread = notes_on_unread_weights(path);
  notes->insert(notes->end(), unread.begin(), unread.end());
}

}  // namespace plimsoll::weights
