// Declares flags that are known from other training programs, as overrides of the job file.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace plimsoll::cli {

/// A boolean flag. `--use-amp=false` is false, which is the same as --no-use-amp; a flag that is not given has no
/// value.
struct Switch {
  bool value = false;
  CLI::Option* option = nullptr;
  std::optional<bool> stated() const;
};

/// Flags --batch-size, --gradient-checkpointing, --use-amp, ...: with dashes or underscores.
class JobFlags {
 public:
  void add_to(CLI::App& command);

  /// Returns the given flags as overrides: "micro_batch_size='4'". Throws UserError (usage) for flags that contradict
  /// each other.
  std::vector<std::string> overrides() const;

 private:
  std::string batch_size_, accumulation_, max_frames_, process_budget_, image_size_, workers_, learning_rate_, epochs_,
      data_root_;
  std::string recipe_, device_, sequence_;
  Switch checkpointing_, no_checkpointing_, amp_, no_amp_, compile_, no_compile_, bf16_, fp16_, pinned_, persistent_;
};

}  // namespace plimsoll::cli
