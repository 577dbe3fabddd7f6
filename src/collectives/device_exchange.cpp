#include "collectives/device_exchange.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <future>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "collectives/exchange_support.h"
#include "collectives/rank_fault.h"
#include "device/backend.h"
#include "ops/rows.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

constexpr auto kAbortPatience = std::chrono::seconds(2);
constexpr int64_t kAligned = 256;  // elements: landing ranges begin at addresses for vector loads

using at::Tensor;

void check_flat(const Tensor& tensor) {
  check(tensor.dim() == 1 && tensor.is_contiguous(), "exchange: a tensor is not flat");
}

bool overlap(const Tensor& a, const Tensor& b) {
  const auto *a_begin = static_cast<const std::byte*>(a.const_data_ptr()),
             *b_begin = static_cast<const std::byte*>(b.const_data_ptr());
  return a_begin < b_begin + b.nbytes() && b_begin < a_begin + a.nbytes();
}

class DeviceExchange final : public Exchange {
 public:
  explicit DeviceExchange(DeviceExchangeParts parts)
      : parts_(std::move(parts)), rank_(parts_.host->rank()), size_(parts_.host->size()) {
    connect();
  }

  ~DeviceExchange() override {
    if (failed_) abort();
    parts_.group.reset();
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void note(std::string_view place) override { parts_.host->note(place); }
  void require_others() override { parts_.host->require_others(); }
  void watch_others(std::function<void()> on_loss) override { parts_.host->watch_others(std::move(on_loss)); }
  int64_t bytes_sent() const override { return bytes_sent_ + parts_.host->bytes_sent(); }
  int64_t held_bytes() const override { return parts_.host->held_bytes(); }
  std::vector<std::string> gather_text(std::string_view text) override { return parts_.host->gather_text(text); }
  void fail(std::string_view why) noexcept override {
    failed_ = true;
    parts_.host->fail(why);
  }

  void reduce_scatter(const Tensor& sum, const Tensor& source, bool first) override {
    if (on_host(sum)) return parts_.host->reduce_scatter(sum, source, first);
    check_sum(sum, source, sum.numel() * size_);
    run([&] {
      const int64_t own = part_of_slice(source.numel(), rank_, sum.numel(), 0, sum.numel());
      scatter_sums(sum.narrow(0, 0, own), source, sum.numel(), first);
      if (first && own < sum.numel()) sum.narrow(0, own, sum.numel() - own).zero_();
    });
  }

  void all_reduce(const Tensor& sum, const Tensor& source, bool first) override {
    if (on_host(sum)) return parts_.host->all_reduce(sum, source, first);
    check(sum.numel() == source.numel(), "all_reduce: the sum and the source differ in elements");
    check_sum(sum, source, sum.numel());
    run([&] {
      const int64_t slice = (sum.numel() + size_ - 1) / size_;
      const auto slice_of = [&](int r) {
        const int64_t begin = std::min(r * slice, sum.numel());
        return sum.narrow(0, begin, std::min(slice, sum.numel() - begin));
      };
      const Tensor own = slice_of(rank_), none = sum.narrow(0, 0, 0);
      scatter_sums(own, source, slice, first);
      std::vector<Tensor> outgoing, incoming;
      for (int r = 0; r < size_; ++r) {
        outgoing.push_back(r == rank_ ? none : own);
        incoming.push_back(r == rank_ ? none : slice_of(r));
      }
      send_and_receive(outgoing, incoming);
    });
  }

  void all_gather(const Tensor& whole) override {
    if (on_host(whole)) return parts_.host->all_gather(whole);
    check_flat(whole);
    check(whole.numel() % size_ == 0, "all_gather: the tensor does not have equal slices");
    if (size_ == 1 || whole.numel() == 0) return;
    run([&] {
      const Tensor bytes = whole.view(at::kByte);
      const int64_t slice = bytes.numel() / size_;
      bytes_sent_ += slice * (size_ - 1);
      parts_.group->all_gather(bytes, bytes.narrow(0, rank_ * slice, slice));
    });
  }

  void broadcast(const Tensor& tensor, int root) override {
    if (on_host(tensor)) return parts_.host->broadcast(tensor, root);
    check_flat(tensor);
    check(root >= 0 && root < size_, "broadcast: no such rank");
    if (size_ == 1 || tensor.numel() == 0) return;
    run([&] {
      if (rank_ == root) bytes_sent_ += static_cast<int64_t>(tensor.nbytes()) * (size_ - 1);
      parts_.group->broadcast(tensor.view(at::kByte), root);
    });
  }

 private:
  bool on_host(const Tensor& tensor) const {
    if (tensor.device().type() == parts_.device) return false;
    check(tensor.is_cpu(), "exchange: a tensor is on another kind of device than those of the ranks");
    return true;
  }

  static void check_sum(const Tensor& sum, const Tensor& source, int64_t max_elements) {
    check_flat(sum);
    check_flat(source);
    check(sum.device() == source.device(), "exchange: the sum and the source are on two devices");
    check(can_sum(sum.scalar_type(), source.scalar_type()), "exchange: dtypes that cannot be summed");
    check(source.numel() <= max_elements, "reduce_scatter: the source has more elements than all slices");
  }

  /// Connects on a thread of its own. If another rank fails during that time, the thread is abandoned.
  void connect() {
    auto connected = std::make_shared<std::promise<void>>();
    std::future<void> result = connected->get_future();
    std::thread([connected, group = parts_.group] {
      try {
        group->connect();
        connected->set_value();
      } catch (...) {
        connected->set_exception(std::current_exception());
      }
    }).detach();
    const auto end = std::chrono::steady_clock::now() + parts_.patience;
    const auto ready = [&] { return result.wait_for(std::chrono::seconds(0)) == std::future_status::ready; };
    parts_.wait(c10::make_intrusive<PolledWork>([&] { return ready() || std::chrono::steady_clock::now() >= end; }));
    if (!ready()) throw_unconnected(fmt::format("no answer after {}", seconds_text(parts_.patience)));
    try {
      result.get();
    } catch (const std::exception& error) {
      throw_unconnected(first_line(error.what()));
    }
  }

  [[noreturn]] void throw_unconnected(const std::string& problem) {
    throw_failure(
        fmt::format("rank {} (host {}) cannot connect its device to those of the other ranks: {}; set NCCL_DEBUG=INFO "
                    "for details, or NCCL_SOCKET_IFNAME to the interface between the hosts",
                    rank_, host_name(), problem));
  }

  /// Runs `enqueue`, which puts work into the stream, and waits until the device has done it.
  template <class Enqueue>
  void run(const Enqueue& enqueue) {
    const at::NoGradGuard no_grad;
    try {
      try {
        enqueue();
        parts_.group->mark();
      } catch (const UserError&) {
        throw;
      } catch (const InternalError&) {
        throw;
      } catch (const c10::OutOfMemoryError&) {
        throw;
      } catch (const std::exception& error) {
        parts_.throw_broken(first_line(error.what()));
      }
      parts_.wait(c10::make_intrusive<PolledWork>([group = parts_.group] { return group->reached_mark(); }));
    } catch (...) {
      failed_ = true;
      abort();
      throw;
    }
  }

  /// Aborts the group, on a thread that is abandoned if the library hangs.
  void abort() noexcept {
    if (std::exchange(aborted_, true)) return;
    try {
      std::packaged_task<void()> task([group = parts_.group] { group->abort(); });
      const std::future<void> ended = task.get_future();
      std::thread(std::move(task)).detach();
      ended.wait_for(kAbortPatience);
    } catch (const std::exception&) {  // no thread: the process ends soon
    }
  }

  void send_and_receive(const std::vector<Tensor>& outgoing, const std::vector<Tensor>& incoming) {
    if (size_ == 1) return;
    for (const Tensor& each : outgoing) bytes_sent_ += static_cast<int64_t>(each.nbytes());
    parts_.group->send_and_receive(outgoing, incoming);
  }

  /// Adds the slices `rank_` of all sources to `target`, which has the elements that this slice has. Slice q is the
  /// elements from q * `slice` on.
  void scatter_sums(const Tensor& target, const Tensor& source, int64_t slice, bool first) {
    const int64_t total = source.numel();
    if (total == 0) return;
    Tensor landing;
    int64_t piece = slice, stride = 0;  // elements of a part, and from one landing range to the next
    if (size_ > 1) {
      landing = at::empty({ops::device_landing_bytes(static_cast<int64_t>(source.nbytes()))},
                          source.options().dtype(at::kByte))
                    .view(source.scalar_type());
      stride = landing.numel() / size_;
      if (stride > kAligned) stride -= stride % kAligned;
      check(stride > 0, "exchange: too many ranks for the planned landing places");
      piece = std::min(slice, stride);
    }
    const bool in_place = overlap(target, source);
    const auto part = [&](int r, int64_t from) {
      const int64_t count = part_of_slice(total, r, slice, from, piece);
      return source.narrow(0, count > 0 ? r * slice + from : 0, count);
    };
    for (int64_t from = 0; from < slice; from += piece) {
      const int64_t count = part_of_slice(total, rank_, slice, from, piece);
      std::vector<Tensor> outgoing, terms;
      for (int r = 0; r < size_; ++r) {
        outgoing.push_back(r == rank_ ? source.narrow(0, 0, 0) : part(r, from));
        terms.push_back(r == rank_ ? source.narrow(0, 0, 0) : landing.narrow(0, r * stride, count));
      }
      send_and_receive(outgoing, terms);
      if (count == 0) continue;
      Tensor& own = terms[static_cast<size_t>(rank_)];
      own = part(rank_, from);
      // The first term overwrites the target.
      if (in_place && size_ > 1) own = landing.narrow(0, rank_ * stride, count).copy_(own);
      const Tensor to = target.narrow(0, from, count);
      for (size_t r = 0; r < terms.size(); ++r) {
        if (r == 0 && first) {
          to.copy_(terms[r]);
        } else {
          to.add_(terms[r]);
        }
      }
    }
  }

  DeviceExchangeParts parts_;
  int rank_, size_;
  int64_t bytes_sent_ = 0;
  bool failed_ = false, aborted_ = false;
};

}  // namespace

