// Records a training step: the ops that eager libtorch would run, in the same order.
#include "run/record_step.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/DefaultDtype.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/embedding.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <map>
#include <set>

#include "collectives/exchange_support.h"
#include "device/backend.h"
#include "fine_tuning/fine_tune.h"
#include "ops/libtorch_types.h"
#include "plimsoll/error.h"
#include "plimsoll/training.h"
#include "record/autocast.h"
#include "record/fuse_activations.h"
#include "record/plan_device.h"
#include "record/recorder.h"
#include "run/optimizer/accumulators.h"
#include "run/optimizer/optimizer.h"

namespace plimsoll {
namespace {

// A scope in which factory functions without a dtype use this dtype, while the model is built.
class DefaultDtype {
 public:
  explicit DefaultDtype(c10::ScalarType dtype) : previous_(c10::get_default_dtype()) {
    c10::set_default_dtype(c10::scalarTypeToTypeMeta(dtype));
  }
  ~DefaultDtype() { c10::set_default_dtype(previous_); }

 private:
  caffe2::TypeMeta previous_;
};

// Returns the device whose autocast blocks in a step have an effect in a training on `device`.
c10::DeviceType autocast_device(const std::string& device) {
  if (device == "cpu") return c10::DeviceType::CPU;
  return device == "mps" ? c10::DeviceType::MPS : c10::DeviceType::CUDA;  // libtorch calls ROCm's devices CUDA
}

std::string owner_of(const std::string& name) {
  const size_t dot = name.rfind('.');
  return dot == std::string::npos ? "" : name.substr(0, dot);
}

// Calls that are recorded as they are, by their numbers, and how written attention and norms are recorded.
struct KeptCalls {
  std::set<int64_t> heads, attentions;
  bool contiguous_attention = false, no_written_attention = false;
  bool norms = false;  // all norms are recorded as they are

  bool empty() const { return heads.empty() && attentions.empty(); }
  void insert(const KeptCalls& others) {
    heads.insert(others.heads.begin(), others.heads.end());
    attentions.insert(others.attentions.begin(), others.attentions.end());
  }
};

// Returns what is known of a device's kernels. ROCm has libtorch's kernels for CUDA, and none of ours.
StepKernels kernels_of(const std::string& device) {
  const bool ours = device == "cpu" || device == "cuda";
  return {.masked_attention = ours, .norms = ours, .wide_statistics = device == "cuda" || device == "rocm"};
}

class StepRecorder {
 public:
  StepRecorder(const Step& step, const TrainingOptions& options, const Replacements& replacements,
               const KeptCalls& kept)
      : step_(step),
        options_(options),
        optimizer_(options.optimizer, options.seed),
        update_step_(optimizer_, options.max_grad_norm, options.precision == Precision::fp16_mixed) {
    recorder_.set_replacements(replacements);
    recorder_.set_kernels(kernels_of(options.device));
    recorder_.loss_heads().keep(kept.heads);
    recorder_.written_attentions().keep(kept.attentions);
    recorder_.set_contiguous_attention(kept.contiguous_attention);
    if (kept.no_written_attention) recorder_.written_attentions().turn_off();
    if (kept.norms) recorder_.composed_norms().keep_all();
  }

  Trace run() {
    try {
      return record();
    } catch (const c10::Error& error) {  // libtorch's own refusals, such as mismatched shapes
      const std::string what = plan_device_named(error.what_without_backtrace());
      // plimsoll::attention keeps its result and its mask for backward; libtorch's composition may not.
      changes_attention_ = what.find("modified by an inplace operation") != std::string::npos;
      throw UserError(
          fmt::format("the step cannot be recorded{}: {}", recorder_.place(), what.substr(0, what.find('\n'))));
    }
  }

  /// Returns the calls that must be recorded as they are (LossHeads::needed_whole(),
  /// WrittenAttentions::needed_whole()), of run() or of what it has recorded until it failed.
  KeptCalls needed_whole(const Trace& trace) {
    return {recorder_.loss_heads().needed_whole(trace), recorder_.written_attentions().needed_whole(trace)};
  }
  const Trace& recorded() const { return recorder_.trace(); }
  /// Returns whether run() failed because the step changes in place what an op keeps, perhaps plimsoll::attention.
  bool changes_attention() const { return changes_attention_; }
  /// Returns whether attention that is written out was recorded as plimsoll::attention, or was before run() failed.
  bool has_written_attention() { return recorder_.written_attentions().replaced() > 0; }
  /// Returns whether run() failed at a view.
  bool refused_view() const { return recorder_.refused_view(); }
  const ComposedNorms& composed_norms() const { return recorder_.composed_norms(); }

