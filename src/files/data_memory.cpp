#include "files/data_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "plimsoll/bytes.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

thread_local DataMemory* current = nullptr;

}  // namespace

DataMemory::Scope::Scope(DataMemory& memory) : before_(current) {
  current = &memory;
}

DataMemory::Scope::~Scope() {
  current = before_;
}

void require_data_memory(const std::string& file, const std::string& announces, double bytes) {
  const double left = data_memory_left();
  if (bytes <= left) return;
  std::string others =
      current->kept_ > 0 ? fmt::format(" less {:.0f} bytes of other files", current->kept_) : std::string();
  if (current->reserved_ > 0)
    others += fmt::format(" less {} bytes for files that are kept or read at the same time", current->reserved_);
  throw UserError(fmt::format("{}: {}, {:.0f} bytes in memory; allowed: {:.0f} bytes, which is {} {}{}; "
                              "set a larger {}, or a smaller file",
                              file, announces, bytes, left,
                              current->of_process_ ? "what process_budget leaves to the data," : "data.memory_budget",
                              format_bytes(*current->budget_), others,
                              current->of_process_ ? "process_budget" : "data.memory_budget"),
                  UserError::Kind::failure);
}

double data_memory_left() {
  if (current == nullptr || !current->budget_) return std::numeric_limits<double>::infinity();
  return std::max(0.0, static_cast<double>(*current->budget_ - current->reserved_) - current->kept_);
}

void keep_data_memory(double bytes) {
  if (current != nullptr) current->kept_ += bytes;
}

}  // namespace plimsoll
