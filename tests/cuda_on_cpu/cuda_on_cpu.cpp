#include "cuda_on_cpu/cuda_on_cpu.h"

#include <setjmp.h>
#include <ucontext.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace plimsoll::cuda_on_cpu {
namespace {

constexpr size_t kStackBytes = 64 << 10;
constexpr size_t kMaxThreads = 1024;
constexpr size_t kMaxShared = 99 << 10;  // bytes that one block may have on sm_86 and sm_89, the smallest limit from
                                         // sm_80 on
constexpr int kWarp = 32;

enum class State : uint8_t { ready, at_block, at_warp, done };

// A stack that runs one thread after the other. Its first entry uses a new context. From then on it is left and entered
// by jumps, which, unlike swapcontext, need no system call.
struct Fibre {
  ucontext_t context;
  jmp_buf left;
  bool begun = false;
  std::unique_ptr<std::byte[]> stack;
  uint3 index{};
  State state = State::done;
  Here here;
  // The thread's contribution to a warp's meeting, and its result.
  Exchange exchange = Exchange::meet;
  uint32_t mask = 0;
  int source = 0;
  uint64_t value = 0, result = 0;
};

std::string where(const Here& here) {
  const std::string file = here.file_name();
  return file.substr(file.rfind('/') + 1) + ":" + std::to_string(here.line());
}

class Machine {
 public:
  static Machine& get() {
    static Machine machine;
    return machine;
  }

  void run(dim3 grid, dim3 block, size_t shared_bytes, const std::function<void()>& thread) {
    const size_t threads = size_t{block.x} * block.y * block.z, blocks = size_t{grid.x} * grid.y * grid.z;
    if (current_ != nullptr) throw EmulationError("a kernel was launched from a kernel");
    if (threads == 0 || threads > kMaxThreads || block.z > 64)
      throw EmulationError("a block of " + std::to_string(threads) + " threads; 1 to 1024 can be had");
    if (blocks == 0 || grid.x > 0x7fffffffu || grid.y > 65535 || grid.z > 65535)
      throw EmulationError("a grid of " + std::to_string(blocks) + " blocks");
    if (shared_bytes > kMaxShared)
      throw EmulationError(std::to_string(shared_bytes) + " bytes of shared memory; a block may have " +
                           std::to_string(kMaxShared));
    gridDim = grid;
    blockDim = block;
    thread_ = &thread;
    while (fibres_.size() < threads) {
      fibres_.push_back(std::make_unique<Fibre>());
      fibres_.back()->stack = std::make_unique<std::byte[]>(kStackBytes);
    }
    std::vector<size_t> block_order = in_order(blocks), thread_order = in_order(threads);
    for (const size_t b : block_order) {
      blockIdx = {static_cast<unsigned>(b % grid.x), static_cast<unsigned>(b / grid.x % grid.y),
                  static_cast<unsigned>(b / grid.x / grid.y)};
      shared_.assign(shared_bytes / 16 + 1, Unit{});
      for (Unit& unit : shared_) std::memset(&unit, 0xff, sizeof(unit));
      run_block(threads, thread_order);
    }
  }

  void give_way(State state, const Here& here) {
    if (current_ == nullptr) throw EmulationError("a barrier outside a kernel");
    Fibre& self = *current_;
    self.state = state;
    self.here = here;
    if (_setjmp(self.left) == 0) _longjmp(scheduler_, 1);
    // Another fibre ran meanwhile; the scheduler set threadIdx back.
  }

  Fibre& current() {
    if (current_ == nullptr) throw EmulationError("an operation of a warp outside a kernel");
    return *current_;
  }
  int lane() { return static_cast<int>(number_of(current()) % kWarp); }
  void* shared() { return shared_.data(); }

