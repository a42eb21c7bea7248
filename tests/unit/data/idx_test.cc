#include "data/idx.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "tests/unit/data/idx_files.h"
#include "tests/unit/data/row_samples.h"

namespace psgd {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class IdxTest : public testing::Test {
 protected:
  void SetUp() override { WriteIdxFolder(folder_); }

  void Put(const std::string& name, const std::string& contents) {
    WriteFile(folder_.File(name), contents);
  }
  // Replaces a plain file with its gzip.
  void PutGzip(const std::string& name, const std::string& packed) {
    std::filesystem::remove(folder_.File(name));
    WriteFile(folder_.File(name + ".gz"), packed);
  }
  std::string Plain(const std::string& name) { return ReadFile(folder_.File(name)); }
  std::string Error() {
    const absl::StatusOr<TrainAndTest> sets = LoadIdx(folder_.path());
    return sets.ok() ? "no error" : std::string(sets.status().message());
  }

  ScratchFolder folder_;
};

TEST_F(IdxTest, ReadsPixelsAndLabels) {
  const absl::StatusOr<TrainAndTest> sets = LoadIdx(folder_.path());
  ASSERT_TRUE(sets.ok()) << sets.status();
  EXPECT_EQ(sets->train->size(), 20u);
  EXPECT_EQ(sets->test->size(), 7u);
  EXPECT_EQ(sets->train->shape().ImageText(), "1x3x5");
  EXPECT_EQ(sets->train->shape().classes, 4);
  std::vector<float> pixels(15);
  int32_t label = -7;
  ASSERT_TRUE(sets->train->Read({0, 17}, {.values = pixels, .labels = {&label, 1}}).ok());
  EXPECT_EQ(label, 1);
  EXPECT_EQ(pixels[0], 255 / 255.0f);  // byte 17 * 15 = 255
  EXPECT_EQ(pixels[1], 0.0f);
  EXPECT_EQ(pixels[14], 13 / 255.0f);
}

TEST_F(IdxTest, ReadsGzipWhateverTheName) {
  PutGzip(kTrainImages, Gzip(Plain(kTrainImages)));
  Put(kTrainLabels, Gzip(Plain(kTrainLabels)));
  const absl::StatusOr<TrainAndTest> sets = LoadIdx(folder_.path());
  ASSERT_TRUE(sets.ok()) << sets.status();
  std::vector<float> pixels(15);
  int32_t label;
  ASSERT_TRUE(sets->train->Read({0, 19}, {.values = pixels, .labels = {&label, 1}}).ok());
  EXPECT_EQ(label, 3);
  EXPECT_EQ(pixels[0], (19 * 15 % 256) / 255.0f);
}

TEST_F(IdxTest, ReadsGzipOfSeveralMembers) {
  const std::string plain = Plain(kTrainImages);
  PutGzip(kTrainImages, Gzip(plain.substr(0, 100)) + Gzip("") + Gzip(plain.substr(100)));
  EXPECT_EQ(Error(), "no error");
}

TEST_F(IdxTest, MissingFilesAreListed) {
  std::filesystem::remove(folder_.File(kTrainLabels));
  std::filesystem::remove(folder_.File(kTestImages));
  EXPECT_THAT(Error(),
              AllOf(HasSubstr(folder_.path()), HasSubstr(kTrainLabels), HasSubstr(kTestImages),
                    Not(HasSubstr(kTrainImages)), HasSubstr(".gz"), HasSubstr("check data.path")));
}

TEST_F(IdxTest, MissingFolderIsSaid) {
  const absl::Status status = LoadIdx(folder_.File("nowhere")).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("no such folder"));
}

TEST_F(IdxTest, MissingFashionMnistNamesThePackage) {
  for (const char* name : {"fashion-mnist", "fashion-mnist//"}) {
    EXPECT_THAT(std::string(LoadIdx(folder_.File(name)).status().message()),
                HasSubstr("`apt-get install dataset-fashion-mnist`"));
  }
}

