// factors: the gradient of a dense layer as the two matrices that it is the product of.
// Xie, Kim, Zhou, Ho, Kumar, Yu, Xing: "Lighter-communication distributed machine learning via
// sufficient factor broadcasting", UAI 2016; Chilimbi et al.: "Project Adam", OSDI 2014; chosen
// layer by layer as in Zhang et al.: "Poseidon", USENIX ATC 2017.
//
// The layer computed y = W x for each of B samples, so its gradient is
//   dW = D X,  D: M rows and B columns, the gradient of y;  X: B rows and N columns, the inputs
// and the shard forms the rows of that product as it applies them. Nothing is lost but the order of
// B additions, or by rounding both matrices to binary16 or bytes, so there is no residual. Weight
// decay is not in the payload: the shard adds it.
//
// All slices of a tensor that are on one shard share a payload, since each needs all of X
// (Codec::OpenShared).
//
// Wire:
//   0   u32       B, at least 1
//   4   u32       bytes of X
//   8   i16       x: X was multiplied by 2^x; within +-126
//   10  i16       d: D was multiplied by 2^d; likewise
//   12  X         row by row, entries as sparse_payload.h says: what relu made zero does not travel
//   ... D         for each slice in order, the rows of the tensor that it touches; entries likewise
// where a matrix whose entries' values are bytes has behind its entries B u16, upper halves of fp32
// values, at least 0: the units that the values of each sample are multiples of, or, for one slice
// alone:
//   0   u32       0
//   4   n fp32    as none
// B * (N + rows of D) is below the elements of the slices together, and at most kMostFactorFloats.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "compression/kernels.h"

namespace psgd {

// Of both matrices together. A payload is one message, and is unpacked by whoever reads it.
inline constexpr uint64_t kMostFactorFloats = uint64_t{8} << 20;

// Of a tensor of `rows` x `columns` on so many shards, each of which gets X: whether the factors of
// `batch` samples are shorter than the product.
bool FactorsPay(uint64_t batch, uint64_t rows, uint64_t columns, uint64_t shards);

// Its encoders know gradients alone, and write the second form; FactorsEncoder writes the first.
std::unique_ptr<Codec> MakeFactors(const CodecKernels& kernels);

}  // namespace psgd
