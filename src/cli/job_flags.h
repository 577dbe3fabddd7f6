// Flags that people know from other training programs, as overrides of the job file.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace plimsoll::cli {

/// --batch-size, --gradient-checkpointing, --use-amp, ...: with dashes or underscores.
class JobFlags {
 public:
  void add_to(CLI::App& command);

  /// What was given, as overrides: "micro_batch_size=4". Throws UserError (usage) for flags that contradict each other.
  std::vector<std::string> overrides() const;

 private:
  std::string batch_size_, accumulation_, max_frames_, image_size_, workers_, learning_rate_, epochs_, data_root_;
  std::string recipe_;
  bool checkpointing_ = false, no_checkpointing_ = false, amp_ = false, no_amp_ = false, compile_ = false,
       no_compile_ = false;
};

}  // namespace plimsoll::cli
