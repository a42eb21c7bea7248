#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include "data/batch.h"
#include "data/open_data.h"
#include "data/pgm.h"
#include "tests/unit/data/picture_files.h"
#include "tests/unit/data/png_files.h"

namespace psgd {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;

constexpr int kSide = 48;

// Pixels are bright where the class is 1. A column of pixels in the middle does not count.
int ClassAt(int x, int y, int i) { return (x + 3 * i) / 16 % 2 == y / 16 % 2 ? 1 : 0; }

void WritePairs(const ScratchFolder& folder, const std::string& set, int count) {
  for (int i = 0; i < count; ++i) {
    const std::string stem = folder.File(set) + "/";
    WriteInFolder(stem + "images/p" + std::to_string(i) + ".jpg",
                  JpegOf(PictureOf(kSide, kSide, 3, [&](int x, int y, int) {
                    return ClassAt(x, y, i) == 1 ? 250 : 5;
                  })));
    WriteInFolder(stem + "masks/p" + std::to_string(i) + ".pgm",
                  PgmOf(PictureOf(kSide, kSide, 1, [&](int x, int y, int) {
                    return x == 20 ? 255 : ClassAt(x, y, i);
                  })));
  }
}

DataConfig Config(const std::string& path, const std::string& more = "") {
  DataConfig config;
  const std::string text = "format: SEGMENTATION path: \"" + path +
                           "\" batch: 2 mean: [0, 0, 0] stddev: [1, 1, 1] images { size: 32 "
                           "resize: 32 classes: 2 } " +
                           more;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &config)) << text;
  return config;
}

class SegmentationTest : public testing::Test {
 protected:
  SegmentationTest() {
    WritePairs(folder_, "train", 4);
    WritePairs(folder_, "test", 3);
  }
  std::string ReadError() {
    const auto sets = OpenData(Config(folder_.path()), 1);
    if (!sets.ok()) return std::string(sets.status().message());
    std::vector<float> pixels(3 * 32 * 32);
    std::vector<int32_t> labels(32 * 32);
    return std::string(sets->train->Read({0, 0}, {.values = pixels, .labels = labels}).message());
  }
  ScratchFolder folder_;
};

// Labels follow their pixels through every cut, mirroring and size.
TEST_F(SegmentationTest, ImageAndMaskAreCutAlike) {
  const auto sets =
      OpenData(Config(folder_.path(), "augment { resized_crop: true flip: true }"), 1);
  ASSERT_TRUE(sets.ok()) << sets.status();
  EXPECT_EQ(sets->shape.labels(), 32u * 32);
  EXPECT_EQ(sets->shape.classes, 2);
  std::vector<float> pixels(3 * 32 * 32);
  std::vector<int32_t> labels(32 * 32);
  int counted = 0, fitting = 0, ignored = 0;
  for (uint32_t epoch = 0; epoch < 10; ++epoch) {
    for (uint64_t i = 0; i < 4; ++i) {
      ASSERT_TRUE(sets->train->Read({epoch, i}, {.values = pixels, .labels = labels}).ok());
      for (size_t p = 0; p < labels.size(); ++p) {
        ignored += labels[p] == -1;
        if (labels[p] == -1) continue;
        ++counted;
        fitting += (pixels[p] > 0.5f) == (labels[p] == 1);
      }
    }
  }
  EXPECT_GT(ignored, 0);
  EXPECT_GT(fitting, counted * 0.95) << "all but the pixels along the borders of classes";
}

TEST_F(SegmentationTest, BatchesHaveALabelEachPixel) {
  const auto sets = OpenData(Config(folder_.path()), 1);
  ASSERT_TRUE(sets.ok()) << sets.status();
  EvaluationBatches batches(sets->test, 2);
  ASSERT_EQ(batches.size(), 2u);
  const auto last = batches.Read(1);
  ASSERT_TRUE(last.ok()) << last.status();
  ASSERT_EQ(last->labels.size(), 2u * 32 * 32);
  EXPECT_THAT(last->labels.subspan(32 * 32), Each(-1));
  EXPECT_THAT(last->pixels.subspan(3 * 32 * 32), Each(0.0f));
}

TEST_F(SegmentationTest, MaskOfAnotherSize) {
  WriteFile(folder_.File("train/masks/p0.pgm"),
            PgmOf(PictureOf(kSide, kSide - 1, 1, [](int, int, int) { return 0; })));
  EXPECT_THAT(ReadError(), AllOf(HasSubstr("masks/p0.pgm: is 48x47"), HasSubstr("images/p0.jpg"),
                                 HasSubstr("48x48")));
}

TEST_F(SegmentationTest, ClassBeyondTheLast) {
  WriteFile(folder_.File("train/masks/p0.pgm"),
            PgmOf(PictureOf(kSide, kSide, 1, [](int, int, int) { return 2; })));
  EXPECT_THAT(ReadError(), AllOf(HasSubstr("p0.pgm"), HasSubstr("class 2"),
                                 HasSubstr("data.images.classes is 2")));
}

// Masks of 0 and 255, where 255 does not count, have one class.
TEST_F(SegmentationTest, MasksOfOneClass) {
  const auto write = [&](int low, int high) {
    for (int i = 0; i < 4; ++i) {
      WriteFile(
          folder_.File("train/masks/p" + std::to_string(i) + ".pgm"),
          PgmOf(PictureOf(kSide, kSide, 1, [&](int x, int, int) { return x < 20 ? low : high; })));
    }
  };
  const auto open = [&] { return OpenData(Config(folder_.path()), 1); };
  write(0, 255);
  EXPECT_THAT(
      std::string(open().status().message()),
      AllOf(HasSubstr("train/masks: the masks have 255, which is not counted, and the class "
                      "0 alone"),
            HasSubstr("divide by 255 (mask // 255)")));
  write(255, 255);
  EXPECT_THAT(std::string(open().status().message()), HasSubstr("and no class"));
  write(0, 127);
  EXPECT_THAT(
      std::string(open().status().message()),
      AllOf(HasSubstr("p0.pgm: has a pixel of class 127"), HasSubstr("data.images.classes is 2")));
  write(1, 1);
  ASSERT_TRUE(open().ok()) << open().status();
  EXPECT_THAT(open()->note, HasSubstr("train/masks: all pixels are of class 1"));
  write(0, 1);
  EXPECT_EQ(open()->note, "");
}

