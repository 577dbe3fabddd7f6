#include "trace/merged_ops.h"

#include <algorithm>

#include "plimsoll/error.h"

namespace plimsoll {
namespace {

struct Description {
  std::string_view name;
  int operands;
  bool series = false;
};

constexpr std::array<Description, kOpcodes> kDescriptions = {{
    {"cast", 1},
    {"add", 2},
    {"sub", 2},
    {"mul", 2},
    {"div", 2},
    {"neg", 1},
    {"abs", 1},
    {"sqrt", 1},
    {"rsqrt", 1},
    {"reciprocal", 1},
    {"square", 1},
    {"cube", 1},
    {"clamp_min", 2},
    {"clamp_max", 2},
    {"threshold_backward", 3},
    {"sigmoid_backward", 2},
    {"tanh_backward", 2, true},
    {"exp", 1, true},
    {"log", 1, true},
    {"sigmoid", 1, true},
    {"tanh", 1, true},
    {"silu", 1, true},
    {"silu_backward", 2, true},
    {"gelu", 1, true},
    {"gelu_backward", 2, true},
    {"gelu_tanh", 1, true},
    {"gelu_tanh_backward", 2, true},
    {"softplus", 3, true},
    {"softplus_backward", 4, true},
}};

[[noreturn]] void refuse(const char* what) {
  throw UserError(std::string("plimsoll::fused: ") + what, UserError::Kind::failure);
}

}  // namespace

std::string_view name_of(Opcode opcode) {
  return kDescriptions[static_cast<size_t>(opcode)].name;
}
int operands_of(Opcode opcode) {
  return kDescriptions[static_cast<size_t>(opcode)].operands;
}
bool is_series(Opcode opcode) {
  return kDescriptions[static_cast<size_t>(opcode)].series;
}

std::string FusedProgram::text() const {
  std::string text;
  for (const Step& step : steps) {
    if (!text.empty()) text += ", ";
    text += name_of(step.opcode);
  }
  return text;
}

std::vector<int64_t> FusedProgram::code() const {
  std::vector<int64_t> code = {inputs, static_cast<int64_t>(steps.size())};
  for (const Step& step : steps) {
    code.push_back(static_cast<int64_t>(step.opcode));
    code.push_back(static_cast<int64_t>(step.dtype));
    code.insert(code.end(), step.operands.begin(), step.operands.end());
  }
  code.insert(code.end(), outputs.begin(), outputs.end());
  return code;
}

FusedProgram fused_program(const std::vector<int64_t>& code, std::vector<double> constants) {
  constexpr size_t kStepNumbers = 2 + kMaxOperands;
  FusedProgram program;
  if (code.size() < 2 || code[0] < 0 || code[0] > kMaxFusedInputs || code[1] < 1 || code[1] > kMaxFusedSteps)
    refuse("a program begins with its inputs and its steps, within their limits");
  program.inputs = static_cast<int32_t>(code[0]);
  program.constants = std::move(constants);
  const auto steps = static_cast<size_t>(code[1]);
  if (program.constants.size() > kMaxFusedSteps * kMaxOperands || code.size() <= 2 + steps * kStepNumbers ||
      code.size() > 2 + steps * kStepNumbers + kMaxFusedOutputs)
    refuse("a program ends with its outputs, one at least");
  for (size_t s = 0; s < steps; ++s) {
    const int64_t* const numbers = &code[2 + s * kStepNumbers];
    if (numbers[0] < 0 || numbers[0] >= kOpcodes) refuse("an unknown opcode");
    FusedProgram::Step step;
    step.opcode = static_cast<Opcode>(numbers[0]);
    step.dtype = static_cast<DType>(numbers[1]);
    if (numbers[1] != static_cast<int64_t>(DType::float32) && numbers[1] != static_cast<int64_t>(DType::bfloat16) &&
        numbers[1] != static_cast<int64_t>(DType::float16))
      refuse("a step's type is float32, bfloat16 or float16");
    for (int i = 0; i < kMaxOperands; ++i) {
      const int64_t value = numbers[2 + i];
      if (value < 0 || (i < operands_of(step.opcode) ? value >= program.values() : value != 0))
        refuse("an operand that is not there yet");
      step.operands[i] = static_cast<int32_t>(value);
    }
    program.steps.push_back(step);
  }
  for (size_t i = 2 + steps * kStepNumbers; i < code.size(); ++i) {
    if (code[i] < program.first_step() || code[i] >= program.values()) refuse("an output that no step makes");
    if (std::ranges::find(program.outputs, code[i]) != program.outputs.end()) refuse("an output that is one already");
    program.outputs.push_back(static_cast<int32_t>(code[i]));
  }
  return program;
}

}  // namespace plimsoll
