#include "device/product_scratch.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>

#include "device/cpu_allocator.h"
#include "ops/arithmetic/product_speed.h"
#include "ops/dtypes.h"
#include "plimsoll/bytes.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

int64_t storage_bytes(const View& view) {
  int64_t last = 0;
  for (size_t d = 0; d < view.sizes.size(); ++d) last += (view.sizes[d] - 1) * view.strides[d];
  return (last + 1) * element_bytes(view.dtype);
}

/// A tensor of zeros that takes memory only where it is written to.
class Zeros {
 public:
  explicit Zeros(const View& view) : bytes_(static_cast<size_t>(storage_bytes(view))) {
    address_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (address_ == MAP_FAILED)
      throw MemoryUnavailable(fmt::format("the machine has no address space for an operand of {}: {}",
                                          format_bytes(static_cast<int64_t>(bytes_)), std::strerror(errno)),
                              static_cast<int64_t>(bytes_));
    tensor = at::from_blob(address_, view.sizes, view.strides, at::dtype(scalar_type_of(view.dtype)));
  }
  ~Zeros() { munmap(address_, bytes_); }
  Zeros(const Zeros&) = delete;
  Zeros& operator=(const Zeros&) = delete;

  at::Tensor tensor;

 private:
  size_t bytes_;
  void* address_;
};

/// Sets libtorch's threads for its lifetime.
class Threads {
 public:
  explicit Threads(int threads) : before_(at::get_num_threads()) {
    if (threads != before_) at::set_num_threads(threads);
  }
  ~Threads() {
    if (at::get_num_threads() != before_) at::set_num_threads(before_);
  }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

 private:
  int before_;
};

int64_t measure(const ops::LibraryProduct& product, int threads) {
  const at::NoGradGuard no_grad;
  const Threads as_many(threads);
  Zeros left(product.left), right(product.right), result(product.result);
  cpu_allocator::install();
  AllocationFrame frame;
  frame.begin({}, nullptr, 0);
  cpu_allocator::begin_op(frame);
  try {
    if (product.adds)
      at::addmm_out(result.tensor, result.tensor, left.tensor, right.tensor);
    else
      at::mm_out(result.tensor, left.tensor, right.tensor);
  } catch (...) {
    cpu_allocator::end_op();
    throw;
  }
  cpu_allocator::end_op();
  return frame.end().workspace_bytes;
}

// Asks first which kernels products of 16 bits go to: where nobody knows yet it is measured, and what that takes is not
// this product's scratch.
std::string key_of(const ops::LibraryProduct& product, int threads) {
  std::string key = fmt::format("{}{}{}", threads, product.adds ? "+" : "",
                                ops::float32_products(product.left.dtype) ? "blocks" : "");
  for (const View* view : {&product.left, &product.right, &product.result}) {
    key += fmt::format("|{}", static_cast<int>(view->dtype));
    for (size_t d = 0; d < view->sizes.size(); ++d) key += fmt::format(",{}:{}", view->sizes[d], view->strides[d]);
  }
  return key;
}

}  // namespace

int64_t measured_product_scratch(const ops::LibraryProduct& product, int threads) {
  for (const View* view : {&product.left, &product.right, &product.result})
    check(view->sizes.size() == 2, "a product of matrices has an operand that is none");
  if (product.result.elements() == 0 || product.left.elements() == 0) return 0;
  static std::mutex mutex;
  static std::map<std::string, int64_t> known;
  const std::lock_guard lock(mutex);
  const auto [entry, fresh] = known.try_emplace(key_of(product, threads), 0);
  if (!fresh) return entry->second;
  try {
    entry->second = measure(product, threads);
  } catch (...) {
    known.erase(entry);
    throw;
  }
  return entry->second;
}

}  // namespace plimsoll
