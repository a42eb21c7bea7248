#include "engine/cudnn/kernel_tools.cuh"
#include "engine/cudnn/kernels.h"
#include "engine/ops/element_loss_loops.h"

namespace psgd::cudnn {
namespace {

struct Best {
  float value;
  int64_t at;
};

// The largest value of a block; of equals the first.
__device__ Best BestOfBlock(Best mine) {
  __shared__ float values[kThreads];
  __shared__ int64_t places[kThreads];
  values[threadIdx.x] = mine.value;
  places[threadIdx.x] = mine.at;
  __syncthreads();
  for (int half = kThreads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) {
      const int other = threadIdx.x + half;
      if (values[other] > values[threadIdx.x] ||
          (values[other] == values[threadIdx.x] && places[other] < places[threadIdx.x])) {
        values[threadIdx.x] = values[other];
        places[threadIdx.x] = places[other];
      }
    }
    __syncthreads();
  }
  const Best best = {values[0], places[0]};
  __syncthreads();
  return best;
}

__device__ bool Counts(int32_t ignored, int32_t label) { return label >= 0 && label != ignored; }

// A block a row.
template <typename T>
__global__ void SoftmaxLossKernel(SoftmaxCrossEntropy op, int64_t classes, const T* all_x,
                                  const int32_t* labels, float* all_p, double* losses,
                                  int32_t* correct) {
  const int64_t row = blockIdx.x;
  const T* x = all_x + row * classes;
  float* p = all_p + row * classes;
  Best mine = {-INFINITY, classes};
  for (int64_t c = threadIdx.x; c < classes; c += kThreads) {
    const float value = Load(x, c);
    // The negation lets NaN through: a diverged step must not look sound.
    if (mine.at == classes || !(value <= mine.value)) mine = {value, c};
  }
  const Best best = BestOfBlock(mine);
  double sum = 0, all = 0;
  for (int64_t c = threadIdx.x; c < classes; c += kThreads) {
    const float below = Load(x, c) - best.value;
    const float power = expf(below);
    all += below;
    p[c] = power;
    sum += power;
  }
  sum = SumOfBlock(sum);
  all = SumOfBlock(all);
  for (int64_t c = threadIdx.x; c < classes; c += kThreads) {
    p[c] = static_cast<float>(p[c] / sum);
  }
  if (threadIdx.x > 0) return;
  const int32_t label = labels[row];
  const bool counted = Counts(op.ignored, label);
  double target = counted ? static_cast<double>(Load(x, label)) - best.value : 0.0;
  target += static_cast<double>(op.label_smoothing) * (all / static_cast<double>(classes) - target);
  losses[row] = counted ? log(sum) - target : 0.0;
  correct[row] = counted && best.at == label;
}

// REQUIRES: one block.
__global__ void LossResultKernel(int32_t ignored, int64_t rows, const int32_t* labels,
                                 const double* losses, const int32_t* correct, double* result) {
  double loss = 0, right = 0, counted = 0;
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
__global__ void SoftmaxGradientKernel(SoftmaxCrossEntropy op, int64_t count, int64_t classes,
                                      const float* p, const int32_t* labels, const double* result,
                                      const StepValues* step, T* dx) {
  const double weight = WeightOf(result, step);
  for (int64_t i = FirstIndex(); i < count; i += IndexStep()) {
    const int32_t label = labels[i / classes];
    const double truth = i % classes == label ? 1.0 - static_cast<double>(op.label_smoothing) : 0.0;
    const double target =
        truth + static_cast<double>(op.label_smoothing) / static_cast<double>(classes);
    Store(Counts(op.ignored, label) ? static_cast<float>((p[i] - target) * weight) : 0.0f, dx, i);
  }
}

// The target of an element in class c of its row. `given`: null, or that of the element.
__device__ double TargetOf(const float* given, int64_t c, int32_t label) {
  return given == nullptr ? static_cast<double>(c == label) : static_cast<double>(*given);
}

// A block a row.
template <typename T>
__global__ void ElementLossKernel(ElementLoss op, int64_t classes, const T* all_x,
                                  const int32_t* labels, const float* targets, double* losses,
                                  int32_t* correct) {
  const int64_t row = blockIdx.x;
  const T* x = all_x + row * classes;
  const int32_t label = labels[row];
  Best mine = {-INFINITY, classes};
  double loss = 0;
  for (int64_t c = threadIdx.x; c < classes; c += kThreads) {
    const float value = Load(x, c);
    if (mine.at == classes || value > mine.value) mine = {value, c};
    const float* given = targets == nullptr ? nullptr : targets + row * classes + c;
    loss += LossOfElement(op, value, TargetOf(given, c, label));
  }
  const Best best = BestOfBlock(mine);
  loss = SumOfBlock(loss);
  if (threadIdx.x > 0) return;
  losses[row] = label < 0 ? 0.0 : loss / static_cast<double>(classes);
  correct[row] = targets == nullptr && best.at == label;
}

template <typename T>
__global__ void ElementLossGradientKernel(ElementLoss op, int64_t count, int64_t classes,
                                          const T* x, const int32_t* labels, const float* targets,
                                          const double* result, const StepValues* step, T* dx) {
  const double weight = WeightOf(result, step) / static_cast<double>(classes);
  for (int64_t i = FirstIndex(); i < count; i += IndexStep()) {
    const int32_t label = labels[i / classes];
    const double target = TargetOf(targets == nullptr ? nullptr : targets + i, i % classes, label);
    const double slope = label < 0 ? 0.0 : SlopeOfElement(op, Load(x, i), target) * weight;
    Store(static_cast<float>(slope), dx, i);
  }
}

}  // namespace

cudaError_t SoftmaxLossForward(cudaStream_t stream, Type type, const SoftmaxCrossEntropy& op,
                               int64_t rows, int64_t classes, const void* x, const int32_t* labels,
                               float* p, double* losses, int32_t* correct, double* result) {
  return ForType(type, [&]<typename T>(T*) {
    Start(stream, static_cast<unsigned>(rows), kThreads, SoftmaxLossKernel<T>, op, classes,
          static_cast<const T*>(x), labels, p, losses, correct);
    Start(stream, 1, kThreads, LossResultKernel, op.ignored, rows, labels, losses, correct, result);
  });
}

cudaError_t SoftmaxLossGradient(cudaStream_t stream, Type type, const SoftmaxCrossEntropy& op,
                                int64_t rows, int64_t classes, const float* p,
                                const int32_t* labels, const double* result, const StepValues* step,
                                void* dx) {
  return ForElements(type, rows * classes, [&]<typename T>(int blocks, T*) {
    Start(stream, blocks, kThreads, SoftmaxGradientKernel<T>, op, rows * classes, classes, p,
          labels, result, step, static_cast<T*>(dx));
  });
}

cudaError_t ElementLossForward(cudaStream_t stream, Type type, const ElementLoss& op, int64_t rows,
                               int64_t classes, const void* x, const int32_t* labels,
                               const float* targets, double* losses, int32_t* correct,
                               double* result) {
  return ForType(type, [&]<typename T>(T*) {
    Start(stream, static_cast<unsigned>(rows), kThreads, ElementLossKernel<T>, op, classes,
          static_cast<const T*>(x), labels, targets, losses, correct);
    Start(stream, 1, kThreads, LossResultKernel, -1, rows, labels, losses, correct, result);
  });
}

cudaError_t ElementLossGradient(cudaStream_t stream, Type type, const ElementLoss& op, int64_t rows,
                                int64_t classes, const void* x, const int32_t* labels,
                                const float* targets, const double* result, const StepValues* step,
                                void* dx) {
  return ForElements(type, rows * classes, [&]<typename T>(int blocks, T*) {
    Start(stream, blocks, kThreads, ElementLossGradientKernel<T>, op, rows * classes, classes,
          static_cast<const T*>(x), labels, targets, result, step, static_cast<T*>(dx));
  });
}

}  // namespace psgd::cudnn
