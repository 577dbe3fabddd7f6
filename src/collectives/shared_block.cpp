#include "collectives/shared_block.h"

#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <climits>
#include <fstream>
#include <iterator>
#include <thread>
#ifdef __linux__
#include <linux/futex.h>
#include <sys/syscall.h>
#endif

namespace plimsoll {
namespace {

int64_t buffers_offset(int size) {
  const int64_t head = static_cast<int64_t>(sizeof(BlockHead) + sizeof(RankRecord) * static_cast<size_t>(size));
  const int64_t unit = int64_t{4096} * size;  // whole pages, the same number for every rank
  return (head + unit - 1) / unit * unit;
}

}  // namespace

int64_t SharedBlock::bytes(int size) {
  return buffers_offset(size) + 2 * kExchangeBuffer * size;
}

std::byte* SharedBlock::buffer(int rank, int which) const {
  return block_ + buffers_offset(size_) + (2 * rank + which) * kExchangeBuffer;
}

#ifdef __linux__
void sleep_while(std::atomic<uint32_t>& word, uint32_t value, int milliseconds) {
  const timespec limit{milliseconds / 1000, milliseconds % 1000 * 1'000'000L};
  ::syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAIT, value, &limit, nullptr, 0);
}

void wake_all(std::atomic<uint32_t>& word) {
  ::syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}
#else
void sleep_while(std::atomic<uint32_t>& word, uint32_t value, int milliseconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds);
  while (word.load(std::memory_order_acquire) == value && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::microseconds(50));
}

void wake_all(std::atomic<uint32_t>&) {}
#endif

bool process_is_gone(int pid) {
  if (::kill(pid, 0) != 0) return errno == ESRCH;
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  const std::string stat{std::istreambuf_iterator<char>(file), {}};
  const size_t name_end = stat.rfind(')');  // the name of a program may have spaces and brackets
  if (name_end == std::string::npos || name_end + 2 >= stat.size()) return false;
  const char state = stat[name_end + 2];
  return state == 'Z' || state == 'X';
}

}  // namespace plimsoll
