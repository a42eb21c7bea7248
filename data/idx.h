// The idx format of the MNIST family (http://yann.lecun.com/exdb/mnist): a big-endian header
//
//   0x00 0x00 TYPE D   numbers in D dimensions: bytes (0x08; with a sign 0x09),
//                      whole numbers of 2 or 4 bytes (0x0b, 0x0c),
//                      floats of 4 or 8 (0x0d, 0x0e)
//   u32 x D            the sizes: images, rows, columns (D = 3); labels (D = 1)
//
// then the numbers, big-endian, the last dimension fastest. A folder holds four such files, each
// plain or .gz: {train,t10k}-images-idx3-ubyte and {train,t10k}-labels-idx1-ubyte.
#pragma once

#include <string>

#include "common/status.h"
#include "data/dataset.h"
#include "proto/config.pb.h"

namespace psgd {

// Loads both sets into memory. With images of bytes (0x08), the number of classes is the largest
// training label plus one. Otherwise images are normalized, and labels are read, as LoadArrays
// does. Labels that are floats need a kind other than AUTO. A damaged or inconsistent file is
// refused. Every error names the file, what is wrong with it and what to do.
absl::StatusOr<TrainAndTest> LoadIdx(const std::string& folder,
                                     DataConfig::TargetKind kind = DataConfig::AUTO);

}  // namespace psgd
