// Implements autocast on the plan device.
//
// libtorch registers no autocast kernels for a private device. Its policies depend only on an operator's name, so one
// boxed kernel serves them all. The names are those that libtorch 2.11 to 2.15 register for AutocastCPU and
// AutocastCUDA; a name that the libtorch at hand does not register has no policy. A test compares the lists with the
// dispatcher.
#include "record/autocast.h"

#include <ATen/autocast_mode.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <sstream>
#include <unordered_map>

#include "plimsoll/error.h"
#include "record/plan_device.h"

namespace plimsoll {
namespace {

struct PolicyNames {
  AutocastPolicy policy;
  const char* names;  // names separated by blanks
};

constexpr PolicyNames kCpuPolicies[] = {
    {AutocastPolicy::lower_precision,
     "conv1d conv1d.padding conv2d conv2d.padding conv3d conv3d.padding bmm mm linalg_vecdot baddbmm addmm "
     "_addmm_activation addbmm linear _convolution.deprecated matmul conv_tbc mkldnn_rnn_layer conv_transpose1d "
     "conv_transpose2d.input conv_transpose3d.input prelu scaled_dot_product_attention _native_multi_head_attention"},
    {AutocastPolicy::float32,
     "avg_pool3d binary_cross_entropy grid_sampler polar prod prod.dim_int prod.dim_Dimname quantile quantile.scalar "
     "nanquantile nanquantile.scalar stft stft.center cdist grid_sampler_2d _grid_sampler_2d_cpu_fallback "
     "grid_sampler_3d "
     "trace view_as_complex cholesky cholesky_inverse cholesky_solve inverse lu_solve orgqr ormqr pinverse max_pool3d "
     "max_unpool2d max_unpool3d adaptive_avg_pool3d reflection_pad1d reflection_pad2d replication_pad1d "
     "replication_pad2d "
     "replication_pad3d mse_loss cosine_embedding_loss nll_loss nll_loss2d hinge_embedding_loss poisson_nll_loss "
     "smooth_l1_loss cross_entropy_loss l1_loss huber_loss margin_ranking_loss soft_margin_loss triplet_margin_loss "
     "multi_margin_loss ctc_loss.IntList ctc_loss.Tensor kl_div multilabel_margin_loss "
     "binary_cross_entropy_with_logits "
     "fft_fft fft_ifft fft_fft2 fft_ifft2 fft_fftn fft_ifftn fft_rfft fft_irfft fft_rfft2 fft_irfft2 fft_rfftn "
     "fft_irfftn "
     "fft_hfft fft_ihfft linalg_cond linalg_cond.p_str linalg_matrix_rank linalg_matrix_rank.tol_tensor "
     "linalg_matrix_rank.atol_rtol_tensor linalg_matrix_rank.atol_rtol_float linalg_solve linalg_cholesky "
     "linalg_svdvals "
     "linalg_eigvals linalg_eigvalsh linalg_inv linalg_householder_product linalg_tensorinv linalg_tensorsolve "
     "fake_quantize_per_tensor_affine geqrf _lu_with_info qr svd triangular_solve fractional_max_pool2d "
     "fractional_max_pool3d adaptive_max_pool3d multilabel_margin_loss_forward linalg_qr linalg_cholesky_ex linalg_svd "
     "linalg_eig linalg_eigh linalg_lstsq linalg_inv_ex linalg_matrix_sqrth"},
    {AutocastPolicy::promote, "stack cat index_copy index_copy.dimname"},
};

constexpr PolicyNames kCudaPolicies[] = {
    {AutocastPolicy::lower_precision,
     "_convolution.deprecated _convolution conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d.input "
     "conv_transpose3d.input convolution prelu addmm addmv addr matmul einsum mm mv linalg_vecdot linear addbmm "
     "baddbmm bmm "
     "chain_matmul linalg_multi_dot _thnn_fused_lstm_cell _thnn_fused_gru_cell lstm_cell gru_cell rnn_tanh_cell "
     "rnn_relu_cell _scaled_dot_product_flash_attention scaled_dot_product_attention cudnn_convolution "
     "cudnn_convolution_transpose"},
    {AutocastPolicy::float32,
     "acos asin cosh erfinv exp expm1 log log10 log2 log1p reciprocal rsqrt sinh tan pow.Tensor_Scalar "
     "pow.Tensor_Tensor "
     "pow.Scalar softplus layer_norm native_layer_norm rms_norm group_norm frobenius_norm.dim nuclear_norm "
     "nuclear_norm.dim "
     "cosine_similarity poisson_nll_loss cosine_embedding_loss nll_loss nll_loss2d hinge_embedding_loss kl_div l1_loss "
     "smooth_l1_loss huber_loss mse_loss margin_ranking_loss multilabel_margin_loss soft_margin_loss "
     "triplet_margin_loss "
     "multi_margin_loss binary_cross_entropy_with_logits dist pdist cdist renorm logsumexp upsample_nearest1d "
     "_upsample_nearest_exact1d upsample_nearest2d _upsample_nearest_exact2d upsample_nearest3d "
     "_upsample_nearest_exact3d "
     "upsample_linear1d upsample_bilinear2d _upsample_bilinear2d_aa upsample_trilinear3d upsample_bicubic2d "
     "_upsample_bicubic2d_aa linalg_matrix_sqrth"},
    {AutocastPolicy::set_dtype,
     "prod prod.dim_int prod.dim_Dimname softmax.int softmax.Dimname log_softmax.int log_softmax.Dimname cumprod "
     "cumprod.dimname cumsum cumsum.dimname linalg_vector_norm linalg_matrix_norm linalg_matrix_norm.str_ord sum "
     "sum.dim_IntList sum.dim_DimnameList"},
    {AutocastPolicy::append_dtype, "norm.Scalar norm.ScalarOpt_dim norm.names_ScalarOpt_dim"},
    {AutocastPolicy::promote,
     "addcdiv addcmul atan2 bilinear cross dot vdot grid_sampler index_put tensordot scatter_add"},
};

using Table = std::unordered_map<std::string, AutocastPolicy>;

// Returns whether libtorch has an autocast kernel of the device for the operator. Versions differ in their operators
// and in the operators that they cast.
bool is_cast(const std::string& name, c10::DispatchKey key) {
  const size_t dot = name.find('.');
  const auto op = c10::Dispatcher::singleton().findSchema(
      {"aten::" + name.substr(0, dot), dot == std::string::npos ? "" : name.substr(dot + 1)});
  return op && op->hasKernelForDispatchKey(key);
}

template <size_t N>
Table make_table(const PolicyNames (&policies)[N], c10::DispatchKey key) {
  Table table;
  for (const auto& [policy, names] : policies) {
    std::istringstream stream(names);
    for (std::string name; stream >> name;)
      if (is_cast(name, key)) table[name] = policy;
  }
  return table;
}

const Table& table_of(AutocastTarget target) {
  static const Table cpu = make_table(kCpuPolicies, c10::DispatchKey::AutocastCPU);
  static const Table cuda = make_table(kCudaPolicies, c10::DispatchKey::AutocastCUDA);
  return target == AutocastTarget::cpu ? cpu : cuda;
}

// One recording at a time in a process. A step's backward runs on a thread of the autograd engine, so they are not
// thread-local.
AutocastTarget current_target = AutocastTarget::cpu;
std::optional<c10::DeviceType> followed_device;

bool eligible(const at::Tensor& tensor) {
  return at::autocast::is_eligible(tensor, kPlanDevice);
}

void cast_arguments(torch::jit::Stack& stack, size_t count, at::ScalarType type) {
  for (size_t i = stack.size() - count; i < stack.size(); ++i) {
    c10::IValue& value = stack[i];
    if (value.isTensor()) {
      value = at::autocast::cached_cast(type, value.toTensor(), kPlanDevice);
    } else if (value.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor tensor : value.toTensorList())
        list.push_back(at::autocast::cached_cast(type, tensor, kPlanDevice));
      value = std::move(list);
    }
  }
}

at::ScalarType widest(const torch::jit::Stack& stack, size_t count) {
  at::ScalarType type = at::autocast::get_lower_precision_fp_from_device_type(kPlanDevice);
  for (size_t i = stack.size() - count; i < stack.size(); ++i) {
    if (stack[i].isTensor()) {
      type = at::autocast::prioritize(type, stack[i].toTensor(), kPlanDevice);
    } else if (stack[i].isTensorList()) {
      for (const at::Tensor tensor : stack[i].toTensorList())
        type = at::autocast::prioritize(type, tensor, kPlanDevice);
    }
  }
  return type;
}

bool first_is_eligible(const torch::jit::Stack& stack, size_t count) {
  const c10::IValue& first = stack[stack.size() - count];
  return first.isTensor() && eligible(first.toTensor());
}

void set_dtype(const c10::FunctionSchema& schema, torch::jit::Stack& stack) {
  const size_t count = schema.arguments().size();
  if (!first_is_eligible(stack, count)) return;
  for (size_t i = 0; i < count; ++i) {
    c10::IValue& value = stack[stack.size() - count + i];
    if (schema.arguments()[i].name() == "dtype" && value.isNone()) value = static_cast<int64_t>(at::kFloat);
  }
}

// Calls norm(self, p, dtype=float32), another overload of the same operator, instead of norm(self, p).
void call_with_dtype(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const size_t count = op.schema().arguments().size();
  const c10::IValue& first = (*stack)[stack->size() - count];
  const at::ScalarType type = eligible(first.toTensor()) ? at::kFloat : first.toTensor().scalar_type();
  const std::string overload = op.schema().overload_name() == "Scalar"          ? "ScalarOpt_dtype"
                               : op.schema().overload_name() == "ScalarOpt_dim" ? "ScalarOpt_dim_dtype"
                                                                                : "names_ScalarOpt_dim_dtype";
  stack->push_back(static_cast<int64_t>(type));
  c10::Dispatcher::singleton().findSchemaOrThrow("aten::norm", overload.c_str()).callBoxed(stack);
}

void autocast_call(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const c10::FunctionSchema& schema = op.schema();
  const std::string name =
      schema.name().substr(6) + (schema.overload_name().empty() ? "" : "." + schema.overload_name());
  const size_t count = schema.arguments().size();
  const AutocastPolicy policy = autocast_policy(current_target, name);
  // The kernel is registered for the lists of both targets. An operator that only the other target casts may consist of
  // operators that this one casts.
  if (policy == AutocastPolicy::none) {
    constexpr c10::DispatchKeySet kBelow(c10::DispatchKeySet::FULL_AFTER, c10::DispatchKey::AutocastIPU);
    return op.redispatchBoxed(keys & kBelow, stack);
  }
  const c10::impl::ExcludeDispatchKeyGuard below(c10::DispatchKey::AutocastIPU);
  switch (policy) {
    case AutocastPolicy::lower_precision:
      cast_arguments(*stack, count, at::autocast::get_lower_precision_fp_from_device_type(kPlanDevice));
      break;
    case AutocastPolicy::float32:
      cast_arguments(*stack, count, at::kFloat);
      break;
    case AutocastPolicy::promote:
      cast_arguments(*stack, count, widest(*stack, count));
      break;
    case AutocastPolicy::set_dtype:
      set_dtype(schema, *stack);
      break;
    case AutocastPolicy::append_dtype:
      return call_with_dtype(op, stack);
    case AutocastPolicy::none:
      break;
  }
  op.callBoxed(stack);
}

TORCH_LIBRARY_IMPL(_, AutocastIPU, m) {
  m.fallback(torch::CppFunction::makeFallthrough());
}

TORCH_LIBRARY_IMPL(aten, AutocastIPU, m) {
  std::vector<std::string> names;
  for (const auto target : {AutocastTarget::cpu, AutocastTarget::cuda})
    for (const auto& [name, policy] : table_of(target))
      if (target == AutocastTarget::cpu || !table_of(AutocastTarget::cpu).contains(name)) names.push_back(name);
  for (const std::string& name : names)
    m.impl(name.c_str(), torch::CppFunction::makeFromBoxedFunction<&autocast_call>());
}

}  // namespace

