#include "data/resample.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace psgd {
namespace {

// The two source pixels around a target pixel, and how near the target is to the second.
struct Taps {
  int first = 0;
  int second = 0;
  float share = 0;
};

// One axis: maps `length` source pixels from `start` on to `size`; the source has `limit` pixels.
std::vector<Taps> AxisTaps(double start, double length, int size, int limit, bool mirrored) {
  std::vector<Taps> taps(static_cast<size_t>(size));
  for (int i = 0; i < size; ++i) {
    const double at = std::clamp(start + (i + 0.5) * length / size - 0.5, 0.0, limit - 1.0);
    const int first = static_cast<int>(at);
    taps[static_cast<size_t>(mirrored ? size - 1 - i : i)] = {first, std::min(first + 1, limit - 1),
                                                              static_cast<float>(at - first)};
  }
  return taps;
}

}  // namespace

int ShrinkFor(const Window& window, int size) {
  int shrink = 1;
  while (shrink < 8 && std::min(window.width, window.height) / (2 * shrink) >= size) shrink *= 2;
  return shrink;
}

Picture Shrink(const Picture& picture, int factor) {
  Picture shrunk((picture.width + factor - 1) / factor, (picture.height + factor - 1) / factor,
                 picture.channels);
  const auto channels = static_cast<size_t>(picture.channels);
  std::vector<uint32_t> sums(shrunk.row_bytes());
  for (int y = 0; y < shrunk.height; ++y) {
    std::ranges::fill(sums, 0);
    const int first = y * factor, rows = std::min(factor, picture.height - first);
    for (int row = first; row < first + rows; ++row) {
      const uint8_t* from = picture.row(row);
      for (int x = 0; x < shrunk.width; ++x) {
        uint32_t* sum = sums.data() + static_cast<size_t>(x) * channels;
        const int columns = std::min(factor, picture.width - x * factor);
        for (int i = 0; i < columns; ++i) {
          for (size_t c = 0; c < channels; ++c) sum[c] += *from++;
        }
      }
    }
    uint8_t* to = shrunk.pixels.get() + static_cast<size_t>(y) * shrunk.row_bytes();
    for (size_t i = 0; i < sums.size(); ++i) {
      const int left = static_cast<int>(i / channels) * factor;
      const auto count = static_cast<uint32_t>(rows * std::min(factor, picture.width - left));
      to[i] = static_cast<uint8_t>((sums[i] + count / 2) / count);
    }
  }
  return shrunk;
}

void ResampleColours(const Picture& shrunk, int shrink, const View& view, int size,
                     std::span<float> planes) {
  const double scale = 1.0 / shrink;
  const Window& window = view.window;
  const std::vector<Taps> columns =
      AxisTaps(window.left * scale, window.width * scale, size, shrunk.width, view.mirrored);
  const std::vector<Taps> rows =
      AxisTaps(window.top * scale, window.height * scale, size, shrunk.height, /*mirrored=*/false);
  const auto channels = static_cast<size_t>(shrunk.channels);
  const auto side = static_cast<size_t>(size);
  const size_t begin =
      static_cast<size_t>(std::min(columns.front().first, columns.back().first)) * channels;
  const size_t end =
      (static_cast<size_t>(std::max(columns.front().second, columns.back().second)) + 1) * channels;
  // Rows are mixed first, which runs on vectors, then the pixels of the mixed row.
  std::vector<float> mixed(end);
  for (size_t y = 0; y < side; ++y) {
    const uint8_t* upper = shrunk.row(rows[y].first);
    const uint8_t* lower = shrunk.row(rows[y].second);
    const float share = rows[y].share;
    for (size_t i = begin; i < end; ++i) {
      const float from = upper[i], to = lower[i];
      mixed[i] = from + share * (to - from);
    }
    for (size_t c = 0; c < channels; ++c) {
      float* out = planes.data() + (c * side + y) * side;
      for (size_t x = 0; x < side; ++x) {
        const float from = mixed[static_cast<size_t>(columns[x].first) * channels + c];
        const float to = mixed[static_cast<size_t>(columns[x].second) * channels + c];
        out[x] = (from + columns[x].share * (to - from)) * (1.0f / 255.0f);
      }
    }
  }
}

void ResampleNearest(const Picture& picture, const View& view, int size,
                     std::span<int32_t> values) {
  const Window& window = view.window;
  const auto nearest = [&](double start, double length, int i, int limit) {
    return std::clamp(static_cast<int>(std::floor(start + (i + 0.5) * length / size)), 0,
                      limit - 1);
  };
  size_t at = 0;
  for (int y = 0; y < size; ++y) {
    const uint8_t* row = picture.row(nearest(window.top, window.height, y, picture.height));
    for (int i = 0; i < size; ++i) {
      const int x = view.mirrored ? size - 1 - i : i;
      values[at++] = row[nearest(window.left, window.width, x, picture.width)];
    }
  }
}

}  // namespace psgd
