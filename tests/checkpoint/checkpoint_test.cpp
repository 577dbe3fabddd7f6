#include "checkpoint/checkpoint.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <random>

#include "checkpoint/checkpoint_state.h"
#include "cut_files.h"
#include "job/shared_keys.h"
#include "rounds.h"
#include "safetensors/safetensors.h"
#include "test_files.h"

namespace plimsoll {
namespace {

using ::testing::HasSubstr;

NamedTensors sample_state(int seed) {
  at::manual_seed(static_cast<uint64_t>(seed));
  return {{"layers.0.weight", at::randn({3, 5})},
          {"layers.0.bias", at::randn({5}).to(at::kBFloat16)},
          {"permuted", at::randn({4, 2}).t()},
          {"counts", at::randint(1000, {2, 2}, at::kLong)},
          {"flags", at::rand({3}).gt(0.5)},
          {"empty", at::empty({0, 4})},
          {"optimizer.step", at::full({}, 7.0f + static_cast<float>(seed))}};
}

NamedTensors copy_of(const NamedTensors& state) {
  NamedTensors copy;
  for (const auto& [name, tensor] : state) copy.emplace_back(name, tensor.clone());
  return copy;
}

void expect_equal(const NamedTensors& a, const NamedTensors& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].first, b[i].first);
    EXPECT_TRUE(at::equal(a[i].second, b[i].second)) << a[i].first;
  }
}

CheckpointInfo sample_info() {
  CheckpointInfo info;
  info.step = 12;
  info.position = 480;
  info.epoch = 3;
  info.counters = {{"steps", "12"}, {"loss_scale", "32768"}};
  info.origin = {{"model.hidden_size", "32"}, {"optimizer.name", "adamw"}};
  return info;
}

class CheckpointTest : public ::testing::Test {
 protected:
  /// Returns the error of reading `file` into `state`; the state must not have changed.
  std::string refusal(const std::filesystem::path& file, const NamedTensors& state,
                      const std::map<std::string, std::string>& origin = sample_info().origin) {
    const NamedTensors before = copy_of(state);
    const std::string message = user_error_of([&] { read_checkpoint(file, origin, state); });
    expect_equal(state, before);
    return message;
  }

  TempFolder folder_;
  const std::filesystem::path file_ = folder_ / "step-00000012.safetensors";
};

TEST_F(CheckpointTest, BringsBackEveryTensorAndTheRest) {
  const NamedTensors saved = sample_state(1), loaded = sample_state(2);
  write_checkpoint(file_, sample_info(), saved);
  const CheckpointInfo info = read_checkpoint(file_, sample_info().origin, loaded);
  expect_equal(loaded, saved);
  EXPECT_EQ(info.step, 12);
  EXPECT_EQ(info.position, 480);
  EXPECT_EQ(info.epoch, 3);
  EXPECT_EQ(info.counters, sample_info().counters);
  EXPECT_EQ(info.origin, sample_info().origin);
}

DataFacts sample_facts() {
  return {.files = {{.key = "data.files",
                     .name = "text.txt",
                     .identity = {.files = 1, .bytes = 120000, .hash = 0xfedcba9876543210u}},
                    {.key = "data.files", .name = "a.mp4", .identity = {}, .is_name_data = true}},
          .settings = {{"data.validation_fraction", "0.1"}}};
}

TEST_F(CheckpointTest, BringsBackTheFactsAboutItsData) {
  CheckpointInfo info = sample_info();
  write_checkpoint(file_, info, sample_state(1));
  EXPECT_EQ(describe_checkpoint(file_).data, std::nullopt);
  info.data = sample_facts();
  write_checkpoint(file_, info, sample_state(1));
  EXPECT_EQ(describe_checkpoint(file_).data, info.data);
}

