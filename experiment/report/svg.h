// Drawings as SVG text. Colors are CSS classes, so the page or the drawing's own style handles
// light and dark mode.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace psgd {

// Escapes text for HTML and SVG, also inside quotes.
std::string Escaped(absl::string_view text);

// The styles of all classes in drawings. c0 to c7 are the colors of series.
extern const char kDrawingStyle[];
inline constexpr int kSeriesColors = 8;

enum class Anchor { kStart, kMiddle, kEnd };

// Not thread-safe.
class Svg {
 public:
  // Screen readers read out `title` and `description`.
  Svg(double width, double height, std::string id, std::string title, std::string description);

  void Line(double x1, double y1, double x2, double y2, absl::string_view css_class);
  void Rect(double x, double y, double width, double height, absl::string_view css_class,
            absl::string_view tip = "");
  void Polyline(const std::vector<std::pair<double, double>>& points, absl::string_view css_class,
                absl::string_view tip = "");
  // Draws a circle, square, triangle, diamond or cross. A star marks what others are compared with.
  void Marker(int shape, double x, double y, double size, absl::string_view css_class,
              absl::string_view tip = "");
  void Text(double x, double y, Anchor anchor, absl::string_view text,
            absl::string_view css_class = "");
  // Draws text upwards, for the label of an axis.
  void TextUp(double x, double y, absl::string_view text);

  // SVG for a page that includes the styles.
  std::string Inline() const;
  // SVG for a file of its own.
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
