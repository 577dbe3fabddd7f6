#include <ATen/ATen.h>

#include <cmath>

#include "ops/op_support.h"
#include "ops/optimizer/optimizer_plan.h"
#include "ops/optimizer/update_op.h"

namespace plimsoll::ops {
namespace {

using at::Tensor;

constexpr double kEpsilon = 1e-30;       // added to squares
constexpr double kDecayExponent = -0.8;  // section 7.2: the mean decays by 1 - step^-0.8

void check_means(const UpdateCall& call) {
  const UpdateTensors& tensors = call.tensors;
  require(tensors.parameter.scalar_type() != at::kDouble, tensors.op,
          "the parameter is float64; allowed are float32, bfloat16 and float16");
  const MatrixShape shape = matrix_shape(tensors.parameter.sizes(), tensors.parameter.strides());
  for (const auto& [mean, count] : {std::pair{&tensors.state[0], shape.rows}, {&tensors.state[1], shape.columns}})
    require(mean->values.scalar_type() == at::kFloat && !mean->scales.defined() && mean->values.is_contiguous() &&
                mean->values.numel() == count,
            tensors.op, mean->name, " is ", c10::toString(mean->values.scalar_type()), " ", mean->values.sizes(),
            "; it must be float32 and have ", count, " elements");
}

/// Calls `visit(part, begin, end, numbers)` for each chunk of the gradient. Parts are cut at the same elements for any
/// thread count.
template <typename Visit>
void for_each_gradient_chunk(const ElementUpdate& update, const Visit& visit) {
  const int64_t chunks = div_up(update.count, kChunk), parts = adafactor_parts(update.count);
  at::parallel_for(0, parts, 1, [&](int64_t first, int64_t last) {
    alignas(64) float buffer[kChunk];
    for (int64_t part = first; part < last; ++part) {
      for (int64_t chunk = chunks * part / parts; chunk < chunks * (part + 1) / parts; ++chunk) {
        const int64_t begin = chunk * kChunk, end = std::min(begin + kChunk, update.count);
        const float* gradient = opened<float>(update.gradient, begin, end - begin, nullptr, buffer);
        visit(part, begin, end, gradient);
      }
    }
  });
}

/// Calls `visit(row, column, offset from begin, count)` for each row that holds some of the elements [begin, end).
template <typename Visit>
void for_each_row(const MatrixShape& shape, int64_t begin, int64_t end, const Visit& visit) {
  for (int64_t at = begin; at < end;) {
    const int64_t row = at / shape.columns, column = at % shape.columns;
    const int64_t count = std::min(end - at, shape.columns - column);
    visit(row, column, at - begin, count);
    at += count;
  }
}

void run_adafactor(const UpdateCall& call, const Draw& draw) {
  const ElementUpdate update = bind_update(call.tensors, draw);
  const Tensor& parameter = call.tensors.parameter;
  const MatrixShape shape = matrix_shape(parameter.sizes(), parameter.strides());
  if (update.count == 0) return;
  const int64_t parts = adafactor_parts(update.count);
  const double rate = scalar_of(call.learning_rate), threshold = call.numbers[0], weight_decay = call.numbers[1];
  const auto grad_scale = static_cast<float>(scalar_of(call.tensors.grad_scale));
  const double kept = std::pow(scalar_of(call.step) + 1, kDecayExponent);  // weight of the new squares
  auto* row_means = call.tensors.state[0].values.mutable_data_ptr<float>();
  auto* column_means = call.tensors.state[1].values.mutable_data_ptr<float>();

  // Sums of squares by row and column. Each part has its own column sums, and sums of the rows that it touches. A row
  // that two parts share has one sum in each.
  const auto options = parameter.options().requires_grad(false);
  const Tensor column_sums = at::zeros({parts, shape.columns}, options.dtype(at::kFloat));
  const Tensor row_sums = at::zeros({shape.rows + parts}, options.dtype(at::kDouble));
  auto* columns = column_sums.mutable_data_ptr<float>();
  auto* rows = row_sums.mutable_data_ptr<double>();
  for_each_gradient_chunk(update, [&](int64_t part, int64_t begin, int64_t end, const float* gradient) {
    for_each_row(shape, begin, end, [&](int64_t row, int64_t column, int64_t at, int64_t count) {
      rows[row + part] += add_squares(gradient + at, columns + part * shape.columns + column, count, grad_scale,
                                      static_cast<float>(kEpsilon));
    });
  });
  const int64_t chunks = div_up(update.count, kChunk);
  std::vector<int64_t> first_row;
  for (int64_t part = 0; part < parts; ++part) first_row.push_back(chunks * part / parts * kChunk / shape.columns);
  double mean_of_rows = 0;
  for (int64_t row = 0, part = 0; row < shape.rows; ++row) {
    double sum = 0;
    while (part + 1 < parts && first_row[static_cast<size_t>(part) + 1] < row) ++part;
    for (int64_t p = part; p < parts && first_row[static_cast<size_t>(p)] <= row; ++p) sum += rows[row + p];
    const double mean = sum / static_cast<double>(shape.columns);
    row_means[row] = static_cast<float>((1 - kept) * row_means[row] + kept * mean);
    mean_of_rows += row_means[row] / static_cast<double>(shape.rows);
  }
  // From here on the column sums and row sums become the factors of a column's and of a row's elements.
  for (int64_t column = 0; column < shape.columns; ++column) {
    double sum = 0;
    for (int64_t part = 0; part < parts; ++part) sum += columns[part * shape.columns + column];
    const double mean = sum / static_cast<double>(shape.rows);
    column_means[column] = static_cast<float>((1 - kept) * column_means[column] + kept * mean);
    columns[column] = static_cast<float>(1 / std::sqrt(static_cast<double>(column_means[column])));
  }
  const auto row_factor = [&](int64_t row) {
    return std::sqrt(mean_of_rows / static_cast<double>(row_means[row])) / static_cast<double>(grad_scale);
  };

  // The root mean square of the update; longer updates are shortened to the threshold.
  std::array<double, kAdafactorParts> squares{};
  for_each_gradient_chunk(update, [&](int64_t part, int64_t begin, int64_t end, const float* gradient) {
    for_each_row(shape, begin, end, [&](int64_t row, int64_t column, int64_t at, int64_t count) {
      squares[static_cast<size_t>(part)] +=
          sum_of_squared_products(gradient + at, columns + column, count) * row_factor(row) * row_factor(row);
    });
  });
  double total = 0;
  for (double each : squares) total += each;
  const double length = std::sqrt(total / static_cast<double>(update.count));
  const double step_size = rate / std::max(1.0, length / threshold);
  const auto kept_of_parameter = static_cast<float>(1 - rate * weight_decay);
  for_each_chunk<float>({&update, 1}, [&](float* p, const float* g, float*, float*, int64_t begin, int64_t count) {
    for_each_row(shape, begin, begin + count, [&](int64_t row, int64_t column, int64_t at, int64_t n) {
      subtract_products(p + at, g + at, columns + column, n, kept_of_parameter,
                        static_cast<float>(step_size * row_factor(row)));
    });
  });
}

}  // namespace

const UpdateOp kAdafactor{"plimsoll::adafactor_",
                          {{"row_mean", true, false}, {"column_mean", true, false}},
                          {"clip_threshold", "weight_decay"},
                          nullptr,
                          run_adafactor,
                          check_means};
PLIMSOLL_UPDATE_OP("adafactor_", kAdafactor)

void adafactor_(const UpdatedTensors& tensors, const Tensor& row_mean, const Tensor& column_mean, const Tensor& step,
                const StepScalars& scalars, double clip_threshold, double weight_decay) {
  call_update(kAdafactor, tensors, {{row_mean}, {column_mean}}, step, scalars, {clip_threshold, weight_decay});
}

}  // namespace plimsoll::ops
