#include "ops/fused/fused_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "plimsoll/error.h"

namespace plimsoll::ops {
namespace {

// bfloat16 is computed from its bits; float16 by the device's instructions, or by the compiler's type outside a device.
constexpr const char* kPrelude = R"(typedef unsigned short u16;
typedef unsigned int u32;
typedef long long i64;

struct FusedStrides { i64 sizes[6]; i64 strides[18][6]; };

#ifdef __CUDACC_RTC__
#define PLIMSOLL_DEVICE __device__ __forceinline__
PLIMSOLL_DEVICE u32 bits_of(float x) { return __float_as_uint(x); }
PLIMSOLL_DEVICE float float_of(u32 x) { return __uint_as_float(x); }
PLIMSOLL_DEVICE float from_f16(u16 x) { float y; asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x)); return y; }
PLIMSOLL_DEVICE u16 to_f16(float x) { u16 y; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x)); return y; }
#endif

// Returns rest % size, and divides `rest` by `size`. Devices divide 64-bit numbers in about a hundred instructions.
PLIMSOLL_DEVICE i64 split(i64& rest, i64 size) {
  if (((rest | size) >> 32) == 0) {
    const u32 whole = (u32)rest / (u32)size, part = (u32)rest - whole * (u32)size;
    rest = whole;
    return part;
  }
  const i64 part = rest % size;
  rest /= size;
  return part;
}
PLIMSOLL_DEVICE float from_bf16(u16 x) { return float_of((u32)x << 16); }
PLIMSOLL_DEVICE u16 to_bf16(float x) {
  const u32 b = bits_of(x);
  return (b & 0x7fffffffu) > 0x7f800000u ? (u16)(b >> 16 | 0x40u) : (u16)((b + 0x7fffu + (b >> 16 & 1u)) >> 16);
}
PLIMSOLL_DEVICE float sigmoid_of(float x) { return 1.0f / (1.0f + expf(-x)); }
PLIMSOLL_DEVICE float silu_backward_of(float g, float x) {
  const float s = sigmoid_of(x);
  return g * s * (1.0f + x * (1.0f - s));
}
PLIMSOLL_DEVICE float gelu_of(float x) { return x * 0.5f * (1.0f + erff(x * 0.70710678118654752440f)); }
PLIMSOLL_DEVICE float gelu_backward_of(float g, float x) {
  const float cdf = 0.5f * (1.0f + erff(x * 0.70710678118654752440f));
  const float pdf = 0.39894228040143267794f * expf(x * x * -0.5f);
  return g * (cdf + x * pdf);
}
PLIMSOLL_DEVICE float gelu_tanh_of(float x) {
  const float inner = 0.79788456080286535588f * (x + 0.044715f * (x * x * x));
  return 0.5f * x * (1.0f + tanhf(inner));
}
PLIMSOLL_DEVICE float gelu_tanh_backward_of(float g, float x) {
  const float square = x * x;
  const float inner = tanhf(0.79788456080286535588f * (x + 0.044715f * (square * x)));
  const float left = 0.5f * x, right = 1.0f + inner;
  const float slope = 0.79788456080286535588f * (1.0f + 3.0f * 0.044715f * square);
  return g * (0.5f * right + left * (1.0f - inner * inner) * slope);
}
PLIMSOLL_DEVICE float softplus_of(float x, float beta, float threshold) {
  return x * beta > threshold ? x : log1pf(expf(x * beta)) / beta;
}
PLIMSOLL_DEVICE float softplus_backward_of(float g, float x, float beta, float threshold) {
  const float z = expf(x * beta);
  return x * beta > threshold ? g : g * z / (z + 1.0f);
}
)";

struct Type {
  const char* name;   // type of an element in memory
  const char* load;   // expression that converts it to a float
  const char* store;  // expression that converts a float to it
};
Type type_of(DType dtype) {
  switch (dtype) {
    case DType::float32:
      return {"float", "", ""};
    case DType::bfloat16:
      return {"u16", "from_bf16", "to_bf16"};
    case DType::float16:
      return {"u16", "from_f16", "to_f16"};
    case DType::boolean:
    case DType::uint8:
      return {"unsigned char", "(float)", ""};
    case DType::int64:
      return {"i64", "(float)", ""};
    default:
      throw InternalError("plimsoll::fused: an operand of another type");
  }
}

