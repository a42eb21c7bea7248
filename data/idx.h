// The idx format of the MNIST family (http://yann.lecun.com/exdb/mnist): a big-endian header
//
//   0x00 0x00 0x08 D   bytes (0x08) in D dimensions
//   u32 x D            the sizes: images, rows, columns (D = 3); labels (D = 1)
//
// then the bytes, the last dimension fastest. A folder holds four such files, each plain or .gz:
// {train,t10k}-images-idx3-ubyte and {train,t10k}-labels-idx1-ubyte.
#pragma once

#include <string>

#include "common/status.h"
#include "data/dataset.h"

namespace psgd {

// Loads both sets into memory as bytes. The number of classes is the largest training label plus
// one. A damaged or inconsistent file is refused. Every error names the file, what is wrong with it
// and what to do.
absl::StatusOr<TrainAndTest> LoadIdx(const std::string& folder);

}  // namespace psgd
