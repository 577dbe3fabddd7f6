#include "cli/output_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <system_error>

#include "base/atomic_file.h"
#include "base/file_error.h"
#include "base/key_errors.h"
#include "plimsoll/error.h"

namespace plimsoll::cli {
namespace {

std::vector<JobInput> inputs_with(const std::filesystem::path& job_file, const Job& job) {
  std::vector<JobInput> inputs = inputs_of(job);
  inputs.insert(inputs.begin(), {"the job file", job_file});
  return inputs;
}

bool are_one_file(const std::filesystem::path& a, const std::filesystem::path& b) {
  std::error_code error;
  if (std::filesystem::equivalent(a, b, error)) return true;
  const std::filesystem::path whole = std::filesystem::weakly_canonical(a, error);
  return !error && !whole.empty() && whole == std::filesystem::weakly_canonical(b, error) && !error;
}

// Returns true if the file is in a folder of weights, because all files in it are read.
bool is_in_weights(const JobInput& input, const std::filesystem::path& file) {
  std::error_code error;
  return input.name.ends_with(".weights") && std::filesystem::is_directory(input.file, error) &&
         std::filesystem::exists(file, error) &&
         are_one_file(input.file, std::filesystem::absolute(file, error).parent_path());
}

}  // namespace

void require_outputs_apart(const std::vector<OutputFile>& outputs, const std::filesystem::path& job_file,
                           const Job& job) {
  std::vector<OutputFile> given;
  std::ranges::copy_if(outputs, std::back_inserter(given), [](const OutputFile& output) {
    std::error_code error;  // only regular files are overwritten, not a pipe or /dev/null
    return !output.file.empty() && output.file != "-" &&
           (!std::filesystem::exists(output.file, error) || std::filesystem::is_regular_file(output.file, error));
  });
  if (given.empty()) return;
  const std::vector<JobInput> inputs = inputs_with(job_file, job);
  for (size_t i = 0; i < given.size(); ++i) {
    const auto& [option, file] = given[i];
    for (const JobInput& input : inputs)
      if (!input.file.empty() && (are_one_file(file, input.file) || is_in_weights(input, file)))
        throw UserError(fmt::format("{} is {}, which is {}{}: it would be overwritten; name another file", option,
                                    file.string(), is_in_weights(input, file) ? "in " : "", input.name));
    for (size_t other = 0; other < i; ++other)
      if (are_one_file(file, given[other].file))
        throw UserError(
            fmt::format("{} and {} are both {}; name two files", given[other].option, option, file.string()));
  }
}

void require_folder_apart(const OutputFile& folder, bool (*is_written)(const std::string& name),
                          const std::vector<OutputFile>& outputs, const std::filesystem::path& job_file,
                          const Job& job) {
  if (folder.file.empty()) return;
  std::error_code error;
  std::vector<std::filesystem::path> written;  // files of the option that exist already
  for (auto entry = std::filesystem::directory_iterator(folder.file, error);
       !error && entry != std::filesystem::directory_iterator(); entry.increment(error))
    if (is_written(entry->path().filename().string())) written.push_back(entry->path());
  const auto require_apart = [&](const std::string& what, const std::filesystem::path& file) {
    if (file.empty() || file == "-") return;
    const std::filesystem::path parent = std::filesystem::absolute(file, error).parent_path();
    const bool is_there =
        std::ranges::any_of(written, [&](const std::filesystem::path& each) { return are_one_file(each, file); });
    if (is_there || (is_written(file.filename().string()) && are_one_file(parent, folder.file)))
      throw UserError(fmt::format("{} {} writes {}, which is {}; name another folder", folder.option,
                                  folder.file.string(), file.string(), what));
  };
  for (const JobInput& input : inputs_with(job_file, job)) require_apart(input.name, input.file);
  for (const OutputFile& output : outputs) require_apart("the file of " + output.option, output.file);
}

void require_writable(const OutputFile& output) {
  if (output.file.empty() || output.file == "-") return;
  std::error_code ignored;
  // A named pipe's reader would see a writer open and close it, and take that for the end.
  if (std::filesystem::exists(output.file, ignored) && !std::filesystem::is_regular_file(output.file, ignored) &&
      !std::filesystem::is_directory(output.file, ignored))
    return;
  of_key(output.option, [&] { const AtomicFile probe(output.file); });  // never committed: leaves no trace
}

void require_folder_possible(const OutputFile& output) {
  std::error_code error;
  std::filesystem::path folder = std::filesystem::absolute(output.file, error);
  while (folder.has_relative_path() && !std::filesystem::exists(folder, error)) folder = folder.parent_path();
  of_key(output.option, [&] {
    if (!std::filesystem::is_directory(folder, error)) throw_file_error("make the folder", output.file, ENOTDIR);
    const AtomicFile probe(folder / "plimsoll");
  });
}

}  // namespace plimsoll::cli
