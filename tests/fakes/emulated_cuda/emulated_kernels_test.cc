// The kernels alone, at sizes around those of a pack, a warp and a block, on memory that is aligned
// or not.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>

#include <gtest/gtest.h>

#include "common/philox.h"
#include "engine/cudnn/kernels.h"
#include "engine/ops/activation_formula.h"

namespace psgd::cudnn {
namespace {

constexpr int64_t kCounts[] = {0, 1, 3, 7, 8, 15, 16, 17, 33, 1025};
constexpr Type kTypes[] = {Type::kFloat, Type::kBfloat16, Type::kHalf};
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kEdge = 12345;  // lies before and behind the elements, and must stay

// Elements of a type, `offset` elements behind an address that is aligned for every pack.
class Elements {
 public:
  Elements(Type type, int64_t count, int64_t offset = 0)
      : type_(type), count_(count), offset_(offset), memory_((offset + count + 1) * 4 / 16 + 2) {
    for (int64_t i = -offset; i <= count; ++i) Set(i, kEdge);
  }
  // Pseudo-random values in [-1, 1).
  static Elements Random(Type type, int64_t count, int64_t offset, uint32_t seed) {
    Elements made(type, count, offset);
    RandomStream random({seed, 7}, 1);
    for (int64_t i = 0; i < count; ++i) made.Set(i, 2 * random.NextUnit() - 1);
    return made;
  }

  void* at() { return bytes() + offset_ * width(); }
  float* floats() { return static_cast<float*>(at()); }
  int64_t size() const { return count_; }
  void Set(int64_t i, float value) {
    void* const to = bytes() + (offset_ + i) * width();
    if (type_ == Type::kFloat) {
      std::memcpy(to, &value, sizeof value);
    } else if (type_ == Type::kBfloat16) {
      const __nv_bfloat16 half = __float2bfloat16(value);
      std::memcpy(to, &half, sizeof half);
    } else {
      const __half half = __float2half(value);
      std::memcpy(to, &half, sizeof half);
    }
  }
  float operator[](int64_t i) const {
    const char* const from =
        reinterpret_cast<const char*>(memory_.data()) + (offset_ + i) * width();
    if (type_ == Type::kFloat) {
      float value;
      std::memcpy(&value, from, sizeof value);
      return value;
    }
    uint16_t half;
    std::memcpy(&half, from, sizeof half);
    return type_ == Type::kBfloat16 ? __bfloat162float(__nv_bfloat16_raw{half})
                                    : __half2float(__half_raw{half});
  }
  // The value as this type stores it.
  float Rounded(float value) const {
    Elements one(type_, 1);
    one.Set(0, value);
    return one[0];
  }
  bool EdgesAreWhole() const {
    for (int64_t i = -offset_; i < 0; ++i) {
      if ((*this)[i] != Rounded(kEdge)) return false;
    }
    return (*this)[count_] == Rounded(kEdge);
  }
  std::vector<float> All() const {
    std::vector<float> all;
    for (int64_t i = 0; i < count_; ++i) all.push_back((*this)[i]);
    return all;
  }

 private:
  struct alignas(16) Unit {
    char of[16];
  };
  size_t width() const { return TypeBytes(type_); }
  char* bytes() { return reinterpret_cast<char*>(memory_.data()); }

  Type type_;
  int64_t count_, offset_;
  std::vector<Unit> memory_;
};

class KernelsTest : public ::testing::Test {
 protected:
  KernelsTest() { cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking); }
  ~KernelsTest() override { cudaStreamDestroy(stream_); }

  // Waits for the work whose launch gave `launched`.
  void Finish(cudaError_t launched) {
    ASSERT_EQ(launched, cudaSuccess);
    ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  }

  // Runs a kernel from `inputs` to y for all types, sizes and alignments, and compares it with
  // expected(element i of the inputs...).
  using Run = std::function<cudaError_t(Type, int64_t, std::vector<Elements>&, Elements&)>;
  using Expected = std::function<float(int64_t, const std::vector<Elements>&)>;
  void CheckMap(const char* name, int inputs, const Run& run, const Expected& expected) {
    for (const Type type : kTypes) {
      for (const int64_t count : kCounts) {
        for (const int64_t offset : {0, 1}) {
          SCOPED_TRACE(testing::Message() << name << ", type " << static_cast<int>(type) << ", "
                                          << count << " from " << offset);
          std::vector<Elements> x;
          for (int i = 0; i < inputs; ++i) x.push_back(Elements::Random(type, count, offset, i));
          Elements y(type, count, offset);
          Finish(run(type, count, x, y));
          for (int64_t i = 0; i < count; ++i) {
            const float right = y.Rounded(expected(i, x));
            if (std::isnan(right)) continue;
            ASSERT_FLOAT_EQ(y[i], right) << i;
          }
          EXPECT_TRUE(y.EdgesAreWhole());
        }
      }
    }
  }

