#include "experiment/report/svg.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"

namespace psgd {
namespace {

constexpr double kPi = 3.14159265358979323846;

// A tenth of a unit is finer than any screen shows.
std::string N(double value) {
  std::string text = absl::StrFormat("%.1f", value);
  if (text.size() > 2 && text.substr(text.size() - 2) == ".0") text.resize(text.size() - 2);
  return text;
}

// The corners of a regular polygon. For a star, every second corner is nearer to the center.
std::string Corners(double x, double y, double radius, int corners, double turn, double inner) {
  std::string path;
  for (int i = 0; i < corners; ++i) {
    const double angle = turn + 2 * kPi * i / corners;
    const double r = i % 2 == 1 ? radius * inner : radius;
    absl::StrAppend(&path, i == 0 ? "M" : "L", N(x + r * std::sin(angle)), " ",
                    N(y - r * std::cos(angle)));
  }
  return path + "Z";
}

}  // namespace

// Colors that stay distinct with any color vision (after Okabe and Ito). They are darker on white
// and lighter on black, so that thin lines stay legible.
const char kDrawingStyle[] = R"css(
.plot{--c0:#0064a8;--c1:#c44e00;--c2:#00805c;--c3:#a8437f;--c4:#8a6a00;--c5:#2b7fb8;--c6:#6a4fb0;
--c7:#666;--ink:#1c1c1c;--soft:#666;--rule:#ddd;--paper:#fff;font:12px system-ui,sans-serif}
@media (prefers-color-scheme:dark){.plot{--c0:#6bb6ff;--c1:#ff9a57;--c2:#3fd0a4;--c3:#f09ad0;
--c4:#e6c34d;--c5:#8fd3ff;--c6:#b8a3ff;--c7:#aaa;--ink:#eee;--soft:#aaa;--rule:#3a3a3a;
--paper:#161616}}
@media print{.plot{--c0:#0064a8;--c1:#c44e00;--c2:#00805c;--c3:#a8437f;--c4:#8a6a00;--c5:#2b7fb8;
--c6:#6a4fb0;--c7:#666;--ink:#000;--soft:#444;--rule:#ccc;--paper:#fff}}
.plot .background{fill:var(--paper)}
.plot text{fill:var(--ink);stroke:var(--paper);stroke-width:3px;paint-order:stroke}
.plot text.soft{fill:var(--soft)}.plot text.strong{font-weight:600}
.plot .rule{stroke:var(--rule);stroke-width:1}.plot .axis{stroke:var(--soft);stroke-width:1}
.plot .ideal{stroke:var(--soft);stroke-width:1.5;stroke-dasharray:5 4;fill:none}
.plot .front{stroke:var(--ink);stroke-width:1.5;stroke-dasharray:2 3;fill:none}
.plot .ring{stroke:var(--ink);stroke-width:1.5;fill:none}
.plot .bar-error{stroke:var(--soft);stroke-width:1}
.plot .line{fill:none;stroke-width:1.8;stroke-linejoin:round}
.plot .line.faint{stroke-width:1;opacity:.35}
.plot .ink{fill:var(--ink);stroke:var(--ink)}.plot .line.ink{fill:none;stroke-width:2.4}
.plot .c0{fill:var(--c0);stroke:var(--c0)}.plot .c1{fill:var(--c1);stroke:var(--c1)}
.plot .c2{fill:var(--c2);stroke:var(--c2)}.plot .c3{fill:var(--c3);stroke:var(--c3)}
.plot .c4{fill:var(--c4);stroke:var(--c4)}.plot .c5{fill:var(--c5);stroke:var(--c5)}
.plot .c6{fill:var(--c6);stroke:var(--c6)}.plot .c7{fill:var(--c7);stroke:var(--c7)}
.plot .line.c0,.plot .line.c1,.plot .line.c2,.plot .line.c3,.plot .line.c4,.plot .line.c5,
.plot .line.c6,.plot .line.c7{fill:none}
.plot rect.c0,.plot rect.c1,.plot rect.c2,.plot rect.c3,.plot rect.c4,.plot rect.c5,.plot rect.c6,
.plot rect.c7,.plot rect.ink{stroke:none}
.plot .band{stroke:none;opacity:.16}
.plot .none{fill:none;stroke:var(--soft);stroke-dasharray:3 3}
)css";

std::string Escaped(absl::string_view text) {
  return absl::StrReplaceAll(
      text, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}, {"'", "&#39;"}});
}

Svg::Svg(double width, double height, std::string id, std::string title, std::string description)
    : width_(width),
      height_(height),
      id_(std::move(id)),
      title_(std::move(title)),
      description_(std::move(description)) {}

void Svg::Line(double x1, double y1, double x2, double y2, absl::string_view css_class) {
  absl::StrAppend(&body_, "<line x1=\"", N(x1), "\" y1=\"", N(y1), "\" x2=\"", N(x2), "\" y2=\"",
                  N(y2), "\" class=\"", css_class, "\"/>\n");
}

void Svg::Shape(absl::string_view element, absl::string_view css_class, absl::string_view tip) {
  absl::StrAppend(&body_, "<", element, " class=\"", css_class, "\"");
  if (tip.empty()) {
    absl::StrAppend(&body_, "/>\n");
    return;
  }
  const absl::string_view name = element.substr(0, element.find(' '));
  absl::StrAppend(&body_, "><title>", Escaped(tip), "</title></", name, ">\n");
}

void Svg::Rect(double x, double y, double width, double height, absl::string_view css_class,
               absl::string_view tip) {
  Shape(absl::StrCat("rect x=\"", N(x), "\" y=\"", N(y), "\" width=\"", N(width), "\" height=\"",
                     N(height), "\""),
        css_class, tip);
}

void Svg::Polyline(const std::vector<std::pair<double, double>>& points,
                   absl::string_view css_class, absl::string_view tip) {
  std::string list;
  for (const auto& [x, y] : points)
    absl::StrAppend(&list, list.empty() ? "" : " ", N(x), ",", N(y));
  Shape(absl::StrCat("polyline points=\"", list, "\""), css_class, tip);
}

void Svg::Marker(int shape, double x, double y, double size, absl::string_view css_class,
                 absl::string_view tip) {
  if (shape == 0) {
    return Shape(absl::StrCat("circle cx=\"", N(x), "\" cy=\"", N(y), "\" r=\"", N(size), "\""),
                 css_class, tip);
  }
  struct Polygon {
    double size;
    int corners;
    double turn, inner;
  };
  constexpr Polygon kPolygons[] = {{1.25, 4, kPi / 4, 1},
                                   {1.35, 3, 0, 1},
                                   {1.35, 4, 0, 1},
                                   {1.5, 8, kPi / 4, 0.35},
                                   {1.8, 10, 0, 0.45}};
  const Polygon& polygon = kPolygons[shape - 1];
  const std::string path =
      Corners(x, y, size * polygon.size, polygon.corners, polygon.turn, polygon.inner);
  Shape(absl::StrCat("path d=\"", path, "\""), css_class, tip);
}

void Svg::Text(double x, double y, Anchor anchor, absl::string_view text,
               absl::string_view css_class) {
  const char* where = anchor == Anchor::kStart    ? "start"
                      : anchor == Anchor::kMiddle ? "middle"
                                                  : "end";
  absl::StrAppend(&body_, "<text x=\"", N(x), "\" y=\"", N(y), "\" text-anchor=\"", where, "\"");
  if (!css_class.empty()) absl::StrAppend(&body_, " class=\"", css_class, "\"");
  absl::StrAppend(&body_, ">", Escaped(text), "</text>\n");
}

void Svg::TextUp(double x, double y, absl::string_view text) {
  absl::StrAppend(&body_, "<text transform=\"translate(", N(x), " ", N(y),
                  ") rotate(-90)\" text-anchor=\"middle\" class=\"soft\">", Escaped(text),
                  "</text>\n");
}

std::string Svg::Wrapped(absl::string_view attributes, absl::string_view style) const {
  return absl::StrCat("<svg ", attributes, "class=\"plot\" viewBox=\"0 0 ", N(width_), " ",
                      N(height_), "\" width=\"", N(width_), "\" height=\"", N(height_),
                      "\" role=\"img\" aria-labelledby=\"", id_, "-title ", id_,
                      "-description\">\n<title id=\"", id_, "-title\">", Escaped(title_),
                      "</title>\n<desc id=\"", id_, "-description\">", Escaped(description_),
                      "</desc>\n", style, "<rect class=\"background\" width=\"", N(width_),
                      "\" height=\"", N(height_), "\"/>\n", body_, "</svg>\n");
}

std::string Svg::Inline() const { return Wrapped("", ""); }

std::string Svg::Document() const {
  return absl::StrCat("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n",
                      Wrapped("xmlns=\"http://www.w3.org/2000/svg\" ",
                              absl::StrCat("<style>", kDrawingStyle, "</style>\n")));
}

}  // namespace psgd