 private:
  Trace record() {
    build();
    if (options_.ranks.count > 1)
      exchanged_.emplace(parameters_,
                         options_.accumulate ? options_.accumulator_dtype : AccumulatorDtype::as_gradients);
    else if (options_.accumulate && options_.accumulator_dtype != AccumulatorDtype::as_gradients)
      accumulators_.emplace(parameters_, options_.accumulator_dtype);
    micro(SegmentKind::micro);
    collect_gradients();
    if (options_.accumulate) {
      micro(SegmentKind::accumulate);
      check_gradients();
      if (options_.last_micro_batch != 0) remainder();
    }
    update();
    if (options_.evaluate) evaluate();
    Trace trace = fuse_activations(recorder_.finish());
    trace.alignment = place_alignment(options_.device);
    trace.model_parameters = model_parameters_;
    trace.trained_parameters = trained_parameters_;
    for (Op& op : trace.ops) op.link_bytes = exchange_bytes(op, options_.ranks.count);
    return trace;
  }

  at::Tensor scalar_input(const std::string& name, c10::ScalarType dtype) {
    at::Tensor tensor = at::empty({}, at::TensorOptions().dtype(dtype).device(kPlanDevice));
    recorder_.add_input(name, tensor);
    return tensor;
  }

  // Makes a scalar that the host reads. It keeps its offset between segments.
  at::Tensor scalar_output(const std::string& name) {
    at::Tensor tensor = at::zeros({}, at::TensorOptions().dtype(at::kFloat).device(kPlanDevice));
    recorder_.mark(tensor, Role::input, name, /*persistent=*/true);
    recorder_.mark_output(tensor, name);
    return tensor;
  }

  void add_model_tensor(const std::string& name, const at::Tensor& tensor) {
    if (!is_plan(tensor))
      throw UserError(
          fmt::format("'{}' of the model was made on device {}; make it without naming a device, inside the model's "
                      "constructor",
                      name, tensor.device().str()));
    if (!known_.insert(buffer_of(tensor)).second) return;  // shared with another module
    registered_.push_back({name, tensor, tensor.detach()});
    recorder_.mark(tensor, Role::parameter, name, /*persistent=*/true);
    recorder_.set_owner(tensor, owner_of(name));
    recorder_.add_state(name, tensor);
  }

  // Chooses the parameters that zero3 stores whole: the smallest ones, whose gathers gain least.
  void choose_whole() {
    if (options_.ranks.whole_part <= 0) return;
    std::vector<const OptimizedParameter*> by_size;
    double all = 0, taken = 0;
    for (const OptimizedParameter& parameter : parameters_) {
      by_size.push_back(&parameter);
      all += static_cast<double>(parameter.value.nbytes());
    }
    std::ranges::stable_sort(by_size, {}, [](const OptimizedParameter* each) { return each->value.nbytes(); });
    for (const OptimizedParameter* each : by_size) {
      taken += static_cast<double>(each->value.nbytes());
      if (taken > options_.ranks.whole_part * all) return;
      whole_.insert(each->name);
    }
  }

