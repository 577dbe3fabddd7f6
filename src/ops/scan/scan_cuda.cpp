#include "ops/cuda_op_support.h"
#include "ops/scan/causal_conv1d.h"
#include "ops/scan/scan_launch.h"
#include "ops/scan/ssd_scan.h"

namespace plimsoll::cuda {
namespace {

using at::Tensor;

CausalConv arguments(const Tensor& x, const Tensor& weight, const Tensor& bias, bool reverse) {
  return {.x = x.const_data_ptr(),
          .dtype = ops::dtype_of(x),
          .batch_stride = x.stride(0),
          .time_stride = x.stride(1),
          .weight = weight.const_data_ptr(),
          .bias = bias.const_data_ptr(),
          .weight_dtype = ops::dtype_of(weight),
          .channel_stride = weight.stride(0),
          .tap_stride = weight.stride(1),
          .bias_stride = bias.stride(0),
          .batch = x.size(0),
          .time = x.size(1),
          .channels = x.size(2),
          .taps = weight.size(1),
          .reverse = reverse};
}

Tensor causal_conv1d_cuda(const Tensor& x, const Tensor& weight, const Tensor& bias, bool reverse) {
  const OnDevice device("plimsoll::causal_conv1d", x, weight, bias);
  Tensor y = ops::empty_causal_conv1d(x, weight, bias, reverse);
  const Tensor from = ops::conv_inner_contiguous(x);
  launch_causal_conv(arguments(from, weight, bias, reverse), y.data_ptr(), device.stream());
  return y;
}

std::tuple<Tensor, Tensor, Tensor> causal_conv1d_backward_cuda(const Tensor& grad_y, const Tensor& x,
                                                               const Tensor& weight, const Tensor& bias, bool reverse) {
  const OnDevice device("plimsoll::causal_conv1d_backward", x, grad_y, weight, bias);
  auto results = ops::empty_causal_conv1d_gradients(grad_y, x, weight, bias, reverse);
  const auto& [dx, dweight, dbias] = results;
  const Tensor from = ops::conv_inner_contiguous(x), grad = ops::conv_inner_contiguous(grad_y);
  const Tensor shares = at::empty({conv_tasks(x.size(0), x.size(1)), ops::kConvTaps + 1, x.size(2)},
                                  x.options().dtype(ops::accumulator(x.scalar_type())));
  launch_causal_conv_backward(arguments(from, weight, bias, reverse), grad.const_data_ptr(), grad.stride(0),
                              grad.stride(1), dx.data_ptr(), dweight.data_ptr(), dbias.data_ptr(), shares.data_ptr(),
                              device.stream());
  return results;
}

}  // namespace

TORCH_LIBRARY_IMPL(plimsoll, CUDA, m) {
  m.impl("causal_conv1d", causal_conv1d_cuda);
  m.impl("causal_conv1d_backward", causal_conv1d_backward_cuda);
}

namespace {

/// The part of a scan that both directions share: the current panel and its tiles, and the first matmuls.
class Scan {
 public:
  Scan(const ops::PreparedSsd& in, bool backward, cudaStream_t stream)
      : in_(in.operands),
        shape_(in.operands.shape),
        plan_(shape_, in.x.element_size(), backward),
        block_(at::empty({plan_.bytes}, in.x.options().dtype(at::kByte))),
        type_(in.x.scalar_type()),
        stream_(stream) {}

  int64_t chunks_in_all() const { return shape_.batch * shape_.chunks(); }
  int64_t chunks_of_panel() const { return plan_.tasks; }

  void begin_panel(int64_t first) {
    panel_ = {shape_, in_.dtype, first, std::min(plan_.tasks, chunks_in_all() - first)};
    launch_ssd_decays(panel_, in_.dt, in_.a, data(SsdTile::steps), data(SsdTile::sums), stream_);
  }

  /// Computes the initial states of the panel's chunks. Panels run in order.
  void pass_states(const Tensor& states) {
    pack(in_.b, shape_.groups, shape_.state, SsdTile::b);
    if (shape_.chunks() > 1) {
      pack(in_.x, shape_.heads, shape_.width, SsdTile::grouped, SsdWeight::leaving, /*grouped=*/true);
      multiply(group_rows(SsdTile::b).transpose(1, 2), grouped(), local());
    }
    launch_ssd_pass_states(panel_, data(SsdTile::local), data(SsdTile::sums), states.data_ptr(), stream_);
  }

  void write_outputs(const Tensor& states, const Tensor& y) {
    score();
    launch_ssd_left(panel_, data(SsdTile::scores), data(SsdTile::c), data(SsdTile::steps), data(SsdTile::sums),
                    data(SsdTile::left), stream_);
    launch_ssd_right(panel_, in_.x, states.const_data_ptr(), data(SsdTile::right), stream_);
    multiply(tile(SsdTile::left, shape_.heads, length(), length() + shape_.state), right(), product());
    launch_ssd_add_through(panel_, data(SsdTile::product), in_.x, in_.d, y.data_ptr(), stream_);
  }

