// Declares random training steps, and an interpreter of their results.
#pragma once

#include <map>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "plan/trace_text.h"
#include "plimsoll/plan.h"

namespace plimsoll::testing {

struct RandomTraceOptions {
  int blocks = 3;
  int ops_a_block = 5;      ///< maximum
  bool accumulate = false;  ///< a second training segment with the same forward
  bool hazards = true;      ///< in-place writes, ops with two results, random draws, side effects
  bool roles = false;       ///< w0, w1, … and g0, g1, … are of one size, and the trace has their roles (with_roles)
};

/// Returns a model of blocks: each reads the output of the one before, and backward needs most of its values.
inline std::string random_step(std::mt19937& random, const RandomTraceOptions& options) {
  std::ostringstream head, forward, backward, update;
  head << "buffer x 640 persistent\nbuffer statistics 64 state\n";
  int next = 0;
  const auto fresh = [&] {
    const std::string name = "v" + std::to_string(next++);
    head << "buffer " << name << " " << 64 * (1 + random() % 32) << "\n";
    return name;
  };
  const auto pick = [&](const std::vector<std::string>& list) { return list[random() % list.size()]; };
  std::string input = "x";
  std::vector<std::vector<std::string>> saved(options.blocks);
  for (int b = 0; b < options.blocks; ++b) {
    const std::string module = "f layers." + std::to_string(b) + " ", w = "w" + std::to_string(b);
    const int bytes = 64 * (1 + static_cast<int>(random() % 9));
    head << "buffer " << w << " " << bytes << " state\n";
    if (options.roles) head << "buffer g" << b << " " << bytes << "\n";
    std::vector<std::string> local{input};
    for (int i = 0, n = 1 + static_cast<int>(random() % options.ops_a_block); i < n; ++i) {
      const unsigned kind = options.hazards ? random() % 10 : 9;
      const std::string name = fresh();
      if (kind == 0) {
        const std::string other = fresh();
        forward << module << name << "," << other << " = " << pick(local) << " " << w << "\n";
        local.push_back(other);
        if (random() % 2) saved[b].push_back(other);
      } else {
        forward << module << (kind == 1 ? "random " : "") << name << " = " << pick(local) << " "
                << (random() % 2 ? pick(local) : w) << "\n";
        if (kind == 2) forward << module << name << " <- " << pick(local) << "\n";
        if (kind == 3) forward << module << "statistics <- " << name << "\n";
        if (kind == 4) forward << module << local.back() << " <- " << name << "\n";
      }
      if (local.back() == "x") local.clear();  // an input is not written to
      local.push_back(name);
      if (random() % 3) saved[b].push_back(name);
    }
    input = local.back();
  }
  std::string gradient = fresh();
  backward << "b - " << gradient << " = " << input << "\n";
  for (int b = options.blocks; b-- > 0;) {
    const std::string module = "b layers." + std::to_string(b) + " ", g = "g" + std::to_string(b);
    for (size_t i = saved[b].size(); i-- > 0;) {
      const std::string out = fresh();
      backward << module << out << " = " << gradient << " " << saved[b][i] << "\n";
      gradient = out;
    }
    backward << module << "GRADIENT" << g << " " << gradient << " w" << b << "\n";
    update << "u - w" << b << " <- " << g << "\n";
  }
  const auto with_gradients = [&](const std::string& arrow, const std::string& suffix) {
    // Buffers of the second segment differ from those of the first; gradients are the same.
    std::istringstream lines(forward.str() + backward.str());
    std::ostringstream result;
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      std::string word, text;
      while (words >> word) {
        if (word.starts_with("GRADIENT")) {
          text += word.substr(8) + arrow;
          continue;
        }
        std::string renamed;
        std::istringstream names(word);
        for (std::string name; std::getline(names, name, ',');) {
          if (name.size() > 1 && name[0] == 'v' && std::isdigit(static_cast<unsigned char>(name[1]))) name += suffix;
          renamed += (renamed.empty() ? "" : ",") + name;
        }
        text += renamed + " ";
      }
      result << text << "\n";
    }
    return result.str();
  };
  std::string declared = head.str();
  if (options.accumulate) {
    std::istringstream lines(head.str());
    for (std::string line; std::getline(lines, line);)
      if (line.starts_with("buffer v")) declared += line.insert(line.find(' ', 7), "_2") + "\n";
  }
  std::string text = declared + "micro\n" + with_gradients(" = ", "");
  if (options.accumulate) text += "accumulate\n" + with_gradients(" <- ", "_2");
  return text + "update\n" + update.str();
}

/// Marks w0, w1, … as parameters and g0, g1, … as gradients.
inline void with_roles(Trace& trace) {
  for (Buffer& buffer : trace.buffers) {
    const bool numbered = buffer.label.size() > 1 && std::isdigit(static_cast<unsigned char>(buffer.label[1]));
    if (numbered && buffer.label[0] == 'w') buffer.role = Role::parameter;
    if (numbered && buffer.label[0] == 'g') buffer.role = Role::gradient;
  }
}

/// Runs a trace on numbers instead of tensors. The result of an op depends on its operator, its draw, its inputs and,
/// in place, the value before. Returns the numbers in all persistent buffers at the end.
inline std::map<std::string, size_t> results_of(const Trace& trace) {
  std::vector<size_t> numbers(trace.buffers.size(), 0);
  for (size_t b = 0; b < numbers.size(); ++b)
    if (trace.buffers[b].persistent) numbers[b] = b + 1;
  for (const Op& op : trace.ops) {
    if (op.copy == CopyStage::start)
      numbers[op.arguments[0].views[0].buffer] = numbers[op.arguments[1].views[0].buffer];
    if (op.copy != CopyStage::none) continue;
    size_t mix = std::hash<std::string>()(op.name) + static_cast<size_t>(op.random_id + 1) * 7919;
    const auto add = [&](size_t number) { mix = (mix ^ (number + 0x9e3779b97f4a7c15u)) * 0xbf58476d1ce4e5b9u; };
    for (const Argument& argument : op.arguments)
      for (const View& view : argument.views) add(numbers[view.buffer]);
    size_t result = 0;
    for_each_view(op, [&](const View& view, bool written) {
      if (written) numbers[view.buffer] = mix + ++result;
    });
  }
  std::map<std::string, size_t> results;
  for (size_t b = 0; b < numbers.size(); ++b)
    if (trace.buffers[b].persistent) results[trace.buffers[b].label] = numbers[b];
  return results;
}

}  // namespace plimsoll::testing
