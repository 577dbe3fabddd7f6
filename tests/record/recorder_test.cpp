#include "record/recorder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/transformerlayer.h>
#include <torch/types.h>

#include <algorithm>
#include <map>

#include "ops/layers/packed_attention.h"
#include "plimsoll/error.h"
#include "plimsoll/training.h"
#include "record/recording.h"
#include "refusals.h"

namespace plimsoll {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using torch::Tensor;

struct Two : torch::nn::Module {
  torch::nn::Linear first = register_module("first", torch::nn::Linear(4, 8));
  torch::nn::Linear second = register_module("second", torch::nn::Linear(8, 2));
};

Step two_layers() {
  Step step;
  step.model = [] { return std::make_shared<Two>(); };
  step.inputs = {{"x", {3, 4}, torch::kFloat32}};
  step.loss = [](torch::nn::Module& m, const StepInputs& in) {
    auto& net = static_cast<Two&>(m);
    return net.second(torch::relu(net.first(in["x"]))).square().mean();
  };
  return step;
}

std::vector<std::string_view> segment_names(const Trace& trace) {
  std::vector<std::string_view> names;
  for (const Segment& segment : trace.segments) names.push_back(name_of(segment.kind));
  return names;
}

TEST(Recorder, SegmentsFollowOneAnother) {
  TrainingOptions options;
  options.accumulate = options.evaluate = true;
  const Trace trace = record_step(two_layers(), options);
  EXPECT_THAT(segment_names(trace), ElementsAre("initialize", "micro", "accumulate", "update", "evaluate"));
  EXPECT_EQ(trace.segments.front().begin, 0);
  for (size_t i = 1; i < trace.segments.size(); ++i) EXPECT_EQ(trace.segments[i].begin, trace.segments[i - 1].end);
  EXPECT_EQ(trace.segments.back().end, static_cast<int32_t>(trace.ops.size()));
}

// The statistics of libtorch's layer and batch norms in 16 bits, by device.
TEST(Recorder, NormsKeepTheStatisticsOfTheirDevice) {
  Step step;
  step.model = [] { return std::make_shared<Two>(); };
  step.inputs = {{"x", {3, 4}, torch::kFloat32}};
  step.loss = [](torch::nn::Module& m, const StepInputs& in) {
    const Tensor y = static_cast<Two&>(m).first(in["x"].to(torch::kBFloat16));
    const Tensor scale = y.new_ones({8});
    return torch::batch_norm(torch::layer_norm(y, {8}, scale), scale, {}, {}, {}, true, 0.1, 1e-5, false)
        .square()
        .mean();
  };
  for (const char* device : {"cpu", "cuda"}) {
    TrainingOptions options;
    options.precision = Precision::bf16_true;
    options.device = device;
    int norms = 0;
    for (const Op& op : record_step(step, options).ops) {
      if (op.name != "aten::native_layer_norm" && op.name != "aten::native_batch_norm") continue;
      ++norms;
      EXPECT_EQ(op.results[0].dtype, DType::bfloat16) << device;
      for (const size_t i : {1, 2})
        EXPECT_EQ(op.results[i].dtype, device == std::string("cpu") ? DType::bfloat16 : DType::float32) << op.name;
    }
    EXPECT_EQ(norms, 2) << device;
  }
}

TEST(Recorder, RolesAndLabels) {
  const Trace trace = record_step(two_layers(), {});
  std::map<std::string, Role> roles;
  for (const Buffer& buffer : trace.buffers) roles[buffer.label] = buffer.role;
  EXPECT_EQ(roles.at("first.weight"), Role::parameter);
  EXPECT_EQ(roles.at("gradient of second.bias"), Role::gradient);
  EXPECT_EQ(roles.at("optimizer.exp_avg.first.weight"), Role::optimizer_state);
  EXPECT_EQ(roles.at("x"), Role::input);
  EXPECT_EQ(roles.at("relu in first"), Role::activation);
}

TEST(Recorder, BackwardBelongsToTheModuleOfItsForward) {
  const Trace trace = record_step(two_layers(), {});
  std::map<std::string, int> backward;
  for (const Op& op : trace.ops)
    if (op.phase == Phase::backward) ++backward[trace.modules[op.module]];
  EXPECT_GT(backward["first"], 0);
  EXPECT_GT(backward["second"], 0);
}

// As on the CPU: a copy of a permuted tensor is dense in the same order.
TEST(Recorder, CastsAndCopiesKeepTheOrderOfStrides) {
  const auto strides = [](const Tensor& x) {
    std::vector<std::vector<int64_t>> result;
    for (const Tensor& view : {x, x.transpose(1, 2), x.permute({2, 0, 1}), x.transpose(1, 2).slice(2, 1),
                               x.select(1, 0).unsqueeze(1).expand({4, 3, 5})})
      for (const Tensor& copy :
           {view.to(torch::kDouble), view.clone(), torch::empty_like(view), torch::zeros_like(view)})
        result.push_back(copy.strides().vec());
    return result;
  };
  const auto expected = strides(torch::zeros({4, 6, 5}));
  testing::record([&](Recorder&) { EXPECT_EQ(strides(torch::zeros({4, 6, 5})), expected); });
}

TEST(Recorder, ViewsVanish) {
  const Trace trace = testing::record([](Recorder&) {
    const Tensor x = torch::zeros({4, 6});
    x.t().narrow(0, 1, 2).unsqueeze(0).add_(1);
  });
  ASSERT_EQ(trace.ops.size(), 2u);
  const View& view = trace.ops[1].arguments[0].views[0];
  EXPECT_EQ(view.buffer, trace.ops[0].arguments[0].views[0].buffer);
  EXPECT_THAT(view.sizes, ElementsAre(1, 2, 4));
  EXPECT_THAT(view.strides, ElementsAre(2, 1, 6));
  EXPECT_EQ(view.offset, 1);
  EXPECT_TRUE(trace.ops[1].arguments.back().written);  // recorded as add.out
}

TEST(Recorder, PythonStyleScalarsAreConstants) {
  const Trace trace = testing::record([](Recorder&) { torch::zeros({4}) * 3; });
  const Op& op = trace.ops.back();
  EXPECT_EQ(op.arguments[1].kind, Argument::Kind::constant);
  EXPECT_THAT(describe_constants(op), HasSubstr("other=3"));
  const Trace pairs =
      testing::record([](Recorder&) { torch::zeros({4}, torch::kComplexFloat) * c10::complex<double>(1.5, -2); });
  EXPECT_THAT(describe_constants(pairs.ops.back()), HasSubstr("other=1.5-2j"));
}

TEST(Recorder, ConstantsInWordsAreThoseThatAreNotTheDefault) {
  const Trace trace = testing::record([](Recorder&) {
    torch::mm(torch::zeros({2, 3}), torch::zeros({3, 5}));
    torch::softmax(torch::zeros({4}), 0);
  });
  EXPECT_EQ(describe_constants(trace.ops.back()), "dim=0, half_to_float=False");
  for (const Op& op : trace.ops)
    if (op.name.starts_with("aten::mm")) {
      EXPECT_EQ(describe_constants(op), "");
    }
}

TEST(Recorder, AnOperandThatIsMissingIsNoConstant) {
  const Trace trace = testing::record([](Recorder&) { torch::group_norm(torch::zeros({3, 4, 5}), 2, {}, {}, 0.5); });
  ASSERT_THAT(trace.ops.back().name, HasSubstr("group_norm"));
  EXPECT_EQ(describe_constants(trace.ops.back()), "N=3, C=4, HxW=5, group=2, eps=0.5");  // no weight and no bias
}

TEST(Recorder, AListOfOptionalTensorsIsAnOperand) {
  const Trace trace = testing::record([](Recorder&) {
    const Tensor x = torch::zeros({4, 6}), rows = torch::zeros({2}, torch::kLong);
    x.index({torch::indexing::Slice(), rows});
  });
  const Op& op = trace.ops.back();
  ASSERT_THAT(op.name, HasSubstr("aten::index"));
  EXPECT_EQ(op.arguments[1].kind, Argument::Kind::tensor_list);
  ASSERT_EQ(op.arguments[1].views.size(), 2u);
  EXPECT_EQ(op.arguments[1].views[0].buffer, -1);  // the dimension that is not indexed
  EXPECT_EQ(op.arguments[1].views[1].dtype, DType::int64);
}

TEST(Recorder, PiecesOfTheUpdateFollowOneAnother) {
  const Trace trace = testing::record([](Recorder& recorder) {
    recorder.begin_update_piece({.kind = UpdatePiece::Kind::begin});
    torch::zeros({4});
    recorder.begin_update_piece({.kind = UpdatePiece::Kind::total});
    torch::zeros({4});
    recorder.begin_segment(SegmentKind::finish);
  });
  ASSERT_EQ(trace.update_pieces.size(), 2u);
  EXPECT_EQ(trace.update_pieces[0].begin, 0);
  EXPECT_EQ(trace.update_pieces[0].end, trace.update_pieces[1].begin);
  EXPECT_GT(trace.update_pieces[1].end, trace.update_pieces[1].begin);
}

TEST(Recorder, CpuTensorsAreKeptWithTheirBytes) {
  const Tensor table = torch::tensor({1.0f, 2.0f, 3.0f});
  const Trace trace = testing::record([&](Recorder&) { torch::zeros({3}) + table; });
  ASSERT_EQ(trace.constants.size(), 1u);
  EXPECT_EQ(trace.constants[0].bytes.size(), 12u);
  EXPECT_TRUE(trace.buffers[trace.constants[0].buffer].persistent);
}

TEST(Recorder, CpuTensorsInListsAreKeptToo) {
  const Tensor table = torch::tensor({1.0f, 2.0f, 3.0f}), rows = torch::tensor({2, 0});
  const Trace trace = testing::record([&](Recorder&) { torch::cat({torch::zeros({4}), table}).index({rows}); });
  ASSERT_EQ(trace.constants.size(), 2u);
  EXPECT_EQ(trace.constants[0].bytes.size(), 3 * sizeof(float));
  EXPECT_EQ(trace.constants[1].bytes.size(), 2 * sizeof(int64_t));
}

// A later segment reads it, so its bytes stay.
TEST(Recorder, ATensorOfTheConstructorThatIsReadLaterIsKept) {
  Recorder recorder;
  recorder.begin_segment(SegmentKind::initialize);
  const PlanScope scope;
  const Tensor read = torch::zeros({4}), unread = torch::zeros({4});
  const BufferId kept = buffer_of(read), temporary = buffer_of(unread);
  recorder.begin_segment(SegmentKind::micro);
  recorder.set_phase(Phase::forward);
  torch::zeros({4}) * read;
  const Trace trace = recorder.finish();
  EXPECT_TRUE(trace.buffers[kept].persistent);
  EXPECT_EQ(trace.buffers[kept].role, Role::parameter);
  EXPECT_FALSE(trace.buffers[temporary].persistent);
}

TEST(Recorder, AReplacedStateIsTheNewTensor) {
  const Trace trace = testing::record([](Recorder& recorder) {
    recorder.add_state("w", torch::zeros({4, 2}));
    recorder.replace_state("w", torch::zeros({3, 2}), {4, 2});
  });
  ASSERT_EQ(trace.state.size(), 1u);
  EXPECT_THAT(trace.state[0].view.sizes, ElementsAre(3, 2));
  EXPECT_THAT(trace.state[0].whole_sizes, ElementsAre(4, 2));
}

TEST(Recorder, ValuesComputedFromNumbersAreRead) {
  testing::record([](Recorder&) {
    Tensor x = torch::linspace(0, 1, 5);
    x.narrow(0, 1, 2).mul_(4);
    EXPECT_EQ(x[2].item<float>(), 2);
    EXPECT_EQ((x + torch::tensor({1., 2., 3., 4., 5.}))[4].item<float>(), 6);
    EXPECT_EQ(torch::eye(3).nonzero().sizes(), c10::IntArrayRef({3, 2}));
    EXPECT_EQ(torch::full({2}, 3).cpu()[0].item<int64_t>(), 3);
  });
}

TEST(Recorder, ValuesThatDependOnTheStepAreNotRead) {
  testing::record([](Recorder& recorder) {
    const Tensor input = torch::zeros({2});
    recorder.add_input("x", input);
    const Tensor x = torch::ones({2});
    x.add_(input);
    for (const Tensor& unknown : {x[0], torch::rand({}), torch::empty({2})[0], torch::zeros({1 << 19})[0]})
      EXPECT_THAT(refusal_of([&] { unknown.item<float>(); }), HasSubstr("reads a value"));
  });
}

TEST(Recorder, OnlyValuesOfTrainedParametersAreAssumedToBeFinite) {
  testing::record([](Recorder& recorder) {
    const Tensor weight = torch::zeros({2}).requires_grad_(true), buffer = torch::zeros({2}), input = torch::zeros({2});
    recorder.mark(weight, Role::parameter, "weight", /*persistent=*/true);
    recorder.mark(buffer, Role::parameter, "buffer", /*persistent=*/true);
    recorder.add_input("x", input);
    EXPECT_TRUE(torch::isfinite(weight).all().item<bool>());
    EXPECT_FALSE(torch::isinf(torch::softmax(input * weight.detach() + buffer, 0)).any().item<bool>());
    for (const Tensor& unknown : {input, buffer + 1, input * torch::zeros_like(weight)})
      EXPECT_THAT(refusal_of([&] { torch::isinf(unknown).any().item<bool>(); }), HasSubstr("reads a value"));
    // These values are known.
    EXPECT_TRUE(torch::isinf(torch::full({2, 2}, -INFINITY).triu(1)).any().item<bool>());
    EXPECT_FALSE(torch::isfinite(torch::full({2}, INFINITY)).all().item<bool>());
    EXPECT_TRUE(torch::isinf(torch::tensor({1.F, INFINITY})).any().item<bool>());
  });
}

TEST(Recorder, RandomOpsHaveAnIdEach) {
  const Trace trace = testing::record([](Recorder&) {
    torch::rand({4});
    torch::dropout(torch::zeros({4}), 0.5, true);
    torch::zeros({4}) + 1;
  });
  std::vector<int64_t> ids;
  for (const Op& op : trace.ops)
    if (op.random_id >= 0) ids.push_back(op.random_id);
  EXPECT_THAT(ids, ElementsAre(0, 1));
}

TEST(Recorder, RandomNumbersOfAStepAreDrawnInEveryStep) {
  using ::testing::HasSubstr;
  testing::record([](Recorder& recorder) {
    EXPECT_TRUE(is_plan(torch::rand({4}, torch::kCPU)));
    EXPECT_TRUE(torch::zeros({4}, torch::kCPU).is_cpu());
    EXPECT_TRUE(torch::dropout(torch::zeros({4}, torch::kCPU), 0.5, /*train=*/false).is_cpu());
    recorder.set_phase(Phase::initialize);
    EXPECT_TRUE(torch::rand({4}, torch::kCPU).is_cpu());
  });
  const auto refusal = [](const std::function<void()>& draw) {
    try {
      testing::record([&](Recorder&) { draw(); });
    } catch (const UserError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(refusal([] { torch::zeros({4}, torch::kCPU).uniform_(); }),
              AllOf(HasSubstr("operator aten::uniform_"), HasSubstr("on the device of an input")));
  EXPECT_THAT(refusal([] { torch::dropout(torch::zeros({4}, torch::kCPU), 0.5, true); }), HasSubstr("CPU tensor"));
  EXPECT_THAT(refusal([] { torch::rand({4}, at::detail::createCPUGenerator(3)); }),
              HasSubstr("cannot be recorded with a generator"));
}

// libtorch writes it as addmv with beta 0, which would read a result that nothing has written.
TEST(Recorder, AProductWithAVectorIsOneOp) {
  const Trace trace = testing::record([](Recorder&) {
    const Tensor m = torch::zeros({3, 4}), v = torch::zeros({4});
    Tensor out = torch::empty({3});
    torch::mv(m, v);
    torch::mv_out(out, m, v);
  });
  EXPECT_THAT(testing::names(trace), Contains("aten::mv"));
  EXPECT_THAT(testing::names(trace), Contains("aten::mv.out"));
}

// torch.nn.utils.parametrize sets a parameter to itself.
TEST(Recorder, ATensorMayBeSetToItsOwnStorageOnly) {
  const Trace trace = testing::record([](Recorder&) {
    Tensor a = torch::empty({3, 4}), b = torch::empty({3, 4});
    a.set_(a.detach().view({12}));
    EXPECT_EQ(a.sizes().vec(), (std::vector<int64_t>{12}));
    try {
      a.set_(b);
      ADD_FAILURE() << "nothing was thrown";
    } catch (const UserError& error) {
      EXPECT_THAT(error.what(), HasSubstr("another's storage"));
    }
  });
  EXPECT_TRUE(trace.ops.empty());
}

TEST(Recorder, FlopsOfAProduct) {
  const Trace trace = testing::record([](Recorder&) { torch::mm(torch::zeros({2, 3}), torch::zeros({3, 5})); });
  EXPECT_EQ(trace.ops.back().flops, 2 * 2 * 3 * 5);
  EXPECT_EQ(trace.ops.back().bytes_moved, 4 * (6 + 15 + 10));
}

TEST(Recorder, FlopsOfAConvolution) {
  const Trace trace = testing::record([](Recorder&) {
    torch::convolution(torch::zeros({1, 3, 8, 8}), torch::zeros({4, 3, 3, 3}), {}, {1, 1}, {1, 1}, {1, 1}, false,
                       {0, 0}, 1);
  });
  EXPECT_EQ(trace.ops.back().flops, 2 * (4 * 8 * 8) * (3 * 3 * 3));
}

// A plan tensor that outlives its recording: nothing adopts the CPU tensor, and libtorch refuses the mixture.
TEST(PlanScopes, WithoutARecorderCpuTensorsAreNotAdopted) {
  const Tensor table = torch::tensor({1.0f, 2.0f, 3.0f});
  Tensor kept;
  testing::record([&](Recorder&) { kept = torch::zeros({3}); });
  const PlanScope scope;
  try {
    kept + table;
    ADD_FAILURE() << "accepted";
  } catch (const c10::Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("Expected all tensors to be on the same device"));
  }
}

TEST(PlanScopes, WithoutARecorderARefusalNamesTheOperatorAlone) {
  Tensor kept;
  testing::record([&](Recorder&) { kept = torch::zeros({3}); });
  EXPECT_THAT(refusal_of([&] { torch::equal(kept, kept); }),
              AllOf(HasSubstr("operator aten::equal cannot be recorded"), Not(HasSubstr("module"))));
}

TEST(Recorder, AModelTakesNoMemory) {
  struct Huge : torch::nn::Module {
    torch::nn::Linear layer = register_module("layer", torch::nn::Linear(200000, 20000));
  };
  Step step;
  step.model = [] { return std::make_shared<Huge>(); };
  step.inputs = {{"x", {1, 200000}, torch::kFloat32}};
  step.loss = [](torch::nn::Module& m, const StepInputs& in) { return static_cast<Huge&>(m).layer(in["x"]).sum(); };
  const int64_t before = peak_resident_bytes();
  const Trace trace = record_step(step, {});
  EXPECT_LT(peak_resident_bytes() - before, 64 << 20);
  int64_t bytes = 0;
  for (const Buffer& buffer : trace.buffers) bytes += buffer.bytes;
  EXPECT_GT(bytes, int64_t{59} << 30);
}

TEST(RecordStep, MistakesAreNamed) {
  Step step = two_layers();
  step.loss = [](torch::nn::Module& m, const StepInputs& in) { return static_cast<Two&>(m).first(in["y"]).sum(); };
  EXPECT_THAT(refusal_of([&] { record_step(step, {}); }), AllOf(HasSubstr("'y'"), HasSubstr("'x'")));
  step.loss = [](torch::nn::Module& m, const StepInputs& in) { return static_cast<Two&>(m).first(in["x"]); };
  EXPECT_THAT(refusal_of([&] { record_step(step, {}); }), HasSubstr("one floating-point number"));
  step.loss = [](torch::nn::Module&, const StepInputs& in) { return in["x"].sum(); };
  EXPECT_THAT(refusal_of([&] { record_step(step, {}); }), HasSubstr("does not depend on any parameter"));
  step.loss = [](torch::nn::Module& m, const StepInputs& in) {
    const Tensor h = static_cast<Two&>(m).first(in["x"]);
    return h.index({h > 0}).sum();
  };
  EXPECT_THAT(refusal_of([&] { record_step(step, {}); }), HasSubstr("in module 'first'"));
  step.loss = [](torch::nn::Module& m, const StepInputs& in) {
    return torch::mm(static_cast<Two&>(m).first(in["x"]), torch::zeros({3, 3})).sum();
  };
  const std::string message = refusal_of([&] { record_step(step, {}); });
  EXPECT_THAT(message, AllOf(HasSubstr("in module 'first'"), HasSubstr("cannot be multiplied"), Not(HasSubstr("\n"))));
  // A failed recording leaves nothing behind: the next one works.
  EXPECT_FALSE(record_step(two_layers(), {}).ops.empty());
}

// Attention of libtorch compares its inputs before it reads a parameter: the module read last is not the one.
struct Attentive : torch::nn::Module {
  torch::nn::Linear i = register_module("i", torch::nn::Linear(4, 8));
  torch::nn::MultiheadAttention early =
      register_module("early", torch::nn::MultiheadAttention(torch::nn::MultiheadAttentionOptions(8, 2)));
  torch::nn::TransformerEncoderLayer block = register_module(
      "block", torch::nn::TransformerEncoderLayer(torch::nn::TransformerEncoderLayerOptions(8, 2).dropout(0)));
};

TEST(RecordStep, LibtorchsAttentionIsRefusedByItsOwnName) {
  Step step;
  step.model = [] { return std::make_shared<Attentive>(); };
  step.inputs = {{"x", {3, 2, 4}, torch::kFloat32}};
  step.loss = [](torch::nn::Module& m, const StepInputs& in) {
    auto& net = static_cast<Attentive&>(m);
    const Tensor h = net.i(in["x"]);
    return std::get<0>(net.early(h, h, h)).sum();
  };
  EXPECT_THAT(refusal_of([&] { record_step(step, {}); }),
              AllOf(HasSubstr("aten::equal in module 'early' (torch::nn::MultiheadAttention)"),
                    HasSubstr("compares the values of two tensors"), HasSubstr("at::scaled_dot_product_attention"),
                    Not(HasSubstr("'i'"))));
  // Parameters of the first module are read, by any means; then the other module is the one.
  step.loss = [](torch::nn::Module& m, const StepInputs& in) {
    auto& net = static_cast<Attentive&>(m);
    return net.block(net.early->out_proj(net.i(in["x"]))).sum();
  };
  EXPECT_THAT(refusal_of([&] { record_step(step, {}); }), HasSubstr("in module 'block.self_attn'"));
  // The name of a step does not change the modules.
  step.loss = [](torch::nn::Module& m, const StepInputs& in) {
    const Tensor h = static_cast<Two&>(m).first(in["x"]);
    return torch::equal(h, h + 1) ? h.sum() : h.mean();
  };
  step.model = [] { return std::make_shared<Two>(); };
  EXPECT_THAT(refusal_of([&] { record_step(step, {}); }),
              AllOf(HasSubstr("decide by shapes"), Not(HasSubstr("scaled_dot_product"))));
}

TEST(RecordStep, TiedParametersAreOneBuffer) {
  struct Tied : torch::nn::Module {
    Tensor a = register_parameter("a", torch::zeros({4}));
    Tensor b = register_parameter("b", a);
  };
  Step step;
  step.model = [] { return std::make_shared<Tied>(); };
  step.inputs = {{"x", {4}, torch::kFloat32}};
  step.loss = [](torch::nn::Module& m, const StepInputs& in) {
    auto& net = static_cast<Tied&>(m);
    return (net.a * in["x"] * net.b).sum();
  };
  const Trace trace = record_step(step, {});
  int parameters = 0;
  for (const NamedView& entry : trace.state) parameters += trace.buffers[entry.view.buffer].role == Role::parameter;
  EXPECT_EQ(parameters, 1);
}

// Returns the recorded forward op of attention over [2, 4, 1024, 64].
Op recorded_attention(bool causal, int64_t window, torch::ScalarType dtype = torch::kBFloat16) {
  Step step;
  step.model = [] { return std::make_shared<Two>(); };
  step.inputs = {{"x", {3, 4}, torch::kFloat32}, {"q", {2, 4, 1024, 64}, dtype}};
  step.loss = [=](torch::nn::Module& m, const StepInputs& in) {
    auto& net = static_cast<Two&>(m);
    const Tensor seen = ops::attention(in["q"], in["q"], in["q"], causal, window);
    return net.second(torch::relu(net.first(in["x"]))).square().mean() + seen.to(torch::kFloat32).mean();
  };
  const Trace trace = record_step(step, {});
  const auto found = std::ranges::find(trace.ops, "plimsoll::attention", &Op::name);
  return found == trace.ops.end() ? Op{} : *found;
}

TEST(Recorder, MaskedScoresOfAttentionAreNoArithmetic) {
  const double all = 2 * 2.0 * 2 * 4 * 1024 * 1024 * 64;
  EXPECT_EQ(recorded_attention(false, 0).flops, all);
  EXPECT_EQ(recorded_attention(true, 0).flops, all * (1024 + 128) / 2048);  // half, and the tiles of the diagonal
  // The part of the triangle within 256 of the diagonal counts, and the tiles of both of its edges.
  EXPECT_EQ(recorded_attention(true, 256).flops, all * (256.0 * 1024 - 256 * 128 + 1024 * 128) / (1024 * 1024));
  EXPECT_EQ(recorded_attention(true, 1024).flops, recorded_attention(true, 0).flops);  // a window that hides nothing
}

// The backward pass of packed queries, keys and values, which is an overload, counts like that of attention.
TEST(Recorder, GradientsOfPackedAttentionAreCountedAlike) {
  const auto ops_of = [](bool packed, bool causal, int64_t window, torch::Dtype dtype) {
    Step step = two_layers();
    step.inputs.push_back({"qkv", {2, 1024, 6 * 64}, dtype});
    step.loss = [=](torch::nn::Module& module, const StepInputs& in) {
      auto& net = static_cast<Two&>(module);
      const Tensor qkv = in["qkv"] * net.first.get()->weight.sum().to(dtype);
      const ops::AttentionOptions options{.causal = causal, .window = window};
      if (packed) return ops::packed_attention(qkv, {4, 1, 64}, options).to(torch::kFloat32).mean();
      const auto parts = qkv.view({2, 1024, 6, 64}).transpose(1, 2).split_with_sizes({4, 1, 1}, 1);
      return ops::attention(parts[0], parts[1], parts[2], options).to(torch::kFloat32).mean();
    };
    std::map<std::string, std::pair<double, int64_t>> found;
    for (const Op& op : record_step(step, {}).ops)
      if (op.name.starts_with("plimsoll::attention"))
        found[op.name.substr(0, op.name.find('.'))] = {op.flops, op.staged_bytes};
    return found;
  };
  for (const auto& [causal, window] : {std::pair{false, 0}, {true, 0}, {true, 256}})
    for (const auto dtype : {torch::kBFloat16, torch::kFloat32}) {
      const auto packed = ops_of(true, causal, window, dtype);
      EXPECT_EQ(packed.size(), 2u);
      EXPECT_EQ(packed, ops_of(false, causal, window, dtype)) << causal << window;
    }
}

TEST(Recorder, AttentionOutsideOfFlashKernelsStagesItsScores) {
  EXPECT_EQ(recorded_attention(true, 0).staged_bytes, 0);
  // A matmul writes the scores, the softmax reads and writes them, and a matmul reads the probabilities.
  EXPECT_EQ(recorded_attention(false, 0, torch::kFloat32).staged_bytes, 4 * 4 * 2 * 4 * 1024 * 1024);
}

}  // namespace
}  // namespace plimsoll
