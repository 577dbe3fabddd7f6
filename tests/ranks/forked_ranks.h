// Declares ranks of a training as separate processes, which share a block of memory.
//
// The parent never runs libtorch's autograd, whose threads a fork would lose. Tests that use this have a separate
// program, and do all work in ranks, also the work of one rank.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "collectives/shared_block.h"
#include "collectives/shared_memory_exchange.h"

namespace plimsoll::testing {

/// A rank's work; its text is returned to the parent. `exchange` is null if there is one rank.
using RankWork = std::function<std::string(int rank, const std::shared_ptr<Exchange>& exchange)>;

/// Runs `work` in `ranks` processes and returns their texts, in rank order; "failed: WHY" for a rank that threw.
inline std::vector<std::string> run_ranks(int ranks, const std::filesystem::path& folder, const RankWork& work) {
  const auto bytes = static_cast<size_t>(SharedBlock::bytes(ranks));
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  EXPECT_NE(memory, MAP_FAILED);
  const std::shared_ptr<void> block(memory, [bytes](void* all) { ::munmap(all, bytes); });
  const auto file_of = [&](int rank) { return folder / ("rank-" + std::to_string(rank) + ".txt"); };
  std::vector<pid_t> processes;
  for (int rank = 0; rank < ranks; ++rank) {
    const pid_t process = ::fork();
    if (process != 0) {
      processes.push_back(process);
      continue;
    }
    std::string text;
    try {
      std::shared_ptr<Exchange> exchange;
      if (ranks > 1) exchange = std::make_shared<SharedMemoryExchange>(block, rank, ranks);
      try {
        text = work(rank, exchange);
      } catch (const std::exception& error) {
        if (exchange) exchange->fail(error.what());
        throw;
      }
    } catch (const std::exception& error) {
      text = std::string("failed: ") + error.what();
    }
    std::ofstream(file_of(rank), std::ios::binary) << text;
    std::_Exit(0);
  }
  std::vector<std::string> texts;
  for (int rank = 0; rank < ranks; ++rank) {
    int status = 0;
    ::waitpid(processes[static_cast<size_t>(rank)], &status, 0);
    EXPECT_TRUE(WIFEXITED(status)) << "rank " << rank << " was ended by a signal";
    std::ifstream file(file_of(rank), std::ios::binary);
    texts.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return texts;
}

}  // namespace plimsoll::testing