  // Returns the part of a parameter that this rank updates; nullopt: all of it.
  std::optional<optimizer::ParameterSlice> slice_of(const OptimizedParameter& parameter) {
    const RankOptions& ranks = options_.ranks;
    if (ranks.count < 2 || ranks.strategy == Strategy::ddp) return std::nullopt;
    const optimizer::Kind kind = optimizer::kind_of(options_.optimizer, parameter);
    if (kind == optimizer::Kind::adafactor || kind == optimizer::Kind::muon)
      return std::nullopt;  // these update whole matrices
    const at::Tensor whole = parameter.value.detach();
    const int64_t count = whole.numel(), each = optimizer::slice_elements(count, ranks.count);
    if (each == 0 || whole.storage_offset() != 0 || !whole.is_contiguous() ||
        recorder_.buffer_bytes(buffer_of(whole)) != count * static_cast<int64_t>(whole.element_size()))
      return std::nullopt;
    const int64_t padded = each * ranks.count;
    recorder_.grow_buffer(buffer_of(whole), padded * static_cast<int64_t>(whole.element_size()));
    const auto flat = [&](int64_t elements, int64_t offset) {
      return make_plan_view(whole, {elements}, {1}, offset, whole.scalar_type());
    };
    if (padded > count) flat(padded - count, count).zero_();
    optimizer::ParameterSlice slice{parameter.value, flat(padded, 0), flat(each, ranks.rank * each),
                                    ranks.rank,      ranks.count,     each};
    if (ranks.strategy != Strategy::zero3 || whole_.contains(parameter.name)) return slice;
    // It has memory only while ops use it (passes/gather_late).
    slice.apart = true;
    const at::Tensor stored = at::empty({each}, slice.own.options());
    stored.copy_(slice.own);
    slice.own = stored;
    recorder_.mark(stored, Role::parameter, "slice of " + parameter.name, /*persistent=*/true);
    recorder_.replace_state(parameter.name, stored, whole.sizes().vec());
    return slice;
  }

  void build() {
    recorder_.begin_segment(SegmentKind::initialize);
    recorder_.set_phase(Phase::initialize);
    {
      const DefaultDtype dtype(weight_type(options_));
      model_ = step_.model();
    }
    if (!model_) throw UserError("the step's model function gave no module");
    std::set<const void*> counted;  // a tied parameter once
    for (const at::Tensor& parameter : model_->parameters())
      if (counted.insert(parameter.unsafeGetTensorImpl()).second) model_parameters_ += parameter.numel();
    model::fine_tune(*model_, options_.fine_tuning, fine_tune_types(options_));
    std::set<const void*> embeddings;
    for (const auto& module : model_->modules())
      if (const auto* embedding = module->as<torch::nn::EmbeddingImpl>())
        embeddings.insert(embedding->weight.unsafeGetTensorImpl());
    for (const auto& entry : model_->named_modules({}, /*include_self=*/true))
      if (entry.value()->as<torch::nn::MultiheadAttentionImpl>() != nullptr)
        recorder_.set_early_caller("aten::equal", entry.key(), "torch::nn::MultiheadAttention");
    std::vector<std::string> names;
    for (const auto& entry : model_->named_parameters()) {
      names.push_back(entry.key());
      const bool fresh = is_plan(entry.value()) && !known_.contains(buffer_of(entry.value()));
      add_model_tensor(entry.key(), entry.value());
      if (entry.value().requires_grad() && entry.value().is_complex())
        throw UserError(
            fmt::format("parameter '{}' is complex; parameters are real: make it of pairs of real numbers, and call "
                        "view_as_complex() in the step",
                        entry.key()));
      if (fresh && entry.value().requires_grad())
        parameters_.push_back({.name = entry.key(),
                               .value = entry.value(),
                               .embedding = embeddings.contains(entry.value().unsafeGetTensorImpl())});
    }
    optimizer::check_patterns(options_.optimizer, names);
    for (const auto& entry : model_->named_buffers()) add_model_tensor(entry.key(), entry.value());
    if (parameters_.empty()) throw UserError("the model has no parameter that requires a gradient");
    for (const OptimizedParameter& parameter : parameters_) trained_parameters_ += parameter.value.numel();

    const at::NoGradGuard no_grad;
    choose_whole();
    for (OptimizedParameter& parameter : parameters_)
      if ((parameter.slice = slice_of(parameter))) parameter.value = parameter.slice->own;
    for (const NamedState& state : optimizer_.make_state(parameters_)) {
      recorder_.mark(state.tensor, Role::optimizer_state, state.name, /*persistent=*/true);
      recorder_.add_state(state.name, state.tensor, state.whole_sizes);
    }
    for (const at::Tensor& scalar : update_step_.make_scalars(parameters_))
      recorder_.mark(scalar, Role::input, "scalars of the update", /*persistent=*/true);
    loss_out_ = scalar_output("loss");
    norm_out_ = scalar_output("gradient_norm");
    skipped_out_ = scalar_output("skipped");
    if (options_.evaluate) evaluation_out_ = scalar_output("evaluation_loss");
    loss_factor_ = scalar_input("loss_factor", at::kFloat);
    loss_scale_ = scalar_input("loss_scale", at::kFloat);
    learning_rate_ = scalar_input("learning_rate", at::kDouble);
    for (const InputSpec& spec : step_.inputs) {
      at::Tensor tensor =
          at::empty(spec.sizes, at::TensorOptions().dtype(input_type(options_, spec.dtype)).device(kPlanDevice));
      recorder_.add_input(spec.name, tensor);
      inputs_.emplace_back(spec.name, tensor);
    }
  }

