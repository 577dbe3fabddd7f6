// Tests the CUDA kernels of fused ops without a GPU: their text is compiled by the C++ compiler, run thread by thread,
// and compared with the CPU's kernel.
#include "ops/fused/fused_source.h"

#include <ATen/ATen.h>
#include <dlfcn.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "ops/fused/fused.h"
#include "ops/libtorch_types.h"

namespace plimsoll::ops {
namespace {

using at::Tensor;

// Definitions that NVRTC provides, for any compiler.
constexpr const char* kHost = R"(
#include <cmath>
#include <cstring>
#include <utility>
#define PLIMSOLL_DEVICE static inline
#define __global__
#define __align__(bytes) alignas(bytes)
static struct { unsigned x; } blockIdx, blockDim, threadIdx, gridDim;
static unsigned bits_of(float x) { unsigned y; std::memcpy(&y, &x, 4); return y; }
static float float_of(unsigned x) { float y; std::memcpy(&y, &x, 4); return y; }
static float from_f16(unsigned short x) { _Float16 y; std::memcpy(&y, &x, 2); return y; }
static unsigned short to_f16(float x) { _Float16 y = (_Float16)x; unsigned short z; std::memcpy(&z, &y, 2); return z; }
)";
bool has_compiler() {
  return std::system("c++ --version > /dev/null 2>&1") == 0;
}

// One compiled text; its library and its files are gone with it.
class Compiled {
 public:
  Compiled(const FusedProgram& program, const FusedLayout& layout) {
    static int number = 0;
    folder_ = std::filesystem::temp_directory_path() / fmt::format("plimsoll-fused-{}-{}", ::getpid(), ++number);
    std::filesystem::create_directories(folder_);
    std::ofstream text(folder_ / "kernel.cpp");
    text << kHost << fused_source(program, layout)
         << "extern \"C\" void run(int wide, void** p, i64 n, const FusedStrides* at) {\n"
         << "  gridDim.x = 3; blockDim.x = 32; (void)at;\n"
         << "  for (blockIdx.x = 0; blockIdx.x < 3; ++blockIdx.x)\n"
         << "    for (threadIdx.x = 0; threadIdx.x < 32; ++threadIdx.x) {\n";
    const auto arguments = [&] {
      std::string list;
      size_t at = 0;
      const auto add = [&](const std::vector<DType>& types, const char* constant) {
        for (const DType dtype : types) {
          const char* name = dtype == DType::float32                            ? "float"
                             : dtype == DType::int64                            ? "i64"
                             : dtype == DType::uint8 || dtype == DType::boolean ? "unsigned char"
                                                                                : "u16";
          list += fmt::format("({}{}*)p[{}], ", constant, name, at++);
        }
      };
      add(layout.inputs, "const ");
      add(layout.outputs, "");
      return list + "n";
    };
    const std::string list = arguments() + (layout.dimensions > 1 ? ", *at" : "");
    if (has_wide_kernel(layout)) text << "      if (wide) plimsoll_fused_wide(" << list << ");\n      else\n";
    text << "      plimsoll_fused(" << list << ");\n";
    text << "    }\n}\n";
    text.close();
    const std::string library = folder_ / "kernel.so";
    const std::string command = fmt::format("c++ -std=c++17 -O1 -ffp-contract=off -shared -fPIC -w -o {} {} 2> {}",
                                            library, (folder_ / "kernel.cpp").string(), (folder_ / "log").string());
    if (std::system(command.c_str()) != 0) {
      std::ifstream log(folder_ / "log");
      ADD_FAILURE() << std::string(std::istreambuf_iterator<char>(log), {}) << fused_source(program, layout);
      return;
    }
    library_ = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
    run_ = reinterpret_cast<Run*>(::dlsym(library_, "run"));
  }
  ~Compiled() {
    if (library_) ::dlclose(library_);
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  Compiled(const Compiled&) = delete;
  Compiled& operator=(const Compiled&) = delete;

  struct Strides {
    long long sizes[6] = {}, strides[18][6] = {};
  };
  void run(bool wide, const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs) const {
    ASSERT_NE(run_, nullptr);
    std::vector<void*> addresses;
    Strides strides;
    for (int d = 0; d < outputs[0].dim(); ++d) strides.sizes[d] = outputs[0].size(d);
    for (const auto* list : {&inputs, &outputs})
      for (const Tensor& tensor : *list) {
        for (int d = 0; d < tensor.dim(); ++d) strides.strides[addresses.size()][d] = tensor.stride(d);
        addresses.push_back(tensor.data_ptr());
      }
    run_(wide, addresses.data(), outputs[0].numel(), &strides);
  }

 private:
  using Run = void(int, void**, long long, const Strides*);
  std::filesystem::path folder_;
  void* library_ = nullptr;
  Run* run_ = nullptr;
};

FusedLayout layout_of(const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs) {
  const auto views = [](const std::vector<Tensor>& tensors) {
    std::vector<View> views;
    for (const Tensor& tensor : tensors)
      views.push_back({0, plimsoll::dtype_of(tensor.scalar_type()), 0, tensor.sizes().vec(), tensor.strides().vec()});
    return views;
  };
  return fused_layout(views(inputs), views(outputs));
}

bool takes_packs(const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs) {
  std::vector<FusedOperand> operands;
  for (const auto* list : {&inputs, &outputs})
    for (const Tensor& tensor : *list)
      operands.push_back({tensor.const_data_ptr(), {tensor.strides().data(), tensor.strides().size()}});
  return takes_packs(layout_of(inputs, outputs), {outputs[0].sizes().data(), outputs[0].sizes().size()}, operands);
}

/// Returns the results of the CPU's kernel on copies of `outputs`.
std::vector<Tensor> on_cpu(const FusedProgram& program, const std::vector<Tensor>& inputs,
                           const std::vector<Tensor>& outputs) {
  const FusedSchedule schedule = schedule_fused(program);
  std::vector<Tensor> made;
  for (const Tensor& output : outputs) made.push_back(at::zeros_like(output));
  fused_range(fused_call(schedule, inputs, made), 0, outputs[0].numel());
  return made;
}

class FusedSource : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_compiler()) GTEST_SKIP() << "no C++ compiler here";
  }
};

