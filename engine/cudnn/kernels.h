// The backend's own CUDA kernels. Each puts its work on `stream` and returns; an error is that of
// the launch. Pointers are device memory, `type` is that of the elements behind a void*. Sums have
// one fixed order, so that a step can be repeated to the bit. No Abseil here: nvcc reads this.
#pragma once

#include <cuda_runtime_api.h>

#include "common/philox.h"
#include "engine/cudnn/format.h"
#include "engine/ops/softmax_cross_entropy.h"

namespace psgd::cudnn {

// The same values in another layout or type. Tensors that are no images have no channels-last
// layout: `area` is then 1 and `channels` all elements.
struct ImageShape {
  int64_t images = 1, channels = 1, area = 1;
};
cudaError_t Convert(cudaStream_t stream, const ImageShape& shape, const void* from,
                    Format from_format, void* to, Format to_format);

cudaError_t ReluForward(cudaStream_t stream, Type type, int64_t count, const void* x, void* y);
cudaError_t ReluGradient(cudaStream_t stream, Type type, int64_t count, const void* y,
                          const void* dy, void* dx);
// y = a + b; y may be a.
cudaError_t AddPair(cudaStream_t stream, Type type, int64_t count, const void* a, const void* b,
                     void* y);

// y[r, c] += bias[c]
cudaError_t AddToRows(cudaStream_t stream, Type type, int64_t rows, int64_t columns,
                       const float* bias, void* y);
// sums[c] = sum of x[r, c]; `partial` has ColumnPartials floats.
int64_t ColumnPartials(int64_t rows, int64_t columns);
cudaError_t SumColumns(cudaStream_t stream, Type type, int64_t rows, int64_t columns,
                        const void* x, float* partial, float* sums);

// As engine/ops/dropout.h; `count` elements in row-major order, a byte of the mask each.
cudaError_t DropoutForward(cudaStream_t stream, Type type, int64_t count, float rate,
                            PhiloxKey key, uint64_t step, const void* x, void* y, uint8_t* mask);
cudaError_t DropoutGradient(cudaStream_t stream, Type type, int64_t count, float rate,
                             const void* dy, const uint8_t* mask, void* dx);

// Channels-last images and the windows over them.
struct PoolShape {
  int64_t images, channels, height, width;  // of x
  int64_t out_height, out_width;            // of y
  int64_t kernel_height, kernel_width, stride_height, stride_width, pad_height, pad_width;
};
// `where` gets the place of the maximum in its window, row by row.
cudaError_t MaxPoolForward(cudaStream_t stream, Type type, const PoolShape& shape, const void* x,
                            void* y, uint16_t* where);
cudaError_t MaxPoolGradient(cudaStream_t stream, Type type, const PoolShape& shape, const void* dy,
                             const uint16_t* where, void* dx);
cudaError_t AveragePoolForward(cudaStream_t stream, Type type, const PoolShape& shape,
                                const void* x, void* y);
cudaError_t AveragePoolGradient(cudaStream_t stream, Type type, const PoolShape& shape,
                                 const void* dy, void* dx);

// Channels-last batch normalisation as engine/ops/batchnorm.h, of rows x columns with a channel a
// column. `partial` has 2 ColumnPartials floats.
struct BatchNormRunning {
  const float *mean, *var;     // running statistics
  float *mean_delta, *var_delta;
};
cudaError_t BatchNormStatistics(cudaStream_t stream, Type type, int64_t rows, int64_t columns,
                                 const void* x, float momentum, const BatchNormRunning& running,
                                 float* partial, float* mean, float* var);
cudaError_t BatchNormApply(cudaStream_t stream, Type type, int64_t rows, int64_t columns,
                            const void* x, const float* gamma, const float* beta, const float* mean,
                            const float* var, float epsilon, void* y);
cudaError_t BatchNormSums(cudaStream_t stream, Type type, int64_t rows, int64_t columns,
                           const void* x, const void* dy, const float* mean, const float* var,
                           float epsilon, float* partial, float* dgamma, float* dbeta);
cudaError_t BatchNormGradient(cudaStream_t stream, Type type, int64_t rows, int64_t columns,
                               const void* x, const void* dy, const float* gamma, const float* mean,
                               const float* var, const float* dgamma, const float* dbeta,
                               float epsilon, void* dx);

// As engine/ops/softmax_cross_entropy.h, with the classes of a place side by side. `losses` has a
// double a row, `correct` an int32.
cudaError_t SoftmaxLossForward(cudaStream_t stream, Type type, const SoftmaxCrossEntropy& op,
                               int64_t rows, int64_t classes, const void* x, const int32_t* labels, float* p, double* losses,
                                int32_t* correct, double* result);
cudaError_t SoftmaxLossGradient(cudaStream_t stream, Type type, const SoftmaxCrossEntropy& op,
                                int64_t rows, int64_t classes, const float* p, const int32_t* labels, const double* result,
                                 void* dx);

}  // namespace psgd::cudnn
