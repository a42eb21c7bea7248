#include "data/png.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/picture_reader.h"
#include "data/resample.h"
#include "tests/unit/data/picture_files.h"
#include "tests/unit/data/png_files.h"

namespace psgd {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

absl::StatusOr<Picture> DecodePng(const std::string& png, int shrink = 1) {
  PSGD_ASSIGN_OR_RETURN(const PngReader reader, PngReader::Open(BytesOf(png)));
  return reader.Decode(shrink);
}

absl::StatusOr<Picture> Values(const std::string& png) {
  PSGD_ASSIGN_OR_RETURN(const PngReader reader, PngReader::Open(BytesOf(png)));
  return reader.DecodeValues();
}

std::vector<int> BytesIn(const absl::StatusOr<Picture>& picture) {
  EXPECT_TRUE(picture.ok()) << picture.status();
  if (!picture.ok()) return {};
  return {picture->pixels.get(), picture->pixels.get() + picture->bytes()};
}

TEST(PngTest, DecodesWhatWasEncoded) {
  const Picture picture = Gradient(13, 9);
  const std::vector<int> pixels(picture.pixels.get(), picture.pixels.get() + picture.bytes());
  for (const bool interlaced : {false, true}) {
    EXPECT_EQ(BytesIn(DecodePng(PngOf(picture, interlaced))), pixels);
  }
}

TEST(PngTest, EveryKindBecomesRedGreenAndBlue) {
  EXPECT_THAT(BytesIn(DecodePng(PngOf(2, 1, "\x10\xF0", {.color = PNG_COLOR_TYPE_GRAY}))),
              ElementsAre(16, 16, 16, 240, 240, 240));
  const std::string one_bit = "\x40";  // black, white
  EXPECT_THAT(BytesIn(DecodePng(PngOf(2, 1, one_bit, {.color = PNG_COLOR_TYPE_GRAY, .bits = 1}))),
              ElementsAre(0, 0, 0, 255, 255, 255));
  const std::vector<png_color> palette = {{1, 2, 3}, {250, 0, 9}};
  EXPECT_THAT(BytesIn(DecodePng(PngOf(2, 1, std::string("\x01\x00", 2),
                                      {.color = PNG_COLOR_TYPE_PALETTE, .palette = palette}))),
              ElementsAre(250, 0, 9, 1, 2, 3));
  // Alpha is left out, not blended.
  const std::string transparent("\x0A\x14\x1E\x00\x28\x32\x3C\x80", 8);
  EXPECT_THAT(BytesIn(DecodePng(PngOf(2, 1, transparent, {.color = PNG_COLOR_TYPE_RGB_ALPHA}))),
              ElementsAre(10, 20, 30, 40, 50, 60));
  EXPECT_THAT(BytesIn(DecodePng(PngOf(1, 1, "\x64\x01", {.color = PNG_COLOR_TYPE_GRAY_ALPHA}))),
              ElementsAre(100, 100, 100));
  // 16 bits, the high byte first: 0x10FF rounds to 0x11.
  const std::string deep("\x10\xFF\xFF\xFF\x00\x00", 6);
  EXPECT_THAT(BytesIn(DecodePng(PngOf(1, 1, deep, {.bits = 16}))), ElementsAre(17, 255, 0));
}

TEST(PngTest, ShrinksToMeans) {
  const Picture picture = PictureOf(5, 3, 3, [](int x, int y, int c) { return 10 * x + y + c; });
  const auto shrunk = DecodePng(PngOf(picture), 2);
  ASSERT_TRUE(shrunk.ok()) << shrunk.status();
  EXPECT_EQ(shrunk->width, 3);
  EXPECT_EQ(shrunk->height, 2);
  EXPECT_EQ(shrunk->row(0)[0], 6);           // of 0, 10, 1 and 11: 5.5
  EXPECT_EQ(shrunk->row(0)[3 * 2], 41);      // of 40 and 41, the last column alone: 40.5
  EXPECT_EQ(shrunk->row(1)[3 * 2 + 2], 44);  // the corner alone
}

TEST(PngTest, MasksKeepTheirNumbers) {
  const std::string rows("\x00\x01\x07\xFF", 4);
  EXPECT_THAT(BytesIn(Values(PngOf(4, 1, rows, {.color = PNG_COLOR_TYPE_GRAY}))),
              ElementsAre(0, 1, 7, 255));
  const std::vector<png_color> palette(16, {9, 9, 9});
  EXPECT_THAT(BytesIn(Values(PngOf(
                  2, 1, "\x3C", {.color = PNG_COLOR_TYPE_PALETTE, .bits = 4, .palette = palette}))),
              ElementsAre(3, 12));
  EXPECT_THAT(std::string(Values(PngOf(Gradient(3, 3))).status().message()),
              HasSubstr("a mask is grey or has a palette"));
}

TEST(PngTest, DamageIsAnError) {
  for (const bool interlaced : {false, true}) {
    const std::string png = PngOf(Gradient(24, 17), interlaced);
    for (size_t size = 0; size < png.size(); ++size) {
      const absl::Status status = DecodePng(png.substr(0, size)).status();
      ASSERT_TRUE(absl::IsDataLoss(status)) << size << ": " << status;
    }
    // Checksums cover every chunk.
    for (size_t i = 8; i < png.size(); ++i) {
      std::string damaged = png;
      damaged[i] = static_cast<char>(damaged[i] ^ 4);
      EXPECT_FALSE(DecodePng(damaged).ok()) << i;
    }
  }
  EXPECT_THAT(std::string(DecodePng(PngOf(Gradient(9, 9)).substr(0, 60)).status().message()),
              HasSubstr("cannot be decoded: the PNG data end early"));
}

TEST(PngTest, SizeIsCheckedBeforeMemoryIsTaken) {
  std::string png = PngOf(Gradient(4, 4));
  // Width and height, in the header, whose checksum is not reached.
  png.replace(16, 8, std::string("\x00\x00\xFF\xFF\x00\x00\xFF\xFF", 8));
  EXPECT_FALSE(DecodePng(png).ok());
  png.replace(16, 8, std::string("\x7F\xFF\xFF\xFF\x7F\xFF\xFF\xFF", 8));
  EXPECT_FALSE(DecodePng(png).ok());
}

TEST(PictureReaderTest, TheFirstBytesTellTheKind) {
  const std::string jpeg = JpegOf(Gradient(20, 10)), png = PngOf(Gradient(21, 10));
  for (const auto& [bytes, width] : {std::pair{jpeg, 20}, std::pair{png, 21}}) {
    const auto reader = PictureReader::Open(BytesOf(bytes));
    ASSERT_TRUE(reader.ok()) << reader.status();
    EXPECT_EQ(reader->width(), width);
    EXPECT_EQ(reader->height(), 10);
  }
  const auto error = [](const std::string& bytes) {
    return std::string(PictureReader::Open(BytesOf(bytes)).status().message());
  };
  EXPECT_THAT(error(""), HasSubstr("is empty"));
  EXPECT_THAT(error("GIF89a..........."), HasSubstr("does not begin as a JPEG or a PNG does"));
  EXPECT_THAT(error(png.substr(0, 5)), HasSubstr("does not begin as a JPEG or a PNG does"));
}

TEST(PictureReaderTest, OneChannelIsGrey) {
  const std::string png = PngOf(PictureOf(4, 4, 3, [](int, int, int c) { return 50 * (c + 1); }));
  const std::span<const uint8_t> bytes = BytesOf(png);
  const auto reader = PictureReader::Open(bytes);
  ASSERT_TRUE(reader.ok()) << reader.status();
  std::vector<float> grey(2 * 2);
  ASSERT_TRUE(reader->ReadView({.window = {0, 0, 4, 4}}, 2, grey).ok());
  for (const float pixel : grey) {
    EXPECT_NEAR(pixel, (0.299 * 50 + 0.587 * 100 + 0.114 * 150) / 255, 1e-6);
  }
}

// A PNG is seen as a JPEG of the same picture.
TEST(PictureReaderTest, BothKindsGiveTheSameView) {
  const Picture picture = Gradient(90, 70);
  std::vector<std::vector<float>> views;
  for (const std::string& bytes : {JpegOf(picture, 100), PngOf(picture)}) {
    const auto reader = PictureReader::Open(BytesOf(bytes));
    ASSERT_TRUE(reader.ok()) << reader.status();
    std::vector<float>& pixels = views.emplace_back(3 * 16 * 16);
    const View view{.window = {10, 5, 60, 60}, .mirrored = true};
    ASSERT_TRUE(reader->ReadView(view, 16, pixels).ok());
  }
  for (size_t i = 0; i < views[0].size(); ++i) EXPECT_NEAR(views[0][i], views[1][i], 0.02) << i;
}

}  // namespace
}  // namespace psgd
