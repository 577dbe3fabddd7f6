#include "collectives/process_group_exchange.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "collectives/exchange_support.h"
#include "collectives/gloo_group.h"
#include "collectives/rank_fault.h"
#include "collectives/store.h"
#include "collectives/store_watch.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

constexpr int64_t kMaxPiece = 1 << 20;     // bytes of a message that is received in planned memory
constexpr int64_t kMaxLanding = 16 << 20;  // bytes of all landing ranges, if pieces stay above kMinPiece
constexpr int64_t kMinPiece = 64 << 10;

class ProcessGroupExchange final : public Exchange {
 public:
  ProcessGroupExchange(const StorePointer& store, const ProcessGroupOptions& options, std::shared_ptr<StoreWatch> watch)
      : rank_(options.rank), size_(options.size), watch_(std::move(watch)) {
    const SigpipeBlocked blocked;
    try {
      group_ = make_gloo_group(store, rank_, size_, options.address, options.patience);
    } catch (const std::exception& error) {
      throw UserError(fmt::format("rank {} (host {}) cannot connect to the other ranks: {}; check the network, or set "
                                  "GLOO_SOCKET_IFNAME to the interface between the hosts",
                                  rank_, host_name(), first_line(error.what())),
                      UserError::Kind::failure);
    }
    const int64_t peers = std::max(size_ - 1, 1);
    piece_ = std::clamp(kMaxLanding / (2 * peers) / kMinPiece * kMinPiece, kMinPiece, kMaxPiece);
    landing_ = at::zeros({2 * peers * piece_}, at::kByte);
    calls_.resize(static_cast<size_t>(size_));
    watch_->start();
  }

