// Declares a summary of how a device has run the ops of a training: captured sequences, refusals, copied results.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace plimsoll {

/// A summary of how the device has run the ops of a training under its current plan.
struct DeviceWork {
  /// Results that kernels made at other addresses than planned, and that were copied there, by operator.
  struct CopiedResult {
    std::string op;     ///< name of the operator
    int64_t ops = 0;    ///< ops of the plan with such results
    int64_t bytes = 0;  ///< bytes copied each time that these ops run once
  };
  bool captures = false;          ///< the device can run captured sequences of ops (CUDA graphs)
  int64_t sequences = 0;          ///< captured sequences
  int64_t captured_ops = 0;       ///< ops in these sequences
  int64_t single_ops = 0;         ///< ops of the segments that ran, outside of captured sequences
  int64_t refused_sequences = 0;  ///< sequences that the device refused to capture
  std::string refusal;            ///< first op and reason of the last refused sequence; empty: none was refused
  /// Segments without captured sequences, each with the reason: "update: ran 2 times; sequences are captured from run 3
  /// on". Empty if the device captures nothing.
  std::vector<std::string> not_captured;
  std::vector<CopiedResult> copied_results;
};

}  // namespace plimsoll