std::unique_ptr<Exchange> make_device_exchange(DeviceExchangeParts parts) {
  return std::make_unique<DeviceExchange>(std::move(parts));
}

namespace {

// Exchanges take 20 microseconds or more: the thread first polls without a pause.
constexpr auto kEager = std::chrono::microseconds(300);
constexpr auto kPause = std::chrono::microseconds(50);

}  // namespace

PolledWork::PolledWork(std::function<bool()> done) : done_(std::move(done)) {}

bool PolledWork::wait(std::chrono::milliseconds timeout) {
  const auto begin = std::chrono::steady_clock::now();
  while (!done_()) {
    const auto passed = std::chrono::steady_clock::now() - begin;
    if (aborted_ || passed >= timeout) return false;
    if (passed < kEager) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(kPause);
    }
  }
  return true;
}

void PolledWork::abort() {
  aborted_ = true;
}

namespace {

struct Factories {
  std::mutex mutex;
  std::map<std::string, DeviceGroupFactory> by_device;
};

Factories& factories() {
  static auto* all = new Factories;  // never destroyed: a library may be unloaded during static destruction
  return *all;
}

}  // namespace

void set_device_group_factory(const std::string& device, DeviceGroupFactory factory) {
  const std::lock_guard lock(factories().mutex);
  factories().by_device[device] = std::move(factory);
}

std::shared_ptr<DeviceGroup> make_device_group(const std::string& device, const StorePointer& store,
                                               const DeviceGroupOptions& options) {
  backend_for(device);
  DeviceGroupFactory factory;
  {
    const std::lock_guard lock(factories().mutex);
    const auto found = factories().by_device.find(device);
    if (found != factories().by_device.end()) factory = found->second;
  }
  if (!factory) {
    throw_failure(
        fmt::format("device {}: this build cannot exchange tensors between devices of this kind, because the headers "
                    "of NCCL were not found when it was built; set devices: 1, or install nvidia-nccl and build again",
                    device));
  }
  return factory(store, options);
}

}  // namespace plimsoll