  // From a fibre: exceptions do not cross from one stack to another.
  void fail(const std::string& what) {
    if (current_ == nullptr) throw EmulationError(what);
    if (error_.empty())
      error_ = what + ", thread " + std::to_string(number_of(*current_)) + " of block " + std::to_string(blockIdx.x);
    give_way(State::done, Here::current());
  }

  Order order = Order::ascending;

 private:
  struct alignas(16) Unit {
    std::byte bytes[16];
  };

  static size_t number_of(const Fibre& fibre) {
    return fibre.index.x + size_t{blockDim.x} * (fibre.index.y + size_t{blockDim.y} * fibre.index.z);
  }

  std::vector<size_t> in_order(size_t count) const {
    std::vector<size_t> numbers(count);
    std::iota(numbers.begin(), numbers.end(), size_t{0});
    if (order == Order::descending) std::reverse(numbers.begin(), numbers.end());
    if (order == Order::shuffled) std::shuffle(numbers.begin(), numbers.end(), std::mt19937(count));
    return numbers;
  }

  static void start() {
    Machine& machine = get();
    for (;;) {
      try {
        (*machine.thread_)();
      } catch (const std::exception& error) {
        if (machine.error_.empty()) machine.error_ = error.what();
      }
      machine.give_way(State::done, Here::current());
    }
  }

  void run_block(size_t threads, const std::vector<size_t>& order_of_threads) {
    for (size_t t = 0; t < threads; ++t) {
      Fibre& fibre = *fibres_[t];
      fibre.index = {static_cast<unsigned>(t % blockDim.x), static_cast<unsigned>(t / blockDim.x % blockDim.y),
                     static_cast<unsigned>(t / blockDim.x / blockDim.y)};
      fibre.state = State::ready;
    }
    for (bool all_done = false; !all_done;) {
      bool moved = false;
      all_done = true;
      for (const size_t t : order_of_threads) {
        Fibre& fibre = *fibres_[t];
        if (fibre.state == State::ready) {
          resume(fibre);
          moved = true;
        }
        all_done = all_done && fibre.state == State::done;
      }
      if (all_done) return;
      const bool met_in_warps = release_warps(threads), met = met_in_warps || release_block(threads);
      if (!moved && !met) report_stuck(threads);
    }
  }

  void resume(Fibre& fibre) {
    threadIdx = fibre.index;
    current_ = &fibre;
    if (_setjmp(scheduler_) == 0) enter(fibre);
    current_ = nullptr;
    if (!error_.empty()) throw_error(std::exchange(error_, {}));
  }

  [[noreturn]] static void enter(Fibre& fibre) {
    if (fibre.begun) _longjmp(fibre.left, 1);
    fibre.begun = true;
    getcontext(&fibre.context);
    fibre.context.uc_stack = {.ss_sp = fibre.stack.get(), .ss_flags = 0, .ss_size = kStackBytes};
    fibre.context.uc_link = nullptr;
    makecontext(&fibre.context, &start, 0);
    setcontext(&fibre.context);
    std::abort();  // it did not
  }

  // Abandoned threads are not unwound: their stacks start again.
  [[noreturn]] void throw_error(const std::string& what) {
    for (const auto& fibre : fibres_) fibre->begun = false;
    throw EmulationError(what);
  }

  // A meeting is over when all lanes of its mask have come or ended.
  bool release_warps(size_t threads) {
    bool released = false;
    for (size_t first = 0; first < threads; first += kWarp) {
      const size_t lanes = std::min<size_t>(kWarp, threads - first);
      for (size_t i = 0; i < lanes; ++i) {
        Fibre& fibre = *fibres_[first + i];
        if (fibre.state != State::at_warp) continue;
        if ((fibre.mask >> i & 1) == 0) throw_error("a lane is not in its own mask at " + where(fibre.here));
        bool complete = true;
        for (size_t j = 0; j < lanes; ++j) {
          const Fibre& other = *fibres_[first + j];
          if ((fibre.mask >> j & 1) == 0 || other.state == State::done) continue;
          complete =
              complete && other.state == State::at_warp && other.mask == fibre.mask && other.exchange == fibre.exchange;
        }
        if (!complete) continue;
        exchange(first, lanes, fibre.mask);
        released = true;
      }
    }
    return released;
  }

