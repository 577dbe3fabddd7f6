// Tests attention that is written with matmul and softmax, and recorded as plimsoll::attention: values and gradients,
// planned bytes, and the forms that stay as they are written.
#include "record/written_attention.h"

#include <gtest/gtest.h>
#include <torch/autograd.h>
#include <torch/nn/module.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "run/equality.h"

namespace plimsoll::written_attention_test {
namespace {

using testing::Batch;
using testing::EagerStep;
using torch::Tensor;

constexpr int64_t kSequences = 2, kHeads = 4, kFewer = 2, kTokens = 70, kWidth = 8;
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kLowest = std::numeric_limits<float>::lowest();

struct Operands {
  Tensor q, k, v;    // [sequences, heads, tokens, width]
  Tensor few, fewv;  // [sequences, fewer heads, tokens, width]
  Tensor bias;       // trained, [heads, 1, 1]
  Tensor seen;       // booleans, [sequences, 1, tokens, tokens]
  Tensor none;       // booleans of which some queries see no key
};
using Form = std::function<Tensor(const Operands&)>;

struct Model : torch::nn::Module {
  Model() {
    const auto weight = [&](const char* name) {
      return register_parameter(name, torch::empty({kHeads * kWidth, kHeads * kWidth}).uniform_(-0.3, 0.3));
    };
    q = weight("q"), k = weight("k"), v = weight("v");
    bias = register_parameter("bias", torch::empty({kHeads, 1, 1}).uniform_(-1, 1));
  }
  Tensor q, k, v, bias;
};

Tensor heads_of(const Tensor& x, const Tensor& weight, int64_t heads) {
  return torch::linear(x, weight.slice(0, 0, heads * kWidth))
      .view({kSequences, kTokens, heads, kWidth})
      .transpose(1, 2);
}

Step step_of(const Form& form, Replacements replace = {}) {
  Step step;
  step.inputs = {{"x", {kSequences, kTokens, kHeads * kWidth}, torch::kFloat},
                 {"seen", {kSequences, kTokens, kTokens}, torch::kFloat}};
  step.model = [] { return std::make_shared<Model>(); };
  step.loss = [form](torch::nn::Module& module, const StepInputs& inputs) {
    const auto& m = dynamic_cast<const Model&>(module);
    const Tensor& x = inputs["x"];
    const Tensor none = inputs["seen"].unsqueeze(1) > 0, own = torch::eye(kTokens, x.options()) > 0;
    const Tensor out = form({heads_of(x, m.q, kHeads), heads_of(x, m.k, kHeads), heads_of(x, m.v, kHeads),
                             heads_of(x, m.k, kFewer), heads_of(x, m.v, kFewer), m.bias, none.logical_or(own), none});
    return out.transpose(1, 2).reshape(x.sizes()).mul(x + 1).mean() + 0 * m.bias.sum() + 0 * m.v.sum() + 0 * m.k.sum();
  };
  step.replace = replace;
  return step;
}

Batch batch_of(int64_t seed) {
  torch::manual_seed(seed);
  Batch batch = {{"x", torch::randn({kSequences, kTokens, kHeads * kWidth})},
                 {"seen", torch::rand({kSequences, kTokens, kTokens}) - 0.3}};
  batch["seen"].slice(1, 0, 5).fill_(-1);
  return batch;
}

TrainingOptions options_of(Precision precision = Precision::fp32_true) {
  TrainingOptions options;
  options.optimizer.name = "sgd";
  options.precision = precision;
  return options;
}

int64_t attentions_in(const Step& step, const TrainingOptions& options = options_of()) {
  return std::ranges::count(record_step(step, options).ops, "plimsoll::attention", &Op::name);
}

// A hook of a node that doubles the gradients it takes.
struct Doubled : torch::autograd::FunctionPreHook {
  torch::autograd::variable_list operator()(const torch::autograd::variable_list& gradients) override {
    torch::autograd::variable_list doubled = gradients;
    for (Tensor& gradient : doubled)
      if (gradient.defined()) gradient = gradient * 2;
    return doubled;
  }
};

Tensor scores(const Operands& o) {
  return torch::matmul(o.q, o.k.transpose(-1, -2));
}
Tensor repeated(const Tensor& few) {
  return few.unsqueeze(2)
      .expand({kSequences, kFewer, kHeads / kFewer, kTokens, kWidth})
      .reshape({kSequences, kHeads, kTokens, kWidth});
}
Tensor added(const Tensor& seen, double hidden = kLowest) {
  return torch::zeros(seen.sizes(), seen.options().dtype(torch::kFloat)).masked_fill(seen.logical_not(), hidden);
}

// Probabilities as GPT-OSS computes them.
Tensor without_sinks(const Tensor& matrix, const Operands& o) {
  const Tensor sinks = o.bias.reshape({1, -1, 1, 1}).expand({kSequences, -1, kTokens, -1});
  const Tensor combined = torch::cat({matrix, sinks}, -1);
  const Tensor largest = std::get<0>(combined.max(-1, /*keepdim=*/true));
  return (combined - largest).softmax(-1).slice(-1, 0, kTokens);
}

const std::vector<std::pair<std::string, Form>>& replaced() {
  static const std::vector<std::pair<std::string, Form>> forms = {
      {"no scale", [](auto& o) { return torch::matmul(scores(o).softmax(-1), o.v); }},
      {"scaled", [](auto& o) { return torch::matmul((scores(o) * 0.3).softmax(-1), o.v); }},
      {"divided", [](auto& o) { return torch::matmul((scores(o) / 3).softmax(-1), o.v); }},
      {"divided by a tensor",
       [](auto& o) { return torch::matmul((scores(o) / torch::full({}, 3.0, o.q.options())).softmax(-1), o.v); }},
      {"cast", [](auto& o) { return torch::matmul(scores(o).to(torch::kDouble).softmax(-1).to(torch::kFloat), o.v); }},
      {"mask added", [](auto& o) { return torch::matmul((scores(o) * 0.3 + added(o.seen)).softmax(-1), o.v); }},
      {"mask added first", [](auto& o) { return torch::matmul((added(o.seen) + scores(o)).softmax(-1), o.v); }},
      {"mask added of queries without keys",
       [](auto& o) { return torch::matmul((scores(o) * 0.3 + added(o.none)).softmax(-1), o.v); }},
      {"filled with -inf",
       [](auto& o) {
         return torch::matmul((scores(o) * 0.3).masked_fill(o.seen.logical_not(), -kInfinity).softmax(-1), o.v);
       }},
      {"filled with the lowest number, of queries without keys",
       [](auto& o) {
         return torch::matmul((scores(o) * 0.3).masked_fill(o.none.logical_not(), kLowest).softmax(-1), o.v);
       }},
      {"filled with -1e9, of queries without keys",
       [](auto& o) {
         return torch::matmul((scores(o) * 0.3).masked_fill(o.none.logical_not(), -1e9).softmax(-1), o.v);
       }},
      {"softcap, filled with -10000, of queries without keys",
       [](auto& o) {
         return torch::matmul(((scores(o) / 2).tanh() * 2).masked_fill(o.none.logical_not(), -1e4).softmax(-1), o.v);
       }},
      {"filled with -inf, then a bias",
       [](auto& o) {
         const Tensor bias = torch::arange(kTokens, o.q.options()) / 30;
         return torch::matmul(((scores(o) * 0.3).masked_fill(o.seen.logical_not(), -kInfinity) + bias).softmax(-1),
                              o.v);
       }},
      {"where",
       [](auto& o) {
         return torch::matmul(torch::where(o.none, scores(o) / 3, torch::full({}, kLowest, o.q.options())).softmax(-1),
                              o.v);
       }},
      {"where not",
       [](auto& o) {
         return torch::matmul(torch::where(o.seen.logical_not(), -kInfinity, scores(o) / 3).softmax(-1), o.v);
       }},
      {"in place",
       [](auto& o) {
         Tensor matrix = scores(o);
         matrix.mul_(0.3).add_(added(o.seen));
         return torch::matmul(matrix.softmax(-1), o.v);
       }},
      {"softcap",
       [](auto& o) { return torch::matmul(((scores(o) * 0.3 / 2).tanh() * 2 + added(o.seen)).softmax(-1), o.v); }},
      {"repeated heads",
       [](auto& o) {
         const Tensor k = repeated(o.few), v = repeated(o.fewv);
         return torch::matmul((torch::matmul(o.q, k.transpose(2, 3)) * 0.3 + added(o.seen)).softmax(-1), v);
       }},
      {"less the largest score",
       [](auto& o) {
         const Tensor matrix = scores(o) * 0.3;
         return torch::matmul((matrix - matrix.amax(-1, true)).softmax(-1), o.v);
       }},
      {"sinks", [](auto& o) { return torch::matmul(without_sinks(scores(o) * 0.3, o), o.v); }},
      {"sinks of -inf",
       [](auto& o) {
         const Tensor sinks = o.bias.reshape({1, -1, 1, 1}).expand({kSequences, -1, kTokens, -1});
         return torch::matmul(torch::cat({scores(o) * 0.3, sinks.masked_fill(sinks < 0, -kInfinity)}, -1)
                                  .softmax(-1)
                                  .slice(-1, 0, kTokens),
                              o.v);
       }},
      {"sinks of the lowest number",
       [](auto& o) {
         const Tensor sinks = torch::full({kSequences, kHeads, kTokens, 1}, kLowest, o.q.options());
         return torch::matmul(torch::cat({scores(o) * 0.3, sinks}, -1).softmax(-1).slice(-1, 0, kTokens), o.v);
       }},
      {"sinks, masked, repeated heads",
       [](auto& o) {
         const Tensor k = repeated(o.few), v = repeated(o.fewv);
         return torch::matmul(without_sinks(torch::matmul(o.q, k.transpose(2, 3)) * 0.3 + added(o.none), o), v);
       }},
      {"three dimensions",
       [](auto& o) {
         const auto flat = [](const Tensor& x) { return x.reshape({kSequences * kHeads, kTokens, kWidth}); };
         return torch::matmul((torch::matmul(flat(o.q), flat(o.k).transpose(1, 2)) * 0.3).softmax(-1), flat(o.v))
             .view(o.q.sizes());
       }},
      {"keys without a gradient",
       [](auto& o) { return torch::matmul(torch::matmul(o.q, o.k.detach().transpose(-1, -2)).softmax(-1), o.v); }},
      {"a view of the result",
       [](auto& o) { return torch::matmul(scores(o).softmax(-1), o.v).view({-1}).view(o.q.sizes()); }},
  };
  return forms;
}

class Replaced : public ::testing::TestWithParam<size_t> {};
INSTANTIATE_TEST_SUITE_P(Each, Replaced, ::testing::Range<size_t>(0, replaced().size()));

TEST_P(Replaced, HasTheValuesOfEagerAndNoMatrix) {
  const auto& [name, form] = replaced()[GetParam()];
  SCOPED_TRACE(name);
  TrainingOptions options = options_of();
  options.evaluate = true;
  const Step step = step_of(form);
  ASSERT_GT(attentions_in(step, options), 0);
  Training training(step, options), whole(step_of(form, {.attention = false}), options);
  // Sinks take columns of q, k and v, which are narrow here.
  const int64_t matrix = kSequences * kHeads * kTokens * kTokens * 4;
  EXPECT_LT(training.plan().arena_bytes, whole.plan().arena_bytes - (name.starts_with("sinks") ? matrix / 2 : matrix));
  training.start();
  EagerStep eager(step, options);
  eager.copy_from(training);
  for (int i = 0; i < 3; ++i) {
    const Batch batch = batch_of(i);
    EXPECT_NEAR(training.step({batch}, 1).loss, eager.step({batch}, 1), 2e-6);
  }
  const auto reference = eager.state();
  for (const auto& [key, tensor] : training.state())
    EXPECT_LT((tensor - reference.at(key)).abs().max().item<double>(), 2e-6) << key;
  const Batch batch = batch_of(9);
  EXPECT_NEAR(training.evaluate(batch), eager.step({batch}, 1), 2e-6);
}

TEST(WrittenAttention, ReadsKeysBeforeTheyAreRepeated) {
  const auto form = std::ranges::find(replaced(), "repeated heads", &std::pair<std::string, Form>::first)->second;
  const Trace trace = record_step(step_of(form), options_of());
  const auto op = std::ranges::find(trace.ops, "plimsoll::attention", &Op::name);
  ASSERT_NE(op, trace.ops.end());
  EXPECT_EQ(op->arguments[1].views[0].sizes[1], kFewer);
  EXPECT_EQ(op->arguments[2].views[0].sizes[1], kFewer);
}

TEST(WrittenAttention, ReadsKeysBeforeTheyAreRepeatedAndCast) {
  const auto form = [](const Operands& o) {
    const Tensor k = repeated(o.few.to(torch::kFloat)), v = repeated(o.fewv);
    return torch::matmul((torch::matmul(o.q, k.transpose(2, 3)) * 0.3).softmax(-1), v);
  };
  const TrainingOptions options = options_of(Precision::bf16_mixed);
  const Trace trace = record_step(step_of(form), options);
  const auto op = std::ranges::find(trace.ops, "plimsoll::attention", &Op::name);
  ASSERT_NE(op, trace.ops.end());
  EXPECT_EQ(op->arguments[1].views[0].sizes[1], kFewer);
  Training training(step_of(form), options), whole(step_of(form, {.attention = false}), options);
  training.start(), whole.start();
  EXPECT_NEAR(training.step({batch_of(1)}, 1).loss, whole.step({batch_of(1)}, 1).loss, 2e-3);
  std::map<std::string, Tensor> reference;
  for (const auto& [key, tensor] : whole.state()) reference[key] = tensor;
  for (const auto& [key, tensor] : training.state())
    EXPECT_LT((tensor - reference.at(key)).abs().max().item<double>(), 2e-3) << key;
}

TEST(WrittenAttention, ReadsRepeatedKeysThatChange) {
  const auto form = [](const Operands& o) {
    const torch::NoGradGuard guard;
    const Tensor k = repeated(o.few).mul_(2), v = repeated(o.fewv);
    return torch::matmul(torch::matmul(o.q, k.transpose(2, 3)).softmax(-1), v);
  };
  const auto loss = [&](Replacements replace) {
    Step step = step_of(form, replace);
    Training training(step, options_of());
    training.start();
    return training.step({batch_of(1)}, 1).loss;
  };
  EXPECT_EQ(attentions_in(step_of(form)), 1);
  EXPECT_NEAR(loss({}), loss({.attention = false}), 2e-6);
}

TEST(WrittenAttention, InMixedPrecisionIsCloseToEager) {
  for (const char* name : {"mask added", "repeated heads", "softcap"}) {
    const auto form = std::ranges::find(replaced(), name, &std::pair<std::string, Form>::first)->second;
    const TrainingOptions options = options_of(Precision::bf16_mixed);
    EXPECT_GT(attentions_in(step_of(form), options), 0) << name;
    Training training(step_of(form), options), exact(step_of(form, {.attention = false}), options_of());
    training.start(), exact.start();
    const Batch batch = batch_of(1);
    EXPECT_NEAR(training.step({batch}, 1).loss, exact.step({batch}, 1).loss, 2e-3) << name;
    std::map<std::string, Tensor> reference;
    for (const auto& [key, tensor] : exact.state()) reference[key] = tensor;
    for (const auto& [key, tensor] : training.state())
      EXPECT_LT((tensor - reference.at(key)).abs().max().item<double>(), 2e-3) << name << " " << key;
  }
}

// Forms that are another formula, or whose matrices something else needs: every bit is libtorch's.
const std::vector<std::pair<std::string, Form>>& kept() {
  static const std::vector<std::pair<std::string, Form>> forms = {
      {"trained bias", [](auto& o) { return torch::matmul((scores(o) + o.bias).softmax(-1), o.v); }},
      {"less another score",
       [](auto& o) {
         const Tensor matrix = scores(o);
         return torch::matmul((matrix - matrix.amax(-2, true)).softmax(-1), o.v);
       }},
      {"probabilities of sinks",
       [](auto& o) {
         const Tensor sinks = o.bias.reshape({1, -1, 1, 1}).expand({kSequences, -1, kTokens, -1});
         const Tensor p = torch::cat({scores(o), sinks}, -1).softmax(-1);
         return torch::matmul(p, torch::cat({o.v, o.v.slice(2, 0, 1)}, 2));
       }},
      {"softmax over queries", [](auto& o) { return torch::matmul(scores(o).softmax(-2), o.v); }},
      {"scaled behind the mask",
       [](auto& o) { return torch::matmul(((scores(o) + added(o.seen, -9)) * 0.3).softmax(-1), o.v); }},
      {"filled with a small number",
       [](auto& o) { return torch::matmul(scores(o).masked_fill(o.seen, -3).softmax(-1), o.v); }},
      {"filled with -10000",
       [](auto& o) {
         return torch::matmul((scores(o) * 1e5).masked_fill(o.seen.logical_not(), -1e4).softmax(-1), o.v);
       }},
      {"filled with -10000 behind a large cap",
       [](auto& o) {
         return torch::matmul((scores(o).tanh() * 2e4).masked_fill(o.seen.logical_not(), -1e4).softmax(-1), o.v);
       }},
      {"less the largest score, then sinks",
       [](auto& o) {
         const Tensor matrix = scores(o) * 0.3,
                      sinks = o.bias.reshape({1, -1, 1, 1}).expand({kSequences, -1, kTokens, -1});
         const Tensor less = matrix - matrix.amax(-1, true);
         return torch::matmul(torch::cat({less, sinks}, -1).softmax(-1).slice(-1, 0, kTokens), o.v);
       }},
      {"less the largest score, then a softcap",
       [](auto& o) {
         const Tensor matrix = scores(o) * 0.3;
         return torch::matmul((((matrix - matrix.amax(-1, true)) / 2).tanh() * 2).softmax(-1), o.v);
       }},
      {"scaled probabilities", [](auto& o) { return torch::matmul(scores(o).softmax(-1) * 0.3, o.v); }},
      {"no cap behind tanh", [](auto& o) { return torch::matmul(scores(o).tanh().softmax(-1), o.v); }},
      {"detached scores", [](auto& o) { return torch::matmul(scores(o).detach().softmax(-1), o.v); }},
      {"values of another width",
       [](auto& o) {
         return torch::matmul(scores(o).softmax(-1), torch::cat({o.v, o.v}, -1)).slice(-1, 3, 3 + kWidth);
       }},
      {"read probabilities",
       [](auto& o) {
         const Tensor p = scores(o).softmax(-1);
         return torch::matmul(p, o.v) + p.square().sum();
       }},
      {"read scores",
       [](auto& o) {
         const Tensor s = scores(o) * 0.3;
         return torch::matmul(s.softmax(-1), o.v) + s.square().mean();
       }},
      {"a hook",
       [](auto& o) {
         Tensor p = scores(o).softmax(-1);
         p.register_hook([](const Tensor& gradient) { return gradient * 2; });
         return torch::matmul(p, o.v);
       }},
      {"a hook behind",
       [](auto& o) {
         Tensor p = scores(o).softmax(-1);
         Tensor out = torch::matmul(p, o.v);
         p.register_hook([](const Tensor& gradient) { return gradient * 2; });
         return out;
       }},
      {"a hook of repeated keys behind",
       [](auto& o) {
         const Tensor k = repeated(o.few), v = repeated(o.fewv);
         Tensor out = torch::matmul(torch::matmul(o.q, k.transpose(2, 3)).softmax(-1), v);
         k.register_hook([](const Tensor& gradient) { return gradient.defined() ? gradient * 3 : gradient; });
         return out;
       }},
      {"a hook of repeated values behind",
       [](auto& o) {
         const Tensor k = repeated(o.few), v = repeated(o.fewv);
         Tensor out = torch::matmul(torch::matmul(o.q, k.transpose(2, 3)).softmax(-1), v);
         v.register_hook([](const Tensor& gradient) { return gradient / (gradient.norm() + 1); });
         return out;
       }},
      {"a gradient of repeated values",
       [](auto& o) {
         const Tensor k = repeated(o.few), v = repeated(o.fewv);
         Tensor out = torch::matmul(torch::matmul(o.q, k.transpose(2, 3)).softmax(-1), v);
         const Tensor g = torch::autograd::grad({out.square().sum()}, {v}, {}, true, false, /*allow_unused=*/true)[0];
         return g.defined() ? out + g.abs().mean() : out;
       }},
      {"a gradient of probabilities, or none",
       [](auto& o) {
         const Tensor p = scores(o).softmax(-1), out = torch::matmul(p, o.v);
         const Tensor g = torch::autograd::grad({out.square().sum()}, {p}, {}, true, false, /*allow_unused=*/true)[0];
         return g.defined() ? out * g.mean() : out;
       }},
      {"a gradient of scores and q, or none",
       [](auto& o) {
         const Tensor s = scores(o), out = torch::matmul((s * 0.3).softmax(-1), o.v);
         const auto g = torch::autograd::grad({out.square().sum()}, {s, o.q}, {}, true, false, /*allow_unused=*/true);
         return g[0].defined() ? out + g[0].abs().mean() + g[1] : out + g[1];
       }},
      {"a hook of the product's node",
       [](auto& o) {
         const Tensor s = scores(o), out = torch::matmul((s * 0.3).softmax(-1), o.v);
         if (s.requires_grad()) {
           auto node = s.grad_fn()->next_edge(0).function;
           node->add_pre_hook(std::make_unique<Doubled>());
         }
         return out;
       }},
      {"q that changes through data",
       [](auto& o) {
         const Tensor q = o.q.clone(), s = torch::matmul(q, o.k.transpose(-1, -2));
         q.variable_data().mul_(5);
         return torch::matmul(s.softmax(-1), o.v);
       }},
      {"a mask that changes through data",
       [](auto& o) {
         const Tensor hidden = o.seen.logical_not(), s = scores(o).masked_fill(hidden, -kInfinity);
         hidden.variable_data().zero_();
         return torch::matmul(s.softmax(-1), o.v);
       }},
      {"scores that change without a gradient",
       [](auto& o) {
         const Tensor s = scores(o);
         {
           const torch::NoGradGuard guard;
           s.mul_(2);
         }
         return torch::matmul(s.softmax(-1), o.v);
       }},
      {"scores that change through data",
       [](auto& o) {
         const Tensor s = scores(o);
         s.variable_data().masked_fill_(o.none.logical_not(), -1e9);
         return torch::matmul(s.softmax(-1), o.v);
       }},
      {"a gradient of probabilities",
       [](auto& o) {
         const Tensor p = scores(o).softmax(-1), out = torch::matmul(p, o.v);
         return out * torch::autograd::grad({out.sum()}, {p}, {}, /*retain_graph=*/true)[0].mean();
       }},
      {"probabilities that change",
       [](auto& o) {
         Tensor p = (scores(o) * 1.5).softmax(-1);
         p = p.clone();
         p.slice(-1, 0, 3).zero_();
         return torch::matmul(p, o.v);
       }},
      {"a mask that changes",
       [](auto& o) {
         Tensor mask = added(o.seen, -2.0);
         const Tensor out = torch::matmul((scores(o) + mask).softmax(-1), o.v);
         mask.zero_();
         return out;
       }},
  };
  return forms;
}

class Kept : public ::testing::TestWithParam<size_t> {};
INSTANTIATE_TEST_SUITE_P(Each, Kept, ::testing::Range<size_t>(0, kept().size()));

TEST_P(Kept, HasTheBitsOfEager) {
  const auto& [name, form] = kept()[GetParam()];
  SCOPED_TRACE(name);
  EXPECT_EQ(attentions_in(step_of(form)), 0);
  int64_t seed = 0;
  testing::expect_equal(
      step_of(form), options_of(), [&] { return batch_of(++seed); }, 2, 1);
}

TEST(WrittenAttention, OffHasTheBitsOfEager) {
  int64_t seed = 0;
  for (const char* name : {"mask added", "repeated heads"}) {
    const auto form = std::ranges::find(replaced(), name, &std::pair<std::string, Form>::first)->second;
    testing::expect_equal(
        step_of(form, {.attention = false}), options_of(), [&] { return batch_of(++seed); }, 2, 1);
  }
}

// A sum over dropped probabilities is its mean but for few elements.
TEST(WrittenAttention, DropsProbabilities) {
  const auto form = [](const Operands& o) {
    return torch::matmul(torch::dropout((scores(o) * 0.3).softmax(-1), 0.25, /*train=*/true),
                         torch::ones_like(o.v) + 0 * o.v);
  };
  EXPECT_EQ(attentions_in(step_of(form)), 1);
  Training training(step_of(form), options_of());
  training.start();
  Batch batch = batch_of(1);
  batch["x"].zero_();
  const double first = training.step({batch}, 0).loss, second = training.step({batch}, 0).loss;
  EXPECT_NE(first, second);
  EXPECT_NEAR(first, 1, 0.02);
}

TEST(WrittenAttention, DropsProbabilitiesOfTwoProductsOnce) {
  const auto form = [](const Operands& o) {
    const Tensor p = torch::dropout((scores(o) * 0.3).softmax(-1), 0.25, /*train=*/true);
    return (torch::matmul(p, o.v) - torch::matmul(p, o.v)).abs();
  };
  EXPECT_EQ(attentions_in(step_of(form)), 0);
  Training training(step_of(form), options_of());
  training.start();
  EXPECT_LT(training.step({batch_of(1)}, 0).loss, 1e-6);
}

TEST(WrittenAttention, ReadsKeysRepeatedBeforeTheyChangeThroughData) {
  const auto form = [](const Operands& o) {
    const Tensor few = o.few.clone(), k = repeated(few), v = repeated(o.fewv);
    few.variable_data().mul_(5);
    return torch::matmul(torch::matmul(o.q, k.transpose(2, 3)).softmax(-1), v);
  };
  const auto loss = [&](Replacements replace) {
    Training training(step_of(form, replace), options_of());
    training.start();
    return training.step({batch_of(1)}, 1).loss;
  };
  EXPECT_EQ(attentions_in(step_of(form)), 1);
  EXPECT_NEAR(loss({}), loss({.attention = false}), 2e-6);
}

TEST(WrittenAttention, HasKernelsForTheDevice) {
  const auto named = [](const char* name) {
    return step_of(std::ranges::find(replaced(), name, &std::pair<std::string, Form>::first)->second);
  };
  TrainingOptions options = options_of();
  options.device = "rocm";
  EXPECT_EQ(attentions_in(named("scaled"), options), 1);
  EXPECT_EQ(attentions_in(named("mask added"), options), 0);
}

}  // namespace
}  // namespace plimsoll::written_attention_test