  ~ProcessGroupExchange() override {
    const SigpipeBlocked blocked;
    watch_->stop();
    group_.reset();
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void note(std::string_view place) override { watch_->note(place); }
  void watch_others(std::function<void()> on_loss) override { watch_->watch_others(std::move(on_loss)); }
  void fail(std::string_view why) noexcept override { watch_->fail(why); }
  int64_t bytes_sent() const override { return bytes_sent_; }
  int64_t held_bytes() const override { return static_cast<int64_t>(landing_.nbytes()); }

  void reduce_scatter(const at::Tensor& sum, const at::Tensor& source, bool first) override {
    agree(call_of(ExchangeKind::reduce_scatter, sum, source, first));
    check_sum(sum, source, sum.numel() * size_);
    scatter_sums(bytes_of(sum), sum, source, sum.numel(), first);
    const int64_t own = part_of_slice(source.numel(), rank_, sum.numel(), 0, sum.numel());
    if (first) sum.narrow(0, own, sum.numel() - own).zero_();
  }

  void all_reduce(const at::Tensor& sum, const at::Tensor& source, bool first) override {
    agree(call_of(ExchangeKind::all_reduce, sum, source, first));
    check(sum.numel() == source.numel(), "all_reduce: the sum and the source differ in elements");
    check_sum(sum, source, sum.numel());
    const int64_t slice = (sum.numel() + size_ - 1) / size_;
    const int64_t begin = std::min(rank_ * slice, sum.numel());
    scatter_sums(bytes_of(sum) + begin * sum.element_size(), sum, source, slice, first);
    gather_slices(bytes_of(sum), slice * sum.element_size(), static_cast<int64_t>(sum.nbytes()));
  }

  void all_gather(const at::Tensor& whole) override {
    agree(call_of(ExchangeKind::all_gather, whole, whole, 0));
    check(whole.numel() % size_ == 0, "all_gather: the tensor does not have equal slices");
    const auto bytes = static_cast<int64_t>(whole.nbytes());
    gather_slices(bytes_of(whole), bytes / size_, bytes);
  }

  void broadcast(const at::Tensor& tensor, int root) override {
    agree(call_of(ExchangeKind::broadcast, tensor, tensor, root));
    check(root >= 0 && root < size_, "broadcast: no such rank");
    const auto bytes = static_cast<int64_t>(tensor.nbytes());
    Works works;
    const int tag = next_tag();
    if (rank_ != root) receive(works, bytes_of(tensor), bytes, root, tag);
    if (rank_ == root) send_to_all(works, bytes_of(tensor), bytes, tag);
    if (rank_ == root) bytes_sent_ += bytes * (size_ - 1);
    wait(works);
  }

  std::vector<std::string> gather_text(std::string_view text) override {
    agree({ExchangeKind::gather_text});
    std::vector<int64_t> lengths(static_cast<size_t>(size_));
    lengths[static_cast<size_t>(rank_)] = static_cast<int64_t>(text.size());
    gather_slices(reinterpret_cast<std::byte*>(lengths.data()), sizeof(int64_t), size_ * int64_t{sizeof(int64_t)},
                  false);
    std::vector<std::string> texts;
    for (const int64_t length : lengths) texts.emplace_back(static_cast<size_t>(length), '\0');
    texts[static_cast<size_t>(rank_)] = text;
    Works works;
    const int tag = next_tag();
    for (int r = 0; r < size_; ++r) {
      std::string& from = texts[static_cast<size_t>(r)];
      if (r != rank_) receive(works, from.data(), std::ssize(from), r, tag);
    }
    send_to_all(works, texts[static_cast<size_t>(rank_)].data(), std::ssize(text), tag);
    wait(works);
    return texts;
  }

 private:
  using Works = std::vector<c10::intrusive_ptr<c10d::Work>>;

  static void check_sum(const at::Tensor& sum, const at::Tensor& source, int64_t max_elements) {
    check(can_sum(sum.scalar_type(), source.scalar_type()), "exchange: dtypes that cannot be summed");
    check(source.numel() <= max_elements, "reduce_scatter: the source has more elements than all slices");
  }

  // Returns the next tag. Messages of the same round have the same tag on both sides; no other of the next billion
  // rounds has it.
  int next_tag() { return tag_ = (tag_ + 1) & 0x3fffffff; }

  void send(Works& works, const void* data, int64_t bytes, int to, int tag) {
    if (bytes == 0) return;
    std::vector<at::Tensor> message{at::from_blob(const_cast<void*>(data), {bytes}, at::kByte)};
    works.push_back(started([&] { return group_->send(message, to, tag); }));
  }
  void receive(Works& works, void* data, int64_t bytes, int from, int tag) {
    if (bytes == 0) return;
    std::vector<at::Tensor> message{at::from_blob(data, {bytes}, at::kByte)};
    works.push_back(started([&] { return group_->recv(message, from, tag); }));
  }
  // Starts a message. If the connection is known to be broken, the message does not start.
  template <class Start>
  c10::intrusive_ptr<c10d::Work> started(const Start& start) {
    const SigpipeBlocked blocked;
    try {
      return start();
    } catch (const std::exception& error) {
      watch_->throw_broken(first_line(error.what()));
    }
  }
  void send_to_all(Works& works, const void* data, int64_t bytes, int tag) {
    for (int k = 1; k < size_; ++k) send(works, data, bytes, (rank_ + k) % size_, tag);
  }
  void wait(Works& works) {
    for (const auto& work : works) watch_->wait(work);
    works.clear();
  }

  /// Exchanges the calls of all ranks and checks that they are equal.
  void agree(ExchangeCall call) {
    call.number = count_++;
    calls_[static_cast<size_t>(rank_)] = call;
    gather_slices(reinterpret_cast<std::byte*>(calls_.data()), sizeof(call), size_ * int64_t{sizeof(call)}, false);
    check_calls(calls_);
  }

  /// Gathers slices of `slice` bytes in place; the last ones may be shorter or empty.
  void gather_slices(std::byte* whole, int64_t slice, int64_t bytes, bool counted = true) {
    Works works;
    const int tag = next_tag();
    const auto part = [&](int r) { return std::clamp<int64_t>(bytes - r * slice, 0, slice); };
    for (int k = 1; k < size_; ++k) {
      const int from = (rank_ + size_ - k) % size_;
      receive(works, whole + from * slice, part(from), from, tag);
    }
    send_to_all(works, whole + rank_ * slice, part(rank_), tag);
    if (counted) bytes_sent_ += part(rank_) * (size_ - 1);
    wait(works);
  }

  std::byte* landing(int which, int from) const {
    return bytes_of(landing_) + (which * (size_ - 1) + from - (from > rank_ ? 1 : 0)) * piece_;
  }

  /// Adds the slices `rank_` of all sources to `target`, piece by piece, while the next piece is in transfer.
  void scatter_sums(std::byte* target, const at::Tensor& sum, const at::Tensor& source, int64_t slice, bool first) {
    const int64_t width = source.element_size(), piece = piece_ / width, total = source.numel();
    Works in[2], out[2];
    const auto post = [&](int64_t from, int which) {
      const int tag = next_tag();
      for (int k = 1; k < size_; ++k) {
        const int r = (rank_ + size_ - k) % size_;
        receive(in[which], landing(which, r), part_of_slice(total, rank_, slice, from, piece) * width, r, tag);
      }
      for (int k = 1; k < size_; ++k) {
        const int to = (rank_ + k) % size_;
        const int64_t bytes = part_of_slice(total, to, slice, from, piece) * width;
        send(out[which], bytes_of(source) + (to * slice + from) * width, bytes, to, tag);
        bytes_sent_ += bytes;
      }
    };
    std::vector<const void*> terms(static_cast<size_t>(size_));
    if (slice > 0) post(0, 0);
    for (int64_t from = 0, which = 0; from < slice; from += piece, which ^= 1) {
      if (from + piece < slice) post(from + piece, static_cast<int>(which ^ 1));
      wait(in[which]);
      const int64_t count = part_of_slice(total, rank_, slice, from, piece);
      for (int r = 0; r < size_; ++r) {
        terms[static_cast<size_t>(r)] =
            r == rank_ ? bytes_of(source) + (rank_ * slice + from) * width : landing(static_cast<int>(which), r);
      }
      std::byte* to = target + from * sum.element_size();
      if (count > 0) add_in_order(to, sum.scalar_type(), terms, source.scalar_type(), count, first);
      wait(out[which]);
    }
  }

  int rank_, size_;
  std::shared_ptr<StoreWatch> watch_;
  c10::intrusive_ptr<c10d::Backend> group_;
  at::Tensor landing_;
  int64_t piece_ = 0, bytes_sent_ = 0, count_ = 0;
  int tag_ = 0;
  std::vector<ExchangeCall> calls_;
};

}  // namespace

std::unique_ptr<Exchange> make_process_group_exchange(const StorePointer& store, const ProcessGroupOptions& options) {
  return make_process_group_exchange(store, options, std::make_shared<StoreWatch>(store, options));
}

std::unique_ptr<Exchange> make_process_group_exchange(const StorePointer& store, const ProcessGroupOptions& options,
                                                      std::shared_ptr<StoreWatch> watch) {
  return std::make_unique<ProcessGroupExchange>(store, options, std::move(watch));
}

}  // namespace plimsoll