// Every opcode that the CPU has too, in all three types, six at a time; series to a few units in the last place.
TEST_F(FusedSource, ComputesWhatTheCpuDoes) {
  std::vector<Opcode> opcodes;
  for (int o = 0; o < kOpcodes; ++o) {
    const auto opcode = static_cast<Opcode>(o);
    if (opcode != Opcode::exp && opcode != Opcode::log && opcode != Opcode::tanh && opcode != Opcode::gelu &&
        opcode != Opcode::gelu_backward)
      opcodes.push_back(opcode);
  }
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf})
    for (size_t first = 0; first < opcodes.size(); first += kMaxFusedOutputs) {
      const size_t last = std::min(opcodes.size(), first + kMaxFusedOutputs);
      const Tensor x = at::randn({1003}).to(type), y = (at::randn({1003}) * 2).to(type);
      FusedProgram program;
      program.inputs = 2;
      program.constants = {0.75, 20.0};
      std::vector<Tensor> made;
      for (size_t o = first; o < last; ++o) {
        FusedProgram::Step step{opcodes[o], plimsoll::dtype_of(type), {}};
        for (int i = 0; i < operands_of(opcodes[o]); ++i) step.operands[i] = i;
        program.steps.push_back(step);
        program.outputs.push_back(program.values() - 1);
        made.push_back(at::zeros_like(x));
      }
      const std::vector<Tensor> expected = on_cpu(program, {x, y}, made);
      const Compiled compiled(program, layout_of({x, y}, made));
      for (const bool wide : {false, true}) {
        for (const Tensor& each : made) each.zero_();
        compiled.run(wide, {x, y}, made);
        for (size_t o = first; o < last; ++o) {
          const Tensor &is = made[o - first], &should = expected[o - first];
          const double relative = type == at::kFloat ? 1e-5 : 1e-2;
          if (is_series(opcodes[o]))
            EXPECT_TRUE(at::allclose(is.to(at::kFloat), should.to(at::kFloat), relative, 1e-5, /*equal_nan=*/true))
                << name_of(opcodes[o]);
          else
            EXPECT_TRUE(at::equal(is.nan_to_num(77), should.nan_to_num(77))) << name_of(opcodes[o]);
        }
      }
    }
}