// Returns a float as its bits, which are exact, also for infinities and NaN.
std::string number(double value) {
  return fmt::format("float_of(0x{:08x}u)", std::bit_cast<uint32_t>(static_cast<float>(value)));
}

std::string expression(Opcode opcode, const std::string& a, const std::string& b, const std::string& c,
                       const std::string& d) {
  switch (opcode) {
    case Opcode::cast:
      return a;
    case Opcode::add:
      return a + " + " + b;
    case Opcode::sub:
      return a + " - " + b;
    case Opcode::mul:
      return a + " * " + b;
    case Opcode::div:
      return a + " / " + b;
    case Opcode::neg:
      return "-" + a;
    case Opcode::abs:
      return "fabsf(" + a + ")";
    case Opcode::sqrt:
      return "sqrtf(" + a + ")";
    case Opcode::rsqrt:
      return "1.0f / sqrtf(" + a + ")";
    case Opcode::reciprocal:
      return "1.0f / " + a;
    case Opcode::square:
      return a + " * " + a;
    case Opcode::cube:
      return a + " * " + a + " * " + a;
    case Opcode::clamp_min:
      return fmt::format("{0} < {1} ? {1} : {0}", a, b);
    case Opcode::clamp_max:
      return fmt::format("{0} > {1} ? {1} : {0}", a, b);
    case Opcode::threshold_backward:
      return fmt::format("{} <= {} ? 0.0f : {}", b, c, a);
    case Opcode::sigmoid_backward:
      return fmt::format("{0} * (1.0f - {1}) * {1}", a, b);
    case Opcode::tanh_backward:
      return fmt::format("{0} * (1.0f - {1} * {1})", a, b);
    case Opcode::exp:
      return "expf(" + a + ")";
    case Opcode::log:
      return "logf(" + a + ")";
    case Opcode::sigmoid:
      return "sigmoid_of(" + a + ")";
    case Opcode::tanh:
      return "tanhf(" + a + ")";
    case Opcode::silu:
      return fmt::format("{0} / (1.0f + expf(-{0}))", a);
    case Opcode::silu_backward:
    case Opcode::gelu_backward:
    case Opcode::gelu_tanh_backward:
      return fmt::format("{}_of({}, {})", name_of(opcode), a, b);
    case Opcode::gelu:
    case Opcode::gelu_tanh:
      return fmt::format("{}_of({})", name_of(opcode), a);
    case Opcode::softplus:
      return fmt::format("softplus_of({}, {}, {})", a, b, c);
    case Opcode::softplus_backward:
      return fmt::format("softplus_backward_of({}, {}, {}, {})", a, b, c, d);
  }
  throw InternalError("plimsoll::fused: an unknown opcode");
}

std::string value_name(int32_t value) {
  return fmt::format("v{}", value);
}

std::string rounded(DType dtype, const std::string& text) {
  const Type type = type_of(dtype);
  return dtype == DType::float32 ? text : fmt::format("{}({}({}))", type.load, type.store, text);
}

class Writer {
 public:
  Writer(const FusedProgram& program, const FusedLayout& layout) : program_(program), layout_(layout) {}

  std::string text() const {
    std::string text = kPrelude;
    if (has_wide_kernel(layout_)) text += wide();
    return text + single();
  }

 private:
  size_t operands() const { return layout_.inputs.size() + layout_.outputs.size(); }

  std::string parameters() const {
    std::string text;
    for (size_t i = 0; i < layout_.inputs.size(); ++i)
      text += fmt::format("const {}* x{}, ", type_of(layout_.inputs[i]).name, i);
    for (size_t o = 0; o < layout_.outputs.size(); ++o)
      text += fmt::format("{}* y{}, ", type_of(layout_.outputs[o]).name, o);
    return text + "i64 elements";
  }

