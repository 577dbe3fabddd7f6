#include "plimsoll/job.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "base/names.h"
#include "job/keys/distributed_keys.h"
#include "job/keys/kinds.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

std::vector<MissingFile> all_files(const Job& job) {
  std::vector<MissingFile> all;
  const auto add = [&](const char* key, const fs::path& file) {
    if (!file.empty()) all.push_back({key, file});
  };
  for (const fs::path& file : job.data.files) add("data.files", file);
  Job copy = job;
  if (const job::DataKind& kind = job::data_kind(job.data.type); kind.paths)
    for (const job::DataPath& each : kind.paths(copy)) add(each.key, *each.path);
  if (job.data.tokenizer != "bytes") add("data.tokenizer_file", job.data.tokenizer_file);
  return all;
}

// Returns the path as the user would type it.
std::string from_here(const fs::path& path) {
  std::error_code error;
  const fs::path near = fs::proximate(path, error);
  return error || near.empty() || *near.begin() == ".." ? path.string() : near.string();
}

// Returns the command that prepares a file. Data of the repository's examples are in ROOT/.data: texts directly in it,
// an example's own data in a folder of its name.
std::optional<std::string> what_prepares(const fs::path& file) {
  std::error_code error;
  const fs::path whole = fs::weakly_canonical(file, error);
  for (fs::path folder = whole.parent_path(); folder.has_relative_path(); folder = folder.parent_path()) {
    if (folder.filename() != ".data") continue;
    const fs::path root = folder.parent_path(), inside = whole.lexically_relative(folder);
    const bool text = std::next(inside.begin()) == inside.end();
    if (text && is_there(root / "scripts" / "prepare-text.sh")) {
      const std::string here = from_here(root);
      return fmt::format("run 'make text'{}, which fetches it", here == "." ? "" : " in " + here);
    }
    const fs::path prepare = root / "examples" / *inside.begin() / "prepare";
    if (!text && is_there(prepare)) return fmt::format("run {}, which fetches it", from_here(prepare));
  }
  return std::nullopt;
}

}  // namespace

std::vector<MissingFile> missing_data(const Job& job) {
  if (!job::data_kind(job.data.type).from_files)
    return {};  // files of a type that the command line replaced are not read
  std::vector<MissingFile> all = all_files(job);
  std::erase_if(all, [](const MissingFile& each) { return is_there(each.file); });
  return all;
}

std::string remedy_for(const Job& job, const MissingFile& missing) {
  if (const auto made = what_prepares(missing.file)) return *made;
  if (const std::string advice = absent_file_advice(missing.file); !advice.empty()) return advice.substr(2);
  const bool data = missing.key != "data.tokenizer_file" && !job.data.root.empty();
  const fs::path start = data ? job.data.root : job.file.parent_path();
  return fmt::format("relative paths start in {}, {}", start.empty() ? "the current folder" : start.string(),
                     data ? "which is data.root" : "where the job file is");
}

void require_data(const Job& job) {
  std::vector<MissingFile> missing = missing_data(job);
  if (job.data.skip_bad) std::erase_if(missing, [](const MissingFile& each) { return each.key == "data.files"; });
  if (missing.empty()) return;
  const MissingFile& first = missing.front();
  std::error_code ignored;
  if (fs::is_symlink(first.file, ignored))
    throw UserError(fmt::format("{}: {} is a symbolic link to {}, which does not exist or leads back to itself",
                                first.key, first.file.lexically_normal().string(),
                                fs::read_symlink(first.file, ignored).string()));
  throw UserError(fmt::format("{}: {} does not exist{}; {}", first.key, first.file.lexically_normal().string(),
                              missing.size() == 1 ? "" : fmt::format(" ({} files are missing)", missing.size()),
                              remedy_for(job, first)));
}

namespace {

DevicesWord::Kind kind_of(job::DistributedKeyReply::Kind kind) {
  using Kind = job::DistributedKeyReply::Kind;
  if (kind == Kind::meant) return DevicesWord::Kind::key;
  return kind == Kind::taken ? DevicesWord::Kind::needless : DevicesWord::Kind::refused;
}

}  // namespace

std::optional<DevicesWord> devices_word(std::string_view word, std::string_view value) {
  std::optional<job::DistributedKeyReply> answer = job::reply_to_distributed_key(word, value);
  if (!answer) return std::nullopt;
  return DevicesWord{kind_of(answer->kind), std::move(answer->key), std::move(answer->what)};
}

}  // namespace plimsoll
