// powersgd on a device. See compression/low_rank/powersgd.h. Sums have the host's order: along a
// row in lanes of fp32, down a column of P in lanes of doubles, down a column of the slice from the
// first row to the last. So a team of threads computes an element of P, one block makes P
// orthonormal, and one thread at a time adds to an element of Q.
#pragma once

#include <algorithm>
#include <cmath>

#include "compression/cuda/coder.h"
#include "compression/cuda/sums.h"
#include "compression/dense/half.h"
#include "compression/low_rank/low_rank.h"

namespace psgd::cuda {

// The slice as a matrix; see matrix_view.h.
struct MatrixPlace {
  uint64_t rows, columns, first;
  uint32_t elements;

  // The index of a row's first element, that element's column, and the row's number of elements.
  PS_HD size_t Begin(uint64_t row) const { return row == 0 ? 0 : row * columns - first; }
  PS_HD uint64_t Column(uint64_t row) const { return row == 0 ? first : 0; }
  PS_HD size_t Count(uint64_t row) const {
    const uint64_t whole = columns - Column(row), left = elements - Begin(row);
    return whole < left ? whole : left;
  }
};

// Where both matrices lie: P row by row, then Q column by column.
struct LowRank {
  float* left;
  float* right;
  uint32_t rank;
  uint32_t* largest;  // bits of the largest magnitudes of P and Q

  PS_HD bool Finite() const { return SumsAreFinite(largest[0], largest[1], rank); }
};

// Draws columns that are all zeros. A block has one column.
struct DrawColumnBody {
  struct Shared {
    uint32_t any;
  };
  float* columns;
  uint64_t length;
  PhiloxKey key;
  uint64_t step;

  PS_HD void operator()(const Block& block, Shared& shared) const {
    float* const column = columns + block.index() * length;
    const uint64_t stream = ColumnStream(step, block.index());
    block.Once([&] { shared.any = 0; });
    block.ForEach(length, [&](size_t i) {
      if (column[i] != 0) AtomicOr(&shared.any, 1);
    });
    const bool drawn = shared.any == 0;
    block.ForEach(drawn ? length : 0, [&](size_t i) {
      column[i] = UnitFloat(Philox(key, i / 4, stream).word[i % 4]) - 0.5f;
    });
  }
};

// P = M Q.
struct LeftBody {
  struct Shared {
    float lane[kThreads];
  };
  Source source;
  MatrixPlace place;
  const float* start;  // Q of the last step
  LowRank matrices;

  PS_HD void operator()(const Block& block, Shared& shared) const {
    const size_t count = place.rows * matrices.rank, first = size_t{block.index()} * kTeams;
    block.Each([&](uint32_t thread) {
      const size_t item = first + thread / kLanes;
      if (item >= count) return;
      const uint64_t row = item / matrices.rank;
      const size_t begin = place.Begin(row), own = place.Count(row);
      const float* q = start + item % matrices.rank * place.columns + place.Column(row);
      float sum = 0;
      for (size_t i = thread % kLanes; i < own; i += kLanes) sum += source.Made(begin + i) * q[i];
      shared.lane[thread] = sum;
    });
    block.Each([&](uint32_t thread) {
      if (thread >= kTeams || first + thread >= count) return;
      matrices.left[first + thread] =
          static_cast<float>(SumOfLanes(shared.lane + size_t{thread} * kLanes));
    });
  }
};

// Makes the columns of P orthonormal; see orthonormal.h. Runs as one block.
struct OrthonormalBody {
  static constexpr uint32_t kMost = 8192;  // numbers that stay in shared memory
  struct Shared {
    double lane[kLanes];
    double before, sum;
    float matrix[kMost];
  };
  float* matrix;
  uint64_t rows;
  uint32_t columns;

  PS_HD void operator()(const Block& block, Shared& shared) const {
    const size_t count = rows * columns;
    if (count > kMost) return Work(block, shared, matrix);
    block.ForEach(count, [&](size_t i) { shared.matrix[i] = matrix[i]; });
    Work(block, shared, shared.matrix);
    block.ForEach(count, [&](size_t i) { matrix[i] = shared.matrix[i]; });
  }