AutocastPolicy autocast_policy(AutocastTarget target, const std::string& name) {
  const auto found = table_of(target).find(name);
  return found == table_of(target).end() ? AutocastPolicy::none : found->second;
}

std::vector<std::string> autocast_operators(AutocastTarget target) {
  std::vector<std::string> names;
  for (const auto& [name, policy] : table_of(target)) names.push_back(name);
  return names;
}

AutocastState::AutocastState(c10::DeviceType device)
    : device_(device),
      enabled_(at::autocast::is_autocast_enabled(device)),
      dtype_(at::autocast::get_autocast_dtype(device)) {}

AutocastState::~AutocastState() {
  at::autocast::set_autocast_enabled(device_, enabled_);
  at::autocast::set_autocast_dtype(device_, dtype_);
}

AutocastScope::AutocastScope(AutocastTarget target, c10::ScalarType dtype)
    : plan_(kPlanDevice), followed_(followed_device.value_or(kPlanDevice)), previous_target_(current_target) {
  current_target = target;
  for (const c10::DeviceType device : {kPlanDevice, followed_device.value_or(kPlanDevice)}) {
    at::autocast::set_autocast_dtype(device, dtype);
    at::autocast::set_autocast_enabled(device, true);
  }
  at::autocast::increment_nesting();  // the end of a block inside keeps the cached casts
}

