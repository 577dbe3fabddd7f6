// Declares ranks for tests: threads of this process, or separate processes.
#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <csignal>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "collectives/shared_memory_exchange.h"

namespace plimsoll {

/// Returns a zeroed block for `size` ranks; processes that are forked afterwards share it.
inline std::shared_ptr<void> shared_block(int size) {
  const auto bytes = static_cast<size_t>(SharedBlock::bytes(size));
  void* block = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (block == MAP_FAILED) throw std::runtime_error("no shared block");
  return {block, [bytes](void* at) { ::munmap(at, bytes); }};
}

/// Runs `work` on `size` threads with an exchange each. Returns the message of each thread's exception: "" if none.
inline std::vector<std::string> run_ranks(int size, const std::function<void(Exchange&)>& work) {
  const auto block = shared_block(size);
  std::vector<std::string> errors(static_cast<size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      // All exchanges end together: a rank that is done first must not look like one that left.
      SharedMemoryExchange exchange(block, rank, size, {std::chrono::seconds(60), "here"});
      try {
        work(exchange);
        exchange.gather_text("");
      } catch (const std::exception& error) {
        errors[static_cast<size_t>(rank)] = error.what();
        exchange.fail(error.what());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return errors;
}

/// Runs `work` in `size` processes at the same time. `work` returns its rank's text in the result; a killed rank has
/// "". Ranks that still run after `limit` are killed.
inline std::vector<std::string> run_processes(int size, const std::function<std::string(int rank)>& work,
                                              std::chrono::seconds limit = std::chrono::seconds(30)) {
  std::vector<pid_t> pids;
  std::vector<int> ends;
  for (int rank = 0; rank < size; ++rank) {
    int ends_of_pipe[2];
    if (::pipe(ends_of_pipe) != 0) throw std::runtime_error("no pipe");
    const pid_t pid = ::fork();
    if (pid == 0) {
      std::string text;
      try {
        text = work(rank);
      } catch (const std::exception& error) {
        text = std::string("threw ") + error.what();
      }
      const ssize_t written = ::write(ends_of_pipe[1], text.data(), text.size());
      ::_exit(written < 0);
    }
    ::close(ends_of_pipe[1]);
    pids.push_back(pid);
    ends.push_back(ends_of_pipe[0]);
  }
  // A rank that is stopped does not end: it is killed when the others have ended, or at the limit.
  const auto end = std::chrono::steady_clock::now() + limit;
  std::vector<bool> done(static_cast<size_t>(size));
  size_t left = pids.size();
  while (left > 0 && std::chrono::steady_clock::now() < end) {
    size_t stopped = 0;
    for (size_t r = 0; r < pids.size(); ++r) {
      siginfo_t info{};
      if (done[r]) continue;
      if (::waitid(P_PID, static_cast<id_t>(pids[r]), &info, WSTOPPED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0)
        ++stopped;
      // Killed ranks stay zombies until the others have seen them.
      if (::waitid(P_PID, static_cast<id_t>(pids[r]), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0) {
        done[r] = true;
        --left;
      }
    }
    if (left == stopped) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  std::vector<std::string> texts;
  for (size_t r = 0; r < pids.size(); ++r) {
    ::kill(pids[r], SIGKILL);
    int status = 0;
    ::waitpid(pids[r], &status, 0);
    std::string text(4096, '\0');
    const ssize_t bytes = ::read(ends[r], text.data(), text.size());
    text.resize(bytes > 0 ? static_cast<size_t>(bytes) : 0);
    ::close(ends[r]);
    if (WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL)
      text += "ended by signal " + std::to_string(WTERMSIG(status));
    texts.push_back(text);
  }
  return texts;
}

/// Collects the calls of a watch of other ranks, for a rank that computes and calls no exchange.
class LossNotes {
 public:
  std::function<void()> on_loss() {
    return [this] { add("noticed"); };
  }
  std::function<void(const std::string&)> on_lost_rank() {
    return [this](const std::string& message) { add(message); };
  }
  /// Waits until both were called. Returns them in their order.
  std::string wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return calls_ >= 2; });
    return text_;
  }

 private:
  void add(const std::string& text) {
    const std::lock_guard lock(mutex_);
    if (++calls_ > 2) return;  // a program has ended by now
    text_ += (text_.empty() ? "" : "; ") + text;
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  int calls_ = 0;
  std::string text_;
};

/// Returns the message of the exception of `action`; "" if there is none. bench/ranks_failures.py measures the seconds
/// until a fault is reported.
inline std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const std::exception& error) {
    return error.what();
  }
  return {};
}

}  // namespace plimsoll
