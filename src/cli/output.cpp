#include "cli/output.h"

#include <fmt/format.h>
#include <CLI/App.hpp>

#include <algorithm>
#include <iterator>
#include <system_error>

#include "base/atomic_file.h"
#include "base/file_error.h"
#include "base/text.h"
#include "cli/command.h"
#include "plimsoll/error.h"

namespace plimsoll::cli {

Json json_of(const Breakdown& breakdown) {
  Json json;
  for_each_part([&](std::string name, int64_t Breakdown::*part) {
    std::ranges::replace(name, ' ', '_');
    json[name] = breakdown.*part;
  });
  return json;
}

Json json_of(const ProcessMemory& process) {
  const auto known = [](int64_t bytes) { return bytes > 0 ? Json(bytes) : Json(nullptr); };
  return {{"budget_bytes", known(process.budget)},
          {"planned_bytes", known(process.total())},
          {"minimum_bytes", known(process.minimum)},
          {"present_bytes", known(process.present)},
          {"later_bytes", process.later},
          {"arena_bytes", process.arenas}};
}

Json json_of(const std::vector<Resident>& residents) {
  Json list = Json::array();
  for (const Resident& resident : residents)
    list.push_back({{"label", resident.label}, {"role", name_of(resident.role)}, {"bytes", resident.bytes}});
  return list;
}

void Output::add_option_to(CLI::App& command) {
  command
      .add_option("--json", target_, "write the result as JSON to FILE; -: to standard output, without other output")
      ->type_name("FILE|-")
      ->check([](const std::string& name) {
        return name.empty() ? std::string("--json needs a file name, or - for standard output") : "";
      });
}

void Output::require_writable() const {
  cli::require_writable({"--json", target_});
}

void Output::print(const std::string& text) const {
  if (!to_standard_output()) print_result(text);
}

void Output::write(const Json& json) const {
  if (!json_wanted()) return;
  const std::string text = json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  if (to_standard_output()) {
    print_result(text);
  } else {
    write_file_atomically(target_, text);
  }
}

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

// Returns the extension of the files that an option writes; "": it writes none or several.
std::string_view extension_of(std::string_view option) {
  if (option == "--json" || option == "--profile") return ".json";
  if (option == "--html") return ".html";
  return option == "--out" ? ".safetensors" : "";
}

// `plan job.yaml --json memory_budget=12GiB` would write a file of this name, and the override would have no effect.
// `what`: "file" or "folder".
void reject_override(const OutputFile& output, std::string_view what) {
  const std::string word = output.file.string(), extension = output.file.extension().string();
  const size_t equals = word.find('=');
  if (!output.option.starts_with("--") || equals == std::string::npos || !names_a_key(word.substr(0, equals)) ||
      (!extension.empty() && extension == extension_of(output.option)))
    return;
  throw UserError(fmt::format("{} is an override of the job, not a {} name; put a {} name after {}, or write ./{}",
                              in_quotes(word), what, what, output.option, one_line(word)));
}

}  // namespace

void require_outputs_apart(const std::vector<OutputFile>& outputs, const std::filesystem::path& job_file,
                           const Job& job) {
  for (const OutputFile& output : outputs) reject_override(output, "file");
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
  reject_override(folder, "folder");
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

namespace {

Json schedule_json(const AccumulationSchedule& schedule) {
  if (schedule.size() == 1) return schedule.begin()->second;
  Json json = Json::object();
  for (const auto& [epoch, steps] : schedule) json[std::to_string(epoch)] = steps;
  return json;
}

}  // namespace

Json choices_json(const PlannedJob& planned) {
  const ResolvedSettings& settings = planned.settings;
  return {{"micro_batch_size", settings.micro_batch()},
          {"gradient_accumulation_steps", schedule_json(settings.accumulation())},
          {"last_micro_batch", settings.last_micro_batch > 0 ? settings.last_micro_batch : settings.micro_batch()},
          {"gradient_checkpointing", planned.plan.checkpointed},
          {"update_in_backward", planned.plan.update_in_backward},
          {"offload_saved_bytes", planned.plan.offloaded_saved_bytes},
          {"offload_state_bytes", planned.plan.offloaded_state_bytes},
          {"offload_gradient_bytes", planned.plan.offloaded_gradient_bytes},
          {"offload_parameter_bytes", planned.plan.offloaded_parameter_bytes},
          {"host_updates", planned.plan.host_updates},
          {"fused_ops", planned.plan.fused_ops},
          {"precision", name_of(settings.precision)},
          {"state_dtype", name_of(settings.optimizer.state_dtype)},
          {"weight_update", name_of(settings.optimizer.weight_update)},
          {"gradient_accumulation_dtype", name_of(settings.accumulator_dtype)}};
}

Json reasons_json(const Plan& plan) {
  Json reasons = Json::array();
  for (const Reason& reason : plan.reasons) reasons.push_back({{"decision", reason.decision}, {"why", reason.why}});
  return reasons;
}

namespace {

Json json_or_null(const std::optional<int64_t>& value) {
  return value ? Json(*value) : Json();
}

}  // namespace

Json run_length_json(const Job& job, const std::optional<RunLength>& length) {
  return {{"steps", length ? Json(length->steps) : Json()},
          {"training_samples", length ? json_or_null(length->samples) : Json()},
          {"steps_of_epochs", length ? json_or_null(length->steps_of_epochs) : Json()},
          {"schedule_steps", length ? Json(length->schedule_steps) : Json()},
          {"warmup_steps", length ? Json(length->warmup_steps) : Json()},
          {"schedule", job.scheduler.name},
          {"text", describe_run_length(job, length)}};
}

Json device_work_json(const DeviceWork& work) {
  Json copied = Json::array();
  for (const DeviceWork::CopiedResult& each : work.copied_results)
    copied.push_back({{"op", each.op}, {"ops", each.ops}, {"bytes", each.bytes}});
  return {{"captures", work.captures},
          {"sequences", work.sequences},
          {"captured_ops", work.captured_ops},
          {"single_ops", work.single_ops},
          {"refused_sequences", work.refused_sequences},
          {"refusal", work.refusal},
          {"not_captured", work.not_captured},
          {"copied_results", copied}};
}

}  // namespace plimsoll::cli
