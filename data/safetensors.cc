#include "data/safetensors.h"

#include <algorithm>
#include <new>
#include <utility>

#include "common/atomic_file.h"
#include "common/bytes.h"
#include "data/range_file.h"
#include "data/safetensors_header.h"

namespace psgd {
namespace {

template <typename T>
std::span<uint8_t> BytesOf(T* values, size_t bytes) {
  return {reinterpret_cast<uint8_t*>(values), bytes};
}

struct Contents {
  SafetensorsHeader header;
  std::unique_ptr<float[]> values;
};

absl::StatusOr<Contents> ReadContents(const RangeFile& file) {
  const std::string& path = file.path();
  if (file.size() < kSafetensorsLengthBytes) {
    return DataLossError(path, ": is too short for a .safetensors file");
  }
  uint64_t length = 0;
  PSGD_RETURN_IF_ERROR(file.Read(0, BytesOf(&length, sizeof(length))));
  const uint64_t rest = file.size() - kSafetensorsLengthBytes;
  if (length > std::min(rest, kSafetensorsMostHeader)) {
    return DataLossError(path, ": announces a header of ", length, " bytes, but the file has only ",
                         file.size(), "; it is truncated, damaged or no .safetensors file");
  }
  std::string json(length, '\0');
  PSGD_RETURN_IF_ERROR(file.Read(kSafetensorsLengthBytes, BytesOf(json.data(), length)));
  const uint64_t data = rest - length;
  auto header = ParseSafetensorsHeader(json, data);
  if (!header.ok()) return Annotate(header.status(), path);
  // The tensors cover the data, and each is a whole number of floats.
  auto values = std::make_unique_for_overwrite<float[]>(data / sizeof(float));
  PSGD_RETURN_IF_ERROR(file.Read(kSafetensorsLengthBytes + length, BytesOf(values.get(), data)));
  return Contents{*std::move(header), std::move(values)};
}

}  // namespace

absl::Status WriteSafetensors(const std::string& path, std::span<const NamedTensor> tensors,
                              const Metadata& metadata) {
  SafetensorsHeader header;
  header.metadata = metadata;
  uint64_t position = 0;
  for (const NamedTensor& tensor : tensors) {
    const absl::StatusOr<uint64_t> elements = ElementsOf(tensor.shape);
    if (!elements.ok() || *elements != tensor.values.size()) {
      return InvalidArgumentError(path, ": tensor ", tensor.name, " has ", tensor.values.size(),
                                  " values, which its shape does not fit");
    }
    const uint64_t end = position + tensor.values.size_bytes();
    header.tensors.push_back({tensor.name, tensor.shape, position, end});
    position = end;
  }
  const absl::StatusOr<std::string> text = FormatSafetensorsHeader(header);
  if (!text.ok()) return Annotate(text.status(), path);
  if (text->size() > kSafetensorsMostHeader) {
    return InvalidArgumentError(path, ": too many tensors or metadata");
  }

  PSGD_ASSIGN_OR_RETURN(const std::unique_ptr<AtomicFile> file, AtomicFile::Create(path));
  const uint64_t length = text->size();
  PSGD_RETURN_IF_ERROR(file->Write(std::as_bytes(std::span(&length, 1))));
  PSGD_RETURN_IF_ERROR(file->Write(std::as_bytes(std::span(*text))));
  for (const NamedTensor& tensor : tensors) {
    PSGD_RETURN_IF_ERROR(file->Write(AsBytes(tensor.values)));
  }
  return file->Commit();
}

absl::StatusOr<SafetensorsFile> SafetensorsFile::Read(const std::string& path) {
  PSGD_ASSIGN_OR_RETURN(const RangeFile file, RangeFile::Open(path));
  absl::StatusOr<Contents> contents = absl::UnknownError("");
  try {
    contents = ReadContents(file);
  } catch (const std::bad_alloc&) {
    contents = ResourceExhaustedError(path, ": does not fit into memory");
  }
  if (!contents.ok()) return contents.status();
  SafetensorsFile result;
  result.values_ = std::move(contents->values);
  result.metadata_ = std::move(contents->header.metadata);
  for (TensorEntry& entry : contents->header.tensors) {
    result.tensors_.push_back({std::move(entry.name),
                               std::move(entry.shape),
                               {result.values_.get() + entry.begin / sizeof(float),
                                (entry.end - entry.begin) / sizeof(float)}});
  }
  return result;
}

const NamedTensor* SafetensorsFile::Find(absl::string_view name) const {
  const auto it = std::ranges::find(tensors_, name, &NamedTensor::name);
  return it == tensors_.end() ? nullptr : &*it;
}

}  // namespace psgd
