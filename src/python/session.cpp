#include "python/session.h"

#include <fmt/format.h>
#include <torch/custom_class.h>
#include <torch/library.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <map>
#include <optional>
#include <utility>

#include "plimsoll/bytes.h"
#include "plimsoll/devices.h"
#include "plimsoll/error.h"
#include "plimsoll/plan_page.h"

namespace plimsoll::python {
namespace {

using MicroBatchMap = std::map<std::string, at::Tensor>;

thread_local std::string last_error_text;

void keep_error(const char* kind, const std::string& text) {
  last_error_text =
      nlohmann::json{{"kind", kind}, {"text", text}}.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

const char* name_of(UserError::Kind kind) {
  switch (kind) {
    case UserError::Kind::usage:
      return "usage";
    case UserError::Kind::failure:
      return "failure";
    case UserError::Kind::does_not_fit:
      return "does_not_fit";
  }
  return "internal";
}

// Runs `work`; keeps an error of Plimsoll for last_error().
template <typename Work>
auto guarded(const Work& work) {
  last_error_text.clear();
  try {
    return work();
  } catch (const UserError& error) {
    keep_error(name_of(error.kind()), error.what());
    throw std::runtime_error(error.what());
  } catch (const InternalError& error) {
    keep_error("internal", error.what());
    throw std::runtime_error(error.what());
  }
}

// Name of the options in messages; Python removes it.
constexpr const char* kOptions = "options";

Job job_of(const std::string& options) {
  return parse_job(options, kOptions, std::filesystem::current_path());
}

MicroBatchMap tensors_of(const Session::Batch& batch) {
  MicroBatchMap tensors;
  for (const auto& entry : batch) tensors[entry.key()] = entry.value();
  return tensors;
}

nlohmann::json json_of(const Breakdown& of) {
  return {{"parameters", of.parameters},
          {"gradients", of.gradients},
          {"optimizer_state", of.optimizer_state},
          {"activations", of.activations},
          {"inputs", of.inputs},
          {"workspace", of.workspace},
          {"context", of.context},
          {"fragmentation", of.fragmentation}};
}

nlohmann::json json_of(const std::vector<Reason>& reasons) {
  nlohmann::json list = nlohmann::json::array();
  for (const Reason& reason : reasons) list.push_back({{"decision", reason.decision}, {"why", reason.why}});
  return list;
}

// Returns how many attentions are recorded as plimsoll::attention. A model of Python calls that op in no other way.
std::optional<Reason> attention_reason(const Trace& trace) {
  const Segment* const micro = trace.segment(SegmentKind::micro);
  if (!micro) return std::nullopt;
  int64_t calls = 0, bytes = 0;
  for (int32_t i = micro->begin; i < micro->end; ++i) {
    const Op& op = trace.ops[i];
    if (op.name != "plimsoll::attention") continue;
    const View &q = op.arguments[0].views[0], &k = op.arguments[1].views[0];
    ++calls;
    bytes += q.sizes[0] * q.sizes[1] * q.sizes[2] * k.sizes[2] * std::max<int64_t>(4, element_bytes(q.dtype));
  }
  if (calls == 0) return std::nullopt;
  return Reason{
      "replace: attention",
      fmt::format(
          "{} (scaled_dot_product_attention, or written with matmul and softmax) {} recorded as "
          "plimsoll::attention, which stores no attention matrix (by their shapes, {} in a micro batch); results "
          "are rounded differently, and replace={{\"attention\": False}} records PyTorch's own operators",
          calls == 1 ? "1 attention" : fmt::format("{} attentions", calls), calls == 1 ? "is" : "are",
          format_bytes(bytes))};
}

// Returns how many losses are recorded together with the linear layer of their logits.
std::optional<Reason> cross_entropy_reason(const Trace& trace) {
  const Segment* const micro = trace.segment(SegmentKind::micro);
  if (!micro) return std::nullopt;
  int64_t calls = 0, bytes = 0;
  for (int32_t i = micro->begin; i < micro->end; ++i) {
    const Op& op = trace.ops[i];
    if (op.name != "plimsoll::linear_cross_entropy") continue;
    ++calls;
    bytes += op.arguments[0].views[0].sizes[0] * op.arguments[1].views[0].sizes[0] * 4;
  }
  if (calls == 0) return std::nullopt;
  return Reason{
      "replace: cross_entropy",
      fmt::format(
          "{} with the linear layer of the logits {} recorded as plimsoll::linear_cross_entropy, which never "
          "holds all logits (by their shapes, {} in float32 in a micro batch); results are rounded differently, "
          "and replace={{\"cross_entropy\": False}} records PyTorch's own operators",
          calls == 1 ? "1 cross entropy" : fmt::format("{} cross entropies", calls), calls == 1 ? "is" : "are",
          format_bytes(bytes))};
}

// Returns how many norms are recorded as plimsoll::group_norm and plimsoll::rms_norm.
std::optional<Reason> norms_reason(const Trace& trace) {
  const Segment* const micro = trace.segment(SegmentKind::micro);
  if (!micro) return std::nullopt;
  int64_t of_groups = 0, of_rows = 0;
  for (int32_t i = micro->begin; i < micro->end; ++i) {
    of_groups += trace.ops[i].name == "plimsoll::group_moments";
    of_rows += trace.ops[i].name == "plimsoll::rms_norm";
  }
  const auto counted = [](int64_t calls, const char* op, const char* more) {
    if (calls == 0) return std::string();
    return fmt::format("{} recorded as {}{}; ", calls == 1 ? "1 norm is" : fmt::format("{} norms are", calls), op,
                       more);
  };
  const std::string text = counted(of_groups, "plimsoll::group_norm", ", which computes SiLU and ReLU behind it too") +
                           counted(of_rows, "plimsoll::rms_norm", "");
  if (text.empty()) return std::nullopt;
  return Reason{"replace: norms", text +
                                      "the operators keep only the input; results are rounded differently, and "
                                      "replace={\"norms\": False} records PyTorch's own operators"};
}

}  // namespace

std::string last_error() {
  return last_error_text;
}

std::string devices() {
  nlohmann::json list = nlohmann::json::array();
  for (const DeviceSpec& each : device_catalogue())
    list.push_back(
        {{"id", each.id}, {"name", each.name}, {"vendor", each.vendor}, {"memory_bytes", each.memory_bytes}});
  return list.dump();
}

double learning_rate(const std::string& options, int64_t step, int64_t steps) {
  return guarded([&] {
    const Job job = job_of(options);
    return learning_rate_at(job.scheduler, job.optimizer.learning_rate, step, steps);
  });
}

Session::Session(int64_t callback, const std::string& options,
                 const std::vector<std::tuple<std::string, std::vector<int64_t>, int64_t>>& inputs,
                 const std::string& device, bool evaluates, const std::vector<std::string>& replaced)
    : callback_(reinterpret_cast<Callback>(callback)),  // NOLINT: an address that ctypes made
      replacements_{.attention = std::ranges::count(replaced, "attention") > 0,
                    .cross_entropy = std::ranges::count(replaced, "cross_entropy") > 0,
                    .loss_rows = std::ranges::count(replaced, "loss_rows") > 0} {
  guarded([&] {
    for (const auto& [name, sizes, dtype] : inputs)
      inputs_.push_back({name, sizes, static_cast<c10::ScalarType>(dtype)});
    job_ = job_of(options);
    job_.evaluate = evaluates;
    if (device.empty()) {
      target_ = target_of(job_);
      return;
    }
    target_ = target_of(require_device(device));
    if (job_.ranks.count > 1) target_ = with_ranks(std::move(target_), {.ranks = job_.ranks.count});
    target_.budget.host = job_.budget.host;
    target_.budget.disk = job_.budget.disk;
    if (!job_.budget.device) return;
    target_.budget.device = job_.budget.device;
    target_.budget_reason = "set by memory";
  });
}

at::Tensor Session::input(const std::string& name) {
  return tensors_.inputs.at(name);
}

void Session::add(const std::string& name, const at::Tensor& tensor, bool is_parameter) {
  tensors_.members.push_back({name, tensor, is_parameter});
}

void Session::assign(const at::Tensor& buffer, const at::Tensor& value) {
  assign_recorded(buffer, value);
}

bool Session::reads(const at::Tensor& tensor) {
  return is_recorded_operand(tensor);
}

void Session::set_loss(const at::Tensor& loss) {
  tensors_.loss = loss;
}

void Session::plan(double accepted_slowdown) {
  guarded([&] {
    const SearchOptions search{.on_schedule = [this] { call(callback_, Request::schedule); },
                               .accepted_slowdown = job_.budget.device ? 0 : accepted_slowdown};
    planned_ = plan_training([this](int64_t samples) { return step_of(samples); }, job_, target_, search);
    if (planned_.process.budget > 0) {  // plans for other budgets have the arena that is left, whatever this one keeps
      target_.budget.process.reset();
      if (target_.device == "cpu") target_.budget.device = planned_.plan.budget.device;
    }
    for (const auto& reason : {attention_reason(planned_.recorded), cross_entropy_reason(planned_.recorded),
                               norms_reason(planned_.recorded)})
      if (reason) planned_.plan.reasons.push_back(*reason);
  });
}

std::string Session::report() {
  const ResolvedSettings& settings = planned_.settings;
  const Plan& plan = training_ ? training_->plan() : planned_.plan;
  nlohmann::json json = {
      {"fits", plan.fits},
      {"peak_bytes", plan.peak_bytes},
      {"minimum_budget_bytes", planned_.minimum_budget_bytes},
      {"host_bytes", plan.host_bytes},
      {"disk_bytes", plan.disk_bytes},
      {"breakdown", json_of(plan.breakdown)},
      {"reasons", json_of(planned_.plan.reasons)},
      {"step_seconds", planned_.step_seconds},
      {"samples_per_second", planned_.samples_per_second},
      {"recompute_seconds", plan.time.recompute},
      {"offload_seconds", plan.time.offload},
      {"record_seconds", planned_.record_seconds},
      {"plan_seconds", planned_.plan_seconds},
      {"device", settings.cost.device},
      {"rates", settings.cost.source},
      {"devices", settings.ranks.count},
      {"micro_batch", settings.micro_batch()},
      {"accumulate", settings.first_accumulation()},
      {"last_micro_batch", settings.last_micro_batch},
      {"precision", plimsoll::name_of(settings.precision)},
      {"optimizer", settings.optimizer.name},
      {"state_dtype", plimsoll::name_of(settings.optimizer.state_dtype)},
      {"weight_update", plimsoll::name_of(settings.optimizer.weight_update)},
      {"accumulator_dtype", plimsoll::name_of(settings.accumulator_dtype)},
      {"recomputes", plan.checkpointed},
      {"update_in_backward", plan.update_in_backward},
      {"parameters", settings.parameters},
      {"model_parameters", settings.model_parameters},
      {"operators", planned_.recorded.ops.size()},
      {"plan_hash", plan_hash(plan)},
      {"change", training_ ? training_->plan_change() : std::string()},
  };
  json["process"] = nlohmann::json::object();
  if (const ProcessMemory& process = planned_.process; process.budget > 0)
    json["process"] = {{"binds", process.binds},
                       {"budget_bytes", process.budget},
                       {"planned_bytes", process.total()},
                       {"minimum_bytes", process.minimum}};
  json["budget_bytes"] = settings.budget.device ? nlohmann::json(*settings.budget.device) : nlohmann::json();
  nlohmann::json modules = nlohmann::json::object();
  for (const ModuleBytes& each : bytes_by_module(plan)) modules[each.module] = json_of(each.bytes);
  json["modules"] = modules;
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string Session::page(const std::string& title, const std::string& subtitle) {
  return guarded([&] {
    PlanPage page;
    page.title = title;
    page.subtitle = subtitle;
    page.plan = &planned_.plan;
    page.minimum_budget_bytes = planned_.minimum_budget_bytes;
    for (const Op& op : planned_.plan.trace.ops) page.op_seconds.push_back(seconds_of(planned_.settings.cost, op));
    return to_html(page);
  });
}

std::vector<std::tuple<int64_t, double>> Session::frontier(int64_t points) {
  return guarded([&] {
    std::vector<std::tuple<int64_t, double>> found;
    for (const FrontierPoint& point :
         frontier_of([this](int64_t samples) { return step_of(samples); }, job_, target_, static_cast<int>(points)))
      if (point.fits) found.emplace_back(point.budget_bytes, point.step_seconds);
    return found;
  });
}

void Session::start() {
  guarded([&] {
    if (!target_.is_local)
      throw UserError("this plan is for a device that is not here: " + target_.cost.device +
                      "; plan with device=\"cpu\" or \"cuda\" to train");
    if (!planned_.plan.fits)
      throw UserError("the plan does not fit: it needs at least " + format_bytes(planned_.minimum_budget_bytes),
                      UserError::Kind::does_not_fit);
    training_ = std::make_unique<Training>(step_of(planned_.settings.micro_batch()), planned_.settings, planned_);
    try {
      training_->start();
    } catch (...) {
      training_.reset();
      throw;
    }
  });
}

Training& Session::training() {
  if (!training_) throw UserError("the trainer is closed");
  return *training_;
}

std::tuple<double, double, bool> Session::step(const std::vector<Batch>& micro_batches, double learning_rate) {
  return guarded([&]() -> std::tuple<double, double, bool> {
    std::vector<MicroBatchMap> batches;
    for (const Batch& each : micro_batches) batches.push_back(tensors_of(each));
    const StepResult result = training().step(batches, learning_rate);
    return {result.loss, result.gradient_norm, result.skipped};
  });
}

void Session::profile(const std::string& file, int64_t steps) {
  guarded([&] { training().profile({.file = file, .first_step = 1, .steps = steps}); });
}

double Session::evaluate(const Batch& micro_batch) {
  return guarded([&] { return training().evaluate(tensors_of(micro_batch)); });
}

std::vector<std::tuple<std::string, at::Tensor>> Session::state() {
  return guarded([&] {
    std::vector<std::tuple<std::string, at::Tensor>> all;
    for (const auto& [name, tensor] : training().state()) all.emplace_back(name, tensor);
    return all;
  });
}

void Session::save(const std::string& file) {
  guarded([&] { save_training(training(), file); });
}

void Session::load(const std::string& file) {
  guarded([&] { load_training(training(), file); });
}

int64_t Session::used_bytes() {
  return guarded([&] { return training().peak_bytes_used(); });
}

int64_t Session::steps() {
  return guarded([&] { return training().steps_done(); });
}

void Session::close() {
  training_.reset();
}

// Registers the classes and functions that the Python package plimsoll uses. They carry tensors and text through
// TorchBind, so that one library serves every Python that has this version of torch.
TORCH_LIBRARY(plimsoll_python, m) {
  m.class_<Session>("Session")
      .def(torch::init<int64_t, const std::string&,
                       const std::vector<std::tuple<std::string, std::vector<int64_t>, int64_t>>&, const std::string&,
                       bool, const std::vector<std::string>&>())
      .def("input", &Session::input)
      .def("add", &Session::add)
      .def("assign", &Session::assign)
      .def("reads", &Session::reads)
      .def("set_loss", &Session::set_loss)
      .def("plan", &Session::plan)
      .def("report", &Session::report)
      .def("page", &Session::page)
      .def("frontier", &Session::frontier)
      .def("start", &Session::start)
      .def("step", &Session::step)
      .def("profile", &Session::profile)
      .def("evaluate", &Session::evaluate)
      .def("state", &Session::state)
      .def("save", &Session::save)
      .def("load", &Session::load)
      .def("used_bytes", &Session::used_bytes)
      .def("steps", &Session::steps)
      .def("close", &Session::close);
  m.def("last_error() -> str", last_error);
  m.def("devices() -> str", devices);
  m.def("set_module(str path) -> ()", set_recorded_module);
  m.def("learning_rate(str options, int step, int steps) -> float", learning_rate);
}

}  // namespace plimsoll::python
