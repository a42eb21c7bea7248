#include "data/safetensors.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/atomic_file.h"
#include "common/bytes.h"
#include "common/files.h"
#include "data/safetensors_header.h"

namespace psgd {
namespace {

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, CloseFile>;

absl::Status BadFile(absl::string_view problem) { return absl::DataLossError(problem); }

absl::Status ReadAll(std::FILE* file, void* out, size_t size) {
  if (std::fread(out, 1, size, file) == size) return absl::OkStatus();
  return BadFile(std::ferror(file) ? "cannot be read" : "ends early");
}

absl::StatusOr<uint64_t> SizeOf(std::FILE* file) {
  struct stat info {};
  if (::fstat(::fileno(file), &info) != 0 || !S_ISREG(info.st_mode)) {
    return BadFile("is not a regular file");
  }
  return static_cast<uint64_t>(info.st_size);
}

struct Contents {
  SafetensorsHeader header;
  std::unique_ptr<float[]> values;
};

absl::StatusOr<Contents> ReadContents(std::FILE* file) {
  PSGD_ASSIGN_OR_RETURN(const uint64_t size, SizeOf(file));
  uint64_t length = 0;
  if (size < kSafetensorsLengthBytes) return BadFile("is too short for a .safetensors file");
  PSGD_RETURN_IF_ERROR(ReadAll(file, &length, sizeof(length)));
  const uint64_t rest = size - kSafetensorsLengthBytes;
  if (length > std::min(rest, kSafetensorsMostHeader)) {
    return BadFile(absl::StrCat("announces a header of ", length, " bytes, but the file has only ",
                                size, "; it is truncated, damaged or no .safetensors file"));
  }
  std::string json(length, '\0');
  PSGD_RETURN_IF_ERROR(ReadAll(file, json.data(), json.size()));
  Contents contents;
  PSGD_ASSIGN_OR_RETURN(contents.header, ParseSafetensorsHeader(json, rest - length));
  // The tensors cover the data, and each is a whole number of floats.
  contents.values = std::make_unique_for_overwrite<float[]>((rest - length) / sizeof(float));
  PSGD_RETURN_IF_ERROR(ReadAll(file, contents.values.get(), rest - length));
  return contents;
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
      return absl::InvalidArgumentError(absl::StrCat(path, ": tensor ", tensor.name, " has ",
                                                     tensor.values.size(),
                                                     " values, which its shape does not fit"));
    }
    const uint64_t end = position + tensor.values.size_bytes();
    header.tensors.push_back({tensor.name, tensor.shape, position, end});
    position = end;
  }
  const absl::StatusOr<std::string> text = FormatSafetensorsHeader(header);
  if (!text.ok()) return Annotate(text.status(), path);
  if (text->size() > kSafetensorsMostHeader) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": too many tensors or metadata"));
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
  const File file(std::fopen(path.c_str(), "rbe"));
  if (file == nullptr) return FileError("open", path, errno);
  absl::StatusOr<Contents> contents = BadFile("");
  try {
    contents = ReadContents(file.get());
  } catch (const std::bad_alloc&) {
    contents = absl::ResourceExhaustedError("does not fit into memory");
  }
  if (!contents.ok()) return Annotate(contents.status(), path);
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
  const auto it = std::find_if(tensors_.begin(), tensors_.end(),
                               [&](const NamedTensor& tensor) { return tensor.name == name; });
  return it == tensors_.end() ? nullptr : &*it;
}

}  // namespace psgd