FusedProgram chain(DType low) {
  FusedProgram program;
  program.inputs = 3;
  program.constants = {0.3};
  program.steps = {{Opcode::mul, DType::float32, {0, 3}},
                   {Opcode::add, DType::float32, {4, 1}},
                   {Opcode::cast, low, {5}},
                   {Opcode::mul, low, {6, 2}},
                   {Opcode::silu, DType::float32, {5}}};
  program.outputs = {5, 7, 8};
  return program;
}

// Packs of several types and what is left over behind them; a number for all; an output in an input's place.
TEST_F(FusedSource, PacksOfMixedTypes) {
  for (const at::ScalarType low : {at::kBFloat16, at::kHalf})
    for (const int64_t count : {1, 7, 64, 4099}) {
      const FusedProgram program = chain(plimsoll::dtype_of(low));
      const Tensor a = at::randn({count}), b = at::randn({count}).to(low), s = at::randn({1}).to(low).expand({count});
      const std::vector<Tensor> made = {a.clone(), at::zeros({count}, low), at::zeros({count})};
      const std::vector<Tensor> expected = on_cpu(program, {a, b, s}, made);
      const std::vector<Tensor> inputs = {made[0], b, s};
      const Compiled compiled(program, layout_of(inputs, made));
      const Tensor before = a.clone();
      for (const bool wide : {true, false}) {
        made[0].copy_(before);
        compiled.run(wide, inputs, made);
        EXPECT_TRUE(at::equal(made[0], expected[0]) && at::equal(made[1], expected[1])) << count;
        EXPECT_TRUE(at::allclose(made[2], expected[2]));
      }
    }
}

TEST_F(FusedSource, StridesAndBroadcasts) {
  const FusedProgram program = chain(DType::bfloat16);
  const Tensor a = at::randn({6, 5, 14}).narrow(2, 3, 8), b = at::randn({8}).to(at::kBFloat16).expand({6, 5, 8});
  const Tensor s = at::randn({6, 5, 1}).to(at::kBFloat16).expand({6, 5, 8});
  const std::vector<Tensor> made = {at::zeros({6, 5, 8}), at::zeros({6, 5, 8}, at::kBFloat16), at::zeros({6, 5, 8})};
  const std::vector<Tensor> expected = on_cpu(program, {a, b, s}, made);
  const FusedLayout layout = layout_of({a, b, s}, made);
  EXPECT_TRUE(layout.in_rows);
  EXPECT_EQ(layout.row_scalar, std::vector<bool>({false, false, true}));
  EXPECT_FALSE(takes_packs({a, b, s}, made));  // rows of `a` begin at any address
  Compiled(program, layout).run(false, {a, b, s}, made);
  EXPECT_TRUE(at::equal(made[0], expected[0]) && at::equal(made[1], expected[1]));
  EXPECT_TRUE(at::allclose(made[2], expected[2]));
}

// Rows of several packs, in up to six dimensions, beside numbers of rows, of all, and of outer dimensions; an output in
// an input's place.
TEST_F(FusedSource, RowsOfPacks) {
  for (const std::vector<int64_t>& sizes :
       {std::vector<int64_t>{3, 16}, {2, 3, 24}, {2, 3, 5, 8}, {2, 1, 3, 2, 2, 16}}) {
    const FusedProgram program = chain(DType::bfloat16);
    std::vector<int64_t> row = sizes, outer(sizes.size(), 1);
    row.back() = 1;
    outer.front() = sizes.front();
    outer.back() = sizes.back();
    for (const Tensor& s : {at::randn(row), at::randn(outer), at::randn({1})}) {
      const Tensor a = at::randn(sizes), b = at::randn({sizes.back()}).to(at::kBFloat16).expand(sizes);
      const std::vector<Tensor> inputs = {a, b, s.to(at::kBFloat16).expand(sizes)};
      const std::vector<Tensor> made = {a, at::zeros(sizes, at::kBFloat16), at::zeros(sizes)};
      const std::vector<Tensor> expected = on_cpu(program, inputs, made);
      const FusedLayout layout = layout_of(inputs, made);
      ASSERT_EQ(fused_vector_width(layout), 8);
      ASSERT_TRUE(takes_packs(inputs, made));
      Compiled(program, layout).run(true, inputs, made);
      EXPECT_TRUE(at::equal(made[0], expected[0]) && at::equal(made[1], expected[1])) << sizes;
      EXPECT_TRUE(at::allclose(made[2], expected[2])) << sizes;
    }
  }
}

