// The backend's own CUDA kernels. Each function puts its work on `stream` and returns the error of
// the launch. Pointers are device memory; `type` is the type of the elements behind a void*. Sums
// have a fixed order, so that a step repeats to the bit. No Abseil here, because nvcc reads this.
#pragma once

#include <cuda_runtime_api.h>

#include "common/element_update.h"
#include "common/philox.h"
#include "engine/cudnn/format.h"
#include "engine/ops/activation.h"
#include "engine/ops/element_loss.h"
#include "engine/ops/keep_largest.h"
#include "engine/ops/lengths.h"
#include "engine/ops/local_response_norm.h"
#include "engine/ops/recurrent.h"
#include "engine/ops/select.h"
#include "engine/ops/softmax_cross_entropy.h"

namespace psgd::cudnn {

// Values that change from step to step. They lie in device memory, where recorded launches read
// them.
struct StepValues {
  uint64_t number = 0;
  float loss_scale = 1;
  int32_t overflowed = 0;  // 1: a gradient was not finite
};
cudaError_t SetStepValues(cudaStream_t stream, const StepValues& values, StepValues* step);
// Divides by the loss scale, and sets `overflowed` if a value is not finite.
cudaError_t Unscale(cudaStream_t stream, int64_t count, float* gradient, StepValues* step);

// Updates parameters by their gradients within the bounds. `sums` has UpdateSums doubles if the
// norm has a bound.
size_t UpdateSums(const ParameterUpdate* updates, size_t count);
cudaError_t UpdateParameters(cudaStream_t stream, const ParameterUpdate* updates, size_t count,
                             const GradientBounds& bounds, double* sums);
// to = x times NewtonSchulz::Scale. `sums` has UpdateSums doubles of this size.
cudaError_t Normalize(cudaStream_t stream, size_t size, const float* x, double* sums, float* to);

// Converts values to another layout or type. Only images have a channels-last layout. For other
// tensors `area` is 1 and `channels` is the number of elements. One of the two formats may have
// more channels than the image, up to kPaddedBytes of them; the other is plain.
inline constexpr int64_t kPaddedBytes = 16;  // what a thread moves at once
struct ImageShape {
  int64_t images = 1, channels = 1, area = 1;
};
cudaError_t Convert(cudaStream_t stream, const ImageShape& shape, const void* from,
                    Format from_format, void* to, Format to_format);

// A convolution and its gradients as plain sums; see engine/ops/conv2d.h. Images and filters are
// channels-last (filters: O KH KW C/G).
struct DirectConvolution {
  int64_t images, height, width, channels, out_height, out_width, outputs, groups;
  int64_t kernel_height, kernel_width, stride_height, stride_width, pad_height, pad_width,
      dilation_height, dilation_width;
};
cudaError_t DirectForward(cudaStream_t stream, Type type, const DirectConvolution& shape,
                          const void* x, const void* w, void* y);
cudaError_t DirectData(cudaStream_t stream, Type type, const DirectConvolution& shape,
                       const void* w, const void* dy, void* dx);
cudaError_t DirectWeights(cudaStream_t stream, Type type, const DirectConvolution& shape,
                          const void* x, const void* dy, void* dw);

cudaError_t ReluForward(cudaStream_t stream, Type type, int64_t count, const void* x, void* y);
cudaError_t ReluGradient(cudaStream_t stream, Type type, int64_t count, const void* y,
                         const void* dy, void* dx);
// y = a + b; y may be a.
cudaError_t AddPair(cudaStream_t stream, Type type, int64_t count, const void* a, const void* b,
                    void* y);
// ReluForward and ReluGradient of a + b. The sum is rounded as if it were stored.
cudaError_t AddReluForward(cudaStream_t stream, Type type, int64_t count, const void* a,
                           const void* b, void* y);
cudaError_t AddReluGradient(cudaStream_t stream, Type type, int64_t count, const void* y,
                            const void* a, const void* b, void* dx);

// y = a b
cudaError_t MultiplyPair(cudaStream_t stream, Type type, int64_t count, const void* a,
                         const void* b, void* y);
// See engine/ops/select.h. `a` and `b` are null where the op has a number.
cudaError_t SelectElements(cudaStream_t stream, Type type, const Select& op, int64_t count,
                           const void* condition, const void* a, const void* b, void* y);
// See engine/ops/activation.h. `of`: y if op.FromOutput(), else x.
cudaError_t ActivationForward(cudaStream_t stream, Type type, const Activation& op, int64_t count,
                              const void* x, void* y);
cudaError_t ActivationGradient(cudaStream_t stream, Type type, const Activation& op, int64_t count,
                               const void* of, const void* dy, void* dx);

// y[i] = x[i] + bias[i / inner % channels]; y may be x.
cudaError_t AddBias(cudaStream_t stream, Type type, int64_t count, int64_t channels, int64_t inner,
                    const void* x, const float* bias, void* y);
// ReluForward of that. The sum is rounded as if it were stored.
cudaError_t AddBiasRelu(cudaStream_t stream, Type type, int64_t count, int64_t channels,
                        int64_t inner, const void* x, const float* bias, void* y);
// sums[c] = sum of x[r, c]; `partial` has ColumnPartials floats for one sum.
int64_t ColumnPartials(int64_t rows, int64_t columns, int sums);
cudaError_t SumColumns(cudaStream_t stream, Type type, int64_t rows, int64_t columns, const void* x,
                       float* partial, float* sums);

// See engine/ops/dropout.h. `count` elements in row-major order, each with a byte of the mask.
cudaError_t DropoutForward(cudaStream_t stream, Type type, int64_t count, float rate, PhiloxKey key,
                           const StepValues* step, const void* x, void* y, uint8_t* mask);
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

// Channels-last batch normalization, see engine/ops/batchnorm.h. The matrix is rows x columns, a
// column is a channel. `partial` has ColumnPartials floats for two sums.
struct BatchNormRunning {
  const float *mean, *var;  // running statistics
  float *mean_delta, *var_delta;
};
cudaError_t BatchNormStatistics(cudaStream_t stream, Type type, int64_t rows, int64_t columns,
                                const void* x, float momentum, const BatchNormRunning& running,
                                float* partial, float* mean, float* var);
// By channel.
struct Normalization {
  const float *gamma = nullptr, *beta = nullptr, *mean = nullptr, *var = nullptr;
  float epsilon = 0;
};
// What follows in the same kernel. The results between are rounded as if they were stored.
struct Following {
  const void* added = nullptr;  // null: nothing is added
  Normalization added_by = {};  // without mean: what is added is not normalized
  bool relu = false;
};
cudaError_t BatchNormApply(cudaStream_t stream, Type type, int64_t rows, int64_t columns,
                           const void* x, const Normalization& by, const Following& following,
                           void* y);
// Without beta, dy is the gradient of y. With beta it is that of relu(y): y is computed again, and
// the gradient passes where y is positive.
cudaError_t BatchNormSums(cudaStream_t stream, Type type, int64_t rows, int64_t columns,
                          const void* x, const void* dy, const Normalization& by, float* partial,
                          float* dgamma, float* dbeta);
cudaError_t BatchNormGradient(cudaStream_t stream, Type type, int64_t rows, int64_t columns,
                              const void* x, const void* dy, const Normalization& by,
                              const float* dgamma, const float* dbeta, void* dx);

// See engine/ops/softmax_cross_entropy.h. The classes of a place lie side by side. Each row has a
// double in `losses` and an int32 in `correct`. p[c] = exp(x[c] - largest) share.
struct RowSoftmax {
  float largest, share;
};
cudaError_t SoftmaxLossForward(cudaStream_t stream, Type type, const SoftmaxCrossEntropy& op,
                               int64_t rows, int64_t classes, const void* x, const int32_t* labels,
                               RowSoftmax* softmax, double* losses, int32_t* correct,
                               double* result);
cudaError_t SoftmaxLossGradient(cudaStream_t stream, Type type, const SoftmaxCrossEntropy& op,
                                int64_t rows, int64_t classes, const void* x,
                                const RowSoftmax* softmax, const int32_t* labels,
                                const double* result, const StepValues* step, void* dx);
// See engine/ops/element_loss.h. Layouts are as above. `targets`: rows x classes; null: not given.
cudaError_t ElementLossForward(cudaStream_t stream, Type type, const ElementLoss& op, int64_t rows,
                               int64_t classes, const void* x, const int32_t* labels,
                               const float* targets, double* losses, int32_t* correct,
                               double* result);
cudaError_t ElementLossGradient(cudaStream_t stream, Type type, const ElementLoss& op, int64_t rows,
                                int64_t classes, const void* x, const int32_t* labels,
                                const float* targets, const double* result, const StepValues* step,
                                void* dx);

// Channels-last images of one size, made from images of another size.
struct ResizeShape {
  int64_t images, channels, height, width;  // of x
  int64_t out_height, out_width;            // of y
};
// See engine/ops/adaptive_average_pool.h.
cudaError_t AdaptivePoolForward(cudaStream_t stream, Type type, const ResizeShape& shape,
                                const void* x, void* y);
cudaError_t AdaptivePoolGradient(cudaStream_t stream, Type type, const ResizeShape& shape,
                                 const void* dy, void* dx);
// See engine/ops/upsample.h.
cudaError_t UpsampleForward(cudaStream_t stream, Type type, const ResizeShape& shape, const void* x,
                            void* y);
cudaError_t UpsampleGradient(cudaStream_t stream, Type type, const ResizeShape& shape,
                             const void* dy, void* dx);
// See engine/ops/local_response_norm.h. The matrix is pixels x channels; `scale` has a float an
// element.
cudaError_t ResponseNormForward(cudaStream_t stream, Type type, const LocalResponseNorm& op,
                                int64_t pixels, int64_t channels, const void* x, void* y,
                                float* scale);
cudaError_t ResponseNormGradient(cudaStream_t stream, Type type, const LocalResponseNorm& op,
                                 int64_t pixels, int64_t channels, const void* x,
                                 const float* scale, const void* dy, void* dx);

// See engine/ops/layernorm.h. The matrix is rows x width. `partial` has ColumnPartials floats for
// two sums.
cudaError_t LayerNormForward(cudaStream_t stream, Type type, int64_t rows, int64_t width,
                             const void* x, const float* gamma, const float* beta, float epsilon,
                             void* y, float* mean, float* var);
cudaError_t LayerNormSums(cudaStream_t stream, Type type, int64_t rows, int64_t width,
                          const void* x, const void* dy, const float* mean, const float* var,
                          float epsilon, float* partial, float* dgamma, float* dbeta);
cudaError_t LayerNormGradient(cudaStream_t stream, Type type, int64_t rows, int64_t width,
                              const void* x, const float* gamma, const float* mean,
                              const float* var, const void* dy, float epsilon, void* dx);

// See engine/ops/keep_largest.h.
cudaError_t KeepLargestOfRows(cudaStream_t stream, Type type, const KeepLargest& op, int64_t rows,
                              int64_t columns, const void* x, void* y);

// See engine/ops/lengths.h. Each row has `tokens` tokens.
cudaError_t LengthsOfRows(cudaStream_t stream, const Lengths& op, int64_t rows, int64_t tokens,
                          const int32_t* x, int32_t* y);
// The lengths of samples for cuDNN's attention: each has `queries`, and from 1 to `keys` keys.
// cuDNN before 9.25 gives NaN for none (issue 943 of cuDNN frontend). Null `lengths`: all keys.
cudaError_t LengthsOfAttention(cudaStream_t stream, int64_t samples, int32_t queries, int32_t keys,
                               const int32_t* lengths, int32_t* query_lengths,
                               int32_t* key_lengths);
struct PaddedShape {
  int64_t samples, heads, places, width;  // the order in memory
};
// Sets the places of each sample from its length on to zero.
cudaError_t ClearPadding(cudaStream_t stream, Type type, const PaddedShape& shape,
                         const int32_t* lengths, void* x);

// See engine/ops/softmax.h. The matrix is rows x keys.
struct SoftmaxShape {
  int64_t rows, keys;
  int64_t queries;    // of the causal mask; 0: no mask
  int64_t stair;      // not 0: only the blocks of this many keys up to the diagonal count
  int64_t rows_each;  // rows that share a length
  float scale;
};
// `lengths` may be null.
cudaError_t SoftmaxForward(cudaStream_t stream, Type type, const SoftmaxShape& shape, const void* x,
                           const int32_t* lengths, void* y);
cudaError_t SoftmaxGradient(cudaStream_t stream, Type type, const SoftmaxShape& shape,
                            const void* y, const void* dy, void* dx);

// Moves a block of elements between two tensors. Strides and begins count elements.
struct Move {
  static constexpr int kMostAxes = 8;
  int axes = 0;
  int64_t size[kMostAxes], from_stride[kMostAxes], to_stride[kMostAxes];
  int64_t from_begin = 0, to_begin = 0;
};
cudaError_t MoveElements(cudaStream_t stream, Type type, const Move& move, const void* from,
                         void* to);
cudaError_t Fill(cudaStream_t stream, Type type, int64_t count, float value, void* y);

// See engine/ops/axis_map.h. x: outer x columns x inner elements, y: outer x rows x inner.
struct AxisShape {
  int64_t outer = 1, columns = 1, rows = 1, inner = 1;
};
cudaError_t MapAxis(cudaStream_t stream, Type type, const AxisShape& shape, const int32_t* first,
                    const int32_t* source, const float* weight, const void* x, void* y);

// See engine/ops/embedding.h. There are `places` indices; a sum has `entries`
// of them.
struct TableShape {
  int64_t places, entries, rows, width;
};
// `value` may be null; then entries is 1.
cudaError_t TableForward(cudaStream_t stream, Type type, const TableShape& shape,
                         const int32_t* index, const float* value, const float* w, void* y);
// Sets the bytes of scratch memory of TableGradient.
cudaError_t TableGradientBytes(const TableShape& shape, size_t* bytes);
cudaError_t TableGradient(cudaStream_t stream, Type type, const TableShape& shape,
                          const int32_t* index, const float* value, const void* dy, void* memory,
                          size_t bytes, float* dw);

// One step of engine/ops/recurrent.h. For each place n T + t: a, da and db have gates x width
// values, saved op.saved() x width, y, dy and last width. For each sample n: b has gates x width
// values, dh and carry width.
struct CellShape {
  int64_t batch, steps, width;
};
struct CellForwardMemory {
  const float *a, *b;  // without biases; b is null at the first step
  const float *b_ih, *b_hh;
  float* saved;
  void* y;
};
cudaError_t CellForward(cudaStream_t stream, Type type, const Recurrent& op, const CellShape& shape,
                        int64_t step, const CellForwardMemory& memory);
struct CellBackwardMemory {
  const float* saved;
  const void *y, *dy;
  float *dh, *carry;     // not read at the last step, which runs first
  void *da, *db, *last;  // last: h of the previous step
};
// GRU: leaves in dh the part of the gradient of the previous h that does not pass through b.
cudaError_t CellBackward(cudaStream_t stream, Type type, const Recurrent& op,
                         const CellShape& shape, int64_t step, const CellBackwardMemory& memory);

}  // namespace psgd::cudnn
