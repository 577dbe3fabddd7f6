// Declares thresholds of tests that train: each check records its value, so that scripts/test-seeds.py can show the
// values of many seeds and instruction sets next to the threshold.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <string>

namespace plimsoll {

/// Returns `usual` plus the environment variable PLIMSOLL_TEST_SEED (default 0): the seed of a test whose threshold
/// must hold for every seed.
inline uint64_t test_seed(uint64_t defaults = 0) {
  const char* text = std::getenv("PLIMSOLL_TEST_SEED");
  return defaults + (text ? std::strtoull(text, nullptr, 10) : 0);
}

/// Records `name: VALUE above THRESHOLD` in gtest's report. Names are unique within a test.
inline void record_threshold(const std::string& name, double value, const char* side, double threshold) {
  ::testing::Test::RecordProperty(name, fmt::format("{:.9g} {} {:.9g}", value, side, threshold));
}

inline void expect_above(const std::string& name, double value, double threshold) {
  record_threshold(name, value, "above", threshold);
  EXPECT_GT(value, threshold) << name;
}

inline void expect_below(const std::string& name, double value, double threshold) {
  record_threshold(name, value, "below", threshold);
  EXPECT_LT(value, threshold) << name;
}

}  // namespace plimsoll
