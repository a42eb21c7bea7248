// Libraries that a program loads when it first needs them, so that it also starts on a machine that
// lacks them.
#pragma once

#include <string>
#include <type_traits>
#include <utility>

#include "common/status.h"

namespace psgd {

class LoadedLibrary {
 public:
  // Loads a library by its name or path. It stays loaded as long as the process lives: its threads
  // may. FAILED_PRECONDITION: the loader's reason, then `next_step`.
  static absl::StatusOr<LoadedLibrary> Load(const std::string& file, absl::string_view next_step);

  // Sets the function pointer; null: the library lacks the function.
  template <typename Function>
  void Find(const char* name, Function* function) {
    static_assert(std::is_pointer_v<Function>);
    *function = reinterpret_cast<Function>(Symbol(name));
  }
  // FAILED_PRECONDITION: Find missed a function; says which, then `next_step`.
  absl::Status FoundAll(absl::string_view next_step) const;

 private:
  LoadedLibrary(std::string file, void* handle) : file_(std::move(file)), handle_(handle) {}
  void* Symbol(const char* name);

  std::string file_;
  void* handle_;
  std::string missing_;
};

}  // namespace psgd
