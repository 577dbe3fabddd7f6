// Tests that the tables of operators and of their scratch have a row for each operator that Plimsoll registers.
#include "cost/operators.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <gtest/gtest.h>

#include <set>

#include "ops/workspace/scratch_row.h"
#include "trace/merged_ops.h"

namespace plimsoll {
namespace {

bool is_ours(std::string_view name) {
  return name.starts_with("plimsoll::");
}

const std::set<std::string>& registered() {
  static const std::set<std::string> names = [] {
    std::set<std::string> all;
    for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames()) all.insert(name.name);
    return all;
  }();
  return names;
}

TEST(Operators, EachOperatorHasARow) {
  EXPECT_TRUE(registered().contains("plimsoll::rope"));
  for (const std::string& name : registered()) {
    if (!is_ours(name)) continue;
    const OperatorRow* row = operator_row(name);
    ASSERT_TRUE(row) << name << " has no row in src/cost/operators.cpp";
    EXPECT_EQ(row->name, single_name(name));
  }
}

TEST(Operators, EachOperatorHasRulesOfScratch) {
  // The first run measures the scratch of these operators on the CPU.
  const std::set<std::string_view> measured = {"plimsoll::fused",
                                               "plimsoll::gradient_block_sums_",
                                               "plimsoll::norms_of_blocks_",
                                               "plimsoll::reduce_scatter_",
                                               "plimsoll::all_reduce_",
                                               "plimsoll::all_gather_",
                                               "plimsoll::gather_",
                                               "plimsoll::broadcast_"};
  for (const std::string& name : registered()) {
    if (!is_ours(name)) continue;
    const ops::ScratchRow* row = ops::scratch_row(name);
    ASSERT_TRUE(row) << name << " has no row in src/ops/workspace";
    EXPECT_EQ(row->name, single_name(name));
    EXPECT_EQ(row->cpu == nullptr, measured.contains(row->name)) << name;
    EXPECT_EQ(row->cuda == nullptr, name == "plimsoll::fused") << name;
  }
}

TEST(Operators, EachRowHasAnOperator) {
  std::set<std::string_view> seen;
  for (const OperatorRow& row : operator_rows()) {
    EXPECT_TRUE(seen.insert(row.name).second) << row.name << " has two rows";
    EXPECT_TRUE(registered().contains(std::string(row.name))) << row.name;
  }
}

TEST(Operators, EachRowOfScratchHasARowOfFacts) {
  std::set<std::string_view> seen;
  for (const std::span<const ops::ScratchRow> group : ops::scratch_groups())
    for (const ops::ScratchRow& row : group) {
      EXPECT_TRUE(seen.insert(row.name).second) << row.name << " has two rows";
      EXPECT_TRUE(registered().contains(std::string(row.name))) << row.name;
      const OperatorRow* facts = operator_row(row.name);
      ASSERT_TRUE(facts) << row.name << " has no row in src/cost/operators.cpp";
      EXPECT_EQ(facts->name, row.name);
    }
  EXPECT_TRUE(seen.contains("plimsoll::rope"));
}

TEST(Operators, AGradientIsOfTheKindOfItsOperator) {
  for (const OperatorRow& row : operator_rows()) {
    if (row.gradient.empty()) continue;
    const OperatorRow* gradient = operator_row(row.gradient);
    ASSERT_TRUE(gradient) << row.gradient;
    EXPECT_EQ(gradient->kind, row.kind) << row.gradient;
    EXPECT_EQ(gradient->flops == nullptr, row.flops == nullptr) << row.gradient;
  }
  // The backward of each operator is in the table.
  for (const std::string& name : registered()) {
    if (!is_ours(name) || !registered().contains(name + "_backward")) continue;
    EXPECT_EQ(operator_row(name)->gradient, name + "_backward");
  }
}

TEST(Operators, AFusedOpHasANameInPlans) {
  for (const OperatorRow& row : operator_rows())
    for (const std::string_view fused : {row.after_sum, row.before_sum}) {
      if (fused.empty()) continue;
      ASSERT_TRUE(operator_row(fused)) << fused;
      EXPECT_EQ(operator_row(operator_row(fused)->fused_name), operator_row(fused)) << fused;
      EXPECT_EQ(operator_row(fused)->kind, row.kind) << fused;
    }
}

TEST(Operators, NamesOfCallsHaveTheRowOfTheirOperator) {
  EXPECT_EQ(operator_row("aten::mm.out")->name, "aten::mm");
  EXPECT_EQ(operator_row("plimsoll::adamw_group_")->name, "plimsoll::adamw_");
  EXPECT_EQ(operator_row("fused: add, rms_norm")->name, "plimsoll::add_rms_norm");
  EXPECT_EQ(operator_row("fused: add, mul"), nullptr);
  EXPECT_EQ(operator_row("aten::relu"), nullptr);
}

TEST(Operators, KindsOfCalls) {
  const auto kind = [](const char* name, int64_t random_id = -1) {
    Op op;
    op.name = name;
    op.random_id = random_id;
    return kind_of(op);
  };
  EXPECT_EQ(kind("aten::mm.out"), OpKind::product);
  EXPECT_EQ(kind("aten::_scaled_dot_product_flash_attention_for_cpu"), OpKind::attention);
  EXPECT_EQ(kind("aten::native_layer_norm_backward"), OpKind::reduction);
  EXPECT_EQ(kind("aten::_fused_adamw_.tensor_lr"), OpKind::update);
  EXPECT_EQ(kind("aten::relu"), OpKind::streaming);
  EXPECT_EQ(kind("aten::native_dropout", 3), OpKind::random);
  EXPECT_EQ(kind("plimsoll::adamw_group_", 3), OpKind::update);  // its draws round values
  EXPECT_EQ(kind("fused: add, rms_norm"), OpKind::reduction);
}

TEST(Operators, OnlyUpdatesReadWhatTheyWrite) {
  const View view{0, DType::float32, 0, {10}, {1}};
  Op op;
  op.arguments = {{Argument::Kind::tensor, true, {view}}};
  for (const char* name : {"plimsoll::sgd_", "plimsoll::sgd_group_", "plimsoll::gather_", "aten::relu_"}) {
    op.name = name;
    EXPECT_EQ(bytes_moved_by(op), op.name.starts_with("plimsoll::sgd_") ? 80 : 40) << name;
  }
}

}  // namespace
}  // namespace plimsoll
