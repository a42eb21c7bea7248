// PNG files of any kind for tests, sound until a test damages them.
#pragma once

#include <png.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "data/picture.h"

namespace psgd {

struct PngKind {
  int color = PNG_COLOR_TYPE_RGB;
  int bits = 8;
  bool interlaced = false;
  std::vector<png_color> palette = {};
};

// `rows`: the bytes of all rows as the kind has them.
inline std::string PngOf(int width, int height, const std::string& rows, const PngKind& kind = {}) {
  std::string bytes;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  png_set_write_fn(
      png, &bytes,
      [](png_structp writer, png_bytep data, size_t size) {
        static_cast<std::string*>(png_get_io_ptr(writer))
            ->append(reinterpret_cast<const char*>(data), size);
      },
      nullptr);
  png_set_IHDR(png, info, static_cast<png_uint_32>(width), static_cast<png_uint_32>(height),
               kind.bits, kind.color, kind.interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  if (!kind.palette.empty()) {
    png_set_PLTE(png, info, kind.palette.data(), static_cast<int>(kind.palette.size()));
  }
  png_write_info(png, info);
  const size_t each = png_get_rowbytes(png, info);
  std::vector<png_bytep> places;
  for (int y = 0; y < height; ++y) {
    places.push_back(reinterpret_cast<png_bytep>(const_cast<char*>(rows.data())) +
                     static_cast<size_t>(y) * each);
  }
  png_write_image(png, places.data());
  png_write_end(png, info);
  png_destroy_write_struct(&png, &info);
  return bytes;
}

// The PNG of a picture with three channels or one.
inline std::string PngOf(const Picture& picture, bool interlaced = false) {
  const std::string rows(picture.pixels.get(), picture.pixels.get() + picture.bytes());
  return PngOf(picture.width, picture.height, rows,
               {.color = picture.channels == 1 ? PNG_COLOR_TYPE_GRAY : PNG_COLOR_TYPE_RGB,
                .interlaced = interlaced});
}

}  // namespace psgd
