#include <fmt/format.h>

#include "checkpoint/checkpoint.h"
#include "checkpoint/checkpoint_state.h"
#include "plimsoll/error.h"
#include "plimsoll/training.h"

namespace plimsoll {
namespace {

void require_one_rank(const Training& training) {
  if (training.slices().empty()) return;
  throw UserError("a rank's training has slices of its state: checkpoints of several ranks are written by train_job()");
}

}  // namespace

void save_training(Training& training, const std::filesystem::path& file) {
  require_one_rank(training);
  CheckpointInfo info;
  info.step = training.steps_done();
  info.counters = training.counters();
  write_checkpoint(file, info, training.state(), {{}, nullptr, [&] { training.require_state(); }});
}

void load_training(Training& training, const std::filesystem::path& file) {
  require_one_rank(training);
  read_checkpoint(file, /*origin=*/{}, training.state(),
                  [&](const CheckpointInfo& described) { training.restore_counters(described.counters); });
}

}  // namespace plimsoll
