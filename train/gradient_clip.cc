#include "train/gradient_clip.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "optimizers/kernels.h"
#include "optimizers/norms.h"

namespace psgd {
namespace {

// Of PyTorch's clip_grad_norm_: keeps a division by 0 away.
constexpr double kBesideNorm = 1e-6;

double Dot(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * b[i];
  return sum;
}

}  // namespace

GradientClip::GradientClip(const ClipConfig& config, const ModelSpec& model,
                           std::vector<int64_t> factor_rows)
    : norm_(config.norm()),
      value_(static_cast<float>(config.value())),
      model_(model),
      factor_rows_(std::move(factor_rows)) {}

float GradientClip::Bound(float value) const {
  return std::isfinite(value) ? std::clamp(value, -value_, value_) : value;
}

double GradientClip::SquaresOf(std::span<const float> gradient) {
  SquareSums sums;
  for (size_t begin = 0; begin < gradient.size(); begin += kStretch) {
    auto stretch = gradient.subspan(begin, std::min(kStretch, gradient.size() - begin));
    if (value_ > 0) {
      clipped_.resize(stretch.size());
      std::ranges::transform(stretch, clipped_.begin(), [this](float v) { return Bound(v); });
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
  if (norm_ == 0 || !Counts(parameter)) return;
  const bool factors = factor_rows_[parameter] > 0;
  squares_ += factors ? SquaresOfProduct(parameter, gradient) : SquaresOf(gradient);
}

double GradientClip::Scale() const {
  if (norm_ == 0) return 1;
  const double norm = std::sqrt(squares_);
  if (!std::isfinite(norm)) return std::nan("");
  return std::min(1.0, norm_ / (norm + kBesideNorm));
}

std::span<const float> GradientClip::Clipped(int parameter, std::span<const float> gradient) {
  const double scale = Scale();
  if (!Counts(parameter) || (scale == 1 && value_ == 0)) return gradient;
  clipped_.assign(gradient.begin(), gradient.end());
  if (value_ > 0) {
    for (float& value : clipped_) value = Bound(value);
  }
  if (scale == 1) return clipped_;
  const auto factor = static_cast<float>(scale);
  if (factor_rows_[parameter] == 0) {
    for (float& value : clipped_) value *= factor;
    return clipped_;
  }
  // Of a product one factor is scaled.
  const size_t width = clipped_.size() / static_cast<size_t>(factor_rows_[parameter]);
  const auto inputs = static_cast<size_t>(model_.parameters(parameter).shape(1));
  for (size_t i = 0; i < clipped_.size(); ++i) {
    if (i % width >= inputs) clipped_[i] *= factor;
  }
  return clipped_;
}

}  // namespace psgd
