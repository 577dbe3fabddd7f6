// Declares a backend that wraps another one, counts some of its calls, and can refuse to begin one op.
#pragma once

#include <c10/util/Exception.h>

#include <stdexcept>
#include <utility>

#include "device/backend.h"
#include "plimsoll/error.h"

namespace plimsoll::testing {

class WatchedBackend final : public Backend {
 public:
  explicit WatchedBackend(Backend& watched) : watched_(watched) {}

  long begun = 0, ended = 0, device_waits = 0;
  long refuse_after = -1;       ///< ops until one is refused; negative: none is
  bool fails_for_good = false;  ///< from the refused op on, waiting for copies throws
  bool copies_fail = false;
  long fail_waits_after = -1;   ///< waits until one reports a kernel's error; negative: none does
  bool libtorch_waits = false;  ///< the error of a wait is libtorch's
  long faults_after = -1;       ///< waits until a fault, which each later wait reports, too; negative: there is none

  void begin_op(AllocationFrame& frame) override {
    if (refuse_after >= 0 && refuse_after-- == 0) {
      copies_fail = fails_for_good;
      throw std::runtime_error("the device is gone");
    }
    ++begun;
    watched_.begin_op(frame);
  }
  int64_t end_op() override {
    ++ended;
    return watched_.end_op();
  }
  void synchronize_device() override {
    ++device_waits;
    require_no_fault();
    watched_.synchronize_device();
  }

  std::string name() const override { return watched_.name(); }
  c10::Device device() const override { return watched_.device(); }
  c10::DispatchKeySet keys() const override { return watched_.keys(); }
  std::unique_ptr<Arena> allocate_arena(int64_t bytes, int64_t max_bytes) override {
    return watched_.allocate_arena(bytes, max_bytes);
  }
  std::unique_ptr<Arena> allocate_host_arena(int64_t bytes, int64_t max_bytes) override {
    return watched_.allocate_host_arena(bytes, max_bytes);
  }
  Place place(Arena& arena, int64_t offset, int64_t bytes) const override {
    return watched_.place(arena, offset, bytes);
  }
  int64_t scratch_alignment() const override { return watched_.scratch_alignment(); }
  std::optional<int64_t> available_bytes() const override { return watched_.available_bytes(); }
  bool shares_host_memory() const override { return watched_.shares_host_memory(); }
  WorkspaceModel workspace_model(int threads) const override { return watched_.workspace_model(threads); }
  int64_t out_of_arena_peak() const override { return watched_.out_of_arena_peak(); }
  void reset_out_of_arena_peak() override { watched_.reset_out_of_arena_peak(); }
  int64_t out_of_arena_allocations() const override { return watched_.out_of_arena_allocations(); }
  at::Generator generator() const override { return watched_.generator(); }
  void prepare(const Plan& plan) override { watched_.prepare(plan); }
  std::unique_ptr<CopyEngine> copy_engine() override {
    return std::make_unique<WatchedCopies>(watched_.copy_engine(), copies_fail);
  }
  void write(Arena& arena, int64_t offset, const void* source, int64_t bytes) override {
    watched_.write(arena, offset, source, bytes);
  }
  void read(const Arena& arena, int64_t offset, void* target, int64_t bytes) override {
    watched_.read(arena, offset, target, bytes);
  }
  void zero(Arena& arena) override { watched_.zero(arena); }
  void relocate(std::vector<Relocation> relocations) override { watched_.relocate(std::move(relocations)); }
  int64_t relocation_scratch_bytes(int64_t bytes) const override { return watched_.relocation_scratch_bytes(bytes); }
  void synchronize() override {
    require_no_fault();
    const bool fails = fail_waits_after >= 0 && fail_waits_after-- == 0;
    TORCH_CHECK(!fails || !libtorch_waits, "HIP error: an illegal memory access");
    if (fails) throw UserError("a kernel failed: an illegal memory access", UserError::Kind::failure);
    watched_.synchronize();
  }

 private:
  void require_no_fault() {
    if (faults_after > 0) --faults_after;
    if (faults_after == 0) throw UserError("a kernel failed: an illegal address", UserError::Kind::failure);
  }

  class WatchedCopies final : public CopyEngine {
   public:
    WatchedCopies(std::unique_ptr<CopyEngine> watched, const bool& fail) : watched_(std::move(watched)), fail_(fail) {}
    int64_t start(std::byte* target, const std::byte* source, size_t bytes, std::function<void()> then,
                  std::function<void()> first) override {
      return watched_->start(target, source, bytes, std::move(then), std::move(first));
    }
    void wait(int64_t copy) override { watched_->wait(copy); }
    void wait_on_host(int64_t copy) override { watched_->wait_on_host(copy); }
    void wait_for_all() override {
      watched_->wait_for_all();
      if (fail_) throw UserError("waiting for copies failed", UserError::Kind::failure);
    }

   private:
    const std::unique_ptr<CopyEngine> watched_;
    const bool& fail_;
  };

  Backend& watched_;
};

}  // namespace plimsoll::testing