  // Returns the steps from inputs v0... to all values. Pointers are not __restrict__: an output may be an input.
  std::string steps(const char* indent) const {
    std::string text;
    for (size_t s = 0; s < program_.steps.size(); ++s) {
      const FusedProgram::Step& step = program_.steps[s];
      std::array<std::string, kMaxOperands> names;
      for (int i = 0; i < operands_of(step.opcode); ++i) names[i] = value_name(step.operands[i]);
      text +=
          fmt::format("{}const float {} = {};\n", indent, value_name(program_.first_step() + static_cast<int32_t>(s)),
                      rounded(step.dtype, expression(step.opcode, names[0], names[1], names[2], names[3])));
    }
    return text;
  }

  std::string constants() const {
    std::string text;
    for (size_t c = 0; c < program_.constants.size(); ++c)
      text += fmt::format("  const float {} = {};\n", value_name(program_.inputs + static_cast<int32_t>(c)),
                          number(program_.constants[c]));
    return text;
  }

  std::string loaded(size_t input, const std::string& place) const {
    return fmt::format("{}({})", type_of(layout_.inputs[input]).load, place);
  }
  std::string stored(size_t output) const {
    return fmt::format("{}({})", type_of(layout_.outputs[output]).store, value_name(program_.outputs[output]));
  }

  // Returns the steps that add the strides of the first `dimensions` indices to the operands' offsets o0...: `rest` is
  // the number of the element among these dimensions.
  std::string offsets(int dimensions) const {
    std::string text;
    for (int d = dimensions; d-- > 0;) {
      text += d == 0 ? std::string("    const i64 i0 = rest;\n")
                     : fmt::format("    const i64 i{0} = split(rest, at.sizes[{0}]);\n", d);
      for (size_t operand = 0; operand < operands(); ++operand)
        text += fmt::format("    o{0} += i{1} * at.strides[{0}][{1}];\n", operand, d);
    }
    return text;
  }

  // Returns the kernel with one element a thread at a time; adjacent threads have adjacent elements.
  std::string single() const {
    std::string text = fmt::format("\nextern \"C\" __global__ void plimsoll_fused({}{}) {{\n", parameters(),
                                   layout_.dimensions > 1 ? ", const FusedStrides at" : "");
    text += constants();
    text += "  const i64 threads = (i64)gridDim.x * blockDim.x;\n";
    text += "  for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < elements; i += threads) {\n";
    if (layout_.dimensions > 1) {
      for (size_t operand = 0; operand < operands(); ++operand) text += fmt::format("    i64 o{} = 0;\n", operand);
      text += "    i64 rest = i;\n" + offsets(layout_.dimensions);
    }
    const auto index = [&](size_t operand, bool scalar) {
      return scalar ? std::string("0") : layout_.dimensions > 1 ? fmt::format("o{}", operand) : std::string("i");
    };
    for (size_t i = 0; i < layout_.inputs.size(); ++i)
      text += fmt::format("    const float v{} = {};\n", i,
                          loaded(i, fmt::format("x{}[{}]", i, index(i, layout_.scalar[i]))));
    text += steps("    ");
    for (size_t o = 0; o < layout_.outputs.size(); ++o)
      text += fmt::format("    y{}[{}] = {};\n", o, index(layout_.inputs.size() + o, false), stored(o));
    return text + "  }\n}\n";
  }

  bool row_scalar(size_t input) const { return layout_.in_rows && layout_.row_scalar[input]; }
  bool packed(size_t input) const { return !layout_.scalar[input] && !row_scalar(input); }

