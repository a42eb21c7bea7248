// Pictures, JPEG files and tar archives for tests, sound until a test damages them.
#pragma once

#include <cstdio>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "data/jpeg.h"
#include "tests/unit/data/scratch.h"

namespace psgd {

// `value(x, y, channel)` gives each byte.
inline Picture PictureOf(int width, int height, int channels,
                         const std::function<int(int, int, int)>& value) {
  Picture picture(width, height, channels);
  size_t at = 0;
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      for (int c = 0; c < channels; ++c) {
        picture.pixels[at++] = static_cast<uint8_t>(value(x, y, c));
      }
    }
  }
  return picture;
}

// Red grows to the right, green downward; both reach 255 at the last pixel. Blue is `blue`.
inline Picture Gradient(int width, int height, int blue = 128) {
  return PictureOf(width, height, 3, [=](int x, int y, int c) {
    return c == 0 ? 255 * x / (width - 1) : c == 1 ? 255 * y / (height - 1) : blue;
  });
}

inline std::string JpegOf(const Picture& picture, int quality = 95) {
  const auto bytes = EncodeJpeg(picture, quality);
  EXPECT_TRUE(bytes.ok()) << bytes.status();
  return {bytes->begin(), bytes->end()};
}

inline std::span<const uint8_t> BytesOf(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

inline void WriteInFolder(const std::string& path, const std::string& contents) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  WriteFile(path, contents);
}

inline std::string PgmOf(const Picture& mask) {
  return "P5\n# classes\n" + std::to_string(mask.width) + " " + std::to_string(mask.height) +
         "\n255\n" + std::string(mask.pixels.get(), mask.pixels.get() + mask.bytes());
}

// Sets the checksum last, because it covers the earlier changes.
inline void SealTarHeader(std::string* header) {
  header->replace(148, 8, 8, ' ');
  unsigned sum = 0;
  for (size_t i = 0; i < 512; ++i) sum += static_cast<uint8_t>((*header)[i]);
  char text[8];
  std::snprintf(text, sizeof text, "%06o", sum);
  header->replace(148, 7, std::string(text, 7));
}

inline std::string TarHeader(const std::string& name, uint64_t size, char type = '0') {
  std::string header(512, '\0');
  header.replace(0, std::min<size_t>(name.size(), 100), name.substr(0, 100));
  char text[13];
  std::snprintf(text, sizeof text, "%011llo", static_cast<unsigned long long>(size));
  header.replace(124, 11, text, 11);
  header[156] = type;
  header.replace(257, 5, "ustar");
  header.replace(263, 2, "00");
  SealTarHeader(&header);
  return header;
}

inline std::string TarPadded(std::string data) {
  data.resize((data.size() + 511) / 512 * 512, '\0');
  return data;
}

inline std::string TarFile(const std::string& name, const std::string& data, char type = '0') {
  return TarHeader(name, data.size(), type) + TarPadded(data);
}

inline std::string TarEnd() { return std::string(1024, '\0'); }

}  // namespace psgd
