// Implements plimsoll doctor: the properties of this machine, and the speed that plans assume.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <memory>

#include "base/text.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/screen/table.h"
#include "cli/screen/terminal.h"
#include "cli/value_checks.h"
#include "plimsoll/bytes.h"
#include "plimsoll/machine.h"

namespace plimsoll::cli {
namespace {

constexpr const char* kDoctorExamples =
    "Examples:\n"
    "  plimsoll doctor               measure once; later calls show the stored rates\n"
    "  plimsoll doctor --again       measure again, after a change of the machine\n"
    "  plimsoll doctor --threads 1 --json -\n";

struct DoctorArguments {
  int threads = 0;
  bool again = false;
  bool force = false;
  Output output;
};

constexpr std::array<DType, 3> kTypes = {DType::float32, DType::bfloat16, DType::float16};

std::string rate_text(const OpRate& rate) {
  if (rate.flops > 0) return short_count(rate.flops) + "FLOP/s";
  return short_count(rate.bytes) + "B/s";
}

std::string product_text(const std::string& kernel) {
  return kernel.empty() ? "not from oneDNN" : "oneDNN's " + kernel;
}

std::string own_kernels(const CpuInstructions& used) {
  if (used.plimsoll == used.plimsoll_highest) return used.plimsoll;
  return fmt::format("{} (PLIMSOLL_CPU_CAPABILITY; the processor has {})", used.plimsoll, used.plimsoll_highest);
}

// Returns where the rates are from, and whether later plans use them.
std::string rates_from(const MachineReport& report) {
  if (!report.measured_now) return fmt::format("from the file: {}", report.cost.source);
  const std::string text =
      report.cost.source == "measured" ? "measured now" : fmt::format("{}, now", report.cost.source);
  if (report.stored || report.folder.empty()) return text;
  if (report.shared_processors <= kMaxSharedProcessors) return text + "; they could not be stored";
  return text +
         "; not stored, because they are lower than those of a quiet machine: run doctor again when the others have "
         "ended, or "
         "with --force";
}

// Returns "712 TFLOP/s (catalogue: 690 TFLOP/s)".
std::string with_catalogue(const OpRate& measured, const OpRate& known) {
  return fmt::format("{} (catalogue: {})", rate_text(measured), rate_text(known));
}

std::string text_of(const DeviceReport& report, const Screen& screen) {
  Table table({{""}, {.fit = Fit::fold, .min_width = 20}}, fmt::format("Device {}", report.device));
  table.add_row({"name", report.name.empty() ? "not usable" : without_controls(report.name)});
  if (!report.failure.empty()) table.add_row({"failure", without_controls(report.failure)});
  if (report.cost.source == "measured") {
    table.add_row({"rates", report.measured_now ? (report.stored ? "measured now" : "measured now; not stored")
                                                : "from the file: measured"});
    for (const auto& [kind, dtype] : {std::pair{OpKind::product, DType::bfloat16},
                                      {OpKind::product, DType::float32},
                                      {OpKind::attention, DType::bfloat16},
                                      {OpKind::loss_head, DType::bfloat16},
                                      {OpKind::streaming, DType::float32},
                                      {OpKind::update, DType::float32}})
      table.add_row({fmt::format("{}, {}", name_of(kind), name_of(dtype)),
                     with_catalogue(report.cost.rate(kind, dtype), report.catalogue.rate(kind, dtype))});
    table.add_row({"overhead per op", short_seconds(report.cost.overhead_seconds)});
    table.add_row({"copies from host memory", short_count(report.cost.host_link) + "B/s"});
    for (const std::string& each : report.refused) table.add_row({"not measured", without_controls(each)});
  }
  const DeviceWork& work = report.work;
  if (work.captures)
    table.add_row(
        {"captured ops of a small training", fmt::format("{} of {}, in {} sequences", work.captured_ops,
                                                         work.captured_ops + work.single_ops, work.sequences)});
  if (work.refused_sequences > 0) table.add_row({"refused sequences", without_controls(work.refusal)});
  for (const std::string& segment : work.not_captured) table.add_row({"not captured", segment});
  for (const DeviceWork::CopiedResult& each : work.copied_results)
    table.add_row({"results copied to their places",
                   fmt::format("{} ops of {}, {} each time", each.ops, each.op, format_bytes(each.bytes))});
  return "\n" + table.to_string(screen);
}

Json json_of(const DeviceReport& report) {
  const auto rates_of = [](const CostModel& cost) {
    Json rates = Json::object();
    for (int kind = 0; kind < kOpKinds; ++kind)
      for (const DType dtype : kTypes) {
        const OpRate& rate = cost.rate(static_cast<OpKind>(kind), dtype);
        rates[std::string(name_of(static_cast<OpKind>(kind)))][std::string(name_of(dtype))] = {
            {"flops_per_second", rate.flops}, {"bytes_per_second", rate.bytes}};
      }
    return rates;
  };
  return {{"device", report.device},
          {"name", report.name},
          {"measured_now", report.measured_now},
          {"stored", report.stored},
          {"failure", report.failure},
          {"refused", report.refused},
          {"overhead_seconds", report.cost.overhead_seconds},
          {"copy_bytes_per_second", report.cost.host_link},
          {"rates", rates_of(report.cost)},
          {"catalogue_rates", rates_of(report.catalogue)},
          {"work", device_work_json(report.work)}};
}

std::string text_of(const MachineReport& report, const CpuInstructions& used, const Screen& screen) {
  Table machine({{""}, {.fit = Fit::fold, .min_width = 20}}, "This machine");
  machine.add_row({"processor", report.processor});
  const auto known = [](const std::string& words) { return words.empty() ? std::string("not known") : words; };
  machine.add_row({"instructions, own kernels", own_kernels(used)});
  machine.add_row({"instructions, libtorch", used.libtorch});
  machine.add_row({"instructions, oneDNN", known(used.onednn)});
  machine.add_row({"instructions, MKL", known(used.mkl)});
  machine.add_row({"bfloat16 matmul kernel", product_text(used.bfloat16_product)});
  machine.add_row({"float16 matmul kernel", product_text(used.float16_product)});
  for (const KernelChoice& each : kernel_choices())
    machine.add_row({fmt::format("kernel of {}", each.op), fmt::format("{}: {}", each.kernel, each.reason)});
  machine.add_row({"cores", fmt::format("{}; plans use {}", report.cores, report.threads)});
  machine.add_row({"memory available", report.available_memory ? format_bytes(*report.available_memory) : "not known"});
  machine.add_row({"NVIDIA driver", report.nvidia_driver ? "found" : "none"});
  machine.add_row({"AMD HIP runtime", report.amd_driver ? "found" : "none"});
  machine.add_row({"measurements", report.folder.empty() ? "not stored (HOME is not set)" : report.folder.string()});
  machine.add_row({"rates", rates_from(report)});
  machine.add_row({"timed ops", std::to_string(report.ops_timed)});
  Table rates({{"kind of op"}, {"float32", Align::right}, {"bfloat16", Align::right}, {"float16", Align::right}},
              "Rates used for predicted times");
  for (int kind = 0; kind < kOpKinds; ++kind) {
    std::vector<std::string> row{std::string(name_of(static_cast<OpKind>(kind)))};
    for (DType dtype : kTypes) row.push_back(rate_text(report.cost.rate(static_cast<OpKind>(kind), dtype)));
    rates.add_row(std::move(row));
  }
  rates.add_rule();
  rates.add_row({"overhead per op", short_seconds(report.cost.overhead_seconds)});
  rates.add_row({"copies in memory", short_count(report.cost.host_link) + "B/s"});
  std::string text = machine.to_string(screen) + "\n" + rates.to_string(screen);
  for (const DeviceReport& each : report.devices) text += text_of(each, screen);
  return text;
}

Json json_of_machine(const MachineReport& report, const CpuInstructions& used) {
  Json rates = Json::object();
  for (int kind = 0; kind < kOpKinds; ++kind) {
    Json types = Json::object();
    for (DType dtype : kTypes) {
      const OpRate& rate = report.cost.rate(static_cast<OpKind>(kind), dtype);
      types[std::string(name_of(dtype))] = {{"flops_per_second", rate.flops}, {"bytes_per_second", rate.bytes}};
    }
    rates[std::string(name_of(static_cast<OpKind>(kind)))] = types;
  }
  Json kernels = Json::object();
  for (const KernelChoice& each : kernel_choices())
    kernels[each.op] = {{"kernel", each.kernel}, {"reason", each.reason}};
  Json devices = Json::array();
  for (const DeviceReport& each : report.devices) devices.push_back(json_of(each));
  return {{"processor", report.processor},
          {"instructions", report.instructions},
          {"instruction_sets",
           {{"plimsoll", used.plimsoll},
            {"plimsoll_greatest", used.plimsoll_highest},
            {"libtorch", used.libtorch},
            {"onednn", used.onednn},
            {"mkl", used.mkl}}},
          {"product_kernels", {{"bfloat16", used.bfloat16_product}, {"float16", used.float16_product}}},
          {"kernels", kernels},
          {"cores", report.cores},
          {"threads", report.threads},
          {"available_memory_bytes", report.available_memory ? Json(*report.available_memory) : Json(nullptr)},
          {"nvidia_driver", report.nvidia_driver},
          {"amd_driver", report.amd_driver},
          {"measured_now", report.measured_now},
          {"stored", report.stored},
          {"shared_processors", report.shared_processors},
          {"ops_timed", report.ops_timed},
          {"overhead_seconds", report.cost.overhead_seconds},
          {"copy_bytes_per_second", report.cost.host_link},
          {"rates", rates},
          {"devices", devices}};
}

}  // namespace

void add_doctor(CLI::App& app, Action& action) {
  CLI::App* command =
      app.add_subcommand("doctor", "show this machine's processor, memory and devices and measure their rates");
  const auto arguments = std::make_shared<DoctorArguments>();
  command->add_option("--threads", arguments->threads, "CPU threads for the measurement; default: all usable cores")
      ->check(between(1, 4096));
  command->add_flag("--again", arguments->again, "measure again even if stored rates exist");
  command->add_flag("--force", arguments->force, "store the rates even if other programs were busy meanwhile");
  arguments->output.add_option_to(*command);
  command->footer(kDoctorExamples);
  command->callback([&action, arguments] {
    action = [arguments]() -> int {
      arguments->output.require_writable();
      const MachineReport report = inspect_machine(arguments->threads, arguments->again, arguments->force);
      const CpuInstructions used = cpu_instructions();
      arguments->output.print(text_of(report, used, screen_of(STDOUT_FILENO)));
      arguments->output.write(json_of_machine(report, used));
      return kDone;
    };
  });
}

}  // namespace plimsoll::cli