  // Returns the kernel with a pack of contiguous elements a thread, read and written 16 bytes at a time. Behind the
  // packs of one run, the remaining elements are processed one by one; rows have none.
  std::string wide() const {
    const int64_t width = fused_vector_width(layout_);
    std::string text = fmt::format("\nextern \"C\" __global__ void plimsoll_fused_wide({}{}) {{\n", parameters(),
                                   layout_.in_rows ? ", const FusedStrides at" : "");
    text += constants();
    for (size_t i = 0; i < layout_.inputs.size(); ++i)
      if (layout_.scalar[i]) text += fmt::format("  const float v{} = {};\n", i, loaded(i, fmt::format("x{}[0]", i)));
    text += fmt::format("  const i64 threads = (i64)gridDim.x * blockDim.x, packs = elements / {};\n", width);
    text += "  const i64 first = (i64)blockIdx.x * blockDim.x + threadIdx.x;\n";
    text += "  for (i64 p = first; p < packs; p += threads) {\n";
    if (layout_.in_rows) text += row_offsets(width);
    const auto place = [&](size_t operand) {
      return layout_.in_rows ? fmt::format("o{}", operand) : fmt::format("p * {}", width);
    };
    for (size_t i = 0; i < layout_.inputs.size(); ++i) {
      if (packed(i))
        text +=
            fmt::format("    {0} a{1}[{2}];\n    read_pack<{3}>(a{1}, x{1} + {4});\n", type_of(layout_.inputs[i]).name,
                        i, width, width * element_bytes(layout_.inputs[i]), place(i));
      else if (!layout_.scalar[i])
        text += fmt::format("    const float v{} = {};\n", i, loaded(i, fmt::format("x{0}[o{0}]", i)));
    }
    for (size_t o = 0; o < layout_.outputs.size(); ++o)
      text += fmt::format("    {} b{}[{}];\n", type_of(layout_.outputs[o]).name, o, width);
    text += fmt::format("#pragma unroll\n    for (int e = 0; e < {}; ++e) {{\n", width);
    for (size_t i = 0; i < layout_.inputs.size(); ++i)
      if (packed(i)) text += fmt::format("      const float v{} = {};\n", i, loaded(i, fmt::format("a{}[e]", i)));
    text += steps("      ");
    for (size_t o = 0; o < layout_.outputs.size(); ++o) text += fmt::format("      b{}[e] = {};\n", o, stored(o));
    text += "    }\n";
    for (size_t o = 0; o < layout_.outputs.size(); ++o)
      text += fmt::format("    write_pack<{}>(y{} + {}, b{});\n", width * element_bytes(layout_.outputs[o]), o,
                          place(layout_.inputs.size() + o), o);
    text += "  }\n";
    if (!layout_.in_rows) text += behind_packs(width);
    return std::string(kPacks) + text + "}\n";
  }

  // Returns the steps that compute the operands' offsets of pack p.
  std::string row_offsets(int64_t width) const {
    const int last = layout_.dimensions - 1;
    std::string text = fmt::format("    i64 rest = p;\n    const i64 column = split(rest, at.sizes[{}] / {}) * {};\n",
                                   last, width, width);
    for (size_t operand = 0; operand < operands(); ++operand)
      text += fmt::format("    i64 o{} = {};\n", operand,
                          operand >= layout_.inputs.size() || packed(operand) ? "column" : "0");
    return text + offsets(last);
  }

  // Returns the loop over the elements behind the last pack.
  std::string behind_packs(int64_t width) const {
    std::string text = fmt::format("  for (i64 i = packs * {} + first; i < elements; i += threads) {{\n", width);
    for (size_t i = 0; i < layout_.inputs.size(); ++i)
      if (packed(i)) text += fmt::format("    const float v{} = {};\n", i, loaded(i, fmt::format("x{}[i]", i)));
    text += steps("    ");
    for (size_t o = 0; o < layout_.outputs.size(); ++o) text += fmt::format("    y{}[i] = {};\n", o, stored(o));
    return text + "  }\n";
  }

