#include "data/cifar.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/data/picture_files.h"

namespace psgd {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// Byte i of the pixels is i mod 251, plus `label`.
std::string Record(const std::string& labels) {
  std::string record = labels;
  for (int i = 0; i < 3072; ++i) record += static_cast<char>(i % 251 + labels.back());
  return record;
}

void WriteCifar10(const ScratchFolder& folder) {
  for (int file = 1; file <= 5; ++file) {
    const std::string first(1, static_cast<char>(2 * file - 2));
    const std::string second(1, static_cast<char>(2 * file - 1));
    WriteFile(folder.File("data_batch_" + std::to_string(file) + ".bin"),
              Record(first) + Record(second));
  }
  WriteFile(folder.File("test_batch.bin"), Record("\3"));
}

std::string Error(CifarKind kind, const std::string& folder) {
  const auto sets = LoadCifar(kind, folder);
  return sets.ok() ? "no error" : std::string(sets.status().message());
}

TEST(CifarTest, TenClassesInFiveFiles) {
  ScratchFolder folder;
  WriteCifar10(folder);
  const auto sets = LoadCifar(CifarKind::kCifar10, folder.path());
  ASSERT_TRUE(sets.ok()) << sets.status();
  EXPECT_EQ(sets->train->size(), 10u);
  EXPECT_EQ(sets->test->size(), 1u);
  EXPECT_EQ(sets->train->shape().ImageText(), "3x32x32");
  EXPECT_EQ(sets->train->shape().classes, 10);
  std::vector<float> pixels(3072);
  int32_t label = -1;
  for (size_t i = 0; i < 10; ++i) {
    ASSERT_TRUE(sets->train->Read({0, i}, {.values = pixels, .labels = {&label, 1}}).ok());
    EXPECT_EQ(label, static_cast<int32_t>(i));
    EXPECT_EQ(pixels[0], static_cast<float>(i) / 255);
    EXPECT_EQ(pixels[1030], static_cast<float>(1030 % 251 + i) / 255);
  }
  ASSERT_TRUE(sets->test->Read({0, 0}, {.values = pixels, .labels = {&label, 1}}).ok());
  EXPECT_EQ(label, 3);
}

TEST(CifarTest, OfAHundredTheFineClassCounts) {
  ScratchFolder folder;
  WriteFile(folder.File("train.bin"), Record(std::string("\23\0", 2)) + Record("\1\143"));
  WriteFile(folder.File("test.bin"), Record("\1\5"));
  const auto sets = LoadCifar(CifarKind::kCifar100, folder.path());
  ASSERT_TRUE(sets.ok()) << sets.status();
  EXPECT_EQ(sets->train->shape().classes, 100);
  std::vector<float> pixels(3072);
  int32_t label = -1;
  ASSERT_TRUE(sets->train->Read({0, 0}, {.values = pixels, .labels = {&label, 1}}).ok());
  EXPECT_EQ(label, 0);
  ASSERT_TRUE(sets->train->Read({0, 1}, {.values = pixels, .labels = {&label, 1}}).ok());
  EXPECT_EQ(label, 99);
  EXPECT_EQ(pixels[0], 99.0f / 255);
}

TEST(CifarTest, MissingFilesAreNamed) {
  ScratchFolder folder;
  WriteCifar10(folder);
  std::filesystem::remove(folder.File("data_batch_4.bin"));
  EXPECT_THAT(Error(CifarKind::kCifar10, folder.path()),
              AllOf(HasSubstr(folder.path()), HasSubstr("lacks data_batch_4.bin;"),
                    HasSubstr("cifar-10-batches-bin")));
  EXPECT_THAT(Error(CifarKind::kCifar100, "/nowhere"),
              AllOf(HasSubstr("/nowhere is no folder"), HasSubstr("train.bin, test.bin")));
  std::filesystem::create_directory(folder.File("cifar-100-binary"));
  EXPECT_THAT(Error(CifarKind::kCifar100, folder.path()),
              HasSubstr("set data.path to " + folder.File("cifar-100-binary")));
}

TEST(CifarTest, DamageIsNamedWithItsPlace) {
  ScratchFolder folder;
  WriteCifar10(folder);
  const std::string path = folder.File("data_batch_2.bin");
  const std::string whole = ReadFile(path);
  WriteFile(path, whole.substr(0, 3073 + 100));
  EXPECT_THAT(Error(CifarKind::kCifar10, folder.path()),
              AllOf(HasSubstr(path), HasSubstr("record 1, which begins at byte 3073"),
                    HasSubstr("100 of 3073 bytes"), HasSubstr("fetch it again")));
  std::string wrong = whole;
  wrong[3073] = 10;
  WriteFile(path, wrong);
  EXPECT_THAT(Error(CifarKind::kCifar10, folder.path()),
              AllOf(HasSubstr(path), HasSubstr("the class at byte 3073 is 10")));
  WriteFile(path, "");
  EXPECT_THAT(Error(CifarKind::kCifar10, folder.path()),
              AllOf(HasSubstr(path), HasSubstr("empty")));
}

}  // namespace
}  // namespace psgd