TEST_F(IdxTest, FolderInPlaceOfAFile) {
  std::filesystem::remove(folder_.File(kTrainLabels));
  std::filesystem::create_directory(folder_.File(kTrainLabels));
  EXPECT_THAT(Error(), AllOf(HasSubstr(kTrainLabels), HasSubstr("not a regular file")));
}

TEST_F(IdxTest, NotIdx) {
  Put(kTrainImages, "<html>404 not found</html>");
  EXPECT_THAT(Error(), AllOf(HasSubstr(kTrainImages), HasSubstr("not an idx file")));
  Put(kTrainImages, std::string("\0\0\x0a\x03", 4) + std::string(100, '\0'));
  EXPECT_THAT(Error(), HasSubstr("type 0x0a"));
  Put(kTrainImages, Plain(kTrainLabels));
  EXPECT_THAT(Error(), HasSubstr("mixed up"));
  Put(kTrainImages, IdxHeader({20, 3, 5, 3}) + Ramp(20 * 45, 256));
  EXPECT_THAT(Error(), AllOf(HasSubstr("has 4 dimensions"), HasSubstr("data.format: arrays")));
  Put(kTrainImages, "");
  EXPECT_THAT(Error(), HasSubstr("ends early"));
}

TEST_F(IdxTest, FloatsAreNormalizedAsArraysAre) {
  Put(kTrainImages, IdxOf<float>(0x0d, {2, 1, 2}, {0.5f, -0.5f, 1.5f, 0.5f}));
  Put(kTrainLabels, IdxOf<int32_t>(0x0c, {2}, {300, 7}));
  Put(kTestImages, IdxOf<double>(0x0e, {1, 1, 2}, {2.5, 0.5}));
  Put(kTestLabels, IdxOf<int16_t>(0x0b, {1}, {300}));
  const auto sets = LoadIdx(folder_.path());
  ASSERT_TRUE(sets.ok()) << sets.status();
  EXPECT_EQ(sets->train->shape().height, 1);
  EXPECT_EQ(sets->train->shape().width, 2);
  EXPECT_EQ(sets->train->shape().classes, 2);
  EXPECT_EQ(RowOf(*sets->train, 0).label, 1);
  EXPECT_NEAR(RowOf(*sets->test, 0).values[0], 2 / std::sqrt(0.5), 1e-6);
  EXPECT_EQ(RowOf(*sets->test, 0).values[1], 0);

  Put(kTestImages, IdxOf<float>(0x0d, {1, 1, 2}, {2.5f, NAN}));
  EXPECT_THAT(Error(), HasSubstr(std::string(kTestImages) + "[0]: nan is not finite"));
  Put(kTestImages, IdxOf<double>(0x0e, {1, 1, 2}, {2.5}));
  EXPECT_THAT(Error(), HasSubstr("ends early"));
}

TEST_F(IdxTest, LabelsOfBytesMayHaveAnyType) {
  std::vector<int32_t> train(20, 2), test(7, 300);
  train[3] = 300;
  Put(kTrainLabels, IdxOf<int32_t>(0x0c, {20}, train));
  Put(kTestLabels, IdxOf<int32_t>(0x0c, {7}, test));
  const auto sets = LoadIdx(folder_.path());
  ASSERT_TRUE(sets.ok()) << sets.status();
  EXPECT_EQ(sets->train->shape().classes, 301);
  EXPECT_EQ(sets->preparation.planes_size(), 0) << "pixels are bytes";
  EXPECT_EQ(RowOf(*sets->train, 3).label, 300);
  EXPECT_EQ(RowOf(*sets->test, 6).label, 300);
  EXPECT_EQ(RowOf(*sets->train, 17).values[0], 1);

  train[3] = -1;
  Put(kTrainLabels, IdxOf<int32_t>(0x0c, {20}, train));
  EXPECT_THAT(Error(), AllOf(HasSubstr(kTrainLabels), HasSubstr("label 3 is -1; classes are")));
  Put(kTrainLabels, IdxOf<float>(0x0d, {20}, std::vector<float>(20, 1.5f)));
  EXPECT_THAT(std::string(LoadIdx(folder_.path(), DataConfig::CLASS).status().message()),
              HasSubstr("label 0 is 1.5; classes are whole numbers"));
}

