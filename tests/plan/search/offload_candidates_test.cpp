// Tests the choice of the buffers that are offloaded first, and of their fraction.
#include "plan/search/offload_candidates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/trace_text.h"

namespace plimsoll {
namespace {

using testing::TraceText;

// Four layers; parameters of 1024 bytes, the last of them frozen.
Trace four_layers() {
  std::string head = "buffer x 64 persistent\n", forward, backward, update;
  for (int i = 0; i < 4; ++i) {
    const std::string n = std::to_string(i);
    head += "buffer w" + n + " 1024 state\nbuffer m" + n + " 2048 state\nbuffer g" + n + " 1024\n";
    forward += "f layers." + n + " a" + n + " = " + (i == 0 ? "x" : "a" + std::to_string(i - 1)) + " w" + n + "\n";
    for (int pad = 0; pad < 20; ++pad) forward += "f layers." + n + " p = x\n";
    const std::string back = std::to_string(3 - i);
    backward += "b layers." + back + " d" + back + " = a" + back + " w" + back + "\n";
    if (i == 3) continue;
    update += "u - w" + n + ",m" + n + " <- g" + n + "\n";
    backward += "b layers." + back + " g" + std::to_string(2 - i) + " = d" + back + "\n";
  }
  TraceText text(head + "micro\n" + forward + backward + "update\n" + update);
  for (Buffer& buffer : text.trace.buffers) {
    if (buffer.label[0] == 'w') buffer.role = Role::parameter;
    if (buffer.label[0] == 'm') buffer.role = Role::optimizer_state;
    if (buffer.label[0] == 'g') buffer.role = Role::gradient;
  }
  return text.trace;
}

std::vector<std::string> labels_in(const Trace& trace, const OffloadAssignment& choice, Memory memory) {
  std::vector<std::string> labels;
  for (size_t b = 0; b < trace.buffers.size(); ++b)
    if (choice.memory[b] == memory) labels.push_back(trace.buffers[b].label);
  return labels;
}

TEST(OffloadCandidates, WhatCrossesTheLinkLeastGoesFirst) {
  const Trace trace = four_layers();
  const OffloadCandidates candidates(trace, 1);
  ASSERT_EQ(candidates.kind_count(), 4);
  using ::testing::UnorderedElementsAre;
  const auto up_to = [&](double fraction) {
    return labels_in(trace, candidates.choose(fraction, 1 << 20, 0), Memory::host);
  };
  EXPECT_THAT(up_to(0), UnorderedElementsAre());
  EXPECT_THAT(up_to(1), UnorderedElementsAre("m0", "m1", "m2", "m3"));
  EXPECT_THAT(up_to(4), ::testing::SizeIs(4 + 4 + 3));
  const OffloadAssignment all = candidates.choose(4, 1 << 20, 0);
  EXPECT_EQ(all.state_bytes, 4 * 2048);
  EXPECT_EQ(all.gradient_bytes, 3 * 1024);
  EXPECT_EQ(all.parameter_bytes, 4 * 1024);
  EXPECT_EQ(all.host_bytes, all.state_bytes + all.gradient_bytes + all.parameter_bytes);
  EXPECT_TRUE(all.used_by_micro_batches);
  EXPECT_FALSE(candidates.choose(1, 1 << 20, 0).used_by_micro_batches);
}

TEST(OffloadCandidates, APartIsSpreadOverTheModel) {
  const Trace trace = four_layers();
  const OffloadCandidates candidates(trace, 1);
  const auto half = labels_in(trace, candidates.choose(0.5, 1 << 20, 0), Memory::host);
  ASSERT_EQ(half.size(), 2u);
  EXPECT_GT(half[1][1] - half[0][1], 1);
}

TEST(OffloadCandidates, DiskTakesWhatHostMemoryHasNoRoomFor) {
  const Trace trace = four_layers();
  const OffloadCandidates candidates(trace, 1);
  const OffloadAssignment choice = candidates.choose(4, 6 * 1024, 6 * 1024);
  EXPECT_LE(choice.host_bytes, 6 * 1024);
  EXPECT_LE(choice.disk_bytes, 6 * 1024);
  EXPECT_EQ(choice.bytes(), 12 * 1024);
  for (const std::string& label : labels_in(trace, choice, Memory::disk)) EXPECT_EQ(label[0], 'm');
  EXPECT_EQ(candidates.choose(4, 0, 3000).disk_bytes, 2048);
  // Budgets that sizes do not divide.
  for (int64_t host = 0; host < 8000; host += 700)
    for (int64_t disk = 0; disk < 8000; disk += 700) {
      const OffloadAssignment each = candidates.choose(4, host, disk);
      EXPECT_LE(each.host_bytes, host);
      EXPECT_LE(each.disk_bytes, disk);
      int64_t bytes = 0;
      for (size_t b = 0; b < trace.buffers.size(); ++b)
        bytes += each.memory[b] == Memory::device ? 0 : trace.buffers[b].bytes;
      EXPECT_EQ(bytes, each.bytes());
    }
}

TEST(OffloadCandidates, CopiesTakeWhatTheLinkGives) {
  const Trace trace = four_layers();
  CostModel cost;
  cost.host_link = 1024;
  cost.disk_link = 256;
  cost.copies_overlap = false;
  const OffloadCandidates candidates(trace, 1);
  // Three quarters of the state are copied in and out.
  EXPECT_DOUBLE_EQ(candidates.wait_seconds_lower_bound(candidates.choose(1, 1 << 20, 0), cost), 3 * 2);
  EXPECT_DOUBLE_EQ(candidates.wait_seconds_lower_bound(candidates.choose(1, 0, 1 << 20), cost), 4 * 3 * 2);
  cost.copies_overlap = true;  // both directions at a time, and ops take none
  EXPECT_DOUBLE_EQ(candidates.wait_seconds_lower_bound(candidates.choose(1, 1 << 20, 0), cost), 3 * 2);
}

// Updates in backward: of several micro batches in the last one, `update` is for steps of one.
TEST(OffloadCandidates, AnUpdateInTheLastMicroBatchCountsOnce) {
  const std::string head = "buffer x 64 persistent\nbuffer m 2048 state\nbuffer s 64 state\ninitialize\nu - m <- x\n";
  const std::string training = "micro\nf - a = x\naccumulate\nf - b = x\n";
  const std::string remainder = "remainder\nf - d = x\nu - m <- d\n";
  const std::string rest = "last\nf - c = x\nu - m <- c\nupdate\nu - m <- x\nfinish\nu - s <- x\n";
  CostModel cost;
  cost.host_link = 1024;
  cost.copies_overlap = false;
  for (const bool ragged : {false, true}) {
    TraceText text(head + training + (ragged ? remainder : "") + rest);
    text.trace.buffers[text["m"]].role = Role::optimizer_state;
    for (const int64_t count : {1, 2, 4}) {
      const OffloadCandidates candidates(text.trace, count);
      const OffloadAssignment choice = candidates.choose(1, 1 << 20, 0);
      ASSERT_EQ(choice.state_bytes, 2048);
      EXPECT_DOUBLE_EQ(candidates.wait_seconds_lower_bound(choice, cost), 2 * 2)
          << count;  // it is copied once in and once out
      EXPECT_EQ(choice.used_by_micro_batches, count > 1);
    }
  }
}

}  // namespace
}  // namespace plimsoll
