// Declares the exchange of tensors between the ranks of a training. Ranks call the same functions in the same order.
//
// Sums are made in rank order: R ranks with one micro batch each get the bits that one rank gets with R micro batches.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll {

/// The connection of one rank with the others of a training. Tensors are flat (one dimension), contiguous and on the
/// rank's device. Every function blocks until this rank may use its results and overwrite its arguments. Each throws
/// UserError (failure) that names the rank, its host and its last operator if another rank fails, ends or does not
/// answer.
class Exchange {
 public:
  virtual ~Exchange() = default;

  virtual int rank() const = 0;  ///< in [0, size())
  virtual int size() const = 0;  ///< number of ranks, at least 1

  /// Sets sum = s_0 + s_1 + … + s_(R-1) if `first`, else sum + s_0 + … + s_(R-1). s_r is slice `rank()` of the `source`
  /// of rank r. The terms are added in this order, each addition rounded to the dtype of `sum`. Slice q of a source is
  /// its elements from q * sum.numel() on; elements that it does not have count as zeros (`sum` is 0 there). `source`
  /// has at most size() * sum.numel() elements, the same number and dtype on every rank; its dtype may be narrower than
  /// that of `sum`.
  virtual void reduce_scatter(const at::Tensor& sum, const at::Tensor& source, bool first) = 0;

  /// Sets `sum` to the sum over the ranks of all elements of `source`, as reduce_scatter() adds them, on every rank.
  /// `sum` has as many elements as `source`.
  virtual void all_reduce(const at::Tensor& sum, const at::Tensor& source, bool first) = 0;

  /// Copies slice r of rank r to every rank, for all r. `whole` has size() equal slices of any dtype.
  virtual void all_gather(const at::Tensor& whole) = 0;

  /// Copies the tensor of rank `root`, of any dtype, to every rank.
  virtual void broadcast(const at::Tensor& tensor, int root) = 0;

  /// Returns the text of every rank, in rank order. A text of the host, less than 1 MiB.
  virtual std::vector<std::string> gather_text(std::string_view text) = 0;

  /// Throws as the other functions do if another rank has failed, ended or stopped answering. Looks at the other ranks
  /// at most once in 250 ms, so that the executor can call it between operators.
  virtual void require_others() {}

  /// Watches the other ranks from now on, even while this rank does not wait for them. `on_loss` is called from another
  /// thread when one is lost: its process has ended, it does not answer, or it has failed two seconds ago. The next
  /// call of an exchange throws then. If none comes within a second, Rendezvous::on_lost_rank is called. An empty
  /// `on_loss` ends the watch: other ranks may end.
  virtual void watch_others(std::function<void()> /*on_loss*/) {}

  /// Returns false if the cores that run operators make the exchanges, so that overlapping the two gains nothing.
  virtual bool runs_beside_operators() const { return true; }

  /// Publishes the work of this rank for messages of other ranks: "step 12", "plimsoll::reduce_scatter_ of
  /// layers.3.weight". Costs one copy of the text, which is cut at 200 bytes.
  virtual void note(std::string_view place) = 0;

  /// Tells the other ranks that this one failed, and why. Their calls throw from then on.
  virtual void fail(std::string_view why) noexcept = 0;

  /// Returns the bytes that this rank has sent to other ranks so far.
  virtual int64_t bytes_sent() const = 0;
  /// Returns the bytes of host memory that this object holds for its exchanges: constant over its lifetime, and part of
  /// the plan.
  virtual int64_t held_bytes() const = 0;
};

/// Returns the exchange of the training whose operators run on this thread; nullptr: none.
Exchange* current_exchange();

/// Returns the seconds that exchange operators have taken on this thread so far, with waits for other ranks.
double exchange_seconds();
/// A timer that adds its lifetime to exchange_seconds().
class ExchangeTimer {
 public:
  ExchangeTimer();
  ~ExchangeTimer();
  ExchangeTimer(const ExchangeTimer&) = delete;
  ExchangeTimer& operator=(const ExchangeTimer&) = delete;

 private:
  std::chrono::steady_clock::time_point begin_;
};

/// Publishes the place and the operator that runs through the current exchange: "step 12, plimsoll::gather_".
void note_operator(std::string_view name);

/// Returns the place that ExchangeScope set on this thread: "step 12".
const std::string& current_place();

/// A scope that makes `exchange` the current one of this thread for its lifetime. `place`: "step 12".
class ExchangeScope {
 public:
  ExchangeScope(Exchange* exchange, std::string place);
  ~ExchangeScope();
  ExchangeScope(const ExchangeScope&) = delete;
  ExchangeScope& operator=(const ExchangeScope&) = delete;

 private:
  Exchange* before_;
  std::string place_before_;
};

}  // namespace plimsoll