TEST_F(IdxTest, ClassesWithoutASampleAreNoted) {
  EXPECT_EQ(LoadIdx(folder_.path())->note, "");
  std::string labels = Ramp(20, 4);
  labels[7] = '\xff';
  Put(kTrainLabels, IdxHeader({20}) + labels);
  const absl::StatusOr<TrainAndTest> sets = LoadIdx(folder_.path());
  ASSERT_TRUE(sets.ok()) << sets.status();
  EXPECT_EQ(sets->note,
            "251 of the 256 classes have no training sample; is a label wrong? the largest label "
            "is 255 (" +
                folder_.File(kTrainLabels) + ": label 7)");
  labels[7] = 5;
  Put(kTrainLabels, IdxHeader({20}) + labels);
  EXPECT_THAT(LoadIdx(folder_.path())->note, HasSubstr("1 of the 6 classes has no training"));
}

TEST_F(IdxTest, BytesMayHaveTargets) {
  const auto sets = LoadIdx(folder_.path(), DataConfig::NUMBER);
  ASSERT_TRUE(sets.ok()) << sets.status();
  EXPECT_EQ(sets->train->shape().targets, 1);
  EXPECT_EQ(sets->preparation.planes_size(), 0);
  EXPECT_EQ(sets->targets.scales[0].mean, 1.5);
  EXPECT_EQ(RowOf(*sets->train, 17).values[0], 1);
  EXPECT_LT(RowOf(*sets->train, 17).targets[0], 0) << "its label is 1";
}

TEST_F(IdxTest, TargetsOfBytesAreFinite) {
  const auto error = [&](DataConfig::TargetKind kind) {
    return std::string(LoadIdx(folder_.path(), kind).status().message());
  };
  std::vector<float> labels(20, 1);
  labels[3] = NAN;
  Put(kTrainLabels, IdxOf(0x0d, {20}, labels));
  for (const auto kind : {DataConfig::NUMBER, DataConfig::COUNT}) {
    EXPECT_THAT(error(kind),
                AllOf(HasSubstr(kTrainLabels), HasSubstr("label 3: nan is not finite")));
  }
  labels[3] = 2;
  Put(kTrainLabels, IdxOf(0x0d, {20}, labels));
  Put(kTestLabels, IdxOf<float>(0x0d, {7}, std::vector<float>(7, INFINITY)));
  EXPECT_THAT(error(DataConfig::NUMBER),
              AllOf(HasSubstr(kTestLabels), HasSubstr("label 0: inf is not finite")));
}

TEST_F(IdxTest, OneClassIsRefused) {
  Put(kTrainLabels, IdxHeader({20}) + Ramp(20, 1));
  Put(kTestLabels, IdxHeader({7}) + Ramp(7, 1));
  EXPECT_THAT(Error(), AllOf(HasSubstr(kTrainLabels), HasSubstr("classes are at least 2")));
}

TEST_F(IdxTest, FloatLabelsAreTargets) {
  Put(kTrainLabels, IdxOf<float>(0x0d, {20}, std::vector<float>(20, 1.5f)));
  Put(kTestLabels, IdxOf<float>(0x0d, {7}, std::vector<float>(7, 2.5f)));
  EXPECT_THAT(Error(), AllOf(HasSubstr(kTrainLabels), HasSubstr("data.target_kind: number")));
  const auto sets = LoadIdx(folder_.path(), DataConfig::NUMBER);
  ASSERT_TRUE(sets.ok()) << sets.status();
  EXPECT_EQ(sets->train->shape().targets, 1);
  EXPECT_EQ(sets->targets.scales[0].mean, 1.5);
  EXPECT_THAT(RowOf(*sets->test, 0).targets, testing::ElementsAre(1));
}