  at::Tensor checked(const at::Tensor& loss) const {
    if (!loss.defined() || loss.numel() != 1 || !at::isFloatingType(loss.scalar_type()))
      throw UserError("the step's loss must be one floating-point number" +
                      (loss.defined()
                           ? fmt::format("; it has {} elements of {}", loss.numel(), c10::toString(loss.scalar_type()))
                           : std::string("; it is undefined")));
    return loss.reshape({}).to(at::kFloat);
  }

  // Returns the result of a function of the step, of model and inputs, in the job's precision.
  template <typename Function>
  auto computed(const Function& function) {
    StepInputs inputs;
    for (const auto& [name, tensor] : inputs_) inputs.set(name, tensor);
    std::optional<AutocastScope> autocast;
    if (is_mixed(options_.precision))
      autocast.emplace(options_.device == "cpu" ? AutocastTarget::cpu : AutocastTarget::cuda,
                       options_.precision == Precision::fp16_mixed ? at::kHalf : at::kBFloat16);
    return function(*model_, inputs);
  }

  at::Tensor loss() { return checked(computed(step_.loss)); }

  // Gathers parameters that are stored in slices. passes/gather_late moves each to its first use.
  void gather_parameters() {
    const at::NoGradGuard no_grad;
    for (const OptimizedParameter& parameter : parameters_)
      if (parameter.slice && parameter.slice->apart) gather_(parameter.slice->padded, parameter.slice->own);
  }

  void micro(SegmentKind segment) {
    recorder_.begin_segment(segment);
    recorder_.set_phase(Phase::forward);
    // An op draws by its id and the number of the micro batch. It draws the same numbers whether the micro batch is a
    // rank's first or a later one.
    if (segment == SegmentKind::micro) first_random_id_ = recorder_.next_random_id();
    const int64_t behind = recorder_.next_random_id();
    recorder_.set_next_random_id(first_random_id_);
    gather_parameters();
    model_->train();
    const at::Tensor loss = this->loss();
    if (!loss.requires_grad()) throw UserError("the step's loss does not depend on any parameter of the model");
    {
      const at::NoGradGuard no_grad;
      loss_out_.copy_(loss);
    }
    // The loss scale is constant over micro batches. In most jobs it is 1, and then exact.
    const at::Tensor scaled = loss * loss_factor_;
    recorder_.set_phase(Phase::backward);
    if (accumulators_) accumulators_->begin_micro_batch(segment == SegmentKind::micro);
    if (exchanged_) exchanged_->begin_micro_batch(segment == SegmentKind::micro);
    scaled.backward();
    store_assignments();
    recorder_.set_next_random_id(std::max(behind, recorder_.next_random_id()));
  }

  // Stores state that forward replaced instead of writing into it (`buffer = ...` of Python, set_data()): the next
  // forward and checkpoints read the registered tensors. It comes behind backward, which reads the values from before.
  void store_assignments() {
    const at::NoGradGuard no_grad;
    auto assigned = recorder_.take_assignments();
    for (const auto& [name, tensor, own] : registered_)
      if (buffer_of(tensor) != buffer_of(own)) {
        assigned.emplace_back(own, tensor.detach());
        tensor.set_data(own);
      }
    for (auto& [target, value] : assigned) {
      const BufferId buffer = buffer_of(target);
      const auto of = std::ranges::find(registered_, buffer, [](const auto& each) { return buffer_of(each.own); });
      if (of == registered_.end()) continue;
      if (target.sizes() != value.sizes() || target.scalar_type() != value.scalar_type())
        throw UserError(fmt::format(
            "'{}' is replaced in forward by a tensor of {} [{}], and was made as {} [{}]; make it in the model's "
            "constructor as forward leaves it",
            of->name, c10::toString(value.scalar_type()), fmt::join(value.sizes(), ", "),
            c10::toString(target.scalar_type()), fmt::join(target.sizes(), ", ")));
      if (is_plan(value) && known_.contains(buffer_of(value))) value = value.clone();  // state that may be replaced too
    }
    for (const auto& [target, value] : assigned) target.copy_(value);
  }

