// Implements plimsoll export: writes the weights of a checkpoint as a safetensors file that other programs read.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <filesystem>
#include <memory>

#include "cli/command.h"
#include "cli/job_arguments.h"
#include "cli/value_checks.h"
#include "plimsoll/bytes.h"
#include "plimsoll/error.h"
#include "plimsoll/export.h"

namespace plimsoll::cli {
namespace {

constexpr const char* kExportExamples =
    "Examples:\n"
    "  plimsoll export job.yaml --out model.safetensors\n"
    "  plimsoll export job.yaml --out merged.safetensors --merge --dtype bfloat16\n"
    "  plimsoll export job.yaml --out model/ --format huggingface\n"
    "  plimsoll export job.yaml --out early.safetensors --checkpoint run1/step-00000100.safetensors\n";

struct ExportArguments {
  JobArguments job;
  std::string out, checkpoint, dtype, format = "safetensors";
  bool merge = false;
};

std::filesystem::path checkpoint_of(const ExportArguments& arguments, const Job& job) {
  if (!arguments.checkpoint.empty()) {
    std::error_code ignored;
    if (std::filesystem::is_directory(arguments.checkpoint, ignored))
      throw UserError(fmt::format("--checkpoint is {}, a folder; {}", arguments.checkpoint,
                                  checkpoint_advice(arguments.checkpoint)));
    return arguments.checkpoint;
  }
  if (job.checkpoint.directory.empty())
    throw UserError(
        "the job has no checkpoint.directory to take the newest checkpoint from; name one with --checkpoint");
  const auto found = checkpoints_in(job.checkpoint.directory);
  if (found.empty())
    throw UserError(fmt::format("there is no checkpoint in {}; train the job first, or name one with --checkpoint",
                                job.checkpoint.directory.string()));
  return found.rbegin()->second;
}

int run_export(const ExportArguments& arguments) {
  if (arguments.format != "safetensors" && arguments.format != "huggingface")
    throw UserError(fmt::format(
        "--format is '{}'; allowed: safetensors, huggingface{}", arguments.format,
        arguments.format == "hf" || arguments.format == "transformers" ? "; did you mean 'huggingface'?" : ""));
  const Job job = arguments.job.read();
  ExportOptions options{.merge = arguments.merge};
  if (!arguments.dtype.empty()) options.dtype = export_dtype(arguments.dtype, "--dtype");
  const std::filesystem::path checkpoint = checkpoint_of(arguments, job);
  std::error_code ignored;
  if (std::filesystem::equivalent(checkpoint, arguments.out, ignored))
    throw UserError(fmt::format("--out is {}, the checkpoint itself; name another file", arguments.out));
  arguments.job.require_outputs_apart(job, {{"--out", arguments.out}});
  arguments.job.output.require_writable();
  if (arguments.format == "safetensors")
    require_writable({"--out", arguments.out});
  else
    require_folder_possible({"--out", arguments.out});
  const ExportFormat format = arguments.format == "huggingface" ? ExportFormat::huggingface : ExportFormat::safetensors;
  const ExportReport report = export_job(job, checkpoint, arguments.out, format, options);
  arguments.job.output.print(fmt::format("{}: {} tensors, {}, of {} (step {}){}\n", arguments.out, report.tensors,
                                         format_bytes(report.bytes), checkpoint.string(), report.step,
                                         report.merged > 0 ? fmt::format("; {} adapters merged", report.merged) : ""));
  for (const std::string& note : report.notes) arguments.job.output.print(note + "\n");
  arguments.job.output.write({{"file", arguments.out},
                              {"checkpoint", checkpoint.string()},
                              {"step", report.step},
                              {"tensors", report.tensors},
                              {"merged", report.merged},
                              {"bytes", report.bytes},
                              {"notes", report.notes}});
  return kDone;
}

}  // namespace

void add_export(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand(
      "export", "write the weights of a checkpoint as a safetensors file or a folder for transformers");
  const auto arguments = std::make_shared<ExportArguments>();
  arguments->job.add_to(*command);
  command->add_option("--out", arguments->out, "file or folder to write")
      ->required()
      ->option_text("PATH")
      ->check(names_a_file());
  command
      ->add_option(
          "--format", arguments->format,
          "safetensors: one file with Plimsoll's names (default); huggingface: a folder that transformers loads")
      ->option_text("safetensors|huggingface")
      ->check(not_empty());
  command
      ->add_option("--checkpoint", arguments->checkpoint,
                   "checkpoint to export; default: the newest in checkpoint.directory")
      ->option_text("FILE")
      ->check(not_empty());
  command
      ->add_option("--dtype", arguments->dtype,
                   "dtype of the exported weights: float32, bfloat16 or float16; default: as in the checkpoint")
      ->option_text("float32|bfloat16|float16")
      ->check(not_empty());
  command->add_flag("--merge", arguments->merge, "merge LoRA adapters into their weights");
  command->footer(kExportExamples);
  command->callback([&action, arguments] { action = [arguments] { return run_export(*arguments); }; });
}

}  // namespace plimsoll::cli