 protected:
  int64_t length() const { return shape_.longest(); }
  void* data(SsdTile tile) const { return static_cast<char*>(block_.data_ptr()) + plan_.offset(tile); }

  /// Returns a tile with `each` matrices for every chunk of the panel.
  Tensor tile(SsdTile which, int64_t each, int64_t rows, int64_t columns) const {
    const at::ScalarType type = which < SsdTile::b ? ops::accumulator(type_) : type_;
    const int64_t count = panel_.tasks * each * rows * columns;
    return block_.narrow(0, plan_.offset(which), count * static_cast<int64_t>(c10::elementSize(type)))
        .view(type)
        .view({panel_.tasks * each, rows, columns});
  }
  Tensor group_rows(SsdTile which) const { return tile(which, shape_.groups, length(), shape_.state); }
  Tensor pairs(SsdTile which, int64_t each) const { return tile(which, each, length(), length()); }
  Tensor grouped() const {
    return tile(SsdTile::grouped, shape_.groups, length(), shape_.heads_of_group() * shape_.width);
  }
  Tensor local() const {
    return tile(SsdTile::local, shape_.groups, shape_.state, shape_.heads_of_group() * shape_.width);
  }
  Tensor right() const { return tile(SsdTile::right, shape_.heads, length() + shape_.state, shape_.width); }
  Tensor product() const { return tile(SsdTile::product, shape_.heads, length(), shape_.width); }

  void pack(const ops::SsdTensor& from, int64_t heads, int64_t width, SsdTile to, SsdWeight weight = SsdWeight::none,
            bool grouped = false) {
    launch_ssd_pack(panel_, from, heads, width, weight, grouped, data(SsdTile::steps), data(SsdTile::sums), data(to),
                    stream_);
  }
  /// Computes C_i . B_j; B is packed.
  void score() {
    pack(in_.c, shape_.groups, shape_.state, SsdTile::c);
    multiply(group_rows(SsdTile::c), group_rows(SsdTile::b).transpose(1, 2), pairs(SsdTile::scores, shape_.groups));
  }

  const ops::SsdOperands& in_;
  const ops::SsdShape& shape_;
  SsdPanels plan_;
  Tensor block_;
  at::ScalarType type_;
  cudaStream_t stream_;
  SsdPanel panel_;
};

class BackwardScan : public Scan {
 public:
  BackwardScan(const ops::PreparedSsd& in, const Tensor& grad, cudaStream_t stream)
      : Scan(in, /*backward=*/true, stream), dy_(ops::ssd_strided(grad)) {}

  /// Computes the gradients of the states that leave the panel's chunks. Panels run from the last to the first. Leaves
  /// B and C packed.
  void pass_gradients(const Tensor& gradients) {
    pack(in_.b, shape_.groups, shape_.state, SsdTile::b);
    score();
    if (shape_.chunks() > 1) {
      pack(dy_, shape_.heads, shape_.width, SsdTile::grouped, SsdWeight::arriving, /*grouped=*/true);
      multiply(group_rows(SsdTile::c).transpose(1, 2), grouped(), local());
    }
    launch_ssd_pass_gradients(panel_, data(SsdTile::local), data(SsdTile::sums), gradients.data_ptr(), stream_);
  }

