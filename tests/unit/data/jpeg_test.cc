#include "data/jpeg.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/resample.h"
#include "tests/unit/data/picture_files.h"

namespace psgd {
namespace {

using testing::HasSubstr;

absl::StatusOr<Picture> Decode(const std::string& jpeg, int shrink = 1) {
  PSGD_ASSIGN_OR_RETURN(const JpegReader reader, JpegReader::Open(BytesOf(jpeg)));
  return reader.Decode(shrink);
}

TEST(JpegTest, DecodesWhatWasEncoded) {
  const Picture picture = Gradient(64, 48);
  const auto decoded = Decode(JpegOf(picture));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  ASSERT_EQ(decoded->width, 64);
  ASSERT_EQ(decoded->height, 48);
  for (size_t i = 0; i < picture.bytes(); ++i) {
    ASSERT_NEAR(decoded->pixels[i], picture.pixels[i], 16) << i;
  }
}

TEST(JpegTest, ShrinksWhileDecoding) {
  const std::string jpeg = JpegOf(Gradient(130, 70));
  for (const int shrink : {2, 4, 8}) {
    const auto decoded = Decode(jpeg, shrink);
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_EQ(decoded->width, (130 + shrink - 1) / shrink);
    EXPECT_EQ(decoded->height, (70 + shrink - 1) / shrink);
    const uint8_t* middle = decoded->row(decoded->height / 2) + 3 * (decoded->width / 2);
    EXPECT_NEAR(middle[0], 128, 12);
    EXPECT_NEAR(middle[1], 128, 12);
  }
}

TEST(JpegTest, DamageIsAnError) {
  const std::string jpeg = JpegOf(Gradient(64, 48));
  EXPECT_TRUE(absl::IsDataLoss(Decode("").status()));
  EXPECT_TRUE(absl::IsDataLoss(Decode("\x89PNG\r\n").status()));
  for (size_t size = 0; size < jpeg.size(); size += 13) {
    EXPECT_TRUE(absl::IsDataLoss(Decode(jpeg.substr(0, size)).status())) << size;
  }
  // Any other change gives a picture or an error, but no crash.
  for (size_t i = 0; i < jpeg.size(); i += 3) {
    std::string damaged = jpeg;
    damaged[i] = static_cast<char>(~damaged[i]);
    (void)Decode(damaged);
  }
}

TEST(JpegTest, SizeIsCheckedBeforeMemoryIsTaken) {
  std::string jpeg = JpegOf(Gradient(64, 48));
  const size_t frame = jpeg.find("\xff\xc0");
  ASSERT_NE(frame, std::string::npos);
  jpeg.replace(frame + 5, 4, std::string("\xf0\0\xf0\0", 4));  // height and width
  EXPECT_THAT(std::string(Decode(jpeg).status().message()),
              HasSubstr("announces 61440x61440 pixels"));
}

std::vector<float> Resampled(const Picture& picture, const View& view, int size) {
  std::vector<float> planes(3 * static_cast<size_t>(size) * static_cast<size_t>(size));
  ResampleColours(picture, 1, view, size, planes);
  return planes;
}

TEST(ResampleTest, SameSizeIsACopy) {
  const Picture picture =
      PictureOf(8, 8, 3, [](int x, int y, int c) { return 30 * x + y + 5 * c; });
  const std::vector<float> copy = Resampled(picture, {{0, 0, 8, 8}, false}, 8);
  const std::vector<float> mirrored = Resampled(picture, {{0, 0, 8, 8}, true}, 8);
  for (int c = 0; c < 3; ++c) {
    for (int y = 0; y < 8; ++y) {
      for (int x = 0; x < 8; ++x) {
        const float expected = static_cast<float>(30 * x + y + 5 * c) / 255;
        ASSERT_NEAR(copy[static_cast<size_t>((c * 8 + y) * 8 + x)], expected, 1e-6);
        ASSERT_NEAR(mirrored[static_cast<size_t>((c * 8 + y) * 8 + 7 - x)], expected, 1e-6);
      }
    }
  }
}

// A linear picture stays linear at any size: away from the edges, bilinear is exact.
TEST(ResampleTest, LinearStaysLinear) {
  const Picture picture = PictureOf(50, 40, 3, [](int x, int y, int) { return 4 * x + y; });
  const Window window{10, 5, 24, 30};
  const int size = 17;
  const std::vector<float> planes = Resampled(picture, {window, false}, size);
  for (int y = 0; y < size; ++y) {
    for (int x = 0; x < size; ++x) {
      const double from_x = window.left + (x + 0.5) * window.width / size - 0.5;
      const double from_y = window.top + (y + 0.5) * window.height / size - 0.5;
      ASSERT_NEAR(planes[static_cast<size_t>(y * size + x)], (4 * from_x + from_y) / 255, 1e-5);
    }
  }
}

TEST(ResampleTest, ShrunkDecodingShowsTheSame) {
  const std::string jpeg = JpegOf(Gradient(640, 480), 98);
  const View view{{80, 40, 512, 400}, false};
  EXPECT_EQ(ShrinkFor(view.window, 50), 8);
  EXPECT_EQ(ShrinkFor(view.window, 51), 4);
  EXPECT_EQ(ShrinkFor(view.window, 201), 1);
  const auto whole = Decode(jpeg), shrunk = Decode(jpeg, 8);
  ASSERT_TRUE(whole.ok() && shrunk.ok());
  std::vector<float> a(3 * 50 * 50), b(3 * 50 * 50);
  ResampleColours(*whole, 1, view, 50, a);
  ResampleColours(*shrunk, 8, view, 50, b);
  for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 0.02) << i;
}

TEST(ResampleTest, NearestInventsNoClasses) {
  const Picture mask =
      PictureOf(9, 9, 1, [](int x, int y, int) { return (x < 5) == (y < 5) ? 1 : 7; });
  std::vector<int32_t> values(16 * 16);
  ResampleNearest(mask, {{1, 1, 7, 7}, false}, 16, values);
  for (const int32_t value : values) EXPECT_TRUE(value == 1 || value == 7);
  std::vector<int32_t> same(81), mirrored(81);
  ResampleNearest(mask, {{0, 0, 9, 9}, false}, 9, same);
  ResampleNearest(mask, {{0, 0, 9, 9}, true}, 9, mirrored);
  for (size_t i = 0; i < 81; ++i) {
    EXPECT_EQ(same[i], mask.pixels[i]);
    EXPECT_EQ(mirrored[i], mask.pixels[i / 9 * 9 + 8 - i % 9]);
  }
}

}  // namespace
}  // namespace psgd