  // Records the last micro batch of a step, on the first rows of the same inputs.
  void remainder() {
    const int64_t rows = options_.last_micro_batch;
    const std::vector<int64_t>* first = nullptr;
    for (const InputSpec& spec : step_.inputs) {
      if (spec.sizes.empty() || (first && spec.sizes[0] != first->at(0)))
        throw UserError(
            fmt::format("last_micro_batch is {}: the first size of every input must be the samples of a micro batch; "
                        "'{}' is [{}]{}",
                        rows, spec.name, fmt::join(spec.sizes, ", "),
                        first ? fmt::format(", '{}' [{}]", step_.inputs[0].name, fmt::join(*first, ", ")) : ""));
      first = &step_.inputs[0].sizes;
    }
    if (!first || rows < 0 || rows >= first->at(0))
      throw UserError(fmt::format("last_micro_batch is {}; it must be less than the {} samples of a micro batch, or 0",
                                  rows, first ? first->at(0) : 0));
    const auto whole = inputs_;
    for (auto& [name, tensor] : inputs_) tensor = tensor.narrow(0, 0, rows);
    micro(SegmentKind::remainder);
    inputs_ = whole;
    check_gradients();
  }

  void collect_gradients() {
    for (size_t i = 0; i < parameters_.size(); ++i) {
      OptimizedParameter& parameter = parameters_[i];
      parameter.gradient = exchanged_      ? exchanged_->sum(i)
                           : accumulators_ ? accumulators_->sum(i)
                                           : parameter.value.grad();
      if (!parameter.gradient.defined()) continue;  // it takes no part in the loss and stays as it is
      recorder_.mark(parameter.gradient, Role::gradient, "gradient of " + parameter.name, /*persistent=*/false);
      if (!accumulators_ || !accumulators_->scales(i).defined()) continue;
      parameter.gradient_scales = accumulators_->scales(i);
      recorder_.mark(parameter.gradient_scales, Role::gradient, "scales of the gradient of " + parameter.name, false);
    }
  }

  void check_gradients() const {
    for (const OptimizedParameter& parameter : parameters_)
      if (parameter.gradient.defined() && !accumulators_ && !exchanged_)
        check(buffer_of(parameter.gradient) == buffer_of(parameter.value.grad()),
              "the gradient of " + parameter.name + " is not accumulated in place");
  }

  void update() {
    recorder_.begin_segment(SegmentKind::update);
    recorder_.set_phase(Phase::update);
    const at::NoGradGuard no_grad;
    const UpdateOutputs outputs =
        update_step_.run(parameters_, {learning_rate_, loss_scale_}, [this](UpdatePiece::Kind kind, int64_t index) {
          UpdatePiece piece{kind};
          if (index >= 0) {
            piece.parameter = buffer_of(parameters_[index].value);
            piece.gradient = buffer_of(parameters_[index].gradient);
          }
          recorder_.begin_update_piece(piece);
        });
    norm_out_.copy_(outputs.gradient_norm);
    skipped_out_.copy_(outputs.skipped);
    // Running statistics differ between ranks, because each rank computes them from its own micro batches. Rank 0's are
    // used, as in PyTorch's DDP.
    if (options_.ranks.count > 1)
      for (const auto& entry : model_->named_buffers())
        if (is_plan(entry.value()) && entry.value().is_non_overlapping_and_dense() &&
            recorder_.is_changed(entry.value()))
          broadcast_(entry.value().detach().as_strided({entry.value().numel()}, {1}), 0);
  }

  void evaluate() {
    recorder_.begin_segment(SegmentKind::evaluate);
    recorder_.set_phase(Phase::evaluate);
    const at::NoGradGuard no_grad;
    gather_parameters();
    model_->eval();
    if (step_.evaluation) {
      const Evaluation evaluation = computed(step_.evaluation);
      evaluation_out_.copy_(checked(evaluation.loss));
      for (const auto& [name, sum] : evaluation.sums) {
        if (!sum.defined() || !at::isFloatingType(sum.scalar_type()))
          throw UserError(fmt::format("the evaluation's sum '{}' must be a tensor of floating type", name));
        // A copy, because an output of the executor must not be a view of a buffer that is freed.
        at::Tensor out = at::empty(sum.sizes(), sum.options().dtype(at::kFloat));
        out.copy_(sum);
        recorder_.mark_output(out, kSumPrefix + name);
      }
    } else {
      evaluation_out_.copy_(loss());
    }
    store_assignments();
    model_->train();
  }