  void write_gradients(const Tensor& states, const Tensor& gradients, const ops::SsdGradientResults& out,
                       const Tensor& shares) {
    const auto& [dx, d_dt, da, db, dc, dd, both] = out;
    const Tensor x = tile(SsdTile::x, shape_.heads, length(), shape_.width), dy = right().narrow(1, 0, length());
    const Tensor leaving = right().narrow(1, length(), shape_.state);
    const Tensor part = tile(SsdTile::part, shape_.heads, length(), shape_.state);
    pack(in_.x, shape_.heads, shape_.width, SsdTile::x);
    launch_ssd_right(panel_, dy_, gradients.const_data_ptr(), data(SsdTile::right), stream_);
    launch_ssd_narrow_states(panel_, states.const_data_ptr(), data(SsdTile::state), stream_);

    // One matmul computes the terms within the chunks and the terms that x adds to later chunks.
    multiply(dy, x.transpose(1, 2), pairs(SsdTile::products, shape_.heads));
    launch_ssd_weigh_back(panel_, data(SsdTile::scores), data(SsdTile::b), data(SsdTile::steps), data(SsdTile::sums),
                          data(SsdTile::products), data(SsdTile::score_gradients), data(SsdTile::left), stream_);
    launch_ssd_sum_products(panel_, data(SsdTile::products), data(SsdTile::steps), data(SsdTile::step_gradients),
                            data(SsdTile::sum_gradients), stream_);
    multiply(tile(SsdTile::left, shape_.heads, length() + shape_.state, length()).transpose(1, 2), right(), product());
    launch_ssd_add_through(panel_, data(SsdTile::product), dy_, in_.d, dx.data_ptr(), stream_);

    // The terms of the state that enters (for C) and of the state that leaves (for B).
    multiply(dy, tile(SsdTile::state, shape_.heads, shape_.state, shape_.width).transpose(1, 2), part);
    launch_ssd_arriving_back(panel_, data(SsdTile::part), data(SsdTile::c), data(SsdTile::sums), data(SsdTile::c_sums),
                             data(SsdTile::sum_gradients), stream_);
    multiply(x, leaving.transpose(1, 2), part);
    launch_ssd_leaving_back(panel_, data(SsdTile::part), data(SsdTile::b), data(SsdTile::steps), data(SsdTile::sums),
                            data(SsdTile::b_sums), data(SsdTile::step_gradients), data(SsdTile::sum_gradients),
                            data(SsdTile::given), stream_);
    const Tensor of_scores = pairs(SsdTile::score_gradients, shape_.groups);
    multiply(of_scores, group_rows(SsdTile::b), group_rows(SsdTile::group_product));
    launch_ssd_store_sum(panel_, data(SsdTile::c_sums), data(SsdTile::group_product), dc.data_ptr(), stream_);
    multiply(of_scores.transpose(1, 2), group_rows(SsdTile::c), group_rows(SsdTile::group_product));
    launch_ssd_store_sum(panel_, data(SsdTile::b_sums), data(SsdTile::group_product), db.data_ptr(), stream_);

    launch_ssd_finish(panel_,
                      {.steps = data(SsdTile::steps),
                       .sums = data(SsdTile::sums),
                       .step_gradients = data(SsdTile::step_gradients),
                       .sum_gradients = data(SsdTile::sum_gradients),
                       .given = data(SsdTile::given),
                       .states = states.const_data_ptr(),
                       .state_gradients = gradients.const_data_ptr(),
                       .x = in_.x,
                       .dy = dy_,
                       .a = in_.a,
                       .dt = d_dt.data_ptr(),
                       .a_shares = shares.select(0, 0).data_ptr(),
                       .d_shares = shares.select(0, 1).data_ptr()},
                      stream_);
  }

 private:
  ops::SsdTensor dy_;
};

ops::SsdResults ssd_scan_cuda(const Tensor& x, const Tensor& dt, const Tensor& a, const Tensor& b, const Tensor& c,
                              const Tensor& d, int64_t chunk, bool reverse) {
  const OnDevice device("plimsoll::ssd_scan", x, dt, a, b, c, d);
  auto [y, states] = ops::empty_ssd_scan(x, dt, a, b, c, d, chunk, reverse);
  const ops::PreparedSsd in(x, dt, a, b, c, d, chunk, reverse);
  Scan scan(in, /*backward=*/false, device.stream());
  for (int64_t first = 0; first < scan.chunks_in_all(); first += scan.chunks_of_panel()) {
    scan.begin_panel(first);
    scan.pass_states(states);
    scan.write_outputs(states, y);
  }
  return {y, states};
}

ops::SsdGradientResults ssd_scan_backward_cuda(const Tensor& grad_y, const Tensor& x, const Tensor& dt, const Tensor& a,
                                               const Tensor& b, const Tensor& c, const Tensor& d, int64_t chunk,
                                               bool reverse) {
  const OnDevice device("plimsoll::ssd_scan_backward", x, grad_y, dt, a, b, c, d);
  auto results = ops::empty_ssd_scan_gradients(grad_y, x, dt, a, b, c, d, chunk, reverse);
  const auto& [dx, d_dt, da, db, dc, dd, both_states] = results;
  const ops::PreparedSsd in(x, dt, a, b, c, d, chunk, reverse);
  const Tensor grad = ops::ssd_inner_contiguous(grad_y);
  const Tensor states = both_states.select(0, 0), gradients = both_states.select(0, 1);
  BackwardScan scan(in, grad, device.stream());
  const int64_t count = scan.chunks_in_all(), heads = x.size(2), of_panel = scan.chunks_of_panel();
  const Tensor shares = at::empty({2, count, heads}, both_states.options());
  for (int64_t first = 0; first < count; first += of_panel) {
    scan.begin_panel(first);
    scan.pass_states(states);
  }
  for (int64_t first = (count - 1) / of_panel * of_panel; first >= 0; first -= of_panel) {
    scan.begin_panel(first);
    scan.pass_gradients(gradients);
    scan.write_gradients(states, gradients, results, shares);
  }
  for (const auto& [index, to] : {std::pair{0, &da}, {1, &dd}})
    launch_ssd_sum_shares(ops::dtype_of(x), shares.select(0, index).const_data_ptr(), count, heads, to->data_ptr(),
                          device.stream());
  return results;
}

}  // namespace

TORCH_LIBRARY_IMPL(plimsoll, CUDA, m) {
  m.impl("ssd_scan", ssd_scan_cuda);
  m.impl("ssd_scan_backward", ssd_scan_backward_cuda);
}

}  // namespace plimsoll::cuda