  // The widest accesses are 16 bytes; a pack of a wide type needs several.
  static constexpr const char* kPacks = R"(
struct __align__(16) Bytes16 { u32 words[4]; };
struct __align__(8) Bytes8 { u32 words[2]; };
template <int bytes> struct Piece { typedef Bytes16 type; };
template <> struct Piece<8> { typedef Bytes8 type; };
template <> struct Piece<4> { typedef u32 type; };
template <int bytes, class T> PLIMSOLL_DEVICE void read_pack(T* to, const T* from) {
  typedef typename Piece<bytes>::type P;
#pragma unroll
  for (int i = 0; i < bytes / (int)sizeof(P); ++i) {
    const P piece = ((const P*)from)[i];
    memcpy((char*)to + i * sizeof(P), &piece, sizeof(P));
  }
}
template <int bytes, class T> PLIMSOLL_DEVICE void write_pack(T* to, const T* from) {
  typedef typename Piece<bytes>::type P;
#pragma unroll
  for (int i = 0; i < bytes / (int)sizeof(P); ++i) {
    P piece;
    memcpy(&piece, (const char*)from + i * sizeof(P), sizeof(P));
    ((P*)to)[i] = piece;
  }
}
)";

  const FusedProgram& program_;
  const FusedLayout& layout_;
};

}  // namespace

FusedLayout fused_layout(const std::vector<View>& inputs, const std::vector<View>& outputs) {
  FusedLayout layout;
  layout.dimensions = std::max<int>(1, static_cast<int>(outputs.at(0).sizes.size()));
  for (const View& input : inputs) {
    layout.inputs.push_back(input.dtype);
    layout.scalar.push_back(std::ranges::all_of(input.strides, [](int64_t stride) { return stride == 0; }));
  }
  for (const View& output : outputs) layout.outputs.push_back(output.dtype);
  if (layout.dimensions > 1) {
    const auto last_strides = [](const std::vector<View>& views) {
      std::vector<int64_t> strides;
      for (const View& view : views) strides.push_back(view.strides.back());
      return strides;
    };
    set_rows(layout, last_strides(inputs), last_strides(outputs));
  }
  return layout;
}

void set_rows(FusedLayout& layout, const std::vector<int64_t>& input_strides,
              const std::vector<int64_t>& output_strides) {
  layout.in_rows = std::ranges::all_of(input_strides, [](int64_t stride) { return stride == 0 || stride == 1; }) &&
                   std::ranges::all_of(output_strides, [](int64_t stride) { return stride == 1; });
  layout.row_scalar.clear();
  if (layout.in_rows)
    for (const int64_t stride : input_strides) layout.row_scalar.push_back(stride == 0);
}

bool takes_packs(const FusedLayout& layout, std::span<const int64_t> sizes, std::span<const FusedOperand> operands) {
  if (!has_wide_kernel(layout)) return false;
  const int64_t width = fused_vector_width(layout);
  if (layout.in_rows && sizes.back() % width != 0) return false;
  for (size_t i = 0; i < operands.size(); ++i) {
    const bool single = i < layout.inputs.size() && (layout.scalar[i] || (layout.in_rows && layout.row_scalar[i]));
    if (single) continue;
    if (reinterpret_cast<uintptr_t>(operands[i].data) % 16 != 0) return false;
    for (size_t d = 0; layout.in_rows && d + 1 < sizes.size(); ++d)
      if (operands[i].strides[d] % width != 0) return false;
  }
  return true;
}

int64_t fused_vector_width(const FusedLayout& layout) {
  int64_t narrowest = 8;
  for (size_t i = 0; i < layout.inputs.size(); ++i)
    if (!layout.scalar[i] && !(layout.in_rows && layout.row_scalar[i]))
      narrowest = std::min(narrowest, element_bytes(layout.inputs[i]));
  for (const DType dtype : layout.outputs) narrowest = std::min(narrowest, element_bytes(dtype));
  // With one byte an element, a pack would need 16 elements of every other operand, in registers. Eight elements are
  // wide enough.
  return std::min<int64_t>(16 / narrowest, 8);
}

std::string fused_source(const FusedProgram& program, const FusedLayout& layout) {
  check(layout.inputs.size() == static_cast<size_t>(program.inputs) && layout.scalar.size() == layout.inputs.size() &&
            (!layout.in_rows || layout.row_scalar.size() == layout.inputs.size()) &&
            layout.outputs.size() == program.outputs.size(),
        "a fused op's layout is for another program");
  return Writer(program, layout).text();
}

}  // namespace plimsoll::ops