  cudaStream_t stream_;
};

TEST_F(KernelsTest, ElementsAreMapped) {
  CheckMap(
      "relu", 1,
      [&](Type type, int64_t count, auto& x, auto& y) {
        return ReluForward(stream_, type, count, x[0].at(), y.at());
      },
      [](int64_t i, const auto& x) { return std::max(x[0][i], 0.0f); });
  CheckMap(
      "relu gradient", 2,
      [&](Type type, int64_t count, auto& x, auto& y) {
        return ReluGradient(stream_, type, count, x[0].at(), x[1].at(), y.at());
      },
      [](int64_t i, const auto& x) { return x[0][i] > 0 ? x[1][i] : 0; });
  CheckMap(
      "add", 2,
      [&](Type type, int64_t count, auto& x, auto& y) {
        return AddPair(stream_, type, count, x[0].at(), x[1].at(), y.at());
      },
      [](int64_t i, const auto& x) { return x[0][i] + x[1][i]; });
  CheckMap(
      "multiply", 2,
      [&](Type type, int64_t count, auto& x, auto& y) {
        return MultiplyPair(stream_, type, count, x[0].at(), x[1].at(), y.at());
      },
      [](int64_t i, const auto& x) { return x[0][i] * x[1][i]; });
  CheckMap(
      "fill", 0,
      [&](Type type, int64_t count, auto&, auto& y) {
        return Fill(stream_, type, count, 0.37f, y.at());
      },
      [](int64_t, const auto&) { return 0.37f; });
  for (const Activation::Kind kind :
       {Activation::Kind::kTanh, Activation::Kind::kClip, Activation::Kind::kGelu}) {
    const Activation op = {kind, -0.25f, 0.5f};
    CheckMap(
        "activation", 1,
        [&](Type type, int64_t count, auto& x, auto& y) {
          return ActivationForward(stream_, type, op, count, x[0].at(), y.at());
        },
        [&](int64_t i, const auto& x) { return ActivationOf(op, x[0][i]); });
    CheckMap(
        "activation gradient", 2,
        [&](Type type, int64_t count, auto& x, auto& y) {
          return ActivationGradient(stream_, type, op, count, x[0].at(), x[1].at(), y.at());
        },
        [&](int64_t i, const auto& x) { return x[1][i] * ActivationSlope(op, x[0][i]); });
  }
}

TEST_F(KernelsTest, ConversionsRoundOnce) {
  for (const Type type : kTypes) {
    for (const int64_t count : kCounts) {
      for (const int64_t offset : {0, 1, 4}) {
        Elements x = Elements::Random(Type::kFloat, count, offset, 3), y(type, count, offset);
        Elements back(Type::kFloat, count, offset);
        const ImageShape shape = {.channels = count};
        const Format narrow = {Layout::kPlain, type};
        Finish(Convert(stream_, shape, x.at(), kPlainFloat, y.at(), narrow));
        Finish(Convert(stream_, shape, y.at(), narrow, back.at(), kPlainFloat));
        for (int64_t i = 0; i < count; ++i) {
          ASSERT_EQ(y[i], y.Rounded(x[i]));
          ASSERT_EQ(back[i], y[i]);
        }
        EXPECT_TRUE(y.EdgesAreWhole() && back.EdgesAreWhole());
      }
    }
  }
}

TEST_F(KernelsTest, DropoutDrawsByTheNumberOfTheElement) {
  const PhiloxKey key = {11, 12};
  StepValues step = {.number = 5};
  constexpr float kRate = 0.3f, kScale = 1 / (1 - kRate);
  for (const Type type : kTypes) {
    for (const int64_t count : kCounts) {
      for (const int64_t offset : {0, 1}) {
        Elements x = Elements::Random(type, count, offset, 4), y(type, count, offset);
        Elements dx(type, count, offset);
        std::vector<uint8_t> mask(count + 1, 77);
        Finish(
            DropoutForward(stream_, type, count, kRate, key, &step, x.at(), y.at(), mask.data()));
        Finish(DropoutGradient(stream_, type, count, kRate, x.at(), mask.data(), dx.at()));
        for (int64_t i = 0; i < count; ++i) {
          const bool kept = UnitFloat(Philox(key, i / 4, step.number).word[i % 4]) >= kRate;
          ASSERT_EQ(mask[i], kept) << i << " of " << count;
          ASSERT_EQ(y[i], kept ? y.Rounded(x[i] * kScale) : 0);
          ASSERT_EQ(dx[i], y[i]);
        }
        EXPECT_EQ(mask[count], 77);
        EXPECT_TRUE(y.EdgesAreWhole() && dx.EdgesAreWhole());
      }
    }
  }
}

TEST_F(KernelsTest, BiasesLieAlongAnyAxis) {
  for (const Type type : kTypes) {
    for (const int64_t channels : {1, 3, 8, 17, 32}) {
      for (const int64_t inner : {1, 3, 8, 25}) {
        for (const int64_t offset : {0, 1}) {
          const int64_t count = 5 * channels * inner;
          Elements x = Elements::Random(type, count, offset, 5), y(type, count, offset);
          Elements bias = Elements::Random(Type::kFloat, channels, offset, 6);
          Finish(AddBias(stream_, type, count, channels, inner, x.at(), bias.floats(), y.at()));
          for (int64_t i = 0; i < count; ++i) {
            ASSERT_EQ(y[i], y.Rounded(x[i] + bias[i / inner % channels])) << i;
          }
          EXPECT_TRUE(y.EdgesAreWhole());
        }
      }
    }
  }
}

TEST_F(KernelsTest, UnscaleFindsEveryOverflow) {
  for (const int64_t count : {1, 3, 4, 15, 17, 1025}) {
    for (const int64_t offset : {0, 1}) {
      for (const int64_t bad : {int64_t{-1}, int64_t{0}, count / 2, count - 1}) {
        Elements x = Elements::Random(Type::kFloat, count, offset, 8);
        const std::vector<float> before = x.All();
        StepValues step = {.loss_scale = 4};
        if (bad >= 0) x.Set(bad, bad % 2 == 0 ? kInfinity : std::nanf(""));
        Finish(Unscale(stream_, count, x.floats(), &step));
        EXPECT_EQ(step.overflowed, bad >= 0);
        for (int64_t i = 0; i < count; ++i) {
          if (i == bad) continue;
          ASSERT_EQ(x[i], before[i] / 4);
        }
        EXPECT_TRUE(x.EdgesAreWhole());
      }
    }
  }
}

// Blocks whose rows are whole packs, and others.
TEST_F(KernelsTest, MovesTakeEveryElementToItsPlace) {
  for (const Type type : kTypes) {
    for (const int64_t width : {1, 2, 4, 8, 15, 16, 24}) {
      for (const int64_t begin : {0, 1, 2, 8}) {
        for (const int64_t offset : {0, 1}) {
          for (const int64_t apart : {1, 3}) {  // between elements of the source
            Move move;
            move.axes = 3;
            const int64_t size[] = {3, 5, width}, row = width + 8;
            std::copy_n(size, 3, move.size);
            const int64_t from[] = {5 * row * apart, row * apart, apart};
            const int64_t to[] = {width + begin, 3 * (width + begin) + 8, 1};
            std::copy_n(from, 3, move.from_stride);
            std::copy_n(to, 3, move.to_stride);
            move.from_begin = begin;
            move.to_begin = begin;
            const int64_t count = 20 * row * apart + begin;
            Elements x = Elements::Random(type, count, offset, 9), y(type, count, offset);
            Elements expected(type, count, offset);
            for (int64_t a = 0; a < 3; ++a) {
              for (int64_t b = 0; b < 5; ++b) {
                for (int64_t c = 0; c < width; ++c) {
                  expected.Set(begin + a * to[0] + b * to[1] + c,
                               x[begin + a * from[0] + b * from[1] + c * from[2]]);
                }
              }
            }
            Finish(MoveElements(stream_, type, move, x.at(), y.at()));
            ASSERT_EQ(y.All(), expected.All()) << "width " << width << ", begin " << begin;
          }
        }
      }
    }
  }
}

// Packs of channels give the bits of single channels.
TEST_F(KernelsTest, PoolsAreTheSameInPacks) {
  for (const Type type : kTypes) {
    for (const int64_t channels : {1, 3, 8, 17, 24}) {
      const PoolShape s = {.images = 2,
                           .channels = channels,
                           .height = 7,
                           .width = 5,
                           .out_height = 4,
                           .out_width = 3,
                           .kernel_height = 3,
                           .kernel_width = 3,
                           .stride_height = 2,
                           .stride_width = 2,
                           .pad_height = 1,
                           .pad_width = 1};
      const int64_t in = 2 * 7 * 5 * channels, out = 2 * 4 * 3 * channels;
      std::vector<std::vector<float>> results[2];
      for (const int64_t offset : {0, 1}) {
        Elements x = Elements::Random(type, in, offset, 1);
        x.Set(in / 2, std::nanf(""));
        Elements dy = Elements::Random(type, out, offset, 2);
        Elements largest(type, out, offset), average(type, out, offset);
        Elements of_largest(type, in, offset), of_average(type, in, offset);
        std::vector<uint16_t> where(out);
        Finish(MaxPoolForward(stream_, type, s, x.at(), largest.at(), where.data()));
        Finish(MaxPoolGradient(stream_, type, s, dy.at(), where.data(), of_largest.at()));
        x.Set(in / 2, 0);
        Finish(AveragePoolForward(stream_, type, s, x.at(), average.at()));
        Finish(AveragePoolGradient(stream_, type, s, dy.at(), of_average.at()));
        int missing = 0;
        for (int64_t i = 0; i < out; ++i) {
          if (!std::isnan(largest[i])) continue;
          largest.Set(i, 99);  // to compare
          ++missing;
        }
        EXPECT_GT(missing, 0) << "NaN is the largest";
        for (const Elements* e : {&largest, &average, &of_largest, &of_average}) {
          results[offset].push_back(e->All());
          EXPECT_TRUE(e->EdgesAreWhole());
        }
        const auto sum = [](const std::vector<float>& all) {
          return std::accumulate(all.begin(), all.end(), 0.0);
        };
        EXPECT_NEAR(sum(of_largest.All()), sum(dy.All()), 0.5) << "each dy goes to one place";
      }
      EXPECT_EQ(results[0], results[1]) << channels << " channels";
    }
  }
}

// Widths of which a lane keeps all, and longer ones; whole packs, and others.
constexpr int64_t kWidths[] = {1, 3, 8, 15, 17, 32, 1000, 1024, 1025, 1032, 2051};

double Tolerance(Type type) { return type == Type::kFloat ? 2e-5 : 0.02; }

TEST_F(KernelsTest, LayerNormOfRowsFarFromZero) {
  constexpr int64_t kRows = 3;
  constexpr float kEpsilon = 1e-5f;
  for (const Type type : kTypes) {
    const float center = type == Type::kFloat ? 1000 : 2;
    for (const int64_t width : kWidths) {
      for (const int64_t offset : {0, 1}) {
        SCOPED_TRACE(testing::Message() << "width " << width << " from " << offset);
        Elements x = Elements::Random(type, kRows * width, offset, 1);
        for (int64_t i = 0; i < x.size(); ++i) x.Set(i, x[i] + center);
        x.Set(0, center + 30);  // far out
        Elements dy = Elements::Random(type, kRows * width, offset, 2);
        Elements gamma = Elements::Random(Type::kFloat, width, offset, 3);
        Elements beta = Elements::Random(Type::kFloat, width, offset, 4);
        std::vector<float> mean(kRows), var(kRows), dgamma(width), dbeta(width);
        std::vector<float> partial(ColumnPartials(kRows, width, 2));
        Elements y(type, kRows * width, offset), dx(type, kRows * width, offset);
        const auto run = [&] {
          Finish(LayerNormForward(stream_, type, kRows, width, x.at(), gamma.floats(),
                                  beta.floats(), kEpsilon, y.at(), mean.data(), var.data()));
          Finish(LayerNormSums(stream_, type, kRows, width, x.at(), dy.at(), mean.data(),
                               var.data(), kEpsilon, partial.data(), dgamma.data(), dbeta.data()));
          Finish(LayerNormGradient(stream_, type, kRows, width, x.at(), gamma.floats(), mean.data(),
                                   var.data(), dy.at(), kEpsilon, dx.at()));
          std::vector<float> all = y.All();
          for (const auto& more : {dx.All(), mean, var, dgamma, dbeta}) {
            all.insert(all.end(), more.begin(), more.end());
          }
          return all;
        };
        const std::vector<float> first = run();
        EXPECT_EQ(first, run()) << "the same bits again";
        EXPECT_TRUE(y.EdgesAreWhole() && dx.EdgesAreWhole());
        const double n = static_cast<double>(width);
        std::vector<double> of_gamma(width), of_beta(width);
        for (int64_t r = 0; r < kRows; ++r) {
          const auto at = [&](const Elements& e, int64_t i) { return double{e[r * width + i]}; };
          double m = 0, v = 0, sum = 0, projected = 0;
          for (int64_t i = 0; i < width; ++i) m += at(x, i) / n;
          for (int64_t i = 0; i < width; ++i) v += (at(x, i) - m) * (at(x, i) - m) / n;
          EXPECT_NEAR(mean[r], m, 1e-6 * std::abs(m));
          EXPECT_NEAR(var[r], v, 2e-5 * v + 1e-9);
          const double inverse = 1 / std::sqrt(v + kEpsilon);
          const auto normal = [&](int64_t i) { return (at(x, i) - m) * inverse; };
          for (int64_t i = 0; i < width; ++i) {
            const double g = gamma[i] * at(dy, i);
            sum += g / n;
            projected += g * normal(i) / n;
            of_gamma[i] += at(dy, i) * normal(i);
            of_beta[i] += at(dy, i);
          }
          // The mean has only 24 bits.
          const double bound = Tolerance(type) * (1 + center * 0.01 * inverse) * (1 + inverse);
          if (width == 1) continue;
          for (int64_t i = 0; i < width; ++i) {
            const double of_y = normal(i) * gamma[i] + beta[i];
            const double of_x = inverse * (gamma[i] * at(dy, i) - sum - normal(i) * projected);
            ASSERT_NEAR(at(y, i), of_y, bound * (1 + std::abs(of_y))) << r << ", " << i;
            ASSERT_NEAR(at(dx, i), of_x, bound * (1 + std::abs(of_x))) << r << ", " << i;
          }
        }
        for (int64_t i = 0; i < width && width > 1; ++i) {
          ASSERT_NEAR(dgamma[i], of_gamma[i], 0.02 + 0.02 * std::abs(of_gamma[i]));
          ASSERT_NEAR(dbeta[i], of_beta[i], 1e-5);
        }
      }
    }
  }
}

TEST_F(KernelsTest, SoftmaxOfMaskedRows) {
  const int32_t lengths[] = {0, 1, 5, 100000};
  for (const Type type : kTypes) {
    for (const int64_t keys : kWidths) {
      for (const int64_t offset : {0, 1}) {
        const SoftmaxShape s = {
            .rows = 8, .keys = keys, .queries = keys > 1 ? 2 : 0, .rows_each = 2, .scale = 3};
        Elements x = Elements::Random(type, 8 * keys, offset, 1), y(type, 8 * keys, offset);
        Elements dy = Elements::Random(type, 8 * keys, offset, 2), dx(type, 8 * keys, offset);
        Finish(SoftmaxForward(stream_, type, s, x.at(), lengths, y.at()));
        Finish(SoftmaxGradient(stream_, type, s, y.at(), dy.at(), dx.at()));
        EXPECT_TRUE(y.EdgesAreWhole() && dx.EdgesAreWhole());
        for (int64_t r = 0; r < 8; ++r) {
          int64_t open = std::min<int64_t>(keys, lengths[r / 2]);
          if (keys > 1) open = std::min(open, r % 2 + keys - 1);
          double sum = 0, product = 0;
          for (int64_t k = 0; k < open; ++k) sum += std::exp(3.0 * x[r * keys + k]);
          for (int64_t k = 0; k < keys; ++k) {
            const double p = k < open ? std::exp(3.0 * x[r * keys + k]) / sum : 0;
            ASSERT_NEAR(y[r * keys + k], p, Tolerance(type) * p) << keys << " keys, row " << r;
            product += double{y[r * keys + k]} * dy[r * keys + k];
          }
          for (int64_t k = 0; k < keys; ++k) {
            const double expected = 3.0 * y[r * keys + k] * (dy[r * keys + k] - product);
            ASSERT_NEAR(dx[r * keys + k], expected, Tolerance(type));
          }
        }
      }
    }
  }
}

// Values far from zero, of which the first lies far out: the plain mean of squares has no bit
// right.
TEST_F(KernelsTest, BatchNormStatisticsNeedOnePass) {
  for (const int64_t rows : {2, 3, 15, 255, 512, 1025, 2500}) {
    for (const int64_t columns : {1, 3, 32, 33}) {
      SCOPED_TRACE(testing::Message() << rows << " x " << columns);
      Elements x = Elements::Random(Type::kFloat, rows * columns, 0, 1);
      for (int64_t i = 0; i < x.size(); ++i) x.Set(i, 1000 + x[i] / 16);
      for (int64_t c = 0; c < columns; ++c) x.Set(c, 990);
      const std::vector<float> running(columns, 1);
      std::vector<float> mean(columns), var(columns), mean_delta(columns), var_delta(columns);
      std::vector<float> partial(ColumnPartials(rows, columns, 2));
      Finish(
          BatchNormStatistics(stream_, Type::kFloat, rows, columns, x.at(), 0.1f,
                              {running.data(), running.data(), mean_delta.data(), var_delta.data()},
                              partial.data(), mean.data(), var.data()));
      const double n = static_cast<double>(rows);
      for (int64_t c = 0; c < columns; ++c) {
        double m = 0, v = 0;
        for (int64_t r = 0; r < rows; ++r) m += x[r * columns + c] / n;
        for (int64_t r = 0; r < rows; ++r) v += std::pow(x[r * columns + c] - m, 2) / n;
        ASSERT_NEAR(mean[c], m, 1e-6 * m);
        ASSERT_NEAR(var[c], v, 1e-4 * v);
        ASSERT_NEAR(mean_delta[c], 0.1 * (m - 1), 1e-5 * m);
        ASSERT_NEAR(var_delta[c], 0.1 * (v * n / (n - 1) - 1), 1e-4 * (v + 1));
      }
    }
  }
}

TEST_F(KernelsTest, BatchNormIsTheSameInPacks) {
  for (const Type type : kTypes) {
    for (const int64_t columns : {1, 3, 8, 17, 24}) {
      constexpr int64_t kRows = 1025;  // several bands
      std::vector<std::vector<float>> results[2];
      for (const int64_t offset : {0, 1}) {
        Elements x = Elements::Random(type, kRows * columns, offset, 1);
        Elements dy = Elements::Random(type, kRows * columns, offset, 2);
        const auto column = [&](uint32_t seed) {
          return Elements::Random(Type::kFloat, columns, offset, seed);
        };
        Elements gamma = column(3), beta = column(4), mean = column(5), var = column(6);
        for (int64_t c = 0; c < columns; ++c) var.Set(c, 2 + var[c]);
        Elements dgamma = column(7), dbeta = column(8);
        Elements y(type, kRows * columns, offset), dx(type, kRows * columns, offset);
        std::vector<float> partial(ColumnPartials(kRows, columns, 2)), sums(columns);
        Normalization by = {gamma.floats(), beta.floats(), mean.floats(), var.floats(), 1e-5f};
        Finish(BatchNormApply(stream_, type, kRows, columns, x.at(), by, {}, y.at()));
        by.beta = nullptr;
        Finish(BatchNormSums(stream_, type, kRows, columns, x.at(), dy.at(), by, partial.data(),
                             dgamma.floats(), dbeta.floats()));
        Finish(BatchNormGradient(stream_, type, kRows, columns, x.at(), dy.at(), by,
                                 dgamma.floats(), dbeta.floats(), dx.at()));
        Finish(SumColumns(stream_, type, kRows, columns, dy.at(), partial.data(), sums.data()));
        for (int64_t c = 0; c < columns; ++c) {
          double of_beta = 0, of_gamma = 0;
          for (int64_t r = 0; r < kRows; ++r) {
            const int64_t i = r * columns + c;
            of_beta += dy[i];
            of_gamma += dy[i] * (x[i] - mean[c]) / std::sqrt(var[c] + 1e-5);
          }
          EXPECT_NEAR(dbeta[c], of_beta, 1e-4);
          EXPECT_NEAR(dgamma[c], of_gamma, 1e-4);
        }
        for (const Elements* e : {&y, &dx, &dgamma, &dbeta}) {
          results[offset].push_back(e->All());
          EXPECT_TRUE(e->EdgesAreWhole());
        }
        EXPECT_EQ(dbeta.All(), sums);
      }
      EXPECT_EQ(results[0], results[1]) << columns << " columns";
    }
  }
}

// Kernels that compute several ops round between them, as if each op stored its result. Values that
// a type cannot hold, small or missing, pass or stop as they do one by one.
TEST_F(KernelsTest, FusedKernelsHaveTheBitsOfSingleOnes) {
  constexpr int64_t kRows = 521;  // two bands
  for (const Type type : kTypes) {
    for (const int64_t columns : {1, 3, 8, 17, 24}) {
      for (const int64_t offset : {0, 1}) {
        SCOPED_TRACE(testing::Message() << "type " << static_cast<int>(type) << ", " << columns
                                        << " columns from " << offset);
        const int64_t count = kRows * columns;
        Elements x = Elements::Random(type, count, offset, 1);
        Elements other = Elements::Random(type, count, offset, 2);
        Elements dy = Elements::Random(type, count, offset, 3);
        const auto column = [&](uint32_t seed) {
          return Elements::Random(Type::kFloat, columns, offset, seed);
        };
        Elements gamma = column(4), beta = column(5), mean = column(6), var = column(7);
        for (int64_t c = 0; c < columns; ++c) var.Set(c, 2 + var[c]);
        // Positive results of the last column are 0 in fp16.
        gamma.Set(columns - 1, 1e-8f);
        beta.Set(columns - 1, 0);
        x.Set(count / 2, std::nanf(""));
        other.Set(count / 3, kInfinity);
        const Normalization by = {gamma.floats(), beta.floats(), mean.floats(), var.floats(),
                                  1e-5f};
        const auto bits = [&](const Elements& e) {
          EXPECT_TRUE(e.EdgesAreWhole());
          std::vector<uint32_t> all;
          for (const float value : e.All()) all.push_back(std::bit_cast<uint32_t>(value));
          return all;
        };
        Elements y(type, count, offset), sum = y, relu = y, fused = y;
        Finish(BatchNormApply(stream_, type, kRows, columns, x.at(), by, {}, y.at()));
        Finish(AddPair(stream_, type, count, y.at(), other.at(), sum.at()));
        Finish(BatchNormApply(stream_, type, kRows, columns, x.at(), by, {.added = other.at()},
                              fused.at()));
        EXPECT_EQ(bits(fused), bits(sum));
        Finish(ReluForward(stream_, type, count, sum.at(), relu.at()));
        Finish(BatchNormApply(stream_, type, kRows, columns, x.at(), by,
                              {.added = other.at(), .relu = true}, fused.at()));
        EXPECT_EQ(bits(fused), bits(relu));
        Finish(AddReluForward(stream_, type, count, y.at(), other.at(), fused.at()));
        EXPECT_EQ(bits(fused), bits(relu));
        Finish(ReluForward(stream_, type, count, y.at(), relu.at()));
        Finish(
            BatchNormApply(stream_, type, kRows, columns, x.at(), by, {.relu = true}, fused.at()));
        EXPECT_EQ(bits(fused), bits(relu));

        Elements masked = y;
        Finish(AddPair(stream_, type, count, dy.at(), other.at(), sum.at()));
        Finish(ReluGradient(stream_, type, count, relu.at(), sum.at(), masked.at()));
        Finish(AddReluGradient(stream_, type, count, relu.at(), dy.at(), other.at(), fused.at()));
        EXPECT_EQ(bits(fused), bits(masked));
        Finish(ReluGradient(stream_, type, count, relu.at(), dy.at(), masked.at()));
        Elements dgamma = column(8), dbeta = column(9), dgamma2 = dgamma, dbeta2 = dbeta;
        std::vector<float> partial(ColumnPartials(kRows, columns, 2));
        Normalization plain = by;
        plain.beta = nullptr;
        Finish(BatchNormSums(stream_, type, kRows, columns, x.at(), masked.at(), plain,
                             partial.data(), dgamma.floats(), dbeta.floats()));
        Finish(BatchNormSums(stream_, type, kRows, columns, x.at(), dy.at(), by, partial.data(),
                             dgamma2.floats(), dbeta2.floats()));
        EXPECT_EQ(bits(dgamma2), bits(dgamma));
        EXPECT_EQ(bits(dbeta2), bits(dbeta));
        Elements dx = y;
        Finish(BatchNormGradient(stream_, type, kRows, columns, x.at(), masked.at(), plain,
                                 dgamma.floats(), dbeta.floats(), dx.at()));
        Finish(BatchNormGradient(stream_, type, kRows, columns, x.at(), dy.at(), by,
                                 dgamma.floats(), dbeta.floats(), fused.at()));
        EXPECT_EQ(bits(fused), bits(dx));
      }
    }
  }
}

TEST_F(KernelsTest, SoftmaxCrossEntropyKeepsTwoNumbersARow) {
  constexpr int64_t kRows = 5;
  for (const Type type : kTypes) {
    for (const int64_t classes : {1, 3, 8, 17, 1025, 2047, 2048, 5000}) {
      for (const int64_t offset : {0, 1}) {
        for (const float smoothing : {0.0f, 0.1f}) {
          SCOPED_TRACE(testing::Message() << classes << " classes from " << offset);
          const SoftmaxCrossEntropy op = {.label_smoothing = smoothing};
          Elements x = Elements::Random(type, kRows * classes, offset, 1);
          for (int64_t i = 0; i < x.size(); ++i) x.Set(i, 4 * x[i]);
          if (classes > 3) {
            // Without smoothing a class may be impossible, also one that a thread sees first.
            for (const int64_t c : {0, 1, 2}) x.Set(c, smoothing == 0 ? -kInfinity : -9.0f);
          }
          const int32_t last = static_cast<int32_t>(classes) - 1;
          const int32_t labels[kRows] = {last, 0, -1, last / 2, last / 3};
          RowSoftmax softmax[kRows];
          double losses[kRows], result[3];
          int32_t correct[kRows];
          const StepValues step = {.loss_scale = 8};
          Elements dx(type, kRows * classes, offset);
          Finish(SoftmaxLossForward(stream_, type, op, kRows, classes, x.at(), labels, softmax,
                                    losses, correct, result));
          Finish(SoftmaxLossGradient(stream_, type, op, kRows, classes, x.at(), softmax, labels,
                                     result, &step, dx.at()));
          double loss = 0;
          int right = 0;
          for (int64_t r = 0; r < kRows; ++r) {
            double sum = 0, of_label = 0;
            int64_t best = 0;
            for (int64_t c = 0; c < classes; ++c) {
              sum += std::exp(double{x[r * classes + c]});
              if (x[r * classes + c] > x[r * classes + best]) best = c;
            }
            for (int64_t c = 0; c < classes; ++c) {
              const double value = x[r * classes + c], p = std::exp(value) / sum;
              const double target = (c == labels[r]) * (1.0 - double{smoothing}) +
                                    double{smoothing} / static_cast<double>(classes);
              if (target != 0) of_label -= target * (value - std::log(sum));
              const double expected = labels[r] < 0 ? 0 : (p - target) * 8 / 4;
              ASSERT_NEAR(dx[r * classes + c], expected, Tolerance(type)) << r << ", " << c;
            }
            if (labels[r] >= 0) loss += of_label;
            right += best == labels[r];
          }
          EXPECT_NEAR(result[0], loss, 1e-5 * loss + 1e-6);
          EXPECT_EQ(result[1], right);
          EXPECT_EQ(result[2], kRows - 1);
          EXPECT_TRUE(dx.EdgesAreWhole());
        }
      }
    }
  }
}

// The check for overflows reads gradients.
TEST_F(KernelsTest, AnInfiniteOrMissingLogitIsSeenInTheGradient) {
  for (const int64_t classes : {5, 3000}) {
    for (const float bad : {kInfinity, std::nanf("")}) {
      for (const int64_t at : {int64_t{0}, int64_t{2}, classes - 1}) {
        Elements x = Elements::Random(Type::kHalf, classes, 0, 1), dx(Type::kHalf, classes);
        x.Set(at, bad);
        const int32_t label = 1;
        RowSoftmax softmax;
        double losses, result[3];
        int32_t correct;
        const StepValues step = {};
        Finish(SoftmaxLossForward(stream_, Type::kHalf, {}, 1, classes, x.at(), &label, &softmax,
                                  &losses, &correct, result));
        Finish(SoftmaxLossGradient(stream_, Type::kHalf, {}, 1, classes, x.at(), &softmax, &label,
                                   result, &step, dx.at()));
        EXPECT_FALSE(std::isfinite(result[0]));
        for (const float slope : dx.All()) ASSERT_FALSE(std::isfinite(slope));
      }
    }
  }
}

TEST_F(KernelsTest, AMissingLogitBehindAnInfiniteOneIsSeenInTheLoss) {
  // A thread reads each of these steps' places: of a warp, and of a block.
  for (const auto& [classes, step] : {std::pair{int64_t{96}, 32}, {int64_t{3000}, 256}}) {
    Elements x = Elements::Random(Type::kFloat, classes, 0, 1);
    x.Set(0, -kInfinity);
    x.Set(step, std::nanf(""));
    x.Set(2 * step, 0);
    const int32_t label = 1;
    RowSoftmax softmax;
    double losses, result[3];
    int32_t correct;
    Finish(SoftmaxLossForward(stream_, Type::kFloat, {}, 1, classes, x.at(), &label, &softmax,
                              &losses, &correct, result));
    EXPECT_FALSE(std::isfinite(result[0])) << classes;
  }
}

TEST_F(KernelsTest, TablesOfAnyWidth) {
  const int32_t index[] = {3, 0, 3, 1, 2, 3};
  const float value[] = {1, 0.5f, 0, 2, -1, 1};
  for (const Type type : kTypes) {
    for (const int64_t width : {1, 3, 8, 15, 17, 64}) {
      for (const int64_t offset : {0, 1}) {
        Elements w = Elements::Random(Type::kFloat, 4 * width, offset, 1);
        for (const int64_t entries : {1, 3}) {
          const TableShape s = {.places = 6, .entries = entries, .rows = 4, .width = width};
          Elements y(type, 6 / entries * width, offset), dy = y;
          dy = Elements::Random(type, 6 / entries * width, offset, 2);
          const float* const factors = entries == 1 ? nullptr : value;
          Finish(TableForward(stream_, type, s, index, factors, w.floats(), y.at()));
          size_t bytes = 0;
          ASSERT_EQ(TableGradientBytes(s, &bytes), cudaSuccess);
          std::vector<char> memory(bytes + 64);
          std::vector<float> dw(4 * width), expected(4 * width);
          Finish(TableGradient(stream_, type, s, index, factors, dy.at(), memory.data(), bytes,
                               dw.data()));
          for (int64_t r = 0; r < 6 / entries; ++r) {
            for (int64_t c = 0; c < width; ++c) {
              float sum = 0;
              for (int64_t f = r * entries; f < (r + 1) * entries; ++f) {
                const float factor = factors == nullptr ? 1 : factors[f];
                sum += factor * w[index[f] * width + c];
                expected[index[f] * width + c] += factor * dy[r * width + c];
              }
              ASSERT_NEAR(y[r * width + c], y.Rounded(sum), 1e-6);
            }
          }
          for (int64_t i = 0; i < 4 * width; ++i) ASSERT_NEAR(dw[i], expected[i], 1e-5);
          EXPECT_TRUE(y.EdgesAreWhole());
        }
      }
    }
  }
}

}  // namespace
}  // namespace psgd::cudnn
