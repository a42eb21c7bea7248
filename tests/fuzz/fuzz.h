// What every fuzz target has: one function that takes any bytes. Clang's libFuzzer calls it where that is
// there (preset `fuzz`), else driver.cc, so that no target falls out of use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>

// Before the first input; may take arguments that it knows.
extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv);
// Returns 0, or does not return.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace psgd::fuzz {

// Ends the program with the reason, as a sanitizer would.
inline void Require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "fuzz: %s\n", what);
  std::abort();
}

}  // namespace psgd::fuzz
