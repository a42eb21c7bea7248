#include "data/open_data.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/unit/data/idx_files.h"

namespace psgd {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

DataConfig Config(const std::string& text) {
  DataConfig config;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &config)) << text;
  return config;
}

std::string Error(const std::string& text) {
  const absl::StatusOr<DataSets> sets = OpenData(Config(text), 1);
  return sets.ok() ? "no error" : std::string(sets.status().message());
}

TEST(OpenDataTest, SyntheticDefaults) {
  const absl::StatusOr<DataSets> sets = OpenData(Config("format: SYNTHETIC"), 1);
  ASSERT_TRUE(sets.ok()) << sets.status();
  EXPECT_EQ(sets->train->size(), 4096u);
  EXPECT_EQ(sets->test->size(), 1024u);
  EXPECT_EQ(sets->shape.ImageText(), "1x28x28");
  EXPECT_EQ(sets->shape.classes, 10);
  EXPECT_NEAR(sets->normalization.mean[0], 0.5f, 0.05f);
}

TEST(OpenDataTest, SyntheticShapeAndLimits) {
  const absl::StatusOr<DataSets> sets = OpenData(
      Config("format: SYNTHETIC synthetic { shape: [3, 8, 6] classes: 7 } train_samples: 100 "
             "test_samples: 9 mean: [1, 2, 3] stddev: [0.5, 0.5, 2]"),
      1);
  ASSERT_TRUE(sets.ok()) << sets.status();
  EXPECT_EQ(sets->train->size(), 100u);
  EXPECT_EQ(sets->test->size(), 9u);
  EXPECT_EQ(sets->shape.ImageText(), "3x8x6");
  EXPECT_THAT(sets->normalization.mean, ElementsAre(1, 2, 3));
}

TEST(OpenDataTest, TrainIsAugmentedTestIsNot) {
  const absl::StatusOr<DataSets> sets =
      OpenData(Config("format: SYNTHETIC augment { crop_padding: 4 flip: true } batch: 8"), 1);
  ASSERT_TRUE(sets.ok()) << sets.status();
  std::vector<float> first(784), second(784);
  int32_t label;
  ASSERT_TRUE(sets->test->Read({0, 5}, {.values = first, .labels = {&label, 1}}).ok());
  ASSERT_TRUE(sets->test->Read({1, 5}, {.values = second, .labels = {&label, 1}}).ok());
  EXPECT_EQ(first, second);
  ASSERT_TRUE(sets->train->Read({0, 5}, {.values = first, .labels = {&label, 1}}).ok());
  ASSERT_TRUE(sets->train->Read({1, 5}, {.values = second, .labels = {&label, 1}}).ok());
  EXPECT_NE(first, second);
}

TEST(OpenDataTest, IdxIsNormalisedByTheTrainingSet) {
  ScratchFolder folder;
  WriteIdxFolder(folder);
  const absl::StatusOr<DataSets> sets =
      OpenData(Config("path: \"" + folder.path() + "\" batch: 4"), 1);
  ASSERT_TRUE(sets.ok()) << sets.status();
  double sum = 0, squares = 0;
  std::vector<float> pixels(15);
  int32_t label;
  for (size_t i = 0; i < 20; ++i) {
    ASSERT_TRUE(sets->train->Read({0, i}, {.values = pixels, .labels = {&label, 1}}).ok());
    for (const float x : pixels) {
      sum += x;
      squares += x * x;
    }
  }
  EXPECT_NEAR(sum / 300, 0, 1e-5);
  EXPECT_NEAR(squares / 300, 1, 1e-5);
}

TEST(OpenDataTest, MissingDataset) {
  EXPECT_THAT(Error(""), HasSubstr("data.path is not set"));
  EXPECT_THAT(Error("path: \"/nowhere\""),
              AllOf(HasSubstr("/nowhere"), HasSubstr("no such folder"),
                    HasSubstr("train-images-idx3-ubyte"), HasSubstr("check data.path")));
}

TEST(OpenDataTest, KeysOfImagesAreRefusedBeforeTheFilesAreRead) {
  for (const char* format : {"ARRAYS", "TABLE", "TEXT", "LIBSVM"}) {
    EXPECT_THAT(Error(std::string("augment { flip: true } path: \"/nowhere\" format: ") + format),
                HasSubstr("are for images of bytes"));
  }
}

