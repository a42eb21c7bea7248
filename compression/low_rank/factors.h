// factors: the gradient of a dense layer, sent as the two matrices whose product it is.
// Xie, Kim, Zhou, Ho, Kumar, Yu, Xing: "Lighter-communication distributed machine learning via
// sufficient factor broadcasting", UAI 2016; Chilimbi et al.: "Project Adam", OSDI 2014; chosen
// layer by layer as in Zhang et al.: "Poseidon", USENIX ATC 2017.
//
// The layer computed y = W x for each of B samples, so its gradient is
//   dW = D X,  D: M rows and B columns, the gradient of y;  X: B rows and N columns, the inputs
// and the shard forms the rows of that product as it applies them. The result differs only by the
// order of B additions, or by the rounding of both matrices to binary16 or bytes. So there is no
// residual. The payload has no weight decay: the shard adds it.
//
// All slices of a tensor that are on one shard share a payload, since each needs all of X
// (Codec::OpenShared).
//
// Wire:
//   0   u32       B, at least 1
//   4   u32       bytes of X
//   8   i16       x: X was multiplied by 2^x; within +-126
//   10  i16       d: D was multiplied by 2^d; within +-126
//   12  X         row by row, entries as sparse_payload.h says: zeros of a relu do not travel
//   ... D         for each slice in order, the tensor's rows that it touches; entries likewise
// A matrix whose entries' values are bytes has B u16 after its entries: upper halves of fp32
// values, at least 0, the units of each sample's values. Or, for one slice alone:
//   0   u32       0
//   4   n fp32    as none
// B * (N + rows of D) is below the elements of the slices together, and at most kMostFactorFloats.
#pragma once

#include <cstdint>
#include <memory>

#include "compression/kernels.h"

namespace psgd {

// Limit of both matrices together. A payload is one message, and its reader unpacks all of it.
inline constexpr uint64_t kMostFactorFloats = uint64_t{8} << 20;

// Whether the factors of `batch` samples are shorter than the gradient of a `rows` x `columns`
// tensor on that many shards. Each shard gets X.
bool FactorsPay(uint64_t batch, uint64_t rows, uint64_t columns, uint64_t shards);

// The codec's encoders know gradients alone and write the second form; FactorsEncoder the first.
std::unique_ptr<Codec> MakeFactors(const CodecKernels& kernels);

}  // namespace psgd