 private:
  PS_HD void Work(const Block& block, Shared& shared, float* numbers) const {
    for (uint32_t k = 0; k < columns; ++k) {
      Dot(block, shared, numbers, k, k);
      block.Once([&] { shared.before = std::sqrt(shared.sum); });
      for (uint32_t j = 0; j < k; ++j) {
        Dot(block, shared, numbers, j, k);
        const double part = shared.sum;
        block.ForEach(rows, [&](size_t row) {
          float* const at = numbers + row * columns;
          at[k] = static_cast<float>(at[k] - part * at[j]);
        });
      }
      Dot(block, shared, numbers, k, k);
      const double inverse = InverseNorm(std::sqrt(shared.sum), shared.before);
      block.ForEach(rows, [&](size_t row) {
        float* const at = numbers + row * columns + k;
        *at = static_cast<float>(*at * inverse);
      });
    }
  }

  PS_HD void Dot(const Block& block, Shared& shared, const float* numbers, uint32_t a,
                 uint32_t b) const {
    block.Each([&](uint32_t thread) {
      if (thread >= kLanes) return;
      double sum = 0;
#ifdef __CUDACC__
#pragma unroll 8  // loads that do not wait for each other
#endif
      for (uint64_t row = thread; row < rows; row += kLanes) {
        const float* const at = numbers + row * columns;
        sum += static_cast<double>(at[a]) * at[b];
      }
      shared.lane[thread] = sum;
    });
    block.Once([&] {
      double sum = 0;
      for (size_t lane = 0; lane < kLanes; ++lane) sum += shared.lane[lane];
      shared.sum = sum;
    });
  }
};

// Computes Q = transposed M times P, and the largest magnitudes of both. A block has some columns
// of M and goes down them in tiles.
struct RightBody {
  static constexpr uint32_t kColumns = 16, kMostRows = kTile / kColumns;
  static constexpr uint32_t kLeft = 4096;  // numbers of P
  struct Shared {
    alignas(sizeof(Four)) float tile[kTile];
    float left[kLeft];
    uint32_t largest[2];
  };
  Source source;
  MatrixPlace place;
  LowRank matrices;

  static uint32_t BlocksOf(uint64_t columns) {
    return static_cast<uint32_t>((columns + kColumns - 1) / kColumns);
  }

  PS_HD void operator()(const Block& block, Shared& shared) const {
    const uint32_t rank = matrices.rank;
    const uint64_t first = uint64_t{block.index()} * kColumns, after = place.columns - first;
    const auto own = static_cast<uint32_t>(after < kColumns ? after : kColumns);
    const uint32_t fit = kLeft / rank, rows = fit < kMostRows ? fit : kMostRows;
    block.ForEach(2, [&](size_t k) { shared.largest[k] = 0; });
    for (uint64_t row = 0; row < place.rows; row += rows) {
      const auto here = static_cast<uint32_t>(place.rows - row < rows ? place.rows - row : rows);
      block.Each([&](uint32_t thread) {
        for (uint32_t i = thread; i < here * rank; i += kThreads) {
          shared.left[i] = matrices.left[row * rank + i];
        }
        ReadTile(row, first, thread, shared.tile);
      });
      block.ForEach(rank * own, [&](size_t item) {
        const auto at = static_cast<uint32_t>(item);
        const uint32_t c = at % own, k = at / own;
        AddTile(row, here, first + c, shared.left + k, shared.tile + c,
                &matrices.right[k * place.columns + first + c]);
      });
    }
    block.ForEach(rank * own, [&](size_t item) {
      const float sum = matrices.right[item / own * place.columns + first + item % own];
      AtomicMax(&shared.largest[1], MagnitudeBits(sum));
    });
    block.ForAll(rank * place.rows, [&](size_t item) {
      AtomicMax(&shared.largest[0], MagnitudeBits(matrices.left[item]));
    });
    block.ForEach(2, [&](size_t k) { AtomicMax(&matrices.largest[k], shared.largest[k]); });
  }

