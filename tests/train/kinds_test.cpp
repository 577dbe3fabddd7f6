// Tests that each type of model and data has its line in the tables of the rooms that use libtorch.
#include <gtest/gtest.h>

#include "job/keys/kinds.h"
#include "plimsoll/train_job.h"
#include "train/job_data.h"

namespace plimsoll {
namespace {

TEST(Kinds, EveryModelHasAStep) {
  for (const job::ModelKind& kind : job::model_kinds()) {
    Job job;
    job.model.type = kind.type;
    job.data.type = "synthetic";
    const Step step = step_of(job, 2);
    EXPECT_TRUE(step.model && step.loss) << kind.type;
    ASSERT_FALSE(step.inputs.empty()) << kind.type;
    EXPECT_EQ(step.inputs[0].sizes.at(0), 2) << kind.type;
  }
}

TEST(Kinds, EveryTypeOfDataCanBeOpened) {
  for (const job::DataKind& kind : job::data_kinds()) {
    DataConfig data;
    data.type = kind.type;
    data.validation_fraction = 0;
    EXPECT_NO_THROW(decide_evaluation(data)) << kind.type;
    EXPECT_FALSE(*data.evaluated) << kind.type;
  }
}

TEST(Kinds, EveryModelLearnsFromATypeOfDataAndFromSyntheticData) {
  for (const job::ModelKind& kind : job::model_kinds()) {
    EXPECT_TRUE(job::learns_from(kind, "synthetic")) << kind.type;
    EXPECT_FALSE(kind.data_types.empty()) << kind.type;
    for (const std::string& type : kind.data_types) EXPECT_TRUE(job::data_kind(type).from_files) << kind.type;
  }
}

}  // namespace
}  // namespace plimsoll