// Packs of 64, 32, 16 and 8 bytes.
TEST_F(FusedSource, RowsOfPacksOfOtherTypes) {
  FusedProgram program;
  program.inputs = 2;
  program.steps = {
      {Opcode::cast, DType::float32, {0}}, {Opcode::cast, DType::float32, {1}}, {Opcode::add, DType::float32, {2, 3}}};
  program.outputs = {4};
  const Tensor whole = at::randint(0, 1 << 20, {3, 24}), bytes = at::randint(0, 255, {3, 24}).to(at::kByte);
  for (const auto& [first, second, width] :
       {std::tuple(whole, bytes, int64_t{8}), {whole, whole.to(at::kFloat), 4}, {whole, bytes[0].expand({3, 24}), 8}}) {
    const std::vector<Tensor> inputs = {first, second}, made = {at::zeros({3, 24})};
    const std::vector<Tensor> expected = on_cpu(program, inputs, made);
    const FusedLayout layout = layout_of(inputs, made);
    ASSERT_TRUE(takes_packs(inputs, made));
    EXPECT_EQ(fused_vector_width(layout), width);
    Compiled(program, layout).run(true, inputs, made);
    EXPECT_TRUE(at::equal(made[0], expected[0]));
  }
}

// A kernel that reads packs faults at any other address.
TEST_F(FusedSource, PacksNeedAddressesRowsAndStridesOfWholePacks) {
  const Tensor out = at::zeros({4, 16}), bias = at::zeros({16});
  const auto takes = [&](const Tensor& input) { return takes_packs({input, bias.expand({4, 16})}, {out}); };
  EXPECT_TRUE(takes(at::zeros({4, 16})));
  EXPECT_TRUE(takes(at::zeros({4, 32}).narrow(1, 16, 16)));
  EXPECT_TRUE(takes(at::zeros({4, 5}).narrow(1, 3, 1).expand({4, 16})));  // a number a row
  EXPECT_FALSE(takes(at::zeros({65}).narrow(0, 1, 64).view({4, 16})));    // address
  EXPECT_FALSE(takes(at::zeros({4, 18}).narrow(1, 0, 16)));               // stride
  const Tensor narrow = at::zeros({4, 14});
  EXPECT_FALSE(takes_packs({narrow, at::zeros({14}).expand({4, 14})}, {at::zeros({4, 14})}));  // rows of 3.5 packs
  EXPECT_TRUE(takes_packs({at::zeros({7})}, {at::zeros({7})}));  // one run: what is behind the packs is single
  EXPECT_FALSE(takes_packs({at::zeros({8}).narrow(0, 1, 7)}, {at::zeros({7})}));
}

TEST_F(FusedSource, ColumnsAreNoRows) {
  const std::vector<Tensor> made = {at::zeros({8, 8})};
  EXPECT_FALSE(layout_of({at::zeros({8, 8}).t()}, made).in_rows);
  EXPECT_FALSE(has_wide_kernel(layout_of({at::zeros({8, 16}).slice(1, 0, 16, 2)}, made)));
  EXPECT_FALSE(layout_of({at::zeros({8, 8})}, {at::zeros({8, 8}).t()}).in_rows);
}

TEST_F(FusedSource, BytesAndWholeNumbersAreCast) {
  FusedProgram program;
  program.inputs = 3;
  program.steps = {{Opcode::cast, DType::float32, {0}},
                   {Opcode::cast, DType::float32, {1}},
                   {Opcode::cast, DType::float32, {2}},
                   {Opcode::add, DType::float32, {3, 4}},
                   {Opcode::mul, DType::float32, {6, 5}}};
  program.outputs = {7};
  const std::vector<Tensor> inputs = {at::randint(0, 255, {77}).to(at::kByte), at::randint(0, 1 << 30, {77}),
                                      at::randint(0, 2, {77}).to(at::kBool)};
  const std::vector<Tensor> made = {at::zeros({77})};
  const std::vector<Tensor> expected = on_cpu(program, inputs, made);
  for (const bool wide : {true, false}) {
    made[0].zero_();
    Compiled(program, layout_of(inputs, made)).run(wide, inputs, made);
    EXPECT_TRUE(at::equal(made[0], expected[0]));
  }
}

}  // namespace
}  // namespace plimsoll::ops
