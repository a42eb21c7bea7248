#include <algorithm>
#include <cmath>
#include <vector>

#include "common/newton_schulz.h"
#include "optimizers/kernels.h"
#include "optimizers/moments.h"
#include "optimizers/optimizers.h"

namespace psgd {
namespace {

// The share of adamw's usual update: with it both take the same rate and decay.
constexpr double kLikeAdamw = 0.2;

struct Sides {
  size_t rows, columns;
};

// Tiles stay in the cache, so that a column costs no more than a row.
void Transpose(Sides of, const float* from, float* to) {
  constexpr size_t kTile = 16;
  for (size_t top = 0; top < of.rows; top += kTile) {
    const size_t bottom = std::min(top + kTile, of.rows);
    for (size_t left = 0; left < of.columns; left += kTile) {
      const size_t right = std::min(left + kTile, of.columns);
      for (size_t j = left; j < right; ++j) {
        for (size_t i = top; i < bottom; ++i) to[j * of.rows + i] = from[i * of.columns + j];
      }
    }
  }
}

// Brings all singular values of x close to 1. REQUIRES: x has no more rows than columns.
void MakeOrthogonal(Sides sides, std::vector<float>* x) {
  const auto [r, c] = sides;
  SquareSums squares;
  AddSquares(x->data(), x->size(), &squares);
  const float scale = NewtonSchulz::Scale(squares.Sum());
  for (float& value : *x) value *= scale;
  std::vector<float> other(x->size()), y(r * r), polynomial(r * r), panel;
  const auto multiply = [&panel](const MatrixProduct& product) {
    panel.resize(product.inner * kPanel);
    Loops().multiply(product, panel.data());
  };
  for (int round = 0; round < NewtonSchulz::kRounds; ++round) {
    Transpose(sides, x->data(), other.data());
    multiply({r, r, c, 1, x->data(), other.data(), 0, nullptr, y.data(), true});
    multiply({r, r, r, NewtonSchulz::kC, y.data(), y.data(), NewtonSchulz::kB, y.data(),
              polynomial.data(), true});
    multiply({r, c, r, 1, polynomial.data(), x->data(), NewtonSchulz::kA, x->data(), other.data()});
    x->swap(other);
  }
}

class Muon : public Optimizer {
 public:
  explicit Muon(const MuonConfig& config) : config_(config) {}
  absl::string_view name() const override { return "muon"; }
  int state_arrays() const override { return 2; }
  // Of a matrix the first is the momentum, and the second stays 0.
  absl::string_view state_name(int i) const override { return i == 0 ? "exp_avg" : "exp_avg_sq"; }
  bool whole_slices() const override { return true; }

  void ApplyBlock(const OptimizerStep& step, const OptimizerBlock& block) const override {
    if (step.rows == 0) return Loops().adam(MomentsAt(step), KeepAt(step), block);
    const Sides sides = {step.rows, step.columns};
    const Sides turned = {sides.columns, sides.rows};
    const bool turns = sides.rows > sides.columns;
    std::vector<float> update(block.size), other(turns ? block.size : 0);
    Loops().look_ahead(momentum(), block, update.data());
    if (block.state_out[1] != block.state_in[1]) {
      std::copy_n(block.state_in[1], block.size, block.state_out[1]);
    }
    if (turns) {
      Transpose(sides, update.data(), other.data());
      update.swap(other);
    }
    if (step.learning_rate > 0) MakeOrthogonal(turns ? turned : sides, &update);
    if (turns) {
      Transpose(turned, update.data(), other.data());
      update.swap(other);
    }
    Loops().shrink_and_move(KeepAt(step), RateAt(step), update.data(), block);
  }
  std::optional<ElementUpdate> ElementUpdateAt(const OptimizerStep& step) const override {
    if (step.rows == 0) return MomentUpdate(MomentsAt(step), KeepAt(step));
    return ElementUpdate{.kind = ElementUpdate::Kind::kLookAhead,
                         .rate = RateAt(step),
                         .keep = KeepAt(step),
                         .momentum = momentum(),
                         .rows = static_cast<uint32_t>(step.rows)};
  }

 private:
  float momentum() const { return static_cast<float>(config_.momentum()); }
  MomentConstants MomentsAt(const OptimizerStep& step) const {
    return MomentConstantsAt(config_, step.step, step.learning_rate);
  }
  static float KeepAt(const OptimizerStep& step) {
    return static_cast<float>(1 - step.learning_rate * step.weight_decay);
  }
  // Of a matrix.
  static float RateAt(const OptimizerStep& step) {
    const auto longer = static_cast<double>(std::max(step.rows, step.columns));
    return static_cast<float>(step.learning_rate * kLikeAdamw * std::sqrt(longer));
  }

  const MuonConfig config_;
};

}  // namespace

std::unique_ptr<Optimizer> MakeMuon(const MuonConfig& config) {
  return std::make_unique<Muon>(config);
}

}  // namespace psgd
