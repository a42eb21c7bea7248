// Drawings as SVG text. Colours are classes, so that a page, or the drawing by itself, decides
// about light and dark.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace psgd {

// Text for use in HTML and SVG, also within quotes.
std::string Escaped(absl::string_view text);

// The styles of all classes that drawings use: c0 to c7 are the colours of series.
extern const char kDrawingStyle[];
inline constexpr int kSeriesColors = 8;

enum class Anchor { kStart, kMiddle, kEnd };

// Not thread-safe.
class Svg {
 public:
  // `title` and `description` are what a screen reader says of it.
  Svg(double width, double height, std::string id, std::string title, std::string description);

  void Line(double x1, double y1, double x2, double y2, absl::string_view css_class);
  void Rect(double x, double y, double width, double height, absl::string_view css_class,
            absl::string_view tip = "");
  void Polyline(const std::vector<std::pair<double, double>>& points, absl::string_view css_class,
                absl::string_view tip = "");
  // Circle, square, triangle, diamond, cross or, for what others are compared with, a star.
  void Marker(int shape, double x, double y, double size, absl::string_view css_class,
              absl::string_view tip = "");
  void Text(double x, double y, Anchor anchor, absl::string_view text,
            absl::string_view css_class = "");
  // Upwards, for the label of an axis.
  void TextUp(double x, double y, absl::string_view text);

  // For a page that has the styles.
  std::string Inline() const;
  // A file by itself.
  std::string Document() const;

  double width() const { return width_; }
  double height() const { return height_; }

  static constexpr int kShapes = 5;
  static constexpr int kStar = 5;

 private:
  std::string Wrapped(absl::string_view attributes, absl::string_view style) const;
  void Shape(absl::string_view element, absl::string_view css_class, absl::string_view tip);

  const double width_;
  const double height_;
  const std::string id_;
  const std::string title_;
  const std::string description_;
  std::string body_;
};

}  // namespace psgd