  void exchange(size_t first, size_t lanes, uint32_t mask) {
    uint32_t set = 0;
    for (size_t i = 0; i < lanes; ++i) {
      const Fibre& fibre = *fibres_[first + i];
      if ((mask >> i & 1) != 0 && fibre.state == State::at_warp && fibre.value != 0) set |= 1u << i;
    }
    for (size_t i = 0; i < lanes; ++i) {
      Fibre& fibre = *fibres_[first + i];
      if ((mask >> i & 1) == 0 || fibre.state != State::at_warp) continue;
      fibre.result = set;
      if (fibre.exchange != Exchange::shuffle) continue;
      const auto source = static_cast<size_t>(fibre.source);
      const bool there = source < lanes && (mask >> source & 1) != 0 && fibres_[first + source]->state != State::done;
      if (!there)
        throw_error("lane " + std::to_string(i) + " reads lane " + std::to_string(source) +
                    ", which is not there, at " + where(fibre.here));
      fibre.result = fibres_[first + source]->value;
    }
    for (size_t i = 0; i < lanes; ++i)
      if (Fibre& fibre = *fibres_[first + i]; (mask >> i & 1) != 0 && fibre.state == State::at_warp)
        fibre.state = State::ready;
  }

  // Threads that have returned do not take part.
  bool release_block(size_t threads) {
    const Fibre* one = nullptr;
    for (size_t t = 0; t < threads; ++t) {
      const Fibre& fibre = *fibres_[t];
      if (fibre.state == State::ready || fibre.state == State::at_warp) return false;
      if (fibre.state == State::done) continue;
      if (one == nullptr) one = &fibre;
      if (fibre.here.line() != one->here.line() || std::strcmp(fibre.here.file_name(), one->here.file_name()) != 0)
        throw_error("threads wait at different barriers: " + where(one->here) + " and " + where(fibre.here));
    }
    for (size_t t = 0; t < threads; ++t)
      if (fibres_[t]->state == State::at_block) fibres_[t]->state = State::ready;
    return one != nullptr;
  }

  [[noreturn]] void report_stuck(size_t threads) {
    std::string what = "threads wait for others that never come:";
    for (size_t t = 0, named = 0; t < threads && named < 4; ++t)
      if (fibres_[t]->state != State::done) {
        what += " " + std::to_string(t) + " at " + where(fibres_[t]->here);
        ++named;
      }
    throw_error(what);
  }

  std::vector<std::unique_ptr<Fibre>> fibres_;
  std::vector<Unit> shared_;
  jmp_buf scheduler_;
  Fibre* current_ = nullptr;
  const std::function<void()>* thread_ = nullptr;
  std::string error_;
};

}  // namespace

void set_order(Order order) {
  Machine::get().order = order;
}

void run(dim3 grid, dim3 block, size_t shared_bytes, const std::function<void()>& thread) {
  Machine::get().run(grid, block, shared_bytes, thread);
}

void* dynamic_shared() {
  return Machine::get().shared();
}

void device_check(bool condition, const char* what) {
  if (!condition) Machine::get().fail(std::string("does not hold: ") + what);
}

void meet_block(Here here) {
  Machine::get().give_way(State::at_block, here);
}

int lane() {
  return Machine::get().lane();
}

uint64_t meet_warp(uint32_t mask, Exchange exchange, uint64_t value, int source, Here here) {
  Fibre& self = Machine::get().current();
  self.mask = mask;
  self.exchange = exchange;
  self.value = value;
  self.source = source;
  Machine::get().give_way(State::at_warp, here);
  return self.result;
}

}  // namespace plimsoll::cuda_on_cpu
