// Tests the shared helpers of ops_testing.h, and has their definitions. The build requires a file of tests for these.
#include "ops/ops_testing.h"

#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/alloc_cpu.h>

#include <cstdlib>
#include <mutex>
#include <set>
#include <thread>
#include <unordered_map>

#include "device/kernel_scratch.h"
#include "ops/libtorch_types.h"
#include "ops/matmul_throughput.h"
#include "plimsoll/machine.h"

namespace plimsoll::ops::testing {
namespace {

/// Counts live bytes; memory that the previous allocator made is passed on to it.
class CountingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    void* data = bytes ? c10::alloc_cpu(bytes) : nullptr;
    const int64_t rounded = static_cast<int64_t>(bytes + unit - 1) / unit * unit;
    if (data) {
      const std::lock_guard lock(mutex_);
      sizes_[data] = rounded;
      live_ += rounded;
      peak_ = std::max(peak_, live_);
    }
    return {data, data, &release, at::kCPU};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, size_t bytes) const override { default_copy_data(to, from, bytes); }

  int64_t unit = 64;  ///< unit to which allocations are rounded up
  int64_t live() const { return live_; }
  int64_t peak() const { return peak_; }
  void restart() { peak_ = live_; }

  static CountingAllocator& instance() {
    static CountingAllocator allocator;
    return allocator;
  }

 private:
  static void release(void* data) {
    auto& self = instance();
    {
      const std::lock_guard lock(self.mutex_);
      const auto entry = self.sizes_.find(data);
      if (entry != self.sizes_.end()) {
        self.live_ -= entry->second;
        self.sizes_.erase(entry);
      }
    }
    c10::free_cpu(data);
  }

  std::mutex mutex_;
  std::unordered_map<void*, int64_t> sizes_;
  int64_t live_ = 0, peak_ = 0;
};

/// Installs the counting allocator for its lifetime.
struct Counting {
  Counting() : before(c10::GetCPUAllocator()) { c10::SetCPUAllocator(&CountingAllocator::instance(), 200); }
  ~Counting() { c10::SetCPUAllocator(before, 200); }
  c10::Allocator* before;
};

/// Sets as many threads as OMP_NUM_THREADS says: libtorch alone ignores numbers above the cores.
struct ThreadsAsSaid : ::testing::Environment {
  void SetUp() override {
    const char* message = std::getenv("OMP_NUM_THREADS");
    if (const int threads = message ? std::atoi(message) : 0; threads > 0) at::set_num_threads(threads);
  }
};
const auto* const threads_as_stated = ::testing::AddGlobalTestEnvironment(new ThreadsAsSaid);

c10::OperatorHandle find(const std::string& name) {
  const size_t point = name.find('.');
  const std::string overload = point == std::string::npos ? "" : name.substr(point + 1);
  return c10::Dispatcher::singleton().findSchemaOrThrow(name.substr(0, point).c_str(), overload.c_str());
}

View view_of(const at::Tensor& tensor) {
  return {0, plimsoll::dtype_of(tensor.scalar_type()), tensor.storage_offset(), tensor.sizes().vec(),
          tensor.strides().vec()};
}

}  // namespace

std::vector<c10::IValue> call(const std::string& name, std::vector<c10::IValue> arguments) {
  const at::NoGradGuard no_grad;
  torch::jit::Stack stack = std::move(arguments);
  const auto& wanted = find(name).schema().arguments();
  while (stack.size() < wanted.size()) stack.push_back(wanted[stack.size()].default_value().value());
  find(name).callBoxed(&stack);
  return stack;
}

void expect_meta_agrees(const std::string& name, const std::vector<c10::IValue>& arguments) {
  const auto real = call(name, arguments);
  std::vector<c10::IValue> on_meta;
  for (const auto& argument : arguments) {
    if (argument.isTensor()) {
      const at::Tensor& t = argument.toTensor();
      on_meta.emplace_back(at::empty_strided(t.sizes(), t.strides(), t.options().device(at::kMeta)));
    } else {
      on_meta.push_back(argument);
    }
  }
  const auto announced = call(name, on_meta);
  ASSERT_EQ(real.size(), announced.size()) << name;
  for (size_t i = 0; i < real.size(); ++i) {
    const at::Tensor &a = real[i].toTensor(), &b = announced[i].toTensor();
    EXPECT_EQ(a.sizes(), b.sizes()) << name << " result " << i;
    EXPECT_EQ(a.strides(), b.strides()) << name << " result " << i;
    EXPECT_EQ(a.scalar_type(), b.scalar_type()) << name << " result " << i;
    EXPECT_EQ(a.storage_offset(), 0) << name << " result " << i;
    EXPECT_EQ(a.storage().nbytes(), static_cast<size_t>(a.numel()) * a.element_size()) << name << " result " << i;
    for (const auto& argument : arguments)
      EXPECT_FALSE(argument.isTensor() && a.numel() > 0 && a.is_alias_of(argument.toTensor()))
          << name << " result " << i;
  }
}