TEST_F(CheckpointTest, RefusesOtherDataUnlessTheyMayDiffer) {
  CheckpointInfo info = sample_info();
  info.data = sample_facts();
  write_checkpoint(file_, info, sample_state(1));
  std::vector<std::string> notes;
  DataOfJob data{.facts = sample_facts(), .noted = [&](const std::string& line) { notes.push_back(line); }};
  const auto read = [&](const std::map<std::string, std::string>& origin) {
    read_checkpoint(file_, origin, sample_state(2), {}, {}, &data);
  };
  read(info.origin);
  EXPECT_THAT(notes, ::testing::IsEmpty());

  data.facts.files[0].identity.bytes = 119999;
  data.facts.settings["data.validation_fraction"] = "0.4";
  EXPECT_EQ(user_error_of([&] { read(info.origin); }),
            "cannot resume from " + file_.string() +
                ": it was written by a job with other data; nothing was loaded\n"
                "  data.files: text.txt had 120000 bytes (hash fedcba9876543210), now has 119999 bytes (hash "
                "fedcba9876543210)\n"
                "  data.validation_fraction was 0.1 and is 0.4\n"
                "To continue that run, restore its data. To train on with these, set checkpoint.allow_other_data: "
                "true. To start another run, set another checkpoint.directory.");
  auto origin = info.origin;
  origin["optimizer.name"] = "sgd";
  EXPECT_THAT(user_error_of([&] { read(origin); }),
              ::testing::AllOf(HasSubstr("other settings and other data"), HasSubstr("optimizer.name is sgd"),
                               HasSubstr("text.txt had"), HasSubstr("data.validation_fraction was")));
  data.may_differ = true;
  EXPECT_THAT(user_error_of([&] { read(origin); }),
              ::testing::AllOf(HasSubstr("optimizer.name is sgd"), ::testing::Not(HasSubstr("text.txt"))));
  EXPECT_THAT(notes, ::testing::IsEmpty());
  read(info.origin);
  EXPECT_THAT(notes, ::testing::ElementsAre(
                         ::testing::AllOf(HasSubstr("goes on with other data"), HasSubstr("text.txt had 120000 bytes"),
                                          HasSubstr("; data.validation_fraction was 0.1 and is 0.4"))));
}

TEST_F(CheckpointTest, NotesThatDataCannotBeCompared) {
  CheckpointInfo info = sample_info();
  info.origin["data.sequence_length"] = "64";
  write_checkpoint(file_, info, sample_state(1));
  std::vector<std::string> notes;
  const DataOfJob data{.facts = sample_facts(), .noted = [&](const std::string& line) { notes.push_back(line); }};
  read_checkpoint(file_, info.origin, sample_state(2), {}, {}, &data);
  EXPECT_THAT(notes, ::testing::ElementsAre(HasSubstr("an earlier version of Plimsoll wrote it")));
  auto origin = info.origin;
  origin["data.sequence_length"] = "128";
  EXPECT_THAT(user_error_of([&] { read_checkpoint(file_, origin, sample_state(2), {}, {}, &data); }),
              HasSubstr("data.sequence_length was 64 and is 128"));
}

TEST_F(CheckpointTest, RefusesFactsThatAreNone) {
  for (const char* facts : {"[]", R"({"files":[],"settings":{"a":1}})", R"({"files":[{}],"settings":{}})", "7",
                            R"({"files":[{"key":"k","name":"n","files":"1","bytes":1,"hash":"0"}],"settings":{}})"}) {
    put_file(file_, "");
    SafetensorsWriter writer(
        file_, {},
        {{"plimsoll.checkpoint",
          R"({"format_version":2,"step":1,"position":0,"epoch":0,"counters":{},"origin":{},"data":)" +
              std::string(facts) + "}"}});
    writer.commit();
    EXPECT_THAT(user_error_of([&] { describe_checkpoint(file_); }), HasSubstr("its description cannot be read"))
        << facts;
  }
}

TEST_F(CheckpointTest, SameStateSameBytes) {
  write_checkpoint(folder_ / "a", sample_info(), sample_state(1));
  write_checkpoint(folder_ / "b", sample_info(), sample_state(1));
  EXPECT_EQ(get_file(folder_ / "a"), get_file(folder_ / "b"));
}

TEST_F(CheckpointTest, NamesTheTensorAndBothShapes) {
  write_checkpoint(file_, sample_info(), sample_state(1));
  NamedTensors state = sample_state(2);
  state[0].second = at::zeros({3, 6});
  EXPECT_THAT(refusal(file_, state),
              HasSubstr("the tensor 'layers.0.weight' is float32 [3, 6] in the job, float32 [3, 5] "
                        "in the checkpoint"));
}

TEST_F(CheckpointTest, NamesTheTensorAndBothTypes) {
  write_checkpoint(file_, sample_info(), sample_state(1));
  NamedTensors state = sample_state(2);
  state[1].second = state[1].second.to(at::kHalf);
  EXPECT_THAT(refusal(file_, state),
              HasSubstr("'layers.0.bias' is float16 [5] in the job, bfloat16 [5] in the checkpoint"));
}

TEST_F(CheckpointTest, NamesMissingAndSurplusTensors) {
  write_checkpoint(file_, sample_info(), sample_state(1));
  NamedTensors state = sample_state(2);
  state[3].first = "total";
  const std::string message = refusal(file_, state);
  EXPECT_THAT(message, HasSubstr("the tensor 'total' (int64 [2, 2]) is missing in the checkpoint"));
  EXPECT_THAT(message, HasSubstr("the tensor 'counts' (int64 [2, 2]) is in the checkpoint only"));
}

