// Any bytes as a .safetensors file: refused, or tensors that lie within the file and are the same
// after writing.
#include <cstring>

#include "data/safetensors.h"
#include "tests/fuzz/memory_file.h"

namespace psgd::fuzz {
namespace {

void Check(const SafetensorsFile& file, size_t size) {
  size_t bytes = 0;
  double sum = 0;
  for (const NamedTensor& tensor : file.tensors()) {
    bytes += tensor.values.size_bytes();
    for (const float value : tensor.values) sum += value != 0;
    Require(file.Find(tensor.name) != nullptr, "a tensor cannot be found by its name");
  }
  Require(bytes <= size && sum <= static_cast<double>(size), "more values than the file has");
}

}  // namespace
}  // namespace psgd::fuzz

extern "C" int LLVMFuzzerInitialize(int*, char***) { return 0; }

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static psgd::fuzz::MemoryFile file;
  file.Set({data, size});
  const auto read = psgd::SafetensorsFile::Read(file.path());
  if (read.ok()) {
    psgd::fuzz::Check(*read, size);
  } else {
    psgd::fuzz::Require(!read.status().message().empty(), "it was refused without a reason");
  }
  return 0;
}
