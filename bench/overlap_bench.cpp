// Measures step times of two ranks whose exchanges overlap with other ops, compared with exchanges in turn. The network
// is simulated: each exchange through shared memory takes as long as on a link of the given bytes a second. The ranks'
// cores are free meanwhile.
//
//     overlap_bench [LINK_GB_PER_SECOND...]      default: 0.1 0.3 1
//
// Each figure is the median of 9 steps after 3 others, the two ways in turn, one thread a rank.
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <torch/types.h>
#include <torch/utils.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstring>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "collectives/shared_memory_exchange.h"
#include "plimsoll/models.h"
#include "plimsoll/training.h"

namespace {

using namespace plimsoll;
using Clock = std::chrono::steady_clock;

constexpr int kRanks = 2, kWarmUp = 3, kSteps = 9;

// Shared memory, with the time of a link.
class SlowExchange final : public Exchange {
 public:
  SlowExchange(std::shared_ptr<void> block, int rank, double bytes_per_second)
      : inner_(std::move(block), rank, kRanks), bytes_per_second_(bytes_per_second) {}

  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  void reduce_scatter(const at::Tensor& sum, const at::Tensor& source, bool first) override {
    timed([&] { inner_.reduce_scatter(sum, source, first); });
  }
  void all_reduce(const at::Tensor& sum, const at::Tensor& source, bool first) override {
    timed([&] { inner_.all_reduce(sum, source, first); });
  }
  void all_gather(const at::Tensor& whole) override {
    timed([&] { inner_.all_gather(whole); });
  }
  void broadcast(const at::Tensor& tensor, int root) override {
    timed([&] { inner_.broadcast(tensor, root); });
  }
  std::vector<std::string> gather_text(std::string_view text) override { return inner_.gather_text(text); }
  void require_others() override { inner_.require_others(); }
  void note(std::string_view place) override { inner_.note(place); }
  void fail(std::string_view why) noexcept override { inner_.fail(why); }
  int64_t bytes_sent() const override { return inner_.bytes_sent(); }
  int64_t held_bytes() const override { return inner_.held_bytes(); }

 private:
  template <typename Work>
  void timed(const Work& work) {
    const auto begin = Clock::now();
    const int64_t before = inner_.bytes_sent();
    work();
    const double seconds = static_cast<double>(inner_.bytes_sent() - before) / bytes_per_second_;
    std::this_thread::sleep_until(begin +
                                  std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds)));
  }

  SharedMemoryExchange inner_;
  double bytes_per_second_;
};

class RankTraining {
 public:
  RankTraining(const Step& step, Strategy strategy, bool overlap, double link,
               const std::shared_ptr<Exchange>& exchange) {
    TrainingOptions options;
    options.threads = 1;
    options.max_grad_norm = 0;
    options.ranks = {.count = kRanks, .rank = exchange->rank(), .strategy = strategy};
    options.exchange = exchange;
    options.cost.peer_link = link;
    options.cost.exchanges_overlap = overlap;
    training_ = std::make_unique<Training>(step, options);
    training_->start();
  }

  void step(const std::map<std::string, at::Tensor>& batch, bool counts) {
    const auto begin = Clock::now();
    const double waited = exchange_seconds();
    training_->step({batch}, 1e-3);
    if (!counts) return;
    seconds_.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
    waited_.push_back(exchange_seconds() - waited);
  }

  static double median(std::vector<double> values) {
    std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2));
    return values[values.size() / 2];
  }
  double seconds() const { return median(seconds_); }
  double waited() const { return median(waited_); }
  int64_t bytes() const { return training_->plan().peak_bytes; }

 private:
  std::unique_ptr<Training> training_;
  std::vector<double> seconds_, waited_;
};

void measure(const std::shared_ptr<void>& block, int rank, double link) {
  DecoderConfig config;
  config.vocab_size = 4096;
  config.hidden_size = 256;
  config.intermediate_size = 1024;
  config.num_layers = 6;
  config.num_heads = 4;
  const Step step = decoder_step(config, 4, 128);
  const auto exchange = std::make_shared<SlowExchange>(block, rank, link);
  for (const Strategy strategy : {Strategy::ddp, Strategy::zero2, Strategy::zero3}) {
    RankTraining in_turn(step, strategy, false, link, exchange), beside(step, strategy, true, link, exchange);
    torch::manual_seed(rank);
    for (int i = 0; i < kWarmUp + kSteps; ++i) {
      const at::Tensor tokens = torch::randint(config.vocab_size, {4, 129});
      const std::map<std::string, at::Tensor> batch{{"tokens", tokens.narrow(1, 0, 128).contiguous()},
                                                    {"targets", tokens.narrow(1, 1, 128).contiguous()}};
      in_turn.step(batch, i >= kWarmUp);
      beside.step(batch, i >= kWarmUp);
    }
    if (rank > 0) continue;
    std::cout
        << fmt::format(
               "{:>6.2f} GB/s  {:<6} {:>8.1f} ms in turn, {:>8.1f} ms beside: {:.2f}; waited {:>7.1f} and {:>7.1f} ms: "
               "{:>3.0f} % hidden; {:.1f} and {:.1f} MiB\n",
               link / 1e9, name_of(strategy), in_turn.seconds() * 1e3, beside.seconds() * 1e3,
               beside.seconds() / in_turn.seconds(), in_turn.waited() * 1e3, beside.waited() * 1e3,
               100 * (1 - beside.waited() / in_turn.waited()), static_cast<double>(in_turn.bytes()) / 1048576,
               static_cast<double>(beside.bytes()) / 1048576)
        << std::flush;
  }
}

int run(const std::vector<double>& links) {
  for (const double link : links) {
    const auto bytes = static_cast<size_t>(SharedBlock::bytes(kRanks));
    void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return 1;
    const std::shared_ptr<void> block(memory, [bytes](void* all) { ::munmap(all, bytes); });
    std::vector<pid_t> ranks;
    for (int rank = 0; rank < kRanks; ++rank) {
      ranks.push_back(::fork());
      if (ranks.back() != 0) continue;
      try {
        measure(block, rank, link);
      } catch (const std::exception& error) {
        std::cerr << fmt::format("rank {}: {}\n", rank, error.what());
        std::_Exit(1);
      }
      std::_Exit(0);
    }
    for (const pid_t rank : ranks) {
      int status = 0;
      ::waitpid(rank, &status, 0);
      if (status != 0) return 1;
    }
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<double> links;
  for (int i = 1; i < argc; ++i) {
    double link = 0;
    const char* const end = argv[i] + std::strlen(argv[i]);
    if (std::from_chars(argv[i], end, link).ptr != end || link <= 0) {
      std::cerr << "overlap_bench: a link in GB/s is a number above 0; given: " << argv[i] << "\n";
      return 2;
    }
    links.push_back(link * 1e9);
  }
  return run(links.empty() ? std::vector<double>{1e8, 3e8, 1e9} : links);
}
