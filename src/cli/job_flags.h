// Flags that people know from other training programs, as overrides of the job file.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace plimsoll::cli {

/// `--use-amp=false` is false, and says as much as --no-use-amp; one that is not given says nothing.
struct Switch {
  bool value = false;
  CLI::Option* option = nullptr;
  std::optional<bool> said() const;
};

/// --batch-size, --gradient-checkpointing, --use-amp, ...: with dashes or underscores.
class JobFlags {
 public:
  void add_to(CLI::App& command);

  /// What was given, as overrides: "micro_batch_size='4'". Throws UserError (usage) for flags that contradict each
  /// other.
  std::vector<std::string> overrides() const;

 private:
  std::string batch_size_, accumulation_, max_frames_, image_size_, workers_, learning_rate_, epochs_, data_root_;
  std::string recipe_, device_, sequence_;
  Switch checkpointing_, no_checkpointing_, amp_, no_amp_, compile_, no_compile_, bf16_, fp16_, pinned_, persistent_;
};

}  // namespace plimsoll::cli