 private:
  // The element at a row and column, if there is one; else at least `elements`.
  PS_HD size_t At(uint64_t row, uint64_t column) const {
    const bool there =
        row < place.rows && column < place.columns && (row > 0 || column >= place.first);
    return there ? row * place.columns + column - place.first : place.elements;
  }

  PS_HD void ReadTile(uint64_t row, uint64_t column, uint32_t thread, float* tile) const {
    const Source made = source.AsMade();
    if ((place.columns | place.first | place.elements) % 4 != 0 || !made.Aligned(0)) {
      for (uint32_t i = thread; i < kTile; i += kThreads) {
        const size_t at = At(row + i / kColumns, column + i % kColumns);
        if (at < place.elements) tile[i] = made.Corrected(at);
      }
      return;
    }
    constexpr uint32_t kRuns = kTile / 4 / kThreads;
    size_t at[kRuns];
    Four values[kRuns];
    for (uint32_t k = 0; k < kRuns; ++k) {
      const uint32_t i = (k * kThreads + thread) * 4;
      at[k] = At(row + i / kColumns, column + i % kColumns);
      if (at[k] >= place.elements) at[k] = 0;  // nothing reads it
    }
    made.CorrectedFours(at, values);
    for (uint32_t k = 0; k < kRuns; ++k) {
      StoreShared(tile + (k * kThreads + thread) * 4, values[k], Whole());
    }
  }

  // Adds a column of a tile of `rows` rows to its sum. The first and the last row may lack the
  // column.
  PS_HD void AddTile(uint64_t row, uint32_t rows, uint64_t column, const float* left,
                     const float* tile, float* sum) const {
    const uint64_t last = place.rows - 1;
    const bool lacks_last = column - place.Column(last) >= place.Count(last);
    const uint32_t from = row == 0 && column < place.first ? 1 : 0;
    const uint32_t to = row + rows > last && lacks_last ? rows - 1 : rows;
    float added = row == 0 ? 0 : *sum;  // in a register
#ifdef __CUDACC__
#pragma unroll 8  // loads that do not wait for each other
#endif
    for (uint32_t i = from; i < to; ++i) added += left[i * matrices.rank] * tile[i * kColumns];
    *sum = added;
  }
};

// Subtracts what is sent from the residual, which has the matrix M.
struct TakeOff {
  MatrixPlace place;
  LowRank matrices;
  float* residual;

  template <typename Count>
  PS_HD void operator()(size_t i, const Four& values, Count count) const {
    if (!matrices.Finite()) return;
    const uint64_t at = place.first + i, row = at / place.columns, column = at % place.columns;
    if (column + count > place.columns) return OneByOne(i, count);
    const float* const p = matrices.left + row * matrices.rank;
    const float* const q = matrices.right + column;
    float sum[4] = {};
    for (uint32_t k = 0; k < matrices.rank; ++k) {
      for (uint32_t e = 0; e < 4; ++e) {
        if (e < count) sum[e] += p[k] * q[k * place.columns + e];
      }
    }
    Four left;
    for (uint32_t e = 0; e < 4; ++e) left.at[e] = values.at[e] + -1.0f * sum[e];
    StoreFour(residual + i, left, count);
  }

 private:
  // For elements of more than one row.
  PS_HD void OneByOne(size_t i, uint32_t count) const {
    for (uint32_t e = 0; e < count; ++e) {
      const uint64_t at = place.first + i + e, row = at / place.columns;
      const float* const q = matrices.right + at % place.columns;
      float sum = 0;
      for (uint32_t k = 0; k < matrices.rank; ++k) {
        sum += matrices.left[row * matrices.rank + k] * q[k * place.columns];
      }
      residual[i + e] += -1.0f * sum;
    }
  }
};

// Keeps a column of Q as the next step's start, and draws one as DrawColumnBody does.
struct KeepColumnBody {
  using Shared = DrawColumnBody::Shared;
  DrawColumnBody draw;
  LowRank matrices;

