#include "common/loaded_library.h"

#include <dlfcn.h>

namespace psgd {

absl::StatusOr<LoadedLibrary> LoadedLibrary::Load(const std::string& file,
                                                  absl::string_view next_step) {
  void* const handle = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle != nullptr) return LoadedLibrary(file, handle);
  return FailedPreconditionError("cannot load ", file, " (", ::dlerror(), "); ", next_step);
}

void* LoadedLibrary::Symbol(const char* name) {
  void* const symbol = ::dlsym(handle_, name);
  if (symbol == nullptr) missing_ = name;
  return symbol;
}

absl::Status LoadedLibrary::FoundAll(absl::string_view next_step) const {
  if (missing_.empty()) return absl::OkStatus();
  return FailedPreconditionError(file_, " has no ", missing_, "; ", next_step);
}

}  // namespace psgd
