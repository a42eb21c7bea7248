// Losses of rows. A team of threads computes a row: a warp, or a block if the row is long.
#include "engine/cudnn/kernel_tools.cuh"
#include "engine/cudnn/kernels.h"
#include "engine/ops/element_loss_formula.h"

namespace psgd::cudnn {
namespace {

constexpr int64_t kLongRow = 2048;

struct Best {
  float value;
  int64_t at;

  // The larger value; of equals the first.
  __device__ void Take(const Best& other) {
    if (other.value > value || (other.value == value && other.at < at)) *this = other;
  }
};

// Warps have their own way, because blocks wait for all their threads.
template <int kTeam>
__device__ double SumOfTeam(double value) {
  if constexpr (kTeam == kWarp) {
    return SumOfWarp(value);
  } else {
    return SumOfBlock(value);
  }
}

template <int kTeam>
__device__ Best BestOfTeam(Best mine) {
  for (int reach = kWarp / 2; reach > 0; reach /= 2) {
    mine.Take({__shfl_xor_sync(0xFFFFFFFF, mine.value, reach),
               __shfl_xor_sync(0xFFFFFFFF, mine.at, reach)});
  }
  if constexpr (kTeam > kWarp) {
    __shared__ float values[kTeam / kWarp];
    __shared__ int64_t places[kTeam / kWarp];
    if (threadIdx.x % kWarp == 0) {
      values[threadIdx.x / kWarp] = mine.value;
      places[threadIdx.x / kWarp] = mine.at;
    }
    __syncthreads();
    for (int w = 0; w < kTeam / kWarp; ++w) mine.Take({values[w], places[w]});
    __syncthreads();
  }
  return mine;
}

__device__ bool Counts(int32_t ignored, int32_t label) { return label >= 0 && label != ignored; }

// The power of x while `largest` may still be -infinity, as at the beginning of a row. NaN stays: a
// diverged step must not look sound.
__device__ float PowerOf(float x, float largest) {
  return largest == -INFINITY && x == x ? 1 : expf(x - largest);
}

// One pass over the row: a thread's sum has the powers relative to its largest value so far.
template <typename T, int kTeam>
__global__ void SoftmaxLossKernel(SoftmaxCrossEntropy op, int64_t rows, int64_t classes,
                                  const T* all_x, const int32_t* labels, RowSoftmax* softmax,
                                  double* losses, int32_t* correct) {
  for (int64_t row = FirstIndex() / kTeam; row < rows; row += IndexStep() / kTeam) {
    const T* x = all_x + row * classes;
    const int member = threadIdx.x % kTeam;
    Best mine = {-INFINITY, classes};
    double sum = 0, all = 0;
#pragma unroll 2
    for (int64_t c = member; c < classes; c += kTeam) {
      const float value = Load(x, c);
      if (mine.at == classes || value > mine.value) {
        sum *= PowerOf(mine.value, value);
        mine = {value, c};
      }
      sum += PowerOf(value, mine.value);
      if (op.label_smoothing > 0) all += value;
    }
    const Best best = BestOfTeam<kTeam>(mine);
    sum = SumOfTeam<kTeam>(sum * PowerOf(mine.value, best.value));
    if (op.label_smoothing > 0) all = SumOfTeam<kTeam>(all);
    if (member > 0) continue;
    softmax[row] = {best.value, static_cast<float>(1 / sum)};
    const int32_t label = labels[row];
    const bool counted = Counts(op.ignored, label);
    double target = counted ? static_cast<double>(Load(x, label)) - best.value : 0.0;
    if (op.label_smoothing > 0) {
      const double mean = all / static_cast<double>(classes) - best.value;
      target += static_cast<double>(op.label_smoothing) * (mean - target);
    }
    losses[row] = counted ? log(sum) - target : 0.0;
    correct[row] = counted && best.at == label;
  }
}

// REQUIRES: one block.
__global__ void LossResultKernel(int32_t ignored, int64_t rows, const int32_t* labels,
                                 const double* losses, const int32_t* correct, double* result) {
  double loss = 0, right = 0, counted = 0;
#pragma unroll 4
  for (int64_t row = threadIdx.x; row < rows; row += kThreads) {
    loss += losses[row];
    right += correct[row];
    counted += Counts(ignored, labels[row]);
  }
  loss = SumOfBlock(loss);
  right = SumOfBlock(right);
  counted = SumOfBlock(counted);
  if (threadIdx.x > 0) return;
  result[0] = loss;
  result[1] = right;
  result[2] = counted;
}

// The weight of a counted place in the gradient.
__device__ double WeightOf(const double* result, const StepValues* step) {
  return result[2] > 0 ? step->loss_scale / result[2] : 0;
}

template <typename T>
__global__ void SoftmaxGradientKernel(SoftmaxCrossEntropy op, Run run, Divisor classes, const T* x,
                                      const RowSoftmax* softmax, const int32_t* labels,
                                      const double* result, const StepValues* step, T* dx) {
  const float weight = static_cast<float>(WeightOf(result, step));
  const float others = op.label_smoothing / static_cast<float>(classes.value());
  ForEachPack<kPackOf<T>>(run, [&]<int N>(Width<N>, int64_t i) {
    int64_t row = i;
    const int64_t c = classes.Split(&row);
    const RowSoftmax of = softmax[row];
    const int32_t label = labels[row];
    const bool counted = Counts(op.ignored, label);
    Pack<float, N> values = LoadPack<N>(x, i);
#pragma unroll
    for (int k = 0; k < N; ++k) {
      const float truth = c + k == label ? 1 - op.label_smoothing : 0;
      const float p = expf(values.of[k] - of.largest) * of.share;
      values.of[k] = counted ? (p - (truth + others)) * weight : 0;
    }
    StorePack(values, dx, i);
  });
}

// The target of an element in class c of its row. `given`: null, or that of the element.
__device__ double TargetOf(const float* given, int64_t c, int32_t label) {
  return given == nullptr ? static_cast<double>(c == label) : static_cast<double>(*given);
}

template <typename T, int kTeam>
__global__ void ElementLossKernel(ElementLoss op, int64_t rows, int64_t classes, const T* all_x,
                                  const int32_t* labels, const float* targets, double* losses,
                                  int32_t* correct) {
  for (int64_t row = FirstIndex() / kTeam; row < rows; row += IndexStep() / kTeam) {
    const T* x = all_x + row * classes;
    const int32_t label = labels[row];
    const int member = threadIdx.x % kTeam;
    Best mine = {-INFINITY, classes};
    double loss = 0;
    for (int64_t c = member; c < classes; c += kTeam) {
      const float value = Load(x, c);
      if (mine.at == classes || value > mine.value) mine = {value, c};
      const float* given = targets == nullptr ? nullptr : targets + row * classes + c;
      loss += LossOfElement(op, value, TargetOf(given, c, label));
    }
    const Best best = BestOfTeam<kTeam>(mine);
    loss = SumOfTeam<kTeam>(loss);
    if (member > 0) continue;
    losses[row] = label < 0 ? 0.0 : loss / static_cast<double>(classes);
    correct[row] = targets == nullptr && best.at == label;
  }
}

template <typename T>
__global__ void ElementLossGradientKernel(ElementLoss op, int64_t count, Divisor classes,
                                          const T* x, const int32_t* labels, const float* targets,
                                          const double* result, const StepValues* step, T* dx) {
  const double weight = WeightOf(result, step) / static_cast<double>(classes.value());
  for (int64_t i = FirstIndex(); i < count; i += IndexStep()) {
    int64_t row = i;
    const int64_t c = classes.Split(&row);
    const int32_t label = labels[row];
    const double target = TargetOf(targets == nullptr ? nullptr : targets + i, c, label);
    const double slope = label < 0 ? 0.0 : SlopeOfElement(op, Load(x, i), target) * weight;
    Store(static_cast<float>(slope), dx, i);
  }
}

// Calls start<kTeam> with the size of the team that computes a row of so many classes.
template <typename StartTeam>
void WithTeam(int64_t classes, const StartTeam& start) {
  if (classes < kLongRow) {
    start.template operator()<kWarp>();
  } else {
    start.template operator()<kThreads>();
  }
}

}  // namespace

cudaError_t SoftmaxLossForward(cudaStream_t stream, Type type, const SoftmaxCrossEntropy& op,
                               int64_t rows, int64_t classes, const void* x, const int32_t* labels,
                               RowSoftmax* softmax, double* losses, int32_t* correct,
                               double* result) {
  return ForType(type, [&]<typename T>(T*) {
    const T* from = static_cast<const T*>(x);
    WithTeam(classes, [&]<int kTeam>() {
      Start(stream, Blocks(rows * kTeam), kThreads, SoftmaxLossKernel<T, kTeam>, op, rows, classes,
            from, labels, softmax, losses, correct);
    });
    Start(stream, 1, kThreads, LossResultKernel, op.ignored, rows, labels, losses, correct, result);
  });
}

cudaError_t SoftmaxLossGradient(cudaStream_t stream, Type type, const SoftmaxCrossEntropy& op,
                                int64_t rows, int64_t classes, const void* x,
                                const RowSoftmax* softmax, const int32_t* labels,
                                const double* result, const StepValues* step, void* dx) {
  return ForType(type, [&]<typename T>(T*) {
    const T* from = static_cast<const T*>(x);
    T* to = static_cast<T*>(dx);
    const Run run = RunOfRows<kPackOf<T>>(rows * classes, classes, from, to);
    Start(stream, Blocks(run), kThreads, SoftmaxGradientKernel<T>, op, run, Divisor(classes), from,
          softmax, labels, result, step, to);
  });
}

cudaError_t ElementLossForward(cudaStream_t stream, Type type, const ElementLoss& op, int64_t rows,
                               int64_t classes, const void* x, const int32_t* labels,
                               const float* targets, double* losses, int32_t* correct,
                               double* result) {
  return ForType(type, [&]<typename T>(T*) {
    WithTeam(classes, [&]<int kTeam>() {
      Start(stream, Blocks(rows * kTeam), kThreads, ElementLossKernel<T, kTeam>, op, rows, classes,
            static_cast<const T*>(x), labels, targets, losses, correct);
    });
    Start(stream, 1, kThreads, LossResultKernel, -1, rows, labels, losses, correct, result);
  });
}

cudaError_t ElementLossGradient(cudaStream_t stream, Type type, const ElementLoss& op, int64_t rows,
                                int64_t classes, const void* x, const int32_t* labels,
                                const float* targets, const double* result, const StepValues* step,
                                void* dx) {
  return ForElements(type, rows * classes, [&]<typename T>(int blocks, T*) {
    Start(stream, blocks, kThreads, ElementLossGradientKernel<T>, op, rows * classes,
          Divisor(classes), static_cast<const T*>(x), labels, targets, result, step,
          static_cast<T*>(dx));
  });
}

}  // namespace psgd::cudnn