TEST_F(SegmentationTest, OpeningLooksAtSomeOfManyMasks) {
  const auto mask = [&](int i, int value) {
    const std::string stem = std::to_string(1000 + i);
    WriteInFolder(folder_.File("train/images/p" + stem + ".jpg"), "");
    WriteInFolder(folder_.File("train/masks/p" + stem + ".pgm"),
                  PgmOf(PictureOf(1, 1, 1, [&](int, int, int) { return value; })));
  };
  std::filesystem::remove_all(folder_.File("train"));
  for (int i = 0; i < 200; ++i) mask(i, 0);
  mask(199, 9);
  auto sets = OpenData(Config(folder_.path()), 1);
  ASSERT_TRUE(sets.ok()) << sets.status();
  EXPECT_EQ(sets->note, "") << "the others may have objects";
  mask(0, 255);
  EXPECT_THAT(OpenData(Config(folder_.path()), 1)->note,
              HasSubstr("100 of the masks have 255, which is not counted, and the class 0 alone"));
  mask(198, 9);
  EXPECT_THAT(std::string(OpenData(Config(folder_.path()), 1).status().message()),
              HasSubstr("p1198.pgm: has a pixel of class 9"));
}

TEST_F(SegmentationTest, MissingMaskAndDamagedFiles) {
  WriteFile(folder_.File("train/images/p0.jpg"), "not a JPEG");
  EXPECT_THAT(ReadError(), AllOf(HasSubstr("images/p0.jpg"), HasSubstr("JPEG or a PNG")));
  WriteFile(folder_.File("train/masks/p0.pgm"), "P2 1 1");
  EXPECT_THAT(ReadError(), AllOf(HasSubstr("masks/p0.pgm"), HasSubstr("P5")));
  std::filesystem::remove(folder_.File("test/masks/p1.pgm"));
  EXPECT_THAT(ReadError(),
              AllOf(HasSubstr("test/masks/p1.png (or .pgm)"), HasSubstr("needs a mask")));
}

// PNG images, one with a mask of grey values and one with a mask of places in a palette.
TEST(PngPairsTest, MasksMayBeGreyOrHaveAPalette) {
  ScratchFolder folder;
  std::string classes;
  for (int i = 0; i < 16 * 16; ++i) classes += static_cast<char>(i % 16 < 8 ? 1 : 0);
  const std::vector<png_color> palette = {{9, 9, 9}, {200, 0, 0}};
  for (const char* set : {"train", "test"}) {
    const std::string stem = folder.File(set) + "/";
    WriteInFolder(stem + "images/a.png", PngOf(Gradient(16, 16)));
    WriteInFolder(stem + "masks/a.png", PngOf(16, 16, classes, {.color = PNG_COLOR_TYPE_GRAY}));
    WriteInFolder(stem + "images/b.jpg", JpegOf(Gradient(16, 16)));
    WriteInFolder(stem + "masks/b.png",
                  PngOf(16, 16, classes, {.color = PNG_COLOR_TYPE_PALETTE, .palette = palette}));
  }
  const auto sets = OpenData(Config(folder.path()), 1);
  ASSERT_TRUE(sets.ok()) << sets.status();
  std::vector<float> pixels(3 * 32 * 32);
  std::vector<int32_t> labels(32 * 32);
  for (size_t i = 0; i < 2; ++i) {
    ASSERT_TRUE(sets->train->Read({0, i}, {.values = pixels, .labels = labels}).ok());
    for (int x = 0; x < 32; ++x) EXPECT_EQ(labels[static_cast<size_t>(x)], x < 16 ? 1 : 0);
  }
  WriteInFolder(folder.File("train/masks/a.png"), PngOf(Gradient(16, 16)));
  EXPECT_THAT(
      std::string(sets->train->Read({0, 0}, {.values = pixels, .labels = labels}).message()),
      AllOf(HasSubstr("masks/a.png"), HasSubstr("a mask is grey or has a palette")));
}

std::string PgmError(const std::string& bytes) {
  const auto picture = ParsePgm(BytesOf(bytes));
  return picture.ok() ? "no error" : std::string(picture.status().message());
}

TEST(PgmTest, OneImageAndNothingElse) {
  const auto picture = ParsePgm(BytesOf("P5 # two\n# comments\n 2\t1 255\n\1\377"));
  ASSERT_TRUE(picture.ok()) << picture.status();
  EXPECT_EQ(picture->width, 2);
  EXPECT_EQ(picture->height, 1);
  EXPECT_EQ(picture->pixels[1], 255);
  for (const char* bytes :
       {"", "P", "P5", "P5 ", "P5 2", "P5 2 1 255", "P5 2 1 65535\n12", "P5 0 1 255\n",
        "P5 -1 1 255\n1", "P5 99999999999 1 255\n1", "P5 2 1 255\n1", "P5 2 1 255\n123",
        "P5 65535 65535 255\n1", "P6 1 1 255\n1", "P5 #"}) {
    EXPECT_NE(PgmError(bytes), "no error") << bytes;
  }
}

}  // namespace
}  // namespace psgd