TEST_F(IdxTest, HeaderMustMatchTheFile) {
  Put(kTrainImages, IdxHeader({20, 3, 5}) + Ramp(20 * 15 - 1, 256));
  EXPECT_THAT(Error(), HasSubstr("ends early: 1 bytes are missing"));
  Put(kTrainImages, IdxHeader({20, 3, 5}) + Ramp(20 * 15 + 1, 256));
  EXPECT_THAT(Error(), HasSubstr("longer than its header announces"));
  Put(kTrainImages, IdxHeader({20, 0, 5}));
  EXPECT_THAT(Error(), HasSubstr("is empty"));
  Put(kTrainImages, IdxHeader({20, 1u << 30, 1}) + Ramp(100, 256));
  EXPECT_THAT(Error(), HasSubstr("pixels long"));
}

TEST_F(IdxTest, HugeHeaderAllocatesNothing) {
  const std::string huge = IdxHeader({0xFFFFFFFF, 1 << 14, 1 << 14});
  Put(kTrainImages, huge + Ramp(100, 256));
  EXPECT_THAT(Error(), HasSubstr("more than the file can hold"));
  PutGzip(kTrainImages, Gzip(huge + Ramp(100, 256)));
  EXPECT_THAT(Error(), HasSubstr("more than the file can hold"));
}

TEST_F(IdxTest, TruncatedGzip) {
  const std::string packed = Gzip(Plain(kTrainImages));
  for (size_t size = 2; size < packed.size(); ++size) {
    PutGzip(kTrainImages, packed.substr(0, size));
    ASSERT_THAT(Error(), AllOf(HasSubstr(kTrainImages), HasSubstr("ends early"))) << size;
  }
}

TEST_F(IdxTest, DamagedGzip) {
  std::string packed = Gzip(Plain(kTrainImages));
  packed[packed.size() - 6] ^= 1;  // in the CRC
  PutGzip(kTrainImages, packed);
  EXPECT_THAT(Error(), AllOf(HasSubstr("incorrect data check"), HasSubstr("fetch")));
  PutGzip(kTrainImages, Gzip(Plain(kTestImages)) + "garbage");
  EXPECT_NE(Error(), "no error");
}

TEST_F(IdxTest, FilesMustBelongTogether) {
  Put(kTrainLabels, IdxHeader({19}) + Ramp(19, 4));
  EXPECT_THAT(Error(), AllOf(HasSubstr("20 images"), HasSubstr("19 labels")));
  Put(kTrainLabels, IdxHeader({20}) + Ramp(20, 3));
  EXPECT_THAT(Error(),
              AllOf(HasSubstr(kTestLabels), HasSubstr("label 3 is 3"), HasSubstr("end at 2")));
  WriteIdxFolder(folder_);
  Put(kTestImages, IdxHeader({7, 5, 3}) + Ramp(7 * 15, 256));
  EXPECT_THAT(Error(), AllOf(HasSubstr("5x3"), HasSubstr("3x5")));
  Put(kTestImages, IdxOf(0x0d, {7, 3, 5}, std::vector<float>(7 * 15, 0.5f)));
  EXPECT_THAT(Error(), AllOf(HasSubstr(kTestImages), HasSubstr("different types")));
}

// Any bytes give a dataset within its bounds or an error, never a crash.
TEST_F(IdxTest, RandomDamage) {
  std::mt19937 random(1);
  const std::string plain = Plain(kTrainImages), packed = Gzip(plain);
  for (int trial = 0; trial < 3000; ++trial) {
    std::string bytes = trial % 2 ? packed : plain;
    for (int flips = 1 + trial % 3; flips > 0; --flips) {
      const size_t range = trial % 5 ? std::min<size_t>(bytes.size(), 24) : bytes.size();
      bytes[random() % range] ^= static_cast<char>(1 << random() % 8);
    }
    if (trial % 7 == 0) bytes.resize(random() % bytes.size());
    Put(kTrainImages, bytes);
    const absl::StatusOr<TrainAndTest> sets = LoadIdx(folder_.path());
    if (!sets.ok()) continue;
    std::vector<float> pixels(sets->train->shape().elements());
    int32_t label;
    for (size_t i = 0; i < sets->train->size(); ++i) {
      ASSERT_TRUE(sets->train->Read({0, i}, {.values = pixels, .labels = {&label, 1}}).ok());
    }
  }
}

}  // namespace
}  // namespace psgd
