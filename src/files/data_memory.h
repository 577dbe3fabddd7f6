// Declares the count of the memory that files of data take, against the budget that a job sets (data.memory_budget),
// and how much memory a packed file may unpack to.
//
// Readers of whole files call require_data_memory() before they allocate, several calls below the data set that knows
// the budget. So the count belongs to a thread while a DataMemory::Scope lives; without one nothing is counted.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "plimsoll/bytes.h"

namespace plimsoll {

/// A count of the bytes that a data set holds of its files. For one thread at a time.
class DataMemory {
 public:
  /// Without a budget only the bounds of each format hold. `reserved`: bytes of the budget for files that are kept or
  /// that other threads read, at most the budget. `of_process`: the budget is what the process budget leaves.
  explicit DataMemory(std::optional<int64_t> budget, int64_t reserved = 0, bool of_process = false)
      : budget_(budget), reserved_(reserved), of_process_(of_process) {}

  /// A scope that counts the bytes that readers on this thread request in `memory`. Scopes nest.
  class Scope {
   public:
    explicit Scope(DataMemory& memory);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    DataMemory* before_;
  };

 private:
  friend void require_data_memory(const std::string& file, const std::string& announces, double bytes);
  friend double data_memory_left();
  friend void keep_data_memory(double bytes);

  std::optional<int64_t> budget_;
  int64_t reserved_ = 0;  // bytes
  bool of_process_ = false;
  double kept_ = 0;  // bytes
};

/// Throws UserError (failure) if `bytes` more than the kept ones exceed the budget of the thread's DataMemory. The
/// message has the file, what it announces and what is allowed; `announces` begins with a verb. Called before the bytes
/// are allocated. Readers that would call it for each line compare with data_memory_left() first, which takes
/// nanoseconds.
void require_data_memory(const std::string& file, const std::string& announces, double bytes);

/// Returns the bytes that are left of the budget, at least 0; infinity if there is no budget.
double data_memory_left();

/// Counts `bytes` as kept from now on, in addition to the bytes of the next files.
void keep_data_memory(double bytes);

/// Bytes that every packed file may unpack to: a volume of 512 x 512 x 512 float32.
constexpr int64_t kUnpackedFloor = 512 * MiB;
/// Bytes that a packed file may unpack to in addition, for each byte of its own. Deflate reaches 1032; scans, labels
/// and arrays of numbers seldom reach 16.
constexpr int64_t kUnpackedFactor = 16;

/// Floor for an array in an archive. Its values become float32 series afterwards: four times the bytes for int8.
constexpr int64_t kUnpackedArrayFloor = 128 * MiB;

/// Returns the bytes that a packed file of `file_bytes` may unpack to: `floor` + 16 x `file_bytes`. A file that is not
/// packed needs no such limit, because it has the size that it announces.
constexpr int64_t unpacked_limit(int64_t file_bytes, int64_t floor = kUnpackedFloor) {
  constexpr int64_t kMax = (std::numeric_limits<int64_t>::max() - kUnpackedFloor) / kUnpackedFactor;
  return floor + kUnpackedFactor * std::clamp<int64_t>(file_bytes, 0, kMax);
}

}  // namespace plimsoll
