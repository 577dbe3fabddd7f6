// Tests that the shapes that the plan device infers are the shapes of the CPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "plimsoll/error.h"
#include "record/recording.h"
#include "record/shape_family.h"

namespace plimsoll {
namespace {

using testing::families;
using testing::Family;
using testing::python_families;

/// Expects tensors of the CPU's sizes, strides and dtypes from a family that is recorded.
void expect_shapes_of_the_cpu(const Family& family) {
  SCOPED_TRACE(family.name);
  const std::vector<torch::Tensor> expected = family.run();
  std::vector<torch::Tensor> planned;
  testing::record([&](Recorder&) { planned = family.run(); });
  ASSERT_EQ(planned.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_TRUE(is_plan(planned[i])) << i;
    EXPECT_EQ(planned[i].sizes(), expected[i].sizes()) << i;
    EXPECT_EQ(planned[i].strides(), expected[i].strides()) << i;
    EXPECT_EQ(planned[i].scalar_type(), expected[i].scalar_type()) << i;
  }
}

class Shapes : public ::testing::TestWithParam<size_t> {};

TEST_P(Shapes, PlanIsTheCpu) {
  expect_shapes_of_the_cpu(families()[GetParam()]);
}

INSTANTIATE_TEST_SUITE_P(Families, Shapes, ::testing::Range<size_t>(0, families().size()));

class PythonShapes : public ::testing::TestWithParam<size_t> {};

TEST_P(PythonShapes, AreThoseOfTheCpu) {
  expect_shapes_of_the_cpu(python_families()[GetParam()]);
}

INSTANTIATE_TEST_SUITE_P(Families, PythonShapes, ::testing::Range<size_t>(0, python_families().size()));

std::string refusal(const std::function<void()>& function) {
  std::string message;
  testing::record([&](Recorder&) {
    try {
      function();
    } catch (const UserError& error) {
      message = error.what();
    }
  });
  return message;
}

TEST(Refusals, DataDependentShapesAreRefusedByName) {
  using ::testing::HasSubstr;
  EXPECT_THAT(refusal([] { torch::rand({4}).nonzero(); }),
              AllOf(HasSubstr("aten::nonzero"), HasSubstr("torch::where")));
  EXPECT_THAT(refusal([] {
                auto x = torch::rand({4});
                x.masked_select(x > 0.5);
              }),
              HasSubstr("aten::masked_select"));
  EXPECT_THAT(refusal([] { torch::rand({}).item<float>(); }), HasSubstr("value"));
  EXPECT_THAT(refusal([] { at::one_hot(torch::zeros({3}, torch::kLong)); }), HasSubstr("give num_classes"));
}

TEST(Refusals, AnOperatorWithoutAShapeRuleIsNamed) {
  EXPECT_THAT(refusal([] { torch::rand({4, 4}).matrix_exp(); }), ::testing::HasSubstr("operator aten::"));
}

}  // namespace
}  // namespace plimsoll