Op recorded(const std::string& name, const std::vector<c10::IValue>& arguments,
            const std::vector<c10::IValue>& results) {
  Op op;
  op.name = name;
  auto record = std::make_shared<OpCall>(OpCall{find(name), {}});
  for (const auto& argument : arguments) {
    op.arguments.emplace_back();
    if (argument.isTensor()) {
      op.arguments.back().kind = Argument::Kind::tensor;
      op.arguments.back().views = {view_of(argument.toTensor())};
      record->constants.emplace_back();
    } else if (argument.isTensorList()) {
      op.arguments.back().kind = Argument::Kind::tensor_list;
      for (const at::Tensor& tensor : argument.toTensorVector()) op.arguments.back().views.push_back(view_of(tensor));
      record->constants.emplace_back();
    } else {
      record->constants.push_back(argument);
    }
  }
  for (const auto& result : results) op.results.push_back(view_of(result.toTensor()));
  op.call = record;
  return op;
}

int64_t measured_workspace(const std::function<std::vector<c10::IValue>()>& run, std::vector<c10::IValue>* results,
                           int64_t unit) {
  // Unless they are known, measuring them takes memory that is not this op's.
  matmul_throughputs();
  kernel_choices();
  const Counting counting;
  auto& allocator = CountingAllocator::instance();
  allocator.unit = unit;
  allocator.restart();
  const int64_t before = allocator.live();
  auto made = run();
  const int64_t workspace = allocator.peak() - before - (allocator.live() - before);
  allocator.unit = 64;
  if (results) *results = std::move(made);
  return workspace;
}

int64_t measured_workspace(const std::string& name, const std::vector<c10::IValue>& arguments,
                           std::vector<c10::IValue>* results) {
  return measured_workspace([&] { return call(name, arguments); }, results);
}

void expect_workspace(const std::string& name, const std::vector<c10::IValue>& arguments, int64_t slack) {
  const int threads_before = at::get_num_threads();
  for (const int threads : {1, 2}) {
    at::set_num_threads(threads);
    std::vector<c10::IValue> results;
    const int64_t measured = measured_workspace(name, arguments, &results);
    const auto stated = cpu_workspace_model(threads)(recorded(name, arguments, results));
    ASSERT_TRUE(stated) << name;
    EXPECT_LE(measured, *stated) << name << " on " << threads << " threads";
    EXPECT_GE(measured, *stated - threads * slack) << name << " on " << threads << " threads";
  }
  at::set_num_threads(threads_before);
}

Autocast::Autocast(at::ScalarType type) {
  at::autocast::set_autocast_enabled(at::kCPU, true);
  at::autocast::set_autocast_dtype(at::kCPU, type);
  at::autocast::increment_nesting();
}
Autocast::~Autocast() {
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(at::kCPU, false);
  at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
}

TEST(OpsTesting, CountsScratchAndNotResults) {
  const at::Tensor x = at::zeros({4, 1000});
  EXPECT_EQ(measured_workspace("plimsoll::swiglu", {x}), 0);
  // Contiguous columns: the kernel copies them to rows first.
  EXPECT_EQ(measured_workspace("plimsoll::swiglu", {at::zeros({1000, 4}).t()}), 16000);
}

// Without -fopenmp at::parallel_for, a template, is compiled to one thread, without any warning.
TEST(OpsTesting, IsCompiledForThreads) {
  const int before = at::get_num_threads();
  at::set_num_threads(2);
  std::set<std::thread::id> threads;
  std::mutex mutex;
  at::parallel_for(0, 2, 1, [&](int64_t, int64_t) {
    const std::lock_guard lock(mutex);
    threads.insert(std::this_thread::get_id());
  });
  at::set_num_threads(before);
  EXPECT_EQ(threads.size(), 2u);
}

TEST(WorkspaceCpu, KnowsOurOperatorsOnly) {
  Op op;
  op.name = "aten::relu";
  EXPECT_FALSE(cpu_workspace_model(2)(op));
}

}  // namespace plimsoll::ops::testing