TEST(OpenDataTest, TooFewSamples) {
  EXPECT_THAT(Error("format: SYNTHETIC batch: 65 synthetic { train_samples: 64 }"),
              AllOf(HasSubstr("data.batch is 65"), HasSubstr("only 64 samples")));
  EXPECT_THAT(Error("format: SYNTHETIC train_samples: 5000"),
              AllOf(HasSubstr("data.train_samples is 5000"), HasSubstr("4096")));
  EXPECT_THAT(Error("format: SYNTHETIC test_samples: 5000"), HasSubstr("data.test_samples"));
}

TEST(OpenDataTest, CountsFromElsewhere) {
  for (const char* key : {"batch", "eval_batch", "prefetch", "threads"}) {
    EXPECT_THAT(Error(std::string("format: SYNTHETIC ") + key + ": 0"),
                AllOf(HasSubstr(std::string("data.") + key + " is 0"), HasSubstr("at least 1")));
  }
  EXPECT_THAT(Error("format: SYNTHETIC synthetic { classes: 0 }"), HasSubstr("classes is 0"));
  EXPECT_THAT(Error("format: SYNTHETIC synthetic { test_samples: -4 }"), HasSubstr("is -4"));
  EXPECT_THAT(Error("format: SYNTHETIC synthetic { noise: inf }"), HasSubstr("noise is inf"));
  EXPECT_THAT(Error("format: SYNTHETIC train_samples: -1"), HasSubstr("train_samples is -1"));
}

TEST(OpenDataTest, NormalisationMustFitTheChannels) {
  EXPECT_THAT(
      Error("format: SYNTHETIC mean: [1, 2]"),
      AllOf(HasSubstr("data.mean has 2"), HasSubstr("data.stddev has 0"), HasSubstr("1 channel;")));
  EXPECT_THAT(Error("format: SYNTHETIC mean: [nan] stddev: [1]"), HasSubstr("finite"));
  EXPECT_THAT(Error("format: SYNTHETIC mean: [0] stddev: [0]"), HasSubstr("above 0"));
  EXPECT_THAT(Error("format: SYNTHETIC mean: [0] stddev: [-1]"), HasSubstr("above 0"));
}

TEST(OpenDataTest, ImpossibleShapes) {
  EXPECT_THAT(Error("format: SYNTHETIC synthetic { shape: [28, 28] }"),
              HasSubstr("channels, height and width"));
  EXPECT_THAT(Error("format: SYNTHETIC synthetic { shape: [1, 0, 28] }"), HasSubstr("contains 0"));
  EXPECT_THAT(Error("format: SYNTHETIC synthetic { shape: [1048576, 1048576, 1048576] }"),
              HasSubstr("values a sample"));
  EXPECT_THAT(Error("format: SYNTHETIC synthetic { shape: [1024, 1, 1024] classes: 1000000 }"),
              HasSubstr("too many to hold"));
  EXPECT_THAT(Error("format: SYNTHETIC synthetic { train_samples: 4611686018427387904 }"),
              HasSubstr("use fewer"));
  EXPECT_THAT(Error("format: SYNTHETIC augment { crop_padding: 28 }"),
              AllOf(HasSubstr("crop_padding is 28"), HasSubstr("1x28x28")));
  EXPECT_THAT(Error("format: SYNTHETIC augment { hue: 0.25 brightness: 0.1 }"),
              AllOf(HasSubstr("data.augment.hue is 0.25"), HasSubstr("grey images"),
                    HasSubstr("leave it out")));
  EXPECT_THAT(Error("format: SYNTHETIC augment { saturation: 1 }"),
              HasSubstr("data.augment.saturation is 1"));
  EXPECT_EQ(Error("format: SYNTHETIC augment { brightness: 0.1 contrast: 0.1 }"), "no error");
  EXPECT_EQ(Error("format: SYNTHETIC synthetic { shape: [3, 8, 8] } augment { hue: 0.25 }"),
            "no error");
}

}  // namespace
}  // namespace psgd