AutocastScope::~AutocastScope() {
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  current_target = previous_target_;
}

FollowedAutocast::FollowedAutocast(c10::DeviceType device)
    : state_(device), previous_target_(current_target), outer_blocks_(at::autocast::increment_nesting() - 1) {
  check(!followed_device, "autocast of two devices is followed");
  followed_device = device;
  // Sets the nesting to 0, so that the outermost block inside this scope clears the cached casts at its end.
  while (at::autocast::decrement_nesting() > 0) {
  }
  at::autocast::clear_cache();
  current_target = device == c10::DeviceType::CPU ? AutocastTarget::cpu : AutocastTarget::cuda;
  at::autocast::set_autocast_enabled(device, false);
}

FollowedAutocast::~FollowedAutocast() {
  followed_device.reset();
  current_target = previous_target_;
  at::autocast::clear_cache();
  for (int i = 0; i < outer_blocks_; ++i) at::autocast::increment_nesting();
}

FollowedAutocast::Call::Call() {
  if (!followed_device) return;
  plan_.emplace(kPlanDevice);
  at::autocast::set_autocast_dtype(kPlanDevice, at::autocast::get_autocast_dtype(*followed_device));
  at::autocast::set_autocast_enabled(kPlanDevice, at::autocast::is_autocast_enabled(*followed_device));
}

}  // namespace plimsoll