TEST_F(CheckpointTest, NamesSettingsThatDiffer) {
  write_checkpoint(file_, sample_info(), sample_state(1));
  auto origin = sample_info().origin;
  origin["optimizer.name"] = "sgd";
  const std::string message = refusal(file_, sample_state(2), origin);
  EXPECT_THAT(message, HasSubstr("optimizer.name is sgd in the job, adamw in the checkpoint"));
  EXPECT_THAT(message, Not(HasSubstr("hidden_size")));
  EXPECT_THAT(message, HasSubstr("nothing was loaded"));
}

TEST_F(CheckpointTest, CountsTheSettingsThatItDoesNotShow) {
  write_checkpoint(file_, sample_info(), sample_state(1));
  auto origin = sample_info().origin;
  for (int i = 0; i < 12; ++i) origin["model.key" + std::to_string(i)] = "1";
  EXPECT_THAT(refusal(file_, sample_state(2), origin), HasSubstr("\n  and 4 more settings differ\n"));
}

TEST_F(CheckpointTest, CountsTheDifferencesThatItDoesNotShow) {
  NamedTensors many;
  for (int i = 0; i < 20; ++i) many.emplace_back("w" + std::to_string(i), at::zeros({1}));
  write_checkpoint(file_, sample_info(), many);
  for (auto& [name, tensor] : many) tensor = at::ones({2});
  EXPECT_THAT(refusal(file_, many), HasSubstr("and 12 more tensors that differ"));
}

// A model of another width differs in every tensor; the setting says why.
TEST_F(CheckpointTest, ShowsOneTensorNextToSettingsThatDiffer) {
  NamedTensors many;
  for (int i = 0; i < 20; ++i) many.emplace_back("w" + std::to_string(i), at::zeros({1}));
  write_checkpoint(file_, sample_info(), many);
  for (auto& [name, tensor] : many) tensor = at::ones({2});
  auto origin = sample_info().origin;
  origin["optimizer.name"] = "sgd";
  const std::string message = refusal(file_, many, origin);
  EXPECT_THAT(message, HasSubstr("optimizer.name is sgd in the job, adamw in the checkpoint\n  the tensor 'w0' is "));
  EXPECT_THAT(message, HasSubstr("\n  and 19 more tensors that differ\n"));
}

TEST_F(CheckpointTest, RefusesAFileCutShortAnywhere) {
  write_checkpoint(file_, sample_info(), sample_state(1));
  const std::string whole = get_file(file_);
  const NamedTensors state = sample_state(2);
  for (size_t bytes = 0; bytes < whole.size(); bytes += 1 + bytes / 10) {
    put_file(file_, whole.substr(0, bytes));
    EXPECT_THAT(refusal(file_, state), HasSubstr("step-00000012.safetensors")) << bytes;
  }
  put_file(file_, whole.substr(0, whole.size() - 1));
  EXPECT_THAT(refusal(file_, state), HasSubstr("truncated"));
}