  PS_HD void operator()(const Block& block, Shared& shared) const {
    const bool finite = matrices.Finite();
    const size_t first = block.index() * draw.length;
    block.ForEach(draw.length, [&](size_t i) {
      draw.columns[first + i] = finite ? matrices.right[first + i] : 0;
    });
    if (finite) draw(block, shared);
  }
};

// Writes all elements as binary16 if both matrices cannot be sent.
struct HalvesBody {
  using Shared = Nothing;
  Source source;
  uint32_t elements;
  LowRank matrices;  // rank 0: no matrices
  std::byte* payload;
  uint64_t* bytes;
  size_t low_rank_bytes;

  PS_HD void operator()(const Block& block, Shared&) const {
    const bool sent = matrices.rank > 0 && matrices.Finite();
    const size_t halves = sizeof(uint32_t) + elements * sizeof(uint16_t);
    block.ForAll(1, [&](size_t) {
      *reinterpret_cast<uint32_t*>(payload) = sent ? matrices.rank : 0;
      *bytes = sent ? low_rank_bytes : halves;
    });
    uint16_t* const out = reinterpret_cast<uint16_t*>(payload + sizeof(uint32_t));
    block.ForAll(sent ? 0 : elements, [&](size_t i) {
      const float corrected = source.Made(i);
      const uint16_t half = HalfFromFloat(corrected);
      out[i] = half;
      if (source.residual != nullptr) source.residual[i] = corrected - FloatFromHalf(half);
    });
  }
};

template <typename Queue>
class CoderOf<PowersgdTwin, Queue> final : public Coder<Queue> {
 public:
  CoderOf(const PowersgdTwin& twin, uint32_t elements)
      : rank_(twin.rank), place_{twin.rows, twin.columns, twin.first, elements} {}

  size_t Bound(uint64_t) const override {
    return sizeof(uint32_t) + size_t{place_.elements} * sizeof(uint16_t);
  }
  bool varies() const override { return true; }

  void Encode(Queue& queue, const CoderInput& input, const CoderOutput& output) override {
    if (input.source.residual != nullptr) {
      Map(queue, input.source, place_.elements, MakeElement{input.source.residual});
    }
    float* const left = reinterpret_cast<float*>(output.payload + sizeof(uint32_t));
    LowRank matrices = {left, left + place_.rows * rank_, rank_, nullptr};
    if (rank_ > 0) {
      matrices.largest = queue.template Scratch<uint32_t>(2);
      Factor(queue, input, matrices);
    }
    // Few, because they have something to do in few steps.
    constexpr uint32_t kMost = 256;
    queue.Launch(std::min(kMost, BlocksFor(place_.elements + 1)),
                 HalvesBody{input.source, place_.elements, matrices, output.payload, output.bytes,
                            LowRankBytes()});
  }

 private:
  size_t LowRankBytes() const {
    return sizeof(uint32_t) + (place_.rows + place_.columns) * rank_ * sizeof(float);
  }

  void Factor(Queue& queue, const CoderInput& input, const LowRank& matrices) {
    const DrawColumnBody draw = {input.state, place_.columns, input.key, input.step};
    queue.Zero(matrices.largest, 2);
    queue.Launch(rank_, draw);
    const auto teams = static_cast<uint32_t>((place_.rows * rank_ + kTeams - 1) / kTeams);
    queue.Launch(teams, LeftBody{input.source, place_, input.state, matrices});
    queue.Launch(1, OrthonormalBody{matrices.left, place_.rows, rank_});
    queue.Launch(RightBody::BlocksOf(place_.columns), RightBody{input.source, place_, matrices});
    if (input.source.residual != nullptr) {
      Map(queue, input.source.AsMade(), place_.elements,
          TakeOff{place_, matrices, input.source.residual});
    }
    queue.Launch(rank_, KeepColumnBody{draw, matrices});
  }

  const uint32_t rank_;
  const MatrixPlace place_;
};

}  // namespace psgd::cuda
