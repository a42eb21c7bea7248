#include "train/gradient_clip.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "optimizers/kernels.h"
#include "optimizers/norms.h"

namespace psgd {
namespace {

double Dot(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * b[i];
  return sum;
}

}  // namespace

GradientClip::GradientClip(const ClipConfig& config, const ModelSpec& model,
                           std::vector<int64_t> factor_rows)
    : bounds_{.value = static_cast<float>(config.value()), .norm = config.norm()},
      model_(model),
      factor_rows_(std::move(factor_rows)) {}

double GradientClip::SquaresOf(std::span<const float> gradient) {
  SquareSums sums;
  for (size_t begin = 0; begin < gradient.size(); begin += kStretch) {
    auto stretch = gradient.subspan(begin, std::min(kStretch, gradient.size() - begin));
    if (bounds_.value > 0) {
      clipped_.resize(stretch.size());
      std::ranges::transform(stretch, clipped_.begin(),
                             [this](float v) { return bounds_.Bound(v); });
      stretch = clipped_;
    }
    AddSquares(stretch.data(), stretch.size(), &sums);
  }
  const double norm = sums.Norm();
  return norm * norm;
}

// |sum over n of dy[n] x[n]|^2 = sum over n, m of (dy[n] dy[m]) (x[n] x[m]).
double GradientClip::SquaresOfProduct(int parameter, std::span<const float> factors) const {
  const auto rows = static_cast<size_t>(factor_rows_[parameter]);
  const auto inputs = static_cast<size_t>(model_.parameters(parameter).shape(1));
  const size_t width = factors.size() / rows;
  const auto x = [&](size_t n) { return factors.subspan(n * width, inputs); };
  const auto dy = [&](size_t n) { return factors.subspan(n * width + inputs, width - inputs); };
  double squares = 0;
  for (size_t n = 0; n < rows; ++n) {
    squares += Dot(x(n), x(n)) * Dot(dy(n), dy(n));
    for (size_t m = 0; m < n; ++m) squares += 2 * Dot(x(n), x(m)) * Dot(dy(n), dy(m));
  }
  return std::isnan(squares) ? squares : std::max(squares, 0.0);
}

void GradientClip::Add(int parameter, std::span<const float> gradient) {
  if (bounds_.norm == 0 || !Counts(parameter)) return;
  const bool factors = factor_rows_[parameter] > 0;
  squares_ += factors ? SquaresOfProduct(parameter, gradient) : SquaresOf(gradient);
}

std::span<const float> GradientClip::Clipped(int parameter, std::span<const float> gradient,
                                             std::vector<float>* room) const {
  const float factor = Scale();
  if (!Counts(parameter) || (factor == 1 && bounds_.value == 0)) return gradient;
  room->assign(gradient.begin(), gradient.end());
  if (bounds_.value > 0) {
    for (float& value : *room) value = bounds_.Bound(value);
  }
  if (factor == 1) return *room;
  if (factor_rows_[parameter] == 0) {
    for (float& value : *room) value *= factor;
    return *room;
  }
  // To scale a product, it is enough to scale one factor.
  const size_t width = room->size() / static_cast<size_t>(factor_rows_[parameter]);
  const auto inputs = static_cast<size_t>(model_.parameters(parameter).shape(1));
  for (size_t i = 0; i < room->size(); ++i) {
    if (i % width >= inputs) (*room)[i] *= factor;
  }
  return *room;
}

}  // namespace psgd
