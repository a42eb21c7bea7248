// CIFAR-10 and CIFAR-100 in their binary version (https://www.cs.toronto.edu/~kriz/cifar.html). A
// file is a sequence of records:
//
//   u8            the class (CIFAR-100: the coarse class, then the fine one, which is used)
//   u8 x 3072     a 32x32 image: red, green, blue, each row by row
//
// CIFAR-10: data_batch_1.bin to data_batch_5.bin and test_batch.bin. CIFAR-100: train.bin and
// test.bin.
#pragma once

#include <string>

#include "common/status.h"
#include "data/dataset.h"

namespace psgd {

enum class CifarKind { kCifar10, kCifar100 };

// Loads both sets into memory as bytes. A file may hold any number of whole records. Every error
// names the file, the place in the file and what to do.
absl::StatusOr<TrainAndTest> LoadCifar(CifarKind kind, const std::string& folder);

}  // namespace psgd
