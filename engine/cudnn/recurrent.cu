// The cells of LSTM and GRU: one thread an element of a sample's state. Host and device share the
// formulas.
#include "engine/cudnn/kernel_tools.cuh"
#include "engine/cudnn/kernels.h"
#include "engine/ops/recurrent_cell.h"

namespace psgd::cudnn {
namespace {

// The sizes of LSTM or GRU by value, because the op's methods exist only on the host.
struct Cell {
  explicit Cell(const Recurrent& op) : op(op), gates(op.gates()), saved(op.saved()) {}

  Recurrent op;
  int64_t gates, saved;
};

// Element j of the state before `place`; zeros at the first step.
template <typename T>
__device__ CellState<float> StateBefore(const Cell& cell, const CellShape& s, int64_t step,
                                        int64_t place, int64_t j, const float* saved, const T* y) {
  if (step == 0) return {};
  const bool lstm = cell.op.kind == Recurrent::Kind::kLstm;
  return {lstm ? saved[((place - 1) * cell.saved + 4) * s.width + j] : 0.0f,
          Load(y, (place - 1) * s.width + j)};
}

template <typename T>
__global__ void CellKernel(Cell cell, CellShape s, Divisor width, int64_t step, CellForwardMemory m,
                           T* y) {
  for (int64_t i = FirstIndex(); i < s.batch * s.width; i += IndexStep()) {
    int64_t n = i;
    const int64_t j = width.Split(&n), place = n * s.steps + step;
    const float* of_a = m.a + place * cell.gates * s.width + j;
    const float* of_b = m.b + n * cell.gates * s.width + j;
    const auto a = [&](int gate) { return of_a[gate * s.width] + m.b_ih[gate * s.width + j]; };
    const auto b = [&](int gate) {
      return (step == 0 ? 0.0f : of_b[gate * s.width]) + m.b_hh[gate * s.width + j];
    };
    const float h =
        RunCellElement(cell.op, s.width, a, b, StateBefore(cell, s, step, place, j, m.saved, y),
                       m.saved + place * cell.saved * s.width + j);
    Store(h, y, place * s.width + j);
  }
}

template <typename T>
__global__ void CellGradientKernel(Cell cell, CellShape s, Divisor width, int64_t step,
                                   CellBackwardMemory m, const T* y, const T* dy, T* da, T* db,
                                   T* last) {
  const bool first_run = step == s.steps - 1;
  for (int64_t i = FirstIndex(); i < s.batch * s.width; i += IndexStep()) {
    int64_t n = i;
    const int64_t j = width.Split(&n), place = n * s.steps + step;
    const CellState<float> before = StateBefore(cell, s, step, place, j, m.saved, y);
    const float dh = (first_run ? 0.0f : m.dh[i]) + Load(dy, place * s.width + j);
    float carry = first_run ? 0.0f : m.carry[i];
    const CellGradient<float> d = RunCellElementBackward(
        cell.op, s.width, m.saved + place * cell.saved * s.width + j, before, dh, &carry);
    for (int gate = 0; gate < cell.gates; ++gate) {
      const int64_t at = (place * cell.gates + gate) * s.width + j;
      Store(d.a[gate], da, at);
      Store(d.b[gate], db, at);
    }
    Store(before.h, last, place * s.width + j);
    m.carry[i] = carry;
    m.dh[i] = carry;  // LSTM: the next product replaces it; GRU: the next product adds to it
  }
}

}  // namespace

cudaError_t CellForward(cudaStream_t stream, Type type, const Recurrent& op, const CellShape& shape,
                        int64_t step, const CellForwardMemory& memory) {
  return ForElements(type, shape.batch * shape.width, [&]<typename T>(int blocks, T*) {
    Start(stream, blocks, kThreads, CellKernel<T>, Cell(op), shape, Divisor(shape.width), step,
          memory, static_cast<T*>(memory.y));
  });
}

cudaError_t CellBackward(cudaStream_t stream, Type type, const Recurrent& op,
                         const CellShape& shape, int64_t step, const CellBackwardMemory& memory) {
  return ForElements(type, shape.batch * shape.width, [&]<typename T>(int blocks, T*) {
    Start(stream, blocks, kThreads, CellGradientKernel<T>, Cell(op), shape, Divisor(shape.width),
          step, memory, static_cast<const T*>(memory.y), static_cast<const T*>(memory.dy),
          static_cast<T*>(memory.da), static_cast<T*>(memory.db), static_cast<T*>(memory.last));
  });
}

}  // namespace psgd::cudnn