  const Step& step_;
  const TrainingOptions& options_;
  Recorder recorder_;
  PlanScope scope_;
  FollowedAutocast autocast_{autocast_device(options_.device)};
  Optimizer optimizer_;
  UpdateStep update_step_;
  std::shared_ptr<torch::nn::Module> model_;
  bool changes_attention_ = false;
  int64_t first_random_id_ = 0;  // first random id of a micro batch
  struct Registered {
    std::string name;
    at::Tensor tensor;  // of the model
    at::Tensor own;     // with the storage from registration
  };
  std::vector<Registered> registered_;  // parameters and buffers of the model
  std::set<BufferId> known_;            // of these
  std::set<std::string> whole_;         // parameters that every rank stores whole, with zero3
  std::vector<OptimizedParameter> parameters_;
  int64_t model_parameters_ = 0, trained_parameters_ = 0;  // numbers, before slices
  std::optional<Accumulators> accumulators_;
  std::optional<ExchangedGradients> exchanged_;
  std::vector<std::pair<std::string, at::Tensor>> inputs_;
  at::Tensor loss_out_, norm_out_, skipped_out_, evaluation_out_, loss_factor_, loss_scale_, learning_rate_;
};

// A step that failed may need the layout or the gradients that written attention has without its replacement. Returns
// false if this was tried.
bool records_attention_otherwise(StepRecorder& recorder, KeptCalls& kept) {
  if (!recorder.has_written_attention() || kept.no_written_attention) return false;
  const bool layout = recorder.refused_view() && !kept.contiguous_attention;
  (layout ? kept.contiguous_attention : kept.no_written_attention) = true;
  return true;
}

std::atomic<int64_t> recordings = 0;
}  // namespace

int64_t recordings_made() {
  return recordings;
}

void set_recorded_module(const std::string& path) {
  if (Recorder* const recorder = Recorder::active()) recorder->enter_module(path);
}

void assign_recorded(const at::Tensor& registered, const at::Tensor& value) {
  if (Recorder* const recorder = Recorder::active()) recorder->note_assignment(registered, value.detach());
}

bool is_recorded_operand(const at::Tensor& tensor) {
  const Recorder* const recorder = Recorder::active();
  return recorder != nullptr && recorder->is_unregistered_and_read(tensor);
}

Trace record_step(const Step& step, const TrainingOptions& options) {
  if (options.precision == Precision::automatic)
    throw UserError("TrainingOptions::precision is open (automatic): plan_training() chooses it");
  ++recordings;
  // The whole step must be recorded before it shows whether each replacement is right and saves memory. If one is not,
  // the step is recorded again without it.
  Replacements replacements = step.replace;
  KeptCalls kept;
  while (true) {
    StepRecorder recorder(step, options, replacements, kept);
    KeptCalls needed;
    try {
      Trace trace = recorder.run();
      needed = recorder.needed_whole(trace);
      const bool watched = recorder.composed_norms().is_watched();
      if (needed.empty() && !watched) return trace;
      kept.norms |= watched;
    } catch (...) {
      needed = recorder.needed_whole(recorder.recorded());
      const bool without_attention =
          needed.attentions.empty() && recorder.changes_attention() && replacements.attention;
      if (without_attention) replacements.attention = false;
      if (needed.empty() && !without_attention && !records_attention_otherwise(recorder, kept)) {
        // A second derivative of a norm, or one by what the operator does not compute.
        if (kept.norms || !recorder.composed_norms().has_replaced()) throw;
        kept.norms = true;
      }
    }
    kept.insert(needed);
  }
}

const at::Tensor& StepInputs::operator[](const std::string& name) const {
  const auto found = tensors_.find(name);
  if (found != tensors_.end()) return found->second;
  std::string known;
  for (const auto& [other, tensor] : tensors_) known += (known.empty() ? "'" : ", '") + other + "'";
  throw UserError(fmt::format("the step has no input '{}'; it declares {}", name, known.empty() ? "none" : known));
}

}  // namespace plimsoll