// The checksums were right: only the loss of the file's end can be detected, and tensors have been written by then.
TEST_F(CheckpointTest, AFileThatIsCutWhileItIsCopiedLeavesNothingToTrainOn) {
  write_checkpoint(file_, sample_info(),
                   {{"a", at::randn({100'000})}, {"b", at::ones({3})}, {"c", at::ones({2}, at::kLong)}});
  const NamedTensors state = {{"a", at::zeros({100'000})}, {"b", at::zeros({3})}, {"c", at::ones({2}, at::kLong)}};
  const std::string message = user_error_of([&] {
    read_checkpoint(file_, sample_info().origin, state,
                    [&](const CheckpointInfo&) { std::filesystem::resize_file(file_, 4096); });
  });
  EXPECT_THAT(message, HasSubstr("has lost some of them while it was read"));
  EXPECT_TRUE(state[0].second.isnan().all().item<bool>());
  EXPECT_TRUE(state[1].second.isnan().all().item<bool>());
  EXPECT_TRUE(at::equal(state[2].second, at::zeros({2}, at::kLong)));
}

TEST_F(CheckpointTest, IsAnErrorWhereverAndWheneverItIsCut) {
  const at::Tensor saved = at::arange(1, 5001, at::kFloat);
  write_checkpoint(file_, sample_info(), {{"a", saved}, {"b", saved + 1}});
  const NamedTensors state = {{"a", at::empty({5000})}, {"b", at::empty({5000})}};
  const auto read = [&] {
    for (const auto& [name, tensor] : state) at::Tensor(tensor).fill_(-1);
    std::string all;
    try {
      all = std::to_string(read_checkpoint(file_, sample_info().origin, state).position);
    } catch (const UserError&) {
      for (const auto& [name, tensor] : state)
        EXPECT_TRUE(((tensor == -1).all() | tensor.isnan().all()).item<bool>()) << name << " may be trained on";
      throw;
    }
    for (const auto& [name, tensor] : state)
      all.append(static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes());
    return all;
  };
  expect_no_zeros_when_cut<std::string>(file_, read);
  expect_no_zeros_when_cut_at_random<std::string>(file_, read, testing::rounds(10));
  expect_no_zeros_when_cut<int64_t>(file_, [&] { return describe_checkpoint(file_).position; });
}

TEST_F(CheckpointTest, AFlippedBitIsRefusedOrChangesNothing) {
  const NamedTensors saved = sample_state(1);
  write_checkpoint(file_, sample_info(), saved);
  const std::string whole = get_file(file_);
  std::mt19937 random(3);
  int refused = 0;
  for (int i = 0; i < 300; ++i) {
    std::string spoilt = whole;
    const size_t at = random() % whole.size();
    spoilt[at] = static_cast<char>(spoilt[at] ^ (1 << random() % 8));
    put_file(file_, spoilt);
    const NamedTensors state = sample_state(2), before = copy_of(state);
    try {
      const CheckpointInfo info = read_checkpoint(file_, sample_info().origin, state);
      expect_equal(state, saved);
      EXPECT_EQ(info.position, sample_info().position);
      EXPECT_EQ(info.counters, sample_info().counters);
    } catch (const UserError&) {
      ++refused;
      expect_equal(state, before);
    }
  }
  EXPECT_GT(refused, 280);  // all but some of the header's padding
}

TEST_F(CheckpointTest, RefusesAFileOfAnotherProgram) {
  SafetensorsWriter writer(file_, {{"w", DType::float32, {1}, {}}});
  writer.write("w", std::vector<std::byte>(4));
  writer.commit();
  EXPECT_THAT(refusal(file_, {{"w", at::zeros({1})}}), HasSubstr("is not a checkpoint of Plimsoll"));
}

TEST_F(CheckpointTest, RefusesDescriptionsThatMakeNoSense) {
  const std::string counters = R"("epoch":0,"counters":{},"origin":{})";
  for (const std::string& text :
       {std::string("step"), std::string("{}"), std::string("[]"),
        R"({"format_version":1,"step":-1,"position":0,)" + counters + "}",
        R"({"format_version":1,"step":1,"position":-5,)" + counters + "}",
        R"({"format_version":1,"step":1,"position":9000000000000000000,)" + counters + "}",
        R"({"format_version":1,"step":"1","position":0,)" + counters + "}",
        R"({"format_version":3,"step":1,"position":0,)" + counters + "}",
        std::string(R"({"format_version":1,"step":1,"position":0,"epoch":0,"counters":{"steps":1},"origin":{}})")}) {
    SafetensorsWriter writer(file_, {}, {{"plimsoll.checkpoint", text}});
    writer.commit();
    EXPECT_THAT(refusal(file_, {}, {}), HasSubstr(file_.string())) << text;
  }
}

// A tree of ten million levels, of a few megabytes, would take gigabytes.
TEST_F(CheckpointTest, RefusesDescriptionsThatAreDeepOrLong) {
  const auto refusal_of = [&](const std::string& text) {
    SafetensorsWriter(file_, {}, {{"plimsoll.checkpoint", text}}).commit();
    return refusal(file_, {}, {});
  };
  EXPECT_THAT(refusal_of(R"({"format_version":)" + std::string(10'000'000, '[')),
              HasSubstr(file_.string() + ": its description is nested deeper than 16 levels"));
  EXPECT_THAT(refusal_of(R"({"step":1,"step":2})"), HasSubstr("its description has the key 'step' twice"));
  EXPECT_THAT(refusal_of(R"({"format_version":1,"counters":")" + std::string(17 << 20, 'x') + "\"}"),
              HasSubstr("its description has 17825826 bytes; allowed: 16777216"));
}

// The explanation of a revision is for messages, and its words may change.
TEST_F(CheckpointTest, ComparesTheNumberOfARevisionOnly) {
  const std::map<std::string, std::string> ours = {{"model.type", "x"}, {"model.revision", "2 (new words)"}};
  CheckpointInfo info;
  info.origin = ours;
  write_checkpoint(file_, info, {});
  EXPECT_EQ(describe_checkpoint(file_).origin.at("model.revision"), "2");
  EXPECT_NO_THROW(read_checkpoint(file_, ours, {}));
  EXPECT_NO_THROW(require_same_model(ours, file_));
  // The writer of checkpoints stores no explanation; earlier commits did.
  const auto put_origin = [&](const std::map<std::string, std::string>& origin) {
    const nlohmann::json json = {
        {"format_version", 2}, {"step", 1}, {"position", 0}, {"epoch", 0}, {"counters", nlohmann::json::object()},
        {"origin", origin}};
    SafetensorsWriter(file_, {}, {{"plimsoll.checkpoint", json.dump()}}).commit();
  };
  std::map<std::string, std::string> stored = ours;
  stored["model.revision"] = "2 (old words)";
  put_origin(stored);
  EXPECT_NO_THROW(read_checkpoint(file_, ours, {}));
  EXPECT_NO_THROW(require_same_model(ours, file_));
  const auto expect_refused = [&](const std::string& number) {
    const std::string expected =
        "of revision " + number + "; this version of Plimsoll has revision 2 (new words). Nothing was loaded.";
    EXPECT_THAT(refusal(file_, {}, ours), HasSubstr(expected));
    EXPECT_THAT(user_error_of([&] { require_same_model(ours, file_); }), HasSubstr(expected));
  };
  stored["model.revision"] = "3";
  put_origin(stored);
  expect_refused("3");
  stored["model.revision"] = "20 (more words)";
  put_origin(stored);
  expect_refused("20");
  stored.erase("model.revision");
  put_origin(stored);
  expect_refused("1");
}

TEST_F(CheckpointTest, RefusesTensorsWithoutAChecksum) {
  SafetensorsWriter writer(
      file_, {{"w", DType::float32, {1}, {}}},
      {{"plimsoll.checkpoint", R"({"format_version":1,"step":1,"position":0,"epoch":0,"counters":{},"origin":{}})"}});
  writer.write("w", std::vector<std::byte>(4));
  writer.commit();
  EXPECT_THAT(refusal(file_, {{"w", at::zeros({1})}}, {}), HasSubstr("1 of its 1 tensors have no checksum"));
}

TEST_F(CheckpointTest, RefusesAHeaderWithoutAChecksum) {
  write_checkpoint(file_, sample_info(), sample_state(1));
  std::string renamed = get_file(file_);
  renamed.replace(renamed.find("hash:__metadata__"), 4, "hush");
  put_file(file_, renamed);
  EXPECT_THAT(refusal(file_, sample_state(2)), HasSubstr("its header has no checksum"));
}

// Settings that neither the model's tensors nor other keys show, and whose change makes another training.
TEST_F(CheckpointTest, SamplesAndLossesBelongToTheOrigin) {
  Job job;
  job.model.type = "fmri_autoencoder";
  job.data.type = "synthetic";
  job.data.samples = 64;
  const auto origin = job::origin_of(job, nullptr);
  write_checkpoint(file_, {.origin = origin}, sample_state(1));
  EXPECT_NO_THROW(read_checkpoint(file_, origin, sample_state(2)));
  const auto refused = [&](const std::function<void(Job&)>& change) {
    Job other = job;
    change(other);
    return refusal(file_, sample_state(2), job::origin_of(other, nullptr));
  };
  EXPECT_THAT(refused([](Job& other) { other.data.samples = 32; }), HasSubstr("data.samples was 64 and is 32"));
  EXPECT_THAT(refused([](Job& other) { other.data.validation_fraction = 0.25; }),
              HasSubstr("data.validation_fraction was 0.05 and is 0.25"));
  EXPECT_THAT(refused([](Job& other) { other.model.fmri.loss.fmri = 3; }), HasSubstr("model.loss.fmri is 3"));
  EXPECT_THAT(refused([](Job& other) { other.model.fmri.loss.video = 3; }), HasSubstr("model.loss.video is 3"));
  EXPECT_THAT(refused([](Job& other) { other.model.fmri.loss.audio = 3; }), HasSubstr("model.loss.audio is 3"));
  EXPECT_THAT(refused([](Job& other) { other.model.fmri.loss.text = 3; }), HasSubstr("model.loss.text is 3"));
  EXPECT_THAT(refused([](Job& other) { other.model.fmri.loss.agreement = 3; }), HasSubstr("model.loss.agreement is 3"));
  job.model.type = "decoder";
  write_checkpoint(file_, {.origin = job::origin_of(job, nullptr)}, sample_state(1));
  EXPECT_THAT(refused([](Job& other) { other.data.samples = 32; }), HasSubstr("data.samples was 64 and is 32"));
}

}  // namespace
}  // namespace plimsoll
